//! What the emulator promises, asked over plain HTTP.

mod conditions;
mod endpoints;
mod faults;
mod http;
mod refusals;
