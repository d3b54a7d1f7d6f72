//! The clock of a Prometheus beside that of collect.

use assay_manifest::Instant;

/// The difference of two clocks, as far as one exchange bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// The clock of the server minus that of the client, in nanoseconds: the middle of what is possible.
    pub offset_ns: i64,
    /// The largest error of it: half the time of the exchange, and the resolution of the server's response.
    pub uncertainty_ns: u64,
}

/// The resolution of the times that Prometheus states, in nanoseconds.
const RESOLUTION_NS: u64 = 1_000_000;

impl ClockOffset {
    /// Bounds the offset by the server's time, which it read between a request and its response.
    pub fn new(requested: Instant, received: Instant, server_ns: i64) -> Self {
        let took = received.ns_since(requested);
        let middle = requested.unix_ns().saturating_add((took / 2).cast_signed());
        Self { offset_ns: server_ns.saturating_sub(middle), uncertainty_ns: took / 2 + RESOLUTION_NS }
    }

    /// Returns the smallest size that the offset may have, in nanoseconds; 0 if the clocks may agree.
    pub fn at_least_ns(&self) -> u64 {
        self.offset_ns.unsigned_abs().saturating_sub(self.uncertainty_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_bounds_the_offset() {
        let at = |ms: i64| Instant::from_unix_ns(ms * 1_000_000);
        let offset = |server_ms: i64| ClockOffset::new(at(1000), at(1010), server_ms * 1_000_000);
        assert_eq!(offset(1005), ClockOffset { offset_ns: 0, uncertainty_ns: 6_000_000 });
        assert_eq!(offset(1011).at_least_ns(), 0, "within the exchange, and a millisecond");
        assert_eq!(offset(4005).at_least_ns(), 2_994_000_000);
        assert_eq!(offset(-1).offset_ns, -1_006_000_000);
    }
}
