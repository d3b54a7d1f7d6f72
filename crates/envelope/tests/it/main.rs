//! The envelope from outside: signed manifests verify, every change is refused by its name, and other tools agree.

mod conformance;
mod foreign;
mod hostile;
mod mutations;
mod origin;
mod round_trip;
mod support;
mod timestamps;
