//! Instants of the wall clock, written with nanoseconds.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A wall-clock instant with nanosecond resolution. Written as RFC 3339 in UTC with exactly nine fractional digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Instant(jiff::Timestamp);

/// The error of parsing an [`Instant`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an instant: expected RFC 3339 in UTC with nine fractional digits, such as `2026-11-20T12:00:00.000000000Z`"
)]
pub struct InstantError(String);

impl Instant {
    /// Creates the instant `nanoseconds` after the Unix epoch.
    pub fn from_unix_ns(nanoseconds: i64) -> Self {
        // Every i64 of nanoseconds lies between the years 1677 and 2262, inside jiff's range.
        Self(jiff::Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// Nanoseconds since the Unix epoch, saturating beyond the year 2262.
    pub fn unix_ns(self) -> i64 {
        let wide = self.0.as_nanosecond();
        i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX })
    }

    /// Nanoseconds from `earlier` to this instant, or 0 if `earlier` is later.
    pub fn ns_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.as_nanosecond() - earlier.0.as_nanosecond()).unwrap_or(0)
    }

    /// Formats the instant to the second, for people: `2026-11-20T12:00:00Z`.
    pub fn to_seconds(self) -> String {
        format!("{:.0}", self.0)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9}", self.0)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Instant {
    type Err = InstantError;

    fn from_str(text: &str) -> Result<Self, InstantError> {
        let instant = text.parse().map(Self).ok();
        // An instant has one spelling, so that equal documents have equal bytes.
        instant.filter(|instant| instant.to_string() == text).ok_or_else(|| InstantError(text.chars().take(80).collect()))
    }
}

impl TryFrom<String> for Instant {
    type Error = InstantError;

    fn try_from(text: String) -> Result<Self, InstantError> {
        text.parse()
    }
}

impl From<Instant> for String {
    fn from(instant: Instant) -> Self {
        instant.to_string()
    }
}

impl schemars::JsonSchema for Instant {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Instant".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{9}Z$",
            "description": "A wall-clock instant: RFC 3339 in UTC with nine fractional digits."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_has_one_spelling() {
        let instant = Instant::from_unix_ns(1_500_000_000);
        assert_eq!(instant.to_string(), "1970-01-01T00:00:01.500000000Z");
        assert_eq!(instant.to_string().parse(), Ok(instant));
        assert_eq!(instant.unix_ns(), 1_500_000_000);
        for bad in ["1970-01-01T00:00:01.5Z", "1970-01-01T01:00:01.500000000+01:00", "1970-01-01", "", "now"] {
            assert!(bad.parse::<Instant>().is_err(), "{bad}");
        }
    }
}
