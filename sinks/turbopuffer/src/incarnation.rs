//! Names of namespaces. Each snapshot gets namespaces of its own, so that no row of an earlier
//! one, and no late write of a paused worker, can be visible after it.

use mz_sink_guest::{Error, Info, View};

use crate::checkpoint;
use crate::config::{Config, invalid};

/// Longest name of a namespace, in bytes.
const MAX_NAME_LEN: usize = 128;

/// Longest base of a name, in bytes. The rest is for owner, generation, epoch and attempt, at most 69.
const MAX_BASE_LEN: usize = 59;

/// Digits of the owner's digest in a name.
const OWNER_DIGITS: usize = 10;

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

/// Whether turbopuffer can have a namespace of this name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_LEN).contains(&name.len()) && name.bytes().all(allowed)
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

/// Whose namespaces they are: the sink id, and where its document is. Another sink with the same
/// `namespace` has names of its own, which this one's housekeeping leaves alone.
pub(crate) fn owner(control_namespace: &str, sink_id: &str) -> String {
    let digest = checkpoint::digest(&format!("{control_namespace}\0{sink_id}"));
    digest[..OWNER_DIGITS].to_owned()
}

/// What the names of a view's incarnations begin with.
pub(crate) fn prefix(base: &str, owner: &str) -> String {
    format!("{base}-{owner}-g")
}

/// The name of a new incarnation. `attempt` is the digest of the checkpoint to be written, which
/// is unique for each attempt: a request of an earlier attempt that arrives late meets a
/// namespace that nobody reads. This is what makes it safe to load without conditions.
pub(crate) fn name(prefix: &str, info: &Info, attempt: &str) -> String {
    let attempt = attempt.get(..ATTEMPT_DIGITS).unwrap_or(attempt);
    format!("{prefix}{}-e{}-{attempt}", info.generation, info.epoch)
}

/// The epoch of the worker that made an incarnation; none for any other name.
pub(crate) fn epoch_of(name: &str, prefix: &str) -> Option<u64> {
    let (generation, rest) = name.strip_prefix(prefix)?.split_once("-e")?;
    let (epoch, attempt) = rest.split_once('-')?;
    let is_ours = generation.parse::<u64>().is_ok()
        && attempt.len() == ATTEMPT_DIGITS
        && attempt.bytes().all(|byte| byte.is_ascii_hexdigit());
    epoch.parse().ok().filter(|_| is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_epoch_and_only_whole_names_do() {
        let info = Info {
            generation: 3,
            epoch: 7,
            ..Info::default()
        };
        let prefix = prefix("docs", &owner("docs-control", "sink-1"));
        let name = name(&prefix, &info, &checkpoint::digest("next"));
        assert_eq!(epoch_of(&name, &prefix), Some(7));
        for other in [
            &name[..name.len() - 1],
            &format!("{name}0"),
            &format!("{name}-copy"),
            &name.replace("-e7", "-e"),
            &name.replace("-g3", "-g"),
            "docs",
            "",
        ] {
            assert_eq!(epoch_of(other, &prefix), None, "{other}");
        }
        let longest = Info {
            generation: u64::MAX,
            epoch: u64::MAX,
            ..Info::default()
        };
        let prefix = super::prefix(&"b".repeat(MAX_BASE_LEN), &owner("c", "s"));
        assert!(super::name(&prefix, &longest, &checkpoint::digest("")).len() <= MAX_NAME_LEN);
    }
}
