//! Materialize over tokio-postgres.
