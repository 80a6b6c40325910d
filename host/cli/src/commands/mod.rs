//! One module for each command.

pub mod inspect;
mod load;
pub mod run;
mod settings;
