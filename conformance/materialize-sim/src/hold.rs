//! Read holds: what an open transaction has read stays readable at its timestamp.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::lock;
use crate::object::Object;

/// The times at which an object is held, and how often.
#[derive(Default)]
pub(crate) struct Holds(Mutex<BTreeMap<u64, usize>>);

impl Holds {
    /// The earliest held time.
    pub(crate) fn earliest(&self) -> Option<u64> {
        lock(&self.0).keys().next().copied()
    }
}

/// Keeps an object readable at a time until it is dropped.
pub(crate) struct Hold {
    object: Arc<Object>,
    time: u64,
}

impl Hold {
    pub(crate) fn new(object: Arc<Object>, time: u64) -> Self {
        *lock(&object.holds.0).entry(time).or_default() += 1;
        Self { object, time }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holds = lock(&self.object.holds.0);
        if let Some(count) = holds.get_mut(&self.time) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&self.time);
            }
        }
    }
}
