//! Changes of the catalog under running workers.

use super::{Layout, World, view_name};
use crate::dice::Dice;

impl World {
    /// Shards that an object called `name` has had.
    pub(crate) fn once_named(&self, name: &str) -> Vec<usize> {
        let named = self.named.iter().filter(|(known, _)| known == name);
        named.map(|(_, shard)| *shard).collect()
    }

    fn layout_of(name: &str) -> Option<Layout> {
        (0..3).find(|view| view_name(*view) == name).map(Layout)
    }

    /// Another object of the same shape takes the name; or, later, the old one takes it back.
    pub(crate) fn swap(&mut self, name: &str, dice: &mut Dice) -> Option<()> {
        let layout = self.object(name)?.layout;
        let spare = format!("{name}_spare");
        if self.object(&spare).is_none() {
            let history = self.object(name)?.history;
            self.create(&spare, layout, history);
            // Not so different that a row would tell at once.
            let mut rows = self.shards[self.object(name)?.shard].now.clone();
            rows.retain(|_, _| dice.chance(700));
            let shard = self.object(&spare)?.shard;
            for (row, count) in rows {
                self.shards[shard].change(self.clock, &row, count);
            }
        }
        for object in &mut self.objects {
            if object.name == name {
                object.name = spare.clone();
            } else if object.name == spare {
                object.name = name.into();
            }
        }
        let shard = self.object(name)?.shard;
        self.named.insert((name.into(), shard));
        Some(())
    }

    /// `APPLY REPLACEMENT`: a new id on the same shard, with a retention of its own.
    pub(crate) fn replace(&mut self, name: &str, history: Option<u64>) -> Option<u64> {
        let old = self.object(name)?.clone();
        self.objects.retain(|object| object.id != old.id);
        self.add_object(name, old.layout, old.shard, history);
        Some(self.object(name)?.id)
    }

    /// A new object with the name of a view.
    pub(crate) fn recreate(&mut self, name: &str, history: Option<u64>) {
        if let Some(layout) = Self::layout_of(name) {
            self.create(name, layout, history);
        }
    }
}
