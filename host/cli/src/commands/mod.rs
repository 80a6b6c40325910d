//! One module for each command.

pub mod check;
mod deployment;
pub mod dlq;
pub mod inspect;
mod load;
pub mod run;
mod settings;
pub mod tail;
