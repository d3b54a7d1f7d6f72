//! The requests of the HTTP API of Prometheus: `GET /api/v1/query`.

use std::fmt::Write as _;

use assay_manifest::Instant;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// The path of instant queries below the address of a server.
const PATH: &str = "/api/v1/query";

/// The time in which a query without samples in a window is looked for, in the words of PromQL: exporters are scraped more often.
pub const PRESENCE_RANGE: &str = "1h";

/// Returns the URL of an instant query; without a time, it is evaluated at the server's own.
pub fn query_url(server: &str, promql: &str, time: Option<Instant>) -> String {
    let query = utf8_percent_encode(promql, NON_ALPHANUMERIC);
    let mut url = format!("{}{PATH}?query={query}", server.trim_end_matches('/'));
    if let Some(time) = time {
        let ms = time.unix_ns().div_euclid(1_000_000);
        let _ = write!(url, "&time={}.{:03}", ms.div_euclid(1000), ms.rem_euclid(1000));
    }
    url
}

/// Returns the URL that asks for the time of the server's clock.
pub fn clock_url(server: &str) -> String {
    query_url(server, "time()", None)
}

/// Returns the PromQL for the raw samples of a selector from one instant to another, with the time at which it is evaluated. Both are
/// rounded outwards to whole milliseconds, the resolution of Prometheus.
pub fn samples_query(selector: &str, from: Instant, to: Instant) -> (String, Instant) {
    let from_ms = from.unix_ns().div_euclid(1_000_000);
    let to_ms = to.unix_ns().div_euclid(1_000_000).saturating_add(1);
    // Prometheus 3 leaves out a sample at the beginning of a range.
    let range_ms = to_ms.saturating_sub(from_ms).saturating_add(1).max(1);
    (format!("{selector}[{range_ms}ms]"), Instant::from_unix_ns(to_ms.saturating_mul(1_000_000)))
}

/// Returns the PromQL for the number of series of a selector with any sample lately.
pub fn presence_query(selector: &str) -> String {
    format!("count(count_over_time({selector}[{PRESENCE_RANGE}]))")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: i64) -> Instant {
        Instant::from_unix_ns(ns)
    }

    #[test]
    fn a_range_holds_its_ends_whatever_their_nanoseconds_are() {
        let (promql, time) = samples_query("up", at(1_000_000_999), at(3_000_000_001));
        assert_eq!((promql.as_str(), time), ("up[2002ms]", at(3_001_000_000)));
        let (promql, _) = samples_query("up", at(5), at(0));
        assert_eq!(promql, "up[2ms]", "of no length, and yet a range");
    }

    #[test]
    fn a_query_is_escaped_in_its_address() {
        assert_eq!(
            query_url("http://p:9090/prefix/", "up{a=\"b&c=d#\"}[5ms]", Some(at(1_700_000_000_042_000_000))),
            "http://p:9090/prefix/api/v1/query?query=up%7Ba%3D%22b%26c%3Dd%23%22%7D%5B5ms%5D&time=1700000000.042"
        );
        assert_eq!(clock_url("http://p"), "http://p/api/v1/query?query=time%28%29");
        assert_eq!(presence_query("up"), "count(count_over_time(up[1h]))");
    }
}
