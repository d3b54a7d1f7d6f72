//! The way in which users play the sessions of a trace: recycled, from the middle, with an idle cap and with markers.

use std::time::Duration;

use assay_manifest::{Count, SessionPlay, SessionStart};

use crate::checked_value::{CheckedValue, Read};
use crate::problem::Problems;

/// The options, each a field of `spec.sessions`.
const OPTIONS: [&str; 5] = ["recycle", "start", "warm_history", "idle_cap", "marker"];

/// The shortest idle cap: the client's own delays are far below it.
const LEAST_IDLE_CAP: Duration = Duration::from_secs(1);

impl Read for SessionPlay {
    fn read(sessions: &CheckedValue) -> Option<Self> {
        let idle_cap: Option<Duration> = sessions.get("idle_cap")?;
        Some(Self {
            recycle: sessions.get("recycle")?,
            start: sessions.get("start")?,
            warm_history: sessions.get("warm_history")?,
            idle_cap_ns: idle_cap.map(|cap| Count(u64::try_from(cap.as_nanos()).unwrap_or(u64::MAX))),
            marker: sessions.get("marker")?,
        })
    }
}

impl Read for SessionStart {
    fn read(start: &CheckedValue) -> Option<Self> {
        Some(Self { from: start.get("from")?, to: start.get("to")? })
    }
}

/// Returns true if users play sessions until the measured phase ends.
pub(crate) fn is_recycled(sessions: &CheckedValue) -> bool {
    is_set(sessions, "recycle")
}

/// Returns true if an option is there and not off.
fn is_set(sessions: &CheckedValue, name: &str) -> bool {
    sessions.member(name).is_some_and(|value| bool::read(value) != Some(false))
}

/// Checks that the sessions of a trace are played at a concurrency by an option, and what each option needs.
pub(crate) fn check_session_play(spec: &CheckedValue, sessions: &CheckedValue, problems: &mut Problems<'_>) {
    let is_closed = spec.at(&["load", "mode"]).is_some_and(|mode| mode.text() == Some("closed"));
    let place = |name: &str| sessions.member(name).map_or(sessions.anchor, |member| member.anchor);
    if spec.member("trace").is_none() || !is_closed {
        for name in OPTIONS.into_iter().filter(|name| is_set(sessions, name)) {
            let message = format!("`spec.sessions.{name}` is for the sessions of a trace that are played at a concurrency");
            problems.add_hinted(place(name), message, "it needs `trace` and `concurrency`");
        }
        return;
    }
    if let Some(count) = spec.at(&["load", "sessions"]).filter(|_| is_recycled(sessions)) {
        let message = "`spec.load.sessions` would end a trial in which `spec.sessions.recycle` plays sessions until its end";
        problems.add_hinted(count.span, message, "write `duration` instead");
    }
    if sessions.member("start").and_then(SessionStart::read).is_some_and(|start| !start.is_valid()) {
        problems.add(place("start"), "`spec.sessions.start.to` is below `from`");
    }
    if is_set(sessions, "warm_history") && sessions.member("start").is_none() {
        let message =
            "`spec.sessions.warm_history` needs `spec.sessions.start`: before the first turn of a session there is no history";
        problems.add_hinted(place("warm_history"), message, "add `start`, or remove it");
    }
    if let Some(cap) = sessions.member("idle_cap")
        && Duration::read(cap).is_some_and(|cap| cap < LEAST_IDLE_CAP)
    {
        let hint = "write a time of `1s` or more, such as `idle_cap: 10s`";
        problems.add_hinted(cap.span, "`spec.sessions.idle_cap` is shorter than `1s`", hint);
    }
    if is_set(sessions, "marker") && spec.member("token_ids").is_some() {
        let message = "`spec.sessions.marker` is a text, and prompts are sent as `spec.token_ids`";
        problems.add_hinted(place("marker"), message, "remove one of them");
    }
}
