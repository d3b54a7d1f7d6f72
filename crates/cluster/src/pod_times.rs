//! The progress of a Job's pods to a running program: scheduled, and with their images pulled.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};

/// The reason of the event by which a node states that a pod's image is there.
pub const PULLED: &str = "Pulled";

/// Returns true if so many pods have a node.
pub fn are_scheduled(pods: &[&Pod], shards: u32) -> bool {
    pods.iter().filter(|pod| is_scheduled(pod)).count() >= shards as usize
}

fn is_scheduled(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "PodScheduled" && condition.status == "True")
}

/// Returns the time that the images of the slowest of these pods took to be pulled; zero if the nodes had them all, `None` if no
/// event states it.
pub fn longest_pull(pods: &[&Pod], events: &[Event]) -> Option<Duration> {
    pods.iter().filter_map(|pod| pull_of(pod, events)).max()
}

/// Returns the time that all images of a pod took: those of init containers are pulled one after the other.
fn pull_of(pod: &Pod, events: &[Event]) -> Option<Duration> {
    let uid = pod.metadata.uid.as_deref()?;
    let of_pod = |event: &&Event| event.involved_object.uid.as_deref() == Some(uid) && event.reason.as_deref() == Some(PULLED);
    let mut pulls = events.iter().filter(of_pod).filter_map(|event| pull_time(event.message.as_deref()?)).peekable();
    pulls.peek()?;
    Some(pulls.sum())
}

/// Reads the message of the kubelet, with the time that the pull waited for other pulls if it states that. `None` for any other
/// message.
fn pull_time(message: &str) -> Option<Duration> {
    if message.contains("already present on machine") {
        return Some(Duration::ZERO);
    }
    let (_, times) = message.split_once("Successfully pulled image ")?.1.split_once(" in ")?;
    let including = times.split_once(" (").and_then(|(_, rest)| rest.split_once(" including waiting"));
    parse_go_duration(including.map_or_else(|| times.split(' ').next().unwrap_or_default(), |(time, _)| time))
}

/// Parses a duration as Go writes it, such as `1m2.5s` or `812ms`.
fn parse_go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (value, after) = rest.split_at_checked(number)?;
        let unit = after.find(|char: char| char.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(unit)?;
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "µs" | "us" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(value.parse::<f64>().ok()? * seconds).ok()?)?;
        rest = next;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A pod as the API server of Kubernetes 1.34 reports it, without what is not read here.
    fn pod(uid: &str, scheduled: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": format!("run-plan-{uid}"), "uid": uid, "creationTimestamp": "2026-11-26T21:40:11Z"},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": "2026-11-26T21:40:11Z"},
                {"type": "PodScheduled", "status": scheduled, "lastTransitionTime": "2026-11-26T21:40:11Z"},
            ]},
        }))
        .expect("a pod")
    }

    fn event(uid: &str, reason: &str, message: &str) -> Event {
        serde_json::from_value(json!({
            "metadata": {"name": "e"}, "reason": reason, "message": message,
            "involvedObject": {"kind": "Pod", "name": format!("run-plan-{uid}"), "uid": uid},
        }))
        .expect("an event")
    }

    const PRESENT: &str = "Container image \"assay.test/assay@sha256:0\" already present on machine";
    const SLOW: &str =
        "Successfully pulled image \"r.example/assay@sha256:0\" in 4.211s (1m2.5s including waiting). Image size: 5213 bytes.";

    #[test]
    fn a_job_is_scheduled_once_all_of_its_pods_are() {
        let (one, other, waiting) = (pod("a", "True"), pod("b", "True"), pod("c", "False"));
        assert!(are_scheduled(&[&one, &other], 2));
        assert!(!are_scheduled(&[&one, &waiting], 2));
        assert!(!are_scheduled(&[&one], 2), "the second pod is not made yet");
        assert!(!are_scheduled(&[&Pod::default()], 1), "it has no status yet");
    }

    #[test]
    fn a_pull_is_that_of_the_slowest_pod() {
        let (one, other) = (pod("a", "True"), pod("b", "True"));
        let events = [
            event("a", PULLED, PRESENT),
            event("a", PULLED, "Successfully pulled image \"q\" in 812ms (812ms including waiting). Image size: 1 bytes."),
            event("b", PULLED, PRESENT),
            event("other", PULLED, SLOW),
            event("b", "Created", SLOW),
        ];
        assert_eq!(longest_pull(&[&one, &other], &events), Some(Duration::from_millis(812)), "both images of `a`");
        assert_eq!(longest_pull(&[&other], &events), Some(Duration::ZERO));
        assert_eq!(longest_pull(&[&other], &[]), None, "unknown is not zero");
        assert_eq!(longest_pull(&[&other], &[event("b", PULLED, "something else")]), None);
    }

    #[test]
    fn messages_of_kubelets_are_read() {
        assert_eq!(pull_time(PRESENT), Some(Duration::ZERO));
        assert_eq!(pull_time(&format!("{PRESENT} and can be accessed by the pod")), Some(Duration::ZERO));
        assert_eq!(pull_time(SLOW), Some(Duration::from_millis(62_500)), "with the wait for other pulls");
        assert_eq!(pull_time("Successfully pulled image \"q\" in 1.5s"), Some(Duration::from_millis(1500)), "older kubelets");
        for other in ["", "Pulling image \"q\"", "Successfully pulled image \"q\" in ", "Successfully pulled image \"q\" in soon"]
        {
            assert_eq!(pull_time(other), None, "{other}");
        }
        assert_eq!(parse_go_duration("1h0m0.5s"), Some(Duration::from_millis(3_600_500)));
        for bad in ["", "1", "s", "1.5.2s", "-1s", "1e400s", "99999999999999999999h"] {
            assert_eq!(parse_go_duration(bad), None, "{bad}");
        }
    }
}
