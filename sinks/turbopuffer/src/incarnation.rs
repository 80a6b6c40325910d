//! Names of namespaces. Each snapshot gets namespaces of its own, so that no row of an earlier
//! one, and no late write of a paused worker, can be visible after it.

use mz_sink_guest::{Error, Info, View};

use crate::config::{Config, invalid};

/// turbopuffer allows 128 bytes. The rest is for generation, epoch and attempt, at most 56.
const MAX_BASE_LEN: usize = 72;

/// Digits of the attempt's digest in a name.
const ATTEMPT_DIGITS: usize = 12;

/// Checks the part of a name that the configuration gives.
pub(crate) fn check_base(field: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > MAX_BASE_LEN || !name.bytes().all(allowed) {
        return Err(invalid(format!(
            "`{field}` must have 1 to {MAX_BASE_LEN} letters, digits, `-`, `_` or `.`"
        )));
    }
    Ok(())
}

fn allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

/// The names of one view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Naming {
    /// What the names of its namespaces begin with.
    pub(crate) base: String,
    /// The attribute of the control document that tells its active namespace.
    pub(crate) attribute: String,
}

/// The names of each view. With several views, the view's name is part of both.
pub(crate) fn namings(config: &Config, views: &[View]) -> Result<Vec<Naming>, Error> {
    if views.len() == 1 {
        return Ok(vec![Naming {
            base: config.namespace.clone(),
            attribute: "active".into(),
        }]);
    }
    let mut namings: Vec<Naming> = Vec::with_capacity(views.len());
    for view in views {
        let name = view
            .name
            .replace(|c| !u8::try_from(c).is_ok_and(allowed), "-");
        let base = format!("{}-{name}", config.namespace);
        if base.len() > MAX_BASE_LEN {
            return Err(invalid(format!(
                "`namespace` with the name of view `{}` has more than {MAX_BASE_LEN} bytes: \
                 shorten one of them",
                view.name
            )));
        }
        if namings.iter().any(|other| other.base == base) {
            return Err(invalid(format!(
                "two views would share the namespace `{base}`: rename view `{}`",
                view.name
            )));
        }
        namings.push(Naming {
            base,
            attribute: format!("active-{name}"),
        });
    }
    Ok(namings)
}

/// The name of a new incarnation. `attempt` is the digest of the checkpoint to be written, which
/// is unique for each attempt: a request of an earlier attempt that arrives late meets a
/// namespace that nobody reads. This is what makes it safe to load without conditions.
pub(crate) fn name(base: &str, info: &Info, attempt: &str) -> String {
    let attempt = attempt.get(..ATTEMPT_DIGITS).unwrap_or(attempt);
    format!("{base}-g{}-e{}-{attempt}", info.generation, info.epoch)
}
