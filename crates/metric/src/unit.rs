//! The units of metrics, and the form of their columns.

/// The unit of the values of a metric. The wide table may hold them in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds; the column holds whole nanoseconds.
    Milliseconds,
    /// Requests per second.
    RequestsPerSecond,
    /// Tokens per second.
    TokensPerSecond,
    /// Documents per second.
    DocumentsPerSecond,
    /// A share or a relative difference: 1 is the whole.
    Ratio,
    /// A mean number of tokens.
    Tokens,
    /// A sum of tokens; the column holds a whole number.
    TokenCount,
    /// The currency of the price.
    Currency,
    /// The currency of the price, for a million; the column holds the price of one.
    CurrencyPerMillion,
}

impl Unit {
    /// The text of the unit of prices; the currency of the price takes its place.
    pub const CURRENCY: &'static str = "currency";

    /// Returns the unit as Summary and rows state it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::RequestsPerSecond => "requests/s",
            Self::TokensPerSecond => "tokens/s",
            Self::DocumentsPerSecond => "documents/s",
            Self::Ratio => "ratio",
            Self::Tokens | Self::TokenCount => "tokens",
            Self::Currency | Self::CurrencyPerMillion => Self::CURRENCY,
        }
    }

    /// Returns the unit for narrow columns.
    pub const fn short(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "req/s",
            Self::TokensPerSecond => "tok/s",
            unit => unit.as_str(),
        }
    }

    /// Returns the unit of the column of the wide table; `None` for a ratio.
    pub const fn column_unit(self) -> Option<&'static str> {
        match self {
            Self::Milliseconds => Some("ns"),
            Self::Ratio => None,
            Self::Currency | Self::CurrencyPerMillion => Some("as `currency` says"),
            unit => Some(unit.as_str()),
        }
    }

    /// Returns true if the column of the wide table holds whole numbers.
    pub const fn has_whole_column(self) -> bool {
        matches!(self, Self::Milliseconds | Self::TokenCount)
    }

    /// Converts a sample to the unit: samples of latencies are in nanoseconds, all others are in the unit already.
    pub fn from_sample(self, sample: f64) -> f64 {
        if self == Self::Milliseconds { sample / 1e6 } else { sample }
    }

    /// Converts a value to the unit of the column of the wide table.
    pub fn to_column_unit(self, value: f64) -> f64 {
        match self {
            Self::Milliseconds => value * 1e6,
            Self::CurrencyPerMillion => value / 1e6,
            _ => value,
        }
    }
}
