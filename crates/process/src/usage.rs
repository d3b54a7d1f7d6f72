//! Resource usage of a child and its descendants.

use std::ops::AddAssign;

/// The sixteen fields of `getrusage` for one child and every descendant that was waited for.
///
/// The kernel counts a descendant once its parent has waited for it; an orphan is counted when this process, as its reaper, ends
/// it. A descendant that its parent neither waited for nor orphaned (SIGCHLD ignored) is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode, in nanoseconds (the kernel reports whole microseconds).
    pub ru_utime_ns: u64,
    /// CPU time in the kernel, in nanoseconds (the kernel reports whole microseconds).
    pub ru_stime_ns: u64,
    /// The largest resident set of any one process, in KiB.
    pub ru_maxrss_kib: u64,
    /// Shared text size. Linux always reports 0.
    pub ru_ixrss: u64,
    /// Unshared data size. Linux always reports 0.
    pub ru_idrss: u64,
    /// Unshared stack size. Linux always reports 0.
    pub ru_isrss: u64,
    /// Page faults served without I/O.
    pub ru_minflt: u64,
    /// Page faults that needed I/O.
    pub ru_majflt: u64,
    /// Swaps. Linux always reports 0.
    pub ru_nswap: u64,
    /// Times that the file system had to read.
    pub ru_inblock: u64,
    /// Times that the file system had to write.
    pub ru_oublock: u64,
    /// IPC messages sent. Linux always reports 0.
    pub ru_msgsnd: u64,
    /// IPC messages received. Linux always reports 0.
    pub ru_msgrcv: u64,
    /// Signals received. Linux always reports 0.
    pub ru_nsignals: u64,
    /// Context switches because a process waited.
    pub ru_nvcsw: u64,
    /// Context switches because a process was preempted.
    pub ru_nivcsw: u64,
}

impl Usage {
    pub(crate) fn from_raw(raw: &libc::rusage) -> Self {
        Self {
            ru_utime_ns: nanoseconds(raw.ru_utime),
            ru_stime_ns: nanoseconds(raw.ru_stime),
            ru_maxrss_kib: count(raw.ru_maxrss),
            ru_ixrss: count(raw.ru_ixrss),
            ru_idrss: count(raw.ru_idrss),
            ru_isrss: count(raw.ru_isrss),
            ru_minflt: count(raw.ru_minflt),
            ru_majflt: count(raw.ru_majflt),
            ru_nswap: count(raw.ru_nswap),
            ru_inblock: count(raw.ru_inblock),
            ru_oublock: count(raw.ru_oublock),
            ru_msgsnd: count(raw.ru_msgsnd),
            ru_msgrcv: count(raw.ru_msgrcv),
            ru_nsignals: count(raw.ru_nsignals),
            ru_nvcsw: count(raw.ru_nvcsw),
            ru_nivcsw: count(raw.ru_nivcsw),
        }
    }
}

/// Counts add up; the largest resident set stays the largest of any one process.
impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.ru_utime_ns += other.ru_utime_ns;
        self.ru_stime_ns += other.ru_stime_ns;
        self.ru_maxrss_kib = self.ru_maxrss_kib.max(other.ru_maxrss_kib);
        self.ru_ixrss += other.ru_ixrss;
        self.ru_idrss += other.ru_idrss;
        self.ru_isrss += other.ru_isrss;
        self.ru_minflt += other.ru_minflt;
        self.ru_majflt += other.ru_majflt;
        self.ru_nswap += other.ru_nswap;
        self.ru_inblock += other.ru_inblock;
        self.ru_oublock += other.ru_oublock;
        self.ru_msgsnd += other.ru_msgsnd;
        self.ru_msgrcv += other.ru_msgrcv;
        self.ru_nsignals += other.ru_nsignals;
        self.ru_nvcsw += other.ru_nvcsw;
        self.ru_nivcsw += other.ru_nivcsw;
    }
}

/// The kernel never reports a negative count; the C type merely allows one.
fn count(raw: libc::c_long) -> u64 {
    raw.max(0) as u64
}

fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_usec.max(0) as u64 * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_the_largest_resident_set_stays() {
        let mut usage = Usage { ru_utime_ns: 3, ru_maxrss_kib: 10, ru_nvcsw: 1, ..Usage::default() };
        usage += Usage { ru_utime_ns: 4, ru_maxrss_kib: 7, ru_nvcsw: 2, ..Usage::default() };
        assert_eq!(usage, Usage { ru_utime_ns: 7, ru_maxrss_kib: 10, ru_nvcsw: 3, ..Usage::default() });
    }
}
