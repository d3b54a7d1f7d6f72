//! The load generator against servers that do what a script says.

mod hostile;
mod load;
mod server;
mod support;
mod tls;
