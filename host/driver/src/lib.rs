//! Carries out the commands of the protocol core.
