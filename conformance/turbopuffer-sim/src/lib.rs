//! An emulator of the turbopuffer HTTP API.
