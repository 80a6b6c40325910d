//! Which rows of a batch the guest has refused.

use std::collections::BTreeMap;

/// Positions of rows: words of 64 bits by their place, made when a row of theirs is refused. It
/// takes nothing until then, and less than a byte per row when every row is refused.
#[derive(Default)]
pub(super) struct Refused {
    words: BTreeMap<u64, u64>,
}

impl Refused {
    pub(super) fn contains(&self, row: u64) -> bool {
        let (place, bit) = split(row);
        self.words.get(&place).is_some_and(|word| word & bit != 0)
    }

    pub(super) fn insert(&mut self, row: u64) {
        let (place, bit) = split(row);
        *self.words.entry(place).or_default() |= bit;
    }
}

fn split(row: u64) -> (u64, u64) {
    (row / 64, 1 << (row % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_refused_once_it_was_and_its_neighbours_are_not() {
        let mut refused = Refused::default();
        let rows = [0, 63, 64, u64::MAX];
        for (i, row) in rows.into_iter().enumerate() {
            assert!(!refused.contains(row));
            refused.insert(row);
            assert!(rows[..=i].iter().all(|&row| refused.contains(row)));
        }
        assert!(
            [1, 62, 65, 127, 128, u64::MAX - 1]
                .iter()
                .all(|&row| !refused.contains(row))
        );
    }

    #[test]
    fn refusing_every_row_keeps_a_word_for_64_of_them() {
        let mut refused = Refused::default();
        (0..6400).chain(0..6400).for_each(|row| refused.insert(row));
        assert_eq!(refused.words.len(), 100);
    }
}
