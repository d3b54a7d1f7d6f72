//! The definition of a trial for the load generator.

use std::sync::Arc;

use assay_api::{ResponsePaths, ServingApi};
use assay_record::Record;

use crate::{Endpoint, Error};

/// One trial of one shard: its endpoint, its load, its duration, and the data to keep.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The target of the requests.
    pub endpoint: Endpoint,
    /// The API that they use.
    pub api: ServingApi,
    /// The call of an API that the workload describes; none for one that is known.
    pub custom: Option<Arc<CustomCall>>,
    /// True if the bodies request streamed responses.
    pub streaming: bool,
    /// The arrival process of the requests.
    pub arrivals: Arrivals,
    /// The instant of [`assay_reactor::now_ns`] at which the trial starts; every time of its records counts from it.
    pub start_at_ns: i64,
    /// The duration of the warm-up, in nanoseconds. It does not wait for its requests: they overlap with the measured phase.
    pub warmup_ns: i64,
    /// The end of the measured phase.
    pub measured: MeasuredLimits,
    /// Reads that are later than this, in nanoseconds, are counted as late.
    pub late_read_ns: i64,
    /// The queue at which the trial ends early; none if it ends as planned.
    pub over_saturation: Option<OverSaturation>,
    /// The failed requests at which the trial ends early; none if it ends as planned.
    pub stop_on_errors: Option<ErrorLimit>,
    /// The sessions that the requests are turns of; none if the requests are independent of one another.
    pub sessions: Option<Sessions>,
    /// The reuse of connections.
    pub connections: Connections,
    /// The timeout of one request, in nanoseconds, from the instant at which the client takes it up.
    pub timeout_ns: i64,
    /// The time that requests may take to end after the measured phase, in nanoseconds.
    pub drain_ns: i64,
    /// The requests whose token events are listed.
    pub chunk_lists: ChunkLists,
    /// The part of the responses' text that is kept.
    pub capture: Capture,
    /// Sent as `user-agent`.
    pub user_agent: String,
}

/// The queue at which a trial ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverSaturation {
    /// The requests of this shard in flight; more of them without a break end the trial.
    pub in_flight: u32,
    /// The time for which there have to be more, in nanoseconds.
    pub for_ns: i64,
}

/// The failed requests at which a trial ends early, those of the warm-up too. The first limit that is met ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorLimit {
    /// The number of failed requests of this shard.
    pub count: Option<u64>,
    /// The failures among the requests that ended last.
    pub recent: Option<RecentErrors>,
}

/// Failures among the requests that ended last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentErrors {
    /// The failures that end a trial.
    pub failures: u32,
    /// The number of requests that ended last; as long as fewer have ended, nothing ends the trial.
    pub of_last: u32,
}

/// The call of an API that a workload describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomCall {
    /// The path of requests.
    pub path: String,
    /// The places of what responses say.
    pub responses: ResponsePaths,
}

/// The arrival process of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// A fixed number of users, each of whom sends when its last request has ended. A user whose connection could not be made, or
    /// was closed without a response, waits 10 ms before the next, so that an endpoint that refuses is not hammered.
    Closed {
        /// The number of users of this shard.
        users: u32,
    },
    /// The schedule: [`PlannedRequest::intended_offset_ns`](crate::PlannedRequest::intended_offset_ns), of the first turns of
    /// sessions if it has sessions.
    Open {
        /// The maximum requests in flight.
        max_in_flight: u32,
        /// The treatment of a request that becomes due beyond it.
        excess: Excess,
    },
    /// A fixed number of users, each of whom plays sessions one after the other. Every turn has a time of the schedule
    /// ([`PlannedRequest::intended_offset_ns`](crate::PlannedRequest::intended_offset_ns)): it is due at that time, or when its user's turn before it has
    /// ended, whichever is later. That time decides its phase, too, and a turn that is late is sent even after the end of the measured phase, until
    /// the time to drain has passed.
    Users {
        /// The number of users of this shard, or fewer if it may not have as many requests in flight: one that becomes due beyond it is dropped.
        users: u32,
    },
}

/// The reuse of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// A request takes any open connection that is idle, or opens one.
    #[default]
    Pooled,
    /// Each request opens a connection, which is closed after its response; TLS sessions are not resumed. Under closed loop its intended
    /// time is that at which its user takes it up, so that its latency includes the time to connect.
    Never,
    /// The turns of a session share a connection, which is closed when the session ends. If the endpoint closes it, the next turn opens
    /// another one.
    Sticky,
}

impl Connections {
    /// Returns the lateness of the client with a request that was sent, in nanoseconds. If each request opens a connection, the client has
    /// acted once it requests that: the rest is the time to connect.
    pub(crate) fn client_lateness_ns(self, record: &Record) -> Option<i64> {
        let connecting = record.connect_start_ns.filter(|_| self == Self::Never && record.sent_ns.is_some());
        connecting.map_or_else(|| record.client_lateness_ns(), |asked| Some(asked - record.ready_ns.or(record.intended_ns)?))
    }
}

/// The treatment of a request of an open loop that becomes due while the maximum of requests is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// It is dropped, and is a record: the maximum is a limit of the client.
    Drop,
    /// It waits until another ends, in the order of the schedule: the maximum is a part of the load. Its record states when there was
    /// a place for it. One that still waits at the trial's end is dropped. Not with sessions.
    Wait,
}

