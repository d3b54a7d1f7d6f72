//! End-to-end tests over the real binaries live in `it/`; this library is empty so that there is one package for them.
