//! What a client must have kept to so that it measured its endpoint, and not itself.

use std::time::Duration;

/// Later than this at the 99th percentile, the load was not the one that was asked for.
pub const MAX_LATENESS_P99: Duration = Duration::from_millis(25);

/// A client that looks away from its sockets this long has stamped what came meanwhile that much too late.
pub const MAX_STALL: Duration = Duration::from_secs(1);

/// The smallest share of the asked rate that must have been sent.
pub const MIN_SENT_SHARE: f64 = 0.95;
