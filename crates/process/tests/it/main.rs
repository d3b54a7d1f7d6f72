//! Real processes that do what misbehaving programs do: fork twice, leave their session, ignore signals, never end.

mod ending;
mod starting;
mod supervising;
mod support;
