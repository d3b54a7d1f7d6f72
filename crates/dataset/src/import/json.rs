//! JSON values one after the other: JSON Lines, or the items of one array.

use std::fmt;
use std::io::BufRead;

use serde::Deserializer as _;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde_json::Value;

use super::limited::{Limited, RowBudget};
use crate::DatasetError;

/// Takes a value with the number of its line, or its place in the array.
type TakeValue<'a> = dyn FnMut(u64, Value) -> Result<(), DatasetError> + 'a;

/// Passes each value to `take`. The first byte decides whether the file is an array.
pub(super) fn values(mut source: Limited<impl BufRead>, take: &mut TakeValue<'_>) -> Result<(), DatasetError> {
    let starts_array =
        source.fill_buf().map_err(DatasetError::Read)?.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if starts_array { items(source, take) } else { lines(source, take) }
}

fn lines(source: Limited<impl BufRead>, take: &mut TakeValue<'_>) -> Result<(), DatasetError> {
    source.lines(&mut |number, line| {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let value = serde_json::from_slice(line).map_err(|error| DatasetError::row(number, format!("is not JSON: {error}")))?;
        take(number, value)
    })
}

/// Reads an array item by item, so that only one is in memory.
fn items(source: Limited<impl BufRead>, take: &mut TakeValue<'_>) -> Result<(), DatasetError> {
    let budget = source.budget();
    let (mut stopped, mut number) = (None, 0);
    let visitor = Items { take, budget: budget.clone(), stopped: &mut stopped, number: &mut number };
    let mut reader = serde_json::Deserializer::from_reader(source);
    let read = reader.deserialize_seq(visitor).and_then(|()| reader.end());
    match (stopped, read) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(()),
        (None, Err(_)) if budget.is_spent() => Err(DatasetError::RowTooLarge(number + 1)),
        (None, Err(error)) => {
            let reason = format!("after its item {number}: {error}");
            Err(DatasetError::Format { expected: "a JSON array", reason })
        }
    }
}

struct Items<'a, 'b> {
    take: &'a mut TakeValue<'b>,
    budget: RowBudget,
    stopped: &'a mut Option<DatasetError>,
    number: &'a mut u64,
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(value) = items.next_element::<Value>()? {
            *self.number += 1;
            self.budget.reset();
            if let Err(error) = (self.take)(*self.number, value) {
                *self.stopped = Some(error);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}
