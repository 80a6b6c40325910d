//! The turbopuffer sink.
