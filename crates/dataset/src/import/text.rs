//! Text: one prompt in each line, as genai-bench reads it.

use std::io::BufRead;

use super::TakeRow;
use super::limited::Limited;
use crate::{DatasetError, Row, RowContent};

pub(super) fn rows(mut source: Limited<impl BufRead>, take: &mut TakeRow<'_>) -> Result<(), DatasetError> {
    let budget = source.budget();
    let mut line = Vec::new();
    for row in 1.. {
        line.clear();
        budget.reset();
        let read = source.read_until(b'\n', &mut line);
        if budget.is_spent() {
            return Err(DatasetError::RowTooLarge(row));
        }
        if read.map_err(DatasetError::Read)? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|_| DatasetError::row(row, "is not UTF-8"))?.trim();
        let content = (!text.is_empty()).then(|| RowContent::Prompt(text.to_owned()));
        take(row, content.map(|content| Row { content, output: None, output_tokens: None }))?;
    }
    Ok(())
}
