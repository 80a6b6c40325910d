//! What the emulator promises, asked over plain HTTP.

mod conditions;
mod faults;
mod http;
mod refusals;
