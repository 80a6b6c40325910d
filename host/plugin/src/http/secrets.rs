//! Secrets: put into requests on the way out, and taken out of whatever comes back.
//!
//! A guest writes `{{secret:NAME}}` into a header; the value replaces it for the places that the
//! secret is granted to. The value is in no error, log or guest. Bodies are left alone: they hold
//! rows, and a row could name a secret.

use url::Url;

use super::policy::{Grants, MIN_SECRET, PolicyError};

const OPEN: &str = "{{secret:";
const CLOSE: &str = "}}";

/// A named secret and where it may go. `Debug` shows the name only.
#[derive(Clone)]
pub struct Secret {
    name: String,
    value: String,
    /// `None`: wherever the sink may go.
    grants: Option<Grants>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Secret {
    /// A secret for the places in `hosts`, which are written like `grants.http`; without it, for
    /// every place that the sink may reach.
    ///
    /// # Errors
    /// [`PolicyError`] naming an entry of `hosts`, or a value that is too short to be masked.
    pub fn new(
        name: String,
        value: String,
        hosts: Option<Vec<String>>,
    ) -> Result<Self, PolicyError> {
        if value.len() < MIN_SECRET {
            return Err(PolicyError::ShortSecret(name));
        }
        let field = format!("secrets.{name}.hosts");
        Ok(Self {
            grants: hosts.map(|h| Grants::parse(&field, &h)).transpose()?,
            name,
            value,
        })
    }
}

/// The secrets of a sink.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(pub(crate) Vec<Secret>);

impl Secrets {
    /// Replaces placeholders by values, in text or in other bytes; `None` when there are none.
    /// The error says what to add.
    pub(crate) fn fill(&self, bytes: &[u8], url: &Url) -> Result<Option<Vec<u8>>, String> {
        let mut out = Vec::new();
        let mut rest = bytes;
        while let Some(at) = find(rest, OPEN) {
            let behind = &rest[at + OPEN.len()..];
            let Some(end) = find(behind, CLOSE) else {
                break;
            };
            let name = String::from_utf8_lossy(&behind[..end]);
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(self.value(&name, url)?.as_bytes());
            rest = &behind[end + CLOSE.len()..];
        }
        if rest.len() == bytes.len() {
            return Ok(None);
        }
        out.extend_from_slice(rest);
        Ok(Some(out))
    }

    fn value(&self, name: &str, url: &Url) -> Result<&str, String> {
        let shown: String = name.chars().take(64).filter(|c| !c.is_control()).collect();
        let Some(secret) = self.0.iter().find(|s| s.name == name) else {
            return Err(format!(
                "the secret {shown:?} is not granted to this sink; to grant it, add to the \
                 configuration: [secrets.{shown}] env = \"...\""
            ));
        };
        match &secret.grants {
            Some(grants) if !grants.cover(url) => Err(format!(
                "the secret {shown:?} may not go to {origin}; to allow it, add to the \
                 configuration: [secrets.{shown}] hosts = [\"{origin}\"]",
                origin = url.origin().ascii_serialization()
            )),
            _ => Ok(&secret.value),
        }
    }

    /// Puts placeholders where values stand.
    pub(crate) fn mask(&self, text: String) -> String {
        match self.masked(text.as_bytes()) {
            Some(masked) => String::from_utf8_lossy(&masked).into_owned(),
            None => text,
        }
    }

    /// The same for bytes that need not be text; all others stay as they are.
    pub(crate) fn mask_bytes(&self, body: Vec<u8>) -> Vec<u8> {
        self.masked(&body).unwrap_or(body)
    }

