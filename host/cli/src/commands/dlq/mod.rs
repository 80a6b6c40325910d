//! `mz-wasm-sink dlq`: rows that never reached the target.

mod discard;
mod list;
mod replay;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mz_sink_core::dead_letter::{Entry, Selection};
use mz_sink_driver::{LetterFile, LetterFileError};

use crate::config::Config;
use crate::exit::Failure;
use crate::output;

/// Arguments of `dlq`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show which rows there are, without their values.
    List(list::ListArguments),
    /// Show one row with its values.
    Show(list::ShowArguments),
    /// Write rows into the target after all, once the cause is mended.
    ///
    /// What is written for a key is what the object holds for it now, at the committed frontier,
    /// and never an older row; under the diff envelope, the change itself. Stop the sink first: a
    /// replay takes the next epoch, and a worker that still runs somewhere would be fenced. What
    /// the sink refuses again, and keys that several rows still have, stay where they are.
    Replay(replay::Arguments),
    /// Give rows up: take them out of the file.
    Discard(discard::Arguments),
}

/// Runs one of the commands.
///
/// # Errors
/// With the exit code that fits.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::List(arguments) => list::list(&arguments),
        Command::Show(arguments) => list::show(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Discard(arguments) => discard::run(&arguments),
    }
}

/// Where the file is.
#[derive(Args)]
struct Place {
    /// The file of dead letters; otherwise `dead_letter.path` of the configuration.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The configuration of the sink.
    #[arg(long, short, value_name = "FILE", default_value = "mz-wasm-sink.toml")]
    config: PathBuf,
}

impl Place {
    fn path(&self) -> Result<PathBuf, Failure> {
        match &self.file {
            Some(file) => Ok(file.clone()),
            None => path_in(&config(&self.config)?),
        }
    }
}

fn config(path: &std::path::Path) -> Result<Config, Failure> {
    let config = Config::load(path, |name| std::env::var(name).ok());
    config.map_err(|e| Failure::usage("config", e))
}

/// The file that a configuration names.
fn path_in(config: &Config) -> Result<PathBuf, Failure> {
    config.dead_letter.path.clone().ok_or_else(|| {
        let missing = "is not set, so that rows were only named in the log; set it to keep them";
        Failure::usage("config", config.wrong("dead_letter.path", missing))
    })
}

/// Which dead letters are meant.
#[derive(Args)]
struct Filters {
    /// Only those of this view.
    #[arg(long, value_name = "NAME")]
    view: Option<String>,
    /// Only those of this category.
    #[arg(long, value_name = "WORD")]
    category: Option<String>,
    /// Only those of this deployment.
    #[arg(long, value_name = "ID")]
    sink_id: Option<String>,
}

impl Filters {
    fn selection(&self, ids: &[String]) -> Selection {
        Selection {
            ids: ids.to_vec(),
            view: self.view.clone(),
            category: self.category.clone(),
            sink_id: self.sink_id.clone(),
        }
    }
}

/// Dead letters that something is done with: some must be named in some way.
#[derive(Args)]
struct Chosen {
    /// Ids, or enough of their beginnings.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All of them.
    #[arg(long, conflicts_with_all = ["ids", "view", "category", "sink_id"])]
    all: bool,
    #[command(flatten)]
    filters: Filters,
}

impl Chosen {
    fn of(&self, letters: &LetterFile) -> Result<Vec<Entry>, Failure> {
        let filters = &self.filters;
        let given = [&filters.view, &filters.category, &filters.sink_id];
        if !self.all && self.ids.is_empty() && given.iter().all(|filter| filter.is_none()) {
            return Err(Failure::usage(
                "arguments",
                "which dead letters? Give their ids, --view, --category, --sink-id, or --all",
            ));
        }
        entries(letters, &filters.selection(&self.ids))
    }
}

fn entries(letters: &LetterFile, selection: &Selection) -> Result<Vec<Entry>, Failure> {
    let chosen = selection.of(&letters.letters.entries);
    let chosen = chosen.map_err(|e| Failure::usage("arguments", e))?;
    Ok(chosen.into_iter().cloned().collect())
}

fn file_failure(error: LetterFileError) -> Failure {
    Failure::failed("dead-letter", error)
}

/// What a worker that was killed has left of a line.
fn warn_of_cut(letters: &LetterFile) {
    if letters.letters.is_cut {
        // Without a reader nothing is lost.
        drop(output::tell(
            "the last line was cut off while it was written, and is left out: its row was not \
             given up and comes again",
        ));
    }
}

/// Asks on a terminal; elsewhere `--yes` must say it.
fn confirm(question: &str, is_sure: bool) -> Result<bool, Failure> {
    if is_sure {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "arguments",
            "nobody can be asked here; give --yes to go on",
        ));
    }
    let mut answer = String::new();
    let asked = io::stderr().write_all(format!("{question} [y/N] ").as_bytes());
    asked
        .and_then(|()| io::stdin().read_line(&mut answer))
        .map_err(|e| Failure::failed("terminal", e))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// `1 dead letter`, `2 dead letters`.
fn counted(count: usize) -> String {
    match count {
        1 => "1 dead letter".into(),
        _ => format!("{count} dead letters"),
    }
}
