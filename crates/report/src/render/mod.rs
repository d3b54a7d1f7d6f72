//! The parts that every report is written with: text and numbers, HTML, SVG, Markdown, JUnit XML, and tables of a terminal. Nothing here knows
//! runs, verdicts or histories.

#[cfg(test)]
pub(crate) mod check;
pub(crate) mod command;
pub(crate) mod fine_print;
pub(crate) mod html;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod number;
pub(crate) mod similar;
pub(crate) mod strip;
pub(crate) mod svg;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod thinning;
pub(crate) mod unit;
