//! A sink that misbehaves on request, for tests of the host.
