//! The CPUs that threads may use.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Error;

/// Pins every thread of this process to these CPUs, and with them all threads and processes that they start from then on.
pub fn pin_to_cpus(cpus: impl IntoIterator<Item = u32>) -> Result<(), Error> {
    let set = cpu_set(cpus);
    let threads = std::fs::read_dir("/proc/self/task").map_err(Error::system("list the threads of this process"))?;
    for thread in threads.flatten() {
        let thread = thread.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match thread.map(|thread| sched_setaffinity(Some(thread), &set)) {
            // A thread that has ended meanwhile uses no CPU.
            None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => {}
            Some(Err(error)) => return Err(Error::system("pin a process to CPUs")(error)),
        }
    }
    Ok(())
}

fn cpu_set(cpus: impl IntoIterator<Item = u32>) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus.into_iter().map(|cpu| cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    set
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn a_process_is_pinned_to_cpus_that_it_has() {
        // These are all CPUs that it has already, so no other test is restricted.
        let allowed = sched_getaffinity(None).expect("an affinity");
        let all = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).map(|cpu| cpu as u32);
        pin_to_cpus(all).expect("pinned");
        assert_eq!(sched_getaffinity(None).expect("an affinity").count(), allowed.count());
        assert!(pin_to_cpus([]).is_err(), "no CPU is no place to run");
        assert!(pin_to_cpus([1_000_000]).is_err());
    }
}
