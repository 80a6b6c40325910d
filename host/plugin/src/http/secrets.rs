//! Secrets: put into requests on the way out, and taken out of whatever comes back.
//!
//! A guest writes `{{secret:NAME}}` into a header, or into a body of at most
//! [`MAX_SEARCHED_BODY`]; the value replaces it for the places that the secret is granted to. The
//! value is in no error, log or guest.

use url::Url;

use super::policy::{Grants, PolicyError};

/// Larger request bodies are not searched for placeholders, in bytes.
pub(crate) const MAX_SEARCHED_BODY: usize = 64 << 10;

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
    /// [`PolicyError`] naming an entry of `hosts`.
    pub fn new(
        name: String,
        value: String,
        hosts: Option<Vec<String>>,
    ) -> Result<Self, PolicyError> {
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
    /// Replaces placeholders by values; the error says what to add.
    pub(crate) fn fill(&self, text: &str, url: &Url) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(OPEN) {
            let behind = &rest[at + OPEN.len()..];
            let Some(end) = behind.find(CLOSE) else { break };
            let name = &behind[..end];
            out.push_str(&rest[..at]);
            out.push_str(self.value(name, url)?);
            rest = &behind[end + CLOSE.len()..];
        }
        out.push_str(rest);
        Ok(out)
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
        self.0
            .iter()
            .filter(|secret| !secret.value.is_empty())
            .fold(text, |text, secret| {
                if text.contains(&secret.value) {
                    text.replace(&secret.value, &format!("{OPEN}{}{CLOSE}", secret.name))
                } else {
                    text
                }
            })
    }

    /// The same for bytes that need not be text.
    pub(crate) fn mask_bytes(&self, body: Vec<u8>) -> Vec<u8> {
        let holds = |secret: &Secret| {
            let value = secret.value.as_bytes();
            !value.is_empty() && body.windows(value.len()).any(|w| w == value)
        };
        if self.0.iter().any(holds) {
            self.mask(String::from_utf8_lossy(&body).into_owned())
                .into_bytes()
        } else {
            body
        }
    }
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
        secrets().fill(text, &Url::parse(url).unwrap())
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
            secrets().mask_bytes(b"\xffcanary-1".to_vec()),
            "\u{fffd}{{secret:anywhere}}".as_bytes()
        );
        assert_eq!(
            secrets().mask_bytes(b"\xffnothing".to_vec()),
            b"\xffnothing"
        );
    }
}
