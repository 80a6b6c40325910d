//! What a server, or the connection to it, reported: raw, not yet classified.
