//! Tests the load generator against scripted servers.

mod hostile;
mod load;
mod server;
mod sessions;
mod support;
mod tls;
mod unix;
mod users;
