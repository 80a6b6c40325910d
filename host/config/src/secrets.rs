//! Where secrets come from. Their values are read when they are needed and shown nowhere.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

/// A command must have written its secret after this.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// No secret is longer, in bytes: what is would fill the memory, or is another file.
const LONGEST: u64 = 64 << 10;

/// How often a command is looked at that has closed its output.
const POLL: Duration = Duration::from_millis(5);

/// Where a secret comes from, and which hosts may get it. Exactly one origin is given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct SecretSource {
    /// An environment variable.
    pub env: Option<String>,
    /// A file.
    pub file: Option<PathBuf>,
    /// A program and its arguments, which writes the secret to standard output.
    pub command: Option<Vec<String>>,
    /// The hosts that may get it; those in `grants` unless given.
    pub hosts: Option<Vec<String>>,
}

/// A secret. There is no way to show its value but to read it.
pub struct SecretValue {
    /// What the sink calls it.
    pub name: String,
    /// The value.
    pub value: String,
    /// The hosts that may get it; those in `grants` if there is no list.
    pub hosts: Option<Vec<String>>,
}

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretValue")
            .field("name", &self.name)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// The content of an environment variable.
pub(super) fn from_env(name: &str, value: Option<&String>) -> Result<String, String> {
    match value {
        Some(value) if !value.is_empty() => Ok(value.clone()),
        Some(_) => Err(format!("the environment variable {name} is empty; set it")),
        None => Err(format!(
            "the environment variable {name} is not set; set it"
        )),
    }
}

/// All that there is to read; `None` if it is too long for a secret.
fn read(from: impl Read) -> io::Result<Option<String>> {
    let mut text = String::new();
    let length = from.take(LONGEST + 1).read_to_string(&mut text)?;
    Ok((length as u64 <= LONGEST).then_some(text))
}

/// The content of a file, without a newline at its end. May wait, if it is a pipe.
///
/// # Errors
/// A text that says what to do; it never holds the content.
pub fn from_file(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = File::open(path)
        .and_then(read)
        .map_err(|error| format!("cannot read {shown}: {error}; check the path and its mode"))?
        .ok_or_else(|| {
            format!("{shown} has more than {LONGEST} bytes; name a file with the secret alone")
        })?;
    trimmed(text).ok_or_else(|| format!("{shown} is empty; write the secret into it"))
}

/// What a command writes, without a newline at its end. What it writes to standard error, which
/// may hold secrets too, is not kept.
pub(super) fn from_command(command: &[String], limit: Duration) -> Result<String, String> {
    let (program, arguments) = command
        .split_first()
        .ok_or("the list is empty; name a program and its arguments")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot run {program}: {error}; check the path"))?;
    let output = child.stdout.take();
    let (sender, written) = std::sync::mpsc::channel();
    // Reading must not be waited for: a grandchild may hold the pipe open for ever.
    std::thread::spawn(move || {
        // Nobody listens once the limit is over.
        let _ = sender.send(output.map(read).transpose());
    });
    let started = Instant::now();
    let written = written.recv_timeout(limit).ok();
    if let Some(Ok(Some(None))) = written {
        stop(&mut child);
        return Err(format!(
            "{program} wrote more than {LONGEST} bytes; it must write the secret alone"
        ));
    }
    let ended = written.and_then(|written| Some((written, end(&mut child, started, limit)?)));
    let Some((written, status)) = ended else {
        stop(&mut child);
        return Err(format!(
            "{program} did not end within {limit:?}; it must write the secret and end"
        ));
    };
    match written {
        _ if !status.success() => Err(format!(
            "{program} failed ({status}); what it wrote to standard error is hidden, since it \
             may hold secrets: run the command by hand, as the same user, to see why"
        )),
        Ok(text) => trimmed(text.flatten().unwrap_or_default())
            .ok_or_else(|| format!("{program} wrote nothing; it must write the secret")),
        Err(_) => Err(format!(
            "{program} wrote something that is not UTF-8 text; it must write the secret"
        )),
    }
}

