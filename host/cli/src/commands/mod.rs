//! One module for each command.

mod deployment;
pub mod dlq;
pub mod inspect;
mod load;
pub mod run;
mod settings;
pub mod tail;
