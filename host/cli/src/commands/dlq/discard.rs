//! `dlq discard`.

use std::collections::BTreeSet;

use mz_sink_driver::LetterFile;

use super::{Chosen, Place, confirm, counted, file_failure, warn_of_cut};
use crate::exit::Failure;
use crate::output;

/// Arguments of `dlq discard`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    place: Place,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// Takes rows out of the file.
///
/// # Errors
/// When the file cannot be rewritten: nothing is taken out then.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut file = LetterFile::lock(&arguments.place.path()?).map_err(file_failure)?;
    warn_of_cut(&file);
    let chosen = arguments.chosen.of(&file)?;
    if chosen.is_empty() {
        return output::print("no dead letters\n");
    }
    let question = format!("give up {} for good?", counted(chosen.len()));
    if !confirm(&question, arguments.yes)? {
        return output::print("nothing was taken out\n");
    }
    let ids: BTreeSet<_> = chosen.iter().map(|entry| &entry.id).collect();
    file.keep_only(|entry| !ids.contains(&entry.id))
        .map_err(file_failure)?;
    output::print(&format!("{} taken out\n", counted(chosen.len())))
}
