//! An empty library, so that the end-to-end tests over the real binaries in `it/` have one package.