/// Sessions: requests that follow one another. A later turn is due its pause after the last end of the responses that it waits for: in a
/// session that does not fork, the one before. Under closed loop a user plays one session to the end of all its streams and then takes the next;
/// under open loop sessions arrive by the schedule. The sessions of a user of [`Arrivals::Users`] name the one that follows.
///
/// The time at which a turn is due decides its phase, and a turn that would be due at or after the end of the measured phase is
/// not sent. A turn that fails ends its session: turns that are due after its end are not sent, and those in flight are followed to theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sessions {
    /// The most turns of a session in flight: the streams of the session that forks most, from 1. Under closed loop it bounds the requests in
    /// flight, together with the users.
    pub most_streams: u32,
    /// The earlier responses in the requests of later turns.
    pub history: History,
    /// The longest time for which nothing is in flight while turns wait, in nanoseconds: then all of them are due earlier by the same time. Under
    /// closed loop only.
    pub idle_cap_ns: Option<i64>,
}

/// The earlier responses in the requests of later turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Recorded ones: no request depends on a response of the endpoint, so each is prepared before it is due.
    Recorded,
    /// The endpoint's own: a turn is prepared with the response to the turn before, once that has ended.
    Live,
}

/// The end of the measured phase: the earlier of both limits, or the end of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredLimits {
    /// Ends after this time, in nanoseconds.
    pub duration_ns: Option<i64>,
    /// Ends when this many measured requests of this shard have become due.
    pub requests: Option<u64>,
}

/// The requests whose token events are listed. First and last stamps and counts are kept for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkLists {
    /// Every request.
    #[default]
    All,
    /// Requests whose global index is a multiple of this.
    SampledEvery(u64),
}

/// The part of the responses' text that is kept: reasoning, content and tool text, in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capture {
    /// Nothing.
    None,
    /// Its SHA-256, in the record.
    #[default]
    Digest,
    /// Its SHA-256, and the text, which is passed to the sink.
    Full,
}

impl ChunkLists {
    /// Returns true if this request's token events are listed.
    pub(crate) fn lists(self, global_index: u64) -> bool {
        match self {
            Self::All => true,
            Self::SampledEvery(every) => every != 0 && global_index.is_multiple_of(every),
        }
    }
}

impl Trial {
    /// Returns the maximum requests in flight.
    pub(crate) fn max_in_flight(&self) -> u32 {
        match self.arrivals {
            Arrivals::Closed { users } => users.saturating_mul(self.sessions.map_or(1, |sessions| sessions.most_streams.max(1))),
            Arrivals::Open { max_in_flight, .. } => max_in_flight,
            Arrivals::Users { users } => users,
        }
    }

    /// Returns true if due requests wait for a place among those in flight.
    pub(crate) fn has_waiting(&self) -> bool {
        matches!(self.arrivals, Arrivals::Open { excess: Excess::Wait, .. })
    }

    /// Refuses an invalid trial.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let problem = |problem| Err(Error::Trial { problem });
        if self.max_in_flight() == 0 {
            return problem("it may have no request under way; give it users, or a limit above 0");
        }
        if self.warmup_ns < 0 || self.drain_ns < 0 || self.measured.duration_ns.is_some_and(|duration| duration < 0) {
            return problem("a duration is negative");
        }
        if self.timeout_ns <= 0 {
            return problem("the time limit of a request is not above 0");
        }
        if self.streaming && !self.api.capabilities().streams {
            return problem("the responses of its API cannot be streamed");
        }
        if self.sessions.is_some() && self.measured.requests.is_some() {
            return problem("a number of requests cannot end sessions; limit its time, or the number of its sessions");
        }
        if self.sessions.is_some() && self.has_waiting() {
            return problem("the turns of sessions cannot wait for a place among the requests in flight");
        }
        if matches!(self.arrivals, Arrivals::Users { .. }) && (self.sessions.is_none() || self.measured.duration_ns.is_none()) {
            return problem("its users play sessions until a time has passed; give it both");
        }
        let idle_cap_ns = self.sessions.and_then(|sessions| sessions.idle_cap_ns);
        if idle_cap_ns.is_some_and(|cap| cap <= 0) || (idle_cap_ns.is_some() && !matches!(self.arrivals, Arrivals::Closed { .. }))
        {
            return problem("an idle cap is a time above 0, and for users who play sessions");
        }
        if self.sessions.is_none() && self.connections == Connections::Sticky {
            return problem("its requests belong to no session that could share a connection");
        }
        if self.connections == Connections::Sticky && self.sessions.is_some_and(|sessions| sessions.most_streams > 1) {
            return problem("several turns of a session in flight cannot share its connection");
        }
        let is_live = self.sessions.is_some_and(|sessions| sessions.history == History::Live);
        if is_live && !self.api.capabilities().has_output_tokens {
            return problem("the responses of its API have no text, which live history consists of");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_connect_is_no_lateness_where_each_request_connects() {
        let record = Record {
            intended_ns: Some(100),
            connect_start_ns: Some(103),
            connect_end_ns: Some(150),
            sent_ns: Some(152),
            ..Record::default()
        };
        let late = |connections: Connections, record: &Record| connections.client_lateness_ns(record);
        assert_eq!((late(Connections::Never, &record), late(Connections::Pooled, &record)), (Some(3), Some(52)));
        let waited = Record { ready_ns: Some(101), ..record.clone() };
        assert_eq!((late(Connections::Never, &waited), late(Connections::Pooled, &waited)), (Some(2), Some(51)));
        let never_sent = Record { sent_ns: None, ..record };
        assert_eq!(late(Connections::Never, &never_sent), None);
    }
}
