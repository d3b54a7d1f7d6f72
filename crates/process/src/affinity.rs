//! The CPUs that threads may use.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Error;

/// Pins the calling thread to these CPUs, and with it every thread and process that it starts from then on.
pub fn pin_to_cpus(cpus: impl IntoIterator<Item = u32>) -> Result<(), Error> {
    let mut set = CpuSet::new();
    for cpu in cpus.into_iter().map(|cpu| cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(Error::system("pin a process to CPUs"))
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn a_thread_and_what_it_starts_are_pinned() {
        // A thread of its own, so that no other test is pinned.
        std::thread::spawn(|| {
            let allowed = sched_getaffinity(None).expect("an affinity");
            let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("a CPU");
            pin_to_cpus([first as u32]).expect("pinned");
            let here = std::thread::spawn(|| sched_getaffinity(None).expect("an affinity").count()).join().expect("it ends");
            assert_eq!(here, 1);
            assert!(pin_to_cpus([]).is_err(), "no CPU is no place to run");
            assert!(pin_to_cpus([1_000_000]).is_err());
        })
        .join()
        .expect("it ends");
    }
}
