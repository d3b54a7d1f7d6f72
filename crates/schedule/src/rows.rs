//! The rows of a dataset or trace, as the requests of a trial.

use std::sync::Arc;

use assay_dataset::{Index, IndexedSession};
use assay_manifest::Digest;

use crate::arrivals::Speed;
use crate::sessions::TraceSessions;
use crate::{Generator, Phase};

/// The rows of a dataset in the order of one trial.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    index: Arc<Index>,
    order: RowOrder,
    /// The digests of the rows and of their index.
    digests: [Digest; 2],
}

/// The order in which rows are sent.
#[derive(Clone, Debug)]
enum RowOrder {
    /// All rows, in an order of their own, and then again.
    Shuffled(Arc<[u32]>),
    /// The sessions that rows are turns of, in an order of their own, and then again.
    Sessions(Arc<[IndexedSession]>),
    /// The sessions of a trace, in their order.
    TraceSessions(TraceSessions),
    /// As recorded, once. The rows of the measured phase begin with this one.
    Recorded { measured_from: u64 },
}

impl Rows {
    pub(crate) fn shuffled(index: &Arc<Index>, digests: [Digest; 2], mut draws: Generator) -> Self {
        // An index has at most ten million rows.
        let order = draws.shuffle((0..index.len() as u32).collect::<Vec<u32>>());
        Self { index: Arc::clone(index), order: RowOrder::Shuffled(order.into()), digests }
    }

    /// Returns the rows as turns of sessions, each session in one piece.
    pub(crate) fn sessions(index: &Arc<Index>, digests: [Digest; 2], mut draws: Generator) -> Self {
        let order = draws.shuffle(index.sessions().collect::<Vec<_>>());
        Self { index: Arc::clone(index), order: RowOrder::Sessions(order.into()), digests }
    }

    /// Returns the rows as turns of the sessions of a trace.
    pub(crate) fn trace_sessions(trace: TraceSessions, digests: [Digest; 2]) -> Self {
        Self { index: Arc::clone(&trace.index), order: RowOrder::TraceSessions(trace), digests }
    }

    /// Returns the sessions of the trace, if rows are turns of them.
    pub(crate) fn of_trace(&self) -> Option<&TraceSessions> {
        match &self.order {
            RowOrder::TraceSessions(trace) => Some(trace),
            RowOrder::Shuffled(_) | RowOrder::Sessions(_) | RowOrder::Recorded { .. } => None,
        }
    }

    /// Returns the order of sessions, if rows are turns of those of a dataset.
    pub(crate) fn session_order(&self) -> Option<&Arc<[IndexedSession]>> {
        match &self.order {
            RowOrder::Sessions(order) => Some(order),
            RowOrder::Shuffled(_) | RowOrder::TraceSessions(_) | RowOrder::Recorded { .. } => None,
        }
    }

    pub(crate) fn recorded(index: &Arc<Index>, digests: [Digest; 2], speed: Speed, warmup_ns: u64) -> Self {
        let measured_from = first_measured(index, speed, warmup_ns);
        Self { index: Arc::clone(index), order: RowOrder::Recorded { measured_from }, digests }
    }

    pub(crate) fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Returns the digests of the rows and of their index.
    pub(crate) fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// Returns the row of a request.
    pub(crate) fn row(&self, phase: Phase, request: u64) -> u64 {
        match (&self.order, phase) {
            (RowOrder::Shuffled(order), _) => {
                let place = (request % self.index.len()) as usize;
                let place = if phase == Phase::Measure { place } else { order.len() - 1 - place };
                order.get(place).map_or(0, |row| u64::from(*row))
            }
            (RowOrder::Sessions(_) | RowOrder::TraceSessions(_), _) => request % self.index.len(),
            (RowOrder::Recorded { .. }, Phase::WarmUp) => request,
            (RowOrder::Recorded { measured_from }, Phase::Measure) => measured_from.saturating_add(request),
        }
    }

    /// Returns the requests of the warm-up; `None` if rows are sent for as long as it lasts.
    pub(crate) fn warmup_count(&self) -> Option<u64> {
        match self.order {
            RowOrder::Shuffled(_) | RowOrder::Sessions(_) | RowOrder::TraceSessions(_) => None,
            RowOrder::Recorded { measured_from } => Some(measured_from),
        }
    }
}

/// Returns the first row that is due at the end of the warm-up or after it.
pub(crate) fn first_measured(index: &Index, speed: Speed, warmup_ns: u64) -> u64 {
    index.rows_until(|at_ns| speed.replayed_ns(at_ns) >= warmup_ns)
}
