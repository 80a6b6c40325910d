//! Loads, grants, limits and calls sink components.