/// It and the processes that it has started may have ended by themselves just now; otherwise it
/// is reaped here.
fn stop(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

/// Waits until a process ends that has closed its output, until `limit` after `started`.
fn end(child: &mut Child, started: Instant, limit: Duration) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if started.elapsed() < limit => std::thread::sleep(POLL),
            _ => return None,
        }
    }
}

impl SecretSource {
    /// What is wrong with it, before anything is read.
    pub(super) fn check(&self) -> Result<(), String> {
        let origins = [
            self.env.is_some(),
            self.file.is_some(),
            self.command.is_some(),
        ];
        match origins.iter().filter(|given| **given).count() {
            1 => Ok(()),
            0 => Err("where it comes from is missing; add env, file or command".into()),
            _ => Err("it comes from several places; keep one of env, file and command".into()),
        }
    }

    /// Reads it; `variable` is the content of its environment variable. The error names the
    /// field below the secret.
    pub(super) fn read(&self, variable: Option<&String>) -> Result<String, (&'static str, String)> {
        match (&self.env, &self.file, &self.command) {
            (Some(name), ..) => from_env(name, variable).map_err(|e| ("env", e)),
            (_, Some(path), _) => from_file(path).map_err(|e| ("file", e)),
            (.., command) => from_command(command.as_deref().unwrap_or_default(), COMMAND_LIMIT)
                .map_err(|e| ("command", e)),
        }
    }
}

fn trimmed(mut text: String) -> Option<String> {
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn run(script: &str, limit: Duration) -> Result<String, String> {
        from_command(&["sh", "-c", script].map(Into::into), limit)
    }

    #[test]
    fn a_command_gives_what_it_writes() {
        assert_eq!(run("echo s3cret", COMMAND_LIMIT).unwrap(), "s3cret");
    }

    #[test]
    fn a_command_that_fails_does_not_give_what_it_wrote() {
        let script = "echo s3cret; echo s3cret >&2; exit 3";
        let error = run(script, COMMAND_LIMIT).unwrap_err();
        assert!(error.starts_with("sh failed (exit status: 3); "), "{error}");
        assert!(error.contains("by hand") && !error.contains("s3cret"));
    }

    #[test]
    fn what_is_too_long_for_a_secret_is_not_read_to_its_end() {
        let error = run("while :; do echo s3cret; done", COMMAND_LIMIT).unwrap_err();
        assert!(error.contains("wrote more than 65536 bytes"), "{error}");
        let error = from_file(Path::new("/dev/zero")).unwrap_err();
        assert!(error.contains("more than 65536 bytes"), "{error}");
    }

    #[test]
    fn a_command_that_does_not_end_is_stopped() {
        for script in ["exec sleep 600", "exec sleep 600 >&-"] {
            let error = run(script, Duration::from_millis(50)).unwrap_err();
            assert!(error.contains("did not end within 50ms"), "{error}");
        }
    }

    #[test]
    fn what_a_command_has_started_is_stopped_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("child");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let error = run(&script, Duration::from_millis(500)).unwrap_err();
        assert!(error.contains("did not end within"), "{error}");
        let child: i32 = std::fs::read_to_string(file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let started = Instant::now();
        // Gone, or waiting to be reaped by the init process.
        while std::fs::read_to_string(format!("/proc/{child}/stat"))
            .is_ok_and(|stat| !stat.contains(" Z "))
        {
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "{child} still runs"
            );
            std::thread::sleep(POLL);
        }
    }

    #[test]
    fn a_file_gives_its_content_without_the_newline() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(from_file(file.path()).unwrap_err().contains("is empty"));
        std::fs::write(file.path(), "s3cret\n").unwrap();
        assert_eq!(from_file(file.path()).unwrap(), "s3cret");
    }
}
