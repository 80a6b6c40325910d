//! A string that needs no allocation when it is short.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

const INLINE: usize = 22;

/// UTF-8 text. Up to 22 bytes are stored in place.
#[derive(Clone)]
pub(crate) enum Text {
    Short { len: u8, bytes: [u8; INLINE] },
    Long(Box<str>),
}

impl Text {
    pub(crate) fn new(text: &str) -> Self {
        let source = text.as_bytes();
        if source.len() > INLINE {
            return Self::Long(text.into());
        }
        let mut bytes = [0; INLINE];
        bytes[..source.len()].copy_from_slice(source);
        Self::Short {
            len: source.len() as u8,
            bytes,
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long(text) => text.as_bytes(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            // Always valid: `new` copies a whole `str`.
            Self::Short { .. } => str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Self::Long(text) => text,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.as_bytes().len()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}
