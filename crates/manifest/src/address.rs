//! The address of a number, as `assay trace` takes it.

use std::fmt;
use std::str::FromStr;

use crate::{Digest, RunId};

/// The fewest digits of a row id in an address: 48 bits, enough to tell the rows of a run apart.
pub const MIN_ROW_DIGITS: usize = 12;

/// The address of a number, `<run>/<table>/<row id>/<column>`, with the first 12 or more digits of the row id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    run_id: RunId,
    table: String,
    row: String,
    column: String,
}

/// An error of parsing an [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text does not have four parts.
    #[error("`{0}` is not the address of a number")]
    Parts(String),
    /// The first part is not a run id.
    #[error("`{0}` names no run")]
    Run(String),
}

impl Address {
    /// The table of statistics in long form, which holds most numbers: they are in its column `value`.
    pub const TABLE: &str = "outcome_fact";

    /// Creates the address of the value in the row `row_id` of [`Address::TABLE`].
    pub fn for_value(run_id: &RunId, row_id: &Digest) -> Self {
        Self::new(run_id, Self::TABLE, &row_id.short(), "value")
    }

    /// Creates the address of a column of a row. `row_id` is the whole id or its first digits.
    pub fn new(run_id: &RunId, table: &str, row_id: &str, column: &str) -> Self {
        let row = row_id.get(..MIN_ROW_DIGITS).unwrap_or(row_id).to_owned();
        Self { run_id: run_id.clone(), table: table.to_owned(), row, column: column.to_owned() }
    }

    /// The run.
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// The table of the warehouse.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The digits of the row id that the address gives.
    pub fn row(&self) -> &str {
        &self.row
    }

    /// The column.
    pub fn column(&self) -> &str {
        &self.column
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.run_id, self.table, self.row, self.column)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Accepts any number of digits of the row id: the reader of the address decides how many are enough.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parts: Vec<_> = text.split('/').collect();
        let shown = |text: &str| text.chars().take(200).collect();
        let [run, table, row, column] = parts.as_slice() else { return Err(AddressError::Parts(shown(text))) };
        let run_id = run.parse().map_err(|_| AddressError::Run(shown(run)))?;
        Ok(Self { run_id, table: (*table).to_owned(), row: (*row).to_owned(), column: (*column).to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_written() {
        let run: RunId = "nightly".parse().expect("a run id");
        let address = Address::for_value(&run, &Digest::compute(b"row"));
        assert_eq!(address.to_string(), format!("nightly/outcome_fact/{}/value", Digest::compute(b"row").short()));
        assert_eq!(address.to_string().parse(), Ok(address));
        let wide = Address::new(&run, "serving_outcome_fact", &Digest::compute(b"row").hex(), "ttft_ns_p99");
        assert_eq!(wide.row().len(), MIN_ROW_DIGITS);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        assert_eq!(
            "a/b/c".parse::<Address>().map_err(|error| error.to_string()),
            Err("`a/b/c` is not the address of a number".to_owned())
        );
        assert_eq!("A b/t/r/c".parse::<Address>().map_err(|error| error.to_string()), Err("`A b` names no run".to_owned()));
    }
}
