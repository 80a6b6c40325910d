//! A simulated Materialize on real pgwire.
