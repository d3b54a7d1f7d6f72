//! The time limits for a target to come up.

use std::time::Duration;

use assay_cluster::Trouble;

/// The time limits of a target: in its queue as long as a pod may wait to start, and after that as long as it may take to become
/// ready.
pub(crate) struct WaitLimits {
    ready: Duration,
    queue: Duration,
    /// The time at which it was first seen in its queue this time; `None` while it is not queued.
    since: Option<Duration>,
    /// The time at which it was last seen in its queue.
    queued: Duration,
    told: Option<String>,
}

/// The next step of the wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaitStep {
    /// Wait and look again; with a message about the trouble, each once.
    Wait(Option<String>),
    /// Give up: a limit has passed, or waiting cannot help.
    GiveUp,
}

impl WaitLimits {
    pub(crate) fn new(ready: Duration, queue: Duration) -> Self {
        Self { ready, queue, since: None, queued: Duration::ZERO, told: None }
    }

    /// Returns the next step, this long after the beginning.
    pub(crate) fn next_step(&mut self, elapsed: Duration, trouble: Option<&Trouble>) -> WaitStep {
        let is_queued = trouble.is_some_and(Trouble::is_queued);
        let is_late = if is_queued {
            self.queued = elapsed;
            elapsed.saturating_sub(*self.since.get_or_insert(elapsed)) >= self.queue
        } else {
            self.since = None;
            elapsed.saturating_sub(self.queued) >= self.ready
        };
        if is_late || trouble.is_some_and(|trouble| trouble.lasts) {
            return WaitStep::GiveUp;
        }
        let message = trouble.map(|trouble| format!("waiting: {}", trouble.obstacle));
        WaitStep::Wait(
            message.filter(|message| self.told.as_ref() != Some(message)).inspect(|message| self.told = Some(message.clone())),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_cluster::Obstacle;

    fn trouble(obstacle: Obstacle, lasts: bool) -> Trouble {
        Trouble { obstacle, lasts }
    }

    fn image(lasts: bool) -> Trouble {
        let (image, pod) = ("i".to_owned(), "p".to_owned());
        trouble(Obstacle::Image { image, pod, is_retried: true, detail: "no route".to_owned() }, lasts)
    }

    #[test]
    fn time_in_the_queue_is_not_time_to_become_ready() {
        let at = Duration::from_secs;
        let mut patience = WaitLimits::new(at(10), at(300));
        let queued = trouble(Obstacle::Queue { pod: None, message: None }, false);
        assert_eq!(
            patience.next_step(at(0), Some(&queued)),
            WaitStep::Wait(Some("waiting: it waits in its queue to be admitted".to_owned()))
        );
        assert_eq!(patience.next_step(at(200), Some(&queued)), WaitStep::Wait(None), "told once");
        assert_eq!(patience.next_step(at(209), None), WaitStep::Wait(None), "admitted");
        assert_eq!(patience.next_step(at(210), None), WaitStep::GiveUp, "ten seconds after it was");
        let mut patience = WaitLimits::new(at(400), at(300));
        for elapsed in [5, 304] {
            assert_ne!(patience.next_step(at(elapsed), Some(&queued)), WaitStep::GiveUp, "first seen after five seconds");
        }
        assert_eq!(patience.next_step(at(305), Some(&queued)), WaitStep::GiveUp, "never admitted");
        let mut patience = WaitLimits::new(at(400), at(300));
        for (elapsed, trouble) in [(0, Some(&queued)), (200, None), (299, Some(&queued)), (598, Some(&queued))] {
            assert_ne!(patience.next_step(at(elapsed), trouble), WaitStep::GiveUp, "each stay counts for itself");
        }
        assert_eq!(patience.next_step(at(599), Some(&queued)), WaitStep::GiveUp, "its second stay was too long");
        assert_eq!(
            WaitLimits::new(at(900), at(300)).next_step(at(299), Some(&queued)),
            WaitStep::Wait(Some("waiting: it waits in its queue to be admitted".to_owned()))
        );
    }

    #[test]
    fn what_lasts_is_not_waited_for() {
        let at = Duration::from_secs;
        assert_eq!(WaitLimits::new(at(10), at(10)).next_step(at(0), Some(&image(true))), WaitStep::GiveUp);
        let mut patience = WaitLimits::new(at(10), at(10));
        assert_eq!(
            patience.next_step(at(1), Some(&image(false))),
            WaitStep::Wait(Some("waiting: the image `i` of the pod `p` cannot be pulled: no route".to_owned()))
        );
        assert_eq!(patience.next_step(at(10), Some(&image(false))), WaitStep::GiveUp);
    }
}