    /// `None` when no value is in it. One pass, so that a placeholder is not searched again, and
    /// the longest value first, so that no rest of it is left when another one begins it.
    fn masked(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let (mut copied, mut at) = (0, 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let found = self
                .0
                .iter()
                .filter(|s| !s.value.is_empty() && rest.starts_with(s.value.as_bytes()))
                .max_by_key(|s| s.value.len());
            let Some(secret) = found else {
                at += 1;
                continue;
            };
            out.extend_from_slice(&bytes[copied..at]);
            out.extend_from_slice(format!("{OPEN}{}{CLOSE}", secret.name).as_bytes());
            at += secret.value.len();
            copied = at;
        }
        if copied == 0 {
            return None;
        }
        out.extend_from_slice(&bytes[copied..]);
        Some(out)
    }
}

fn find(bytes: &[u8], text: &str) -> Option<usize> {
    bytes
        .windows(text.len())
        .position(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let hosts = Some(vec!["https://only.example".to_string()]);
        Secrets(vec![
            Secret::new("anywhere".into(), "canary-1".into(), None).unwrap(),
            Secret::new("somewhere".into(), "canary-2".into(), hosts).unwrap(),
        ])
    }

    fn fill(text: &str, url: &str) -> Result<String, String> {
        let filled = secrets().fill(text.as_bytes(), &Url::parse(url).unwrap())?;
        Ok(filled.map_or(text.into(), |bytes| String::from_utf8(bytes).unwrap()))
    }

    #[test]
    fn bytes_that_are_no_text_are_filled_and_masked_and_otherwise_kept() {
        let url = Url::parse("https://x.example").unwrap();
        let filled = secrets().fill(b"\xff{{secret:anywhere}}\xfe", &url);
        assert_eq!(filled.unwrap().unwrap(), b"\xffcanary-1\xfe");
        assert_eq!(secrets().fill(b"\xff{{secret", &url).unwrap(), None);
        assert_eq!(
            secrets().mask_bytes(b"\xffcanary-1\xfe".to_vec()),
            b"\xff{{secret:anywhere}}\xfe"
        );
    }

    #[test]
    fn a_secret_that_begins_another_or_is_a_word_of_a_placeholder_leaves_no_rest() {
        // Shorter than `new` allows: masking must not depend on that.
        let secret = |name: &str, value: &str| Secret {
            name: name.into(),
            value: value.into(),
            grants: None,
        };
        let secrets = Secrets(vec![
            secret("short", "abc"),
            secret("long", "abcdef"),
            secret("word", "secret"),
            secret("empty", ""),
        ]);
        assert_eq!(
            secrets.mask("abcdef abc secret".into()),
            "{{secret:long}} {{secret:short}} {{secret:word}}"
        );
    }

    #[test]
    fn placeholders_become_values_where_they_are_granted() {
        assert_eq!(
            fill("Bearer {{secret:anywhere}}!", "https://x.example").unwrap(),
            "Bearer canary-1!"
        );
        assert_eq!(
            fill("{{secret:somewhere}}", "https://only.example/p").unwrap(),
            "canary-2"
        );
        assert_eq!(
            fill("{{secret:open", "https://x.example").unwrap(),
            "{{secret:open"
        );
    }

    #[test]
    fn a_secret_that_answers_hold_by_chance_is_refused_without_showing_it() {
        let refused = Secret::new("key".into(), "OK".into(), None).unwrap_err();
        assert_eq!(refused, PolicyError::ShortSecret("key".into()));
        assert!(!refused.to_string().contains("OK"));
        assert!(Secret::new("key".into(), "8-bytes!".into(), None).is_ok());
    }

    #[test]
    fn a_refusal_names_the_secret_and_the_line_to_add_but_no_value() {
        let other = fill("{{secret:somewhere}}", "https://x.example").unwrap_err();
        assert!(other.contains("[secrets.somewhere] hosts = [\"https://x.example\"]"));
        let unknown = fill("{{secret:nothing}}", "https://x.example").unwrap_err();
        assert!(unknown.contains("[secrets.nothing]"));
        assert!(!format!("{other}{unknown}{:?}", secrets()).contains("canary"));
    }

    #[test]
    fn values_that_come_back_are_masked() {
        assert_eq!(
            secrets().mask("echo canary-2".into()),
            "echo {{secret:somewhere}}"
        );
        assert_eq!(
            secrets().mask_bytes(b"\xffnothing".to_vec()),
            b"\xffnothing"
        );
    }
}
