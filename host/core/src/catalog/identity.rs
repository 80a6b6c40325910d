//! Whether an object is still the one that the target's contents came from.

use super::{CatalogError, Object};
use crate::checkpoint::ViewIdentity;
use crate::planted::{self, Planted};
use crate::types::{Envelope, View};

/// What an operator allows to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdentityPolicy {
    /// Another object of the same name and columns is followed, with a new snapshot.
    pub refollow: bool,
    /// Added columns are left out instead of refused.
    pub ignore_new_columns: bool,
}

/// What has changed, within what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A replacement was applied: another catalog id on the same storage, which resumes.
    Replaced {
        /// Catalog id then.
        from: String,
        /// Catalog id now.
        to: String,
    },
    /// Another object has the name: its contents have to be read anew.
    Refollowed {
        /// Catalog id then.
        from: String,
        /// Catalog id now.
        to: String,
    },
    /// Columns were added that the target does not have.
    NewColumns {
        /// Their names.
        names: Vec<String>,
    },
}

/// An object as the sink goes on seeing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciled {
    /// What the sink sees.
    pub view: View,
    /// What the next checkpoints say of it.
    pub identity: ViewIdentity,
    /// What has changed.
    pub changes: Vec<Change>,
}

impl Reconciled {
    /// Whether the target's contents have to be read anew.
    pub fn needs_snapshot(&self) -> bool {
        let refollowed = |change: &Change| matches!(change, Change::Refollowed { .. });
        self.changes.iter().any(refollowed)
    }
}

impl Object {
    /// Compares the object with what the target's contents came from.
    ///
    /// # Errors
    /// When the contents do not belong to what is there now, and the policy has no answer.
    pub fn reconcile(
        &self,
        then: &ViewIdentity,
        mut view: View,
        envelope: Envelope,
        policy: IdentityPolicy,
    ) -> Result<Reconciled, CatalogError> {
        let mut identity = self.identity(&view, envelope);
        let mut changes = Vec::new();
        if planted::is(Planted::IdentityIgnored) {
            return Ok(Reconciled {
                view,
                identity,
                changes,
            });
        }
        if policy.ignore_new_columns && then.columns != identity.columns {
            let is_known = |name: &str| then.columns.iter().any(|(known, _)| known == name);
            let names: Vec<String> = view
                .columns
                .iter()
                .map(|c| c.name.clone())
                .filter(|name| !is_known(name))
                .collect();
            let key: Vec<_> = view
                .key
                .iter()
                .map(|i| view.columns[*i].name.clone())
                .collect();
            view.columns.retain(|c| is_known(&c.name));
            identity.columns.retain(|(name, _)| is_known(name));
            view.key = key
                .iter()
                .filter_map(|name| view.columns.iter().position(|c| c.name == *name))
                .collect();
            if !names.is_empty() {
                changes.push(Change::NewColumns { names });
            }
        }
        let from = then.id.clone();
        let to = identity.id.clone();
        match check_identity(then, &identity) {
            Err(CatalogError::Replaced { .. }) if policy.refollow => {
                changes.push(Change::Refollowed { from, to });
            }
            Err(error) => return Err(error),
            Ok(()) if from != to => changes.push(Change::Replaced { from, to }),
            Ok(()) => {}
        }
        Ok(Reconciled {
            view,
            identity,
            changes,
        })
    }
}

/// Compares what is there now with what the checkpoint was written for. An equal shard under
/// another id is a replacement that was applied, and resumes.
///
/// # Errors
/// When the target's contents do not belong to what is there now.
pub fn check_identity(then: &ViewIdentity, now: &ViewIdentity) -> Result<(), CatalogError> {
    let changed = |setting, now: String, then: String| {
        Err(CatalogError::ConfigurationChanged { setting, now, then })
    };
    if then.name != now.name {
        return changed("source.name", now.name.clone(), then.name.clone());
    }
    if then.object != now.object {
        return changed("source.object", now.object.clone(), then.object.clone());
    }
    if then.envelope != now.envelope {
        return changed(
            "source.envelope",
            format!("{:?}", now.envelope).to_lowercase(),
            format!("{:?}", then.envelope).to_lowercase(),
        );
    }
    if then.key != now.key {
        return changed(
            "source.key",
            format!("{:?}", now.key),
            format!("{:?}", then.key),
        );
    }
    if then.columns != now.columns {
        let show = |only: &[(String, String)], not: &[(String, String)]| {
            let list: Vec<_> = only
                .iter()
                .filter(|c| !not.contains(c))
                .map(|(name, ty)| format!("{name} {ty}"))
                .collect();
            if list.is_empty() {
                "nothing".to_string()
            } else {
                list.join(", ")
            }
        };
        let (gone, new) = (
            show(&then.columns, &now.columns),
            show(&now.columns, &then.columns),
        );
        return Err(CatalogError::SchemaMismatch {
            object: now.object.clone(),
            difference: if gone == new {
                "their order".into()
            } else {
                format!("{gone} before, {new} now")
            },
        });
    }
    if then.shard != now.shard {
        let show = |shard: &Option<String>| shard.clone().unwrap_or_else(|| "none".into());
        return Err(CatalogError::Replaced {
            object: now.object.clone(),
            from: show(&then.shard),
            to: show(&now.shard),
        });
    }
    Ok(())
}
