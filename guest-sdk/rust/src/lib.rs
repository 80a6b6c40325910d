//! Write a Materialize sink in Rust.
