//! Text: one prompt in each line, as genai-bench reads it.

use std::io::BufRead;

use super::TakeRow;
use super::limited::Limited;
use crate::{DatasetError, LeftOut, Row, RowContent};

pub(super) fn rows(source: Limited<impl BufRead>, take: &mut TakeRow<'_>) -> Result<(), DatasetError> {
    source.lines(&mut |row, line| {
        let text = std::str::from_utf8(line).map_err(|_| DatasetError::row(row, "is not UTF-8"))?.trim();
        let content = (!text.is_empty()).then(|| RowContent::Prompt(text.to_owned()));
        take(row, content.map(Row::new).ok_or(LeftOut::NO_PROMPT))
    })
}
