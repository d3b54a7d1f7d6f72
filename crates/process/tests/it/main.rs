//! Tests with real processes that misbehave: they fork twice, leave their session, ignore signals, never end.

mod ending;
mod starting;
mod supervising;
mod support;
