//! The parts of pictures that all reports share: axes, frames, lines and labels.

pub(crate) mod axis;
pub(crate) mod plot;
