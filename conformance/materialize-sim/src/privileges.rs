//! Who may read what, once RBAC checks are switched on.

use std::collections::BTreeSet;

use crate::error::SqlError;

/// What a privilege is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// SELECT on a table or view, by its full name.
    Relation(String),
    /// USAGE of a cluster.
    Cluster(String),
    /// USAGE of a schema, `database.schema`.
    Schema(String),
}

/// Grants, and what was taken from everybody.
#[derive(Default)]
pub(crate) struct Privileges {
    /// `enable_rbac_checks`, for sessions from then on and before.
    pub(crate) checked: bool,
    granted: BTreeSet<(Target, String)>,
    /// Everybody may use clusters and schemas until that is revoked.
    revoked_from_public: BTreeSet<Target>,
}

/// A grantee that stands for every role.
const PUBLIC: &str = "public";

/// Roles that own everything.
const OWNERS: [&str; 2] = ["materialize", "mz_system"];

impl Privileges {
    pub(crate) fn grant(&mut self, target: Target, role: &str) {
        if role.eq_ignore_ascii_case(PUBLIC) {
            self.revoked_from_public.remove(&target);
        }
        self.granted.insert((target, role.to_owned()));
    }

    pub(crate) fn revoke(&mut self, target: Target, role: &str) {
        self.granted.remove(&(target.clone(), role.to_owned()));
        if role.eq_ignore_ascii_case(PUBLIC) {
            self.revoked_from_public.insert(target);
        }
    }

    /// # Errors
    /// 42501 if `role` lacks the privilege.
    pub(crate) fn check(&self, role: &str, target: Target) -> Result<(), SqlError> {
        let granted = |to: &str| self.granted.contains(&(target.clone(), to.to_owned()));
        let usable =
            !matches!(target, Target::Relation(_)) && !self.revoked_from_public.contains(&target);
        if !self.checked || OWNERS.contains(&role) || usable || granted(role) || granted(PUBLIC) {
            return Ok(());
        }
        let (privilege, what) = match &target {
            Target::Relation(name) => ("SELECT", format!("TABLE \"{name}\"")),
            Target::Cluster(name) => ("USAGE", format!("CLUSTER \"{name}\"")),
            Target::Schema(name) => ("USAGE", format!("SCHEMA \"{name}\"")),
        };
        let text = format!("permission denied for {what}");
        let detail = format!("The '{role}' role needs {privilege} privileges on {what}");
        Err(SqlError::new("42501", text).detail(detail))
    }
}
