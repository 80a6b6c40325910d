//! What the objects are, and whether the target's contents and its checkpoint are of them. All of
//! it is decided before an epoch is taken: a worker that cannot go on must not stop another.

use super::command::{Command, Notice, Outcome};
use super::{Session, SessionError, ViewConfig};
use crate::catalog::{CatalogError, Object, Reconciled};
use crate::checkpoint::{Checkpoint, ViewIdentity};
use crate::types::{Frontier, View};

impl Session {
    /// The objects were looked up: at first the sink is opened for them, later they must be the
    /// same.
    pub(super) fn identify(&mut self) -> Result<(), CatalogError> {
        let then = self.writer.identities().to_vec();
        let now = if then.is_empty() {
            self.first_sight()?
        } else {
            self.reconcile(&then)?
        };
        self.writer.identify(now);
        Ok(())
    }

    /// The views as the catalog and the configuration have them.
    fn first_sight(&self) -> Result<Vec<Reconciled>, CatalogError> {
        let mut seen: Vec<Reconciled> = Vec::new();
        for (object, config) in self.reader.objects().iter().zip(&self.config.views) {
            let view = self.view(object, config)?;
            if seen.iter().any(|other| other.view.name == view.name) {
                return Err(CatalogError::SameName(view.name));
            }
            seen.push(Reconciled {
                identity: object.identity(&view, self.config.envelope),
                view,
                changes: Vec::new(),
            });
        }
        Ok(seen)
    }

    fn view(&self, object: &Object, config: &ViewConfig) -> Result<View, CatalogError> {
        let name = config.name.as_ref().unwrap_or(&object.full_name[2]);
        object.view(name, &config.key, self.config.envelope)
    }

    /// The views as they go on, compared with what the target's contents came from.
    fn reconcile(&mut self, then: &[ViewIdentity]) -> Result<Vec<Reconciled>, CatalogError> {
        let objects = self.reader.objects();
        let seen = self.first_sight()?;
        let names = |all: &mut dyn Iterator<Item = &str>| all.collect::<Vec<_>>().join(", ");
        if then.len() != seen.len() {
            return Err(CatalogError::OtherViews {
                then: names(&mut then.iter().map(|i| i.name.as_str())),
                now: names(&mut seen.iter().map(|s| s.view.name.as_str())),
            });
        }
        let mut now = Vec::new();
        for (index, (object, seen)) in objects.iter().zip(seen).enumerate() {
            let same_name = then.iter().find(|then| then.name == seen.view.name);
            // With one view, another name is told as what it is.
            let then = same_name.unwrap_or(&then[index]);
            let envelope = self.config.envelope;
            let reconciled = object.reconcile(then, seen.view, envelope, self.config.identity)?;
            if reconciled.needs_snapshot() {
                self.reader.expire([index]);
                self.writer.keep_identity(index, then.clone());
            }
            for change in &reconciled.changes {
                let told = (index, change.clone());
                if !self.told.contains(&told) {
                    self.told.push(told);
                    let object = object.name();
                    let change = change.clone();
                    let notice = Notice::ObjectChanged { object, change };
                    self.commands.push_back(Command::Tell(notice));
                }
            }
            now.push(reconciled);
        }
        Ok(now)
    }

    /// The sink is open: takes over what the target holds, and claims the next epoch.
    pub(super) fn adopt(&mut self, found: Option<Checkpoint>) -> Result<(), SessionError> {
        self.reader.forget_expired();
        if let Some(found) = &found {
            let now = self.reconcile(&found.views)?;
            if found.component != self.config.component_digest {
                self.commands
                    .push_back(Command::Tell(Notice::ComponentChanged {
                        from: found.component.clone(),
                        to: self.config.component_digest.clone(),
                    }));
            }
            if self.writer.identify(now) {
                // The sink was opened for columns that it is not to have.
                self.writer.open(&mut self.commands);
                return Ok(());
            }
        }
        match found.as_ref().and_then(|found| found.frontier) {
            None => self.reader.check_not_over(self.config.up_to)?,
            Some(frontier) => {
                if !self.has_reached(frontier)? {
                    self.writer.forget_opened();
                    return Ok(());
                }
                if frontier >= self.config.end() && self.reader.expired().is_empty() {
                    self.writer.nothing_left(frontier);
                    self.end(Outcome::Finished);
                    return Ok(());
                }
            }
        }
        self.writer.claim(found, &self.config, &mut self.commands)
    }

    /// Whether the objects have got to a frontier that was committed. While this worker waited,
    /// another one may have gone on: what the catalog said is looked up again before it counts.
    pub(super) fn has_reached(&mut self, from: Frontier) -> Result<bool, CatalogError> {
        match self.reader.check_not_ahead(from) {
            Ok(()) => {
                self.is_ahead = false;
                Ok(true)
            }
            Err(_) if !std::mem::replace(&mut self.is_ahead, true) => {
                self.reader.look_up_again(&mut self.commands);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
