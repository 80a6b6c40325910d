//! Where a sink may send requests: parsed once, exact, and nothing by default.
//!
//! | entry | grants |
//! | --- | --- |
//! | `https://api.example.com` | that scheme, host and port 443, every path |
//! | `https://api.example.com:8443` | port 8443 instead |
//! | `https://api.example.com/v2/` | paths that begin with `/v2/`, and `/v2` itself |
//! | `http://127.0.0.1:8080` | that address, although it is not a public one |
//! | `http://localhost:8080` | that name, and the loopback addresses it stands for |
//!
//! Under an entry with a path, a URL that would leave it once `%2f`, `%5c` and `%2e` are decoded
//! is not granted. There are no wildcards, and an entry has no user, query or fragment. An empty
//! list grants nothing. A *name* that resolves to an address that is not public is refused when
//! it is dialled, unless a range given beside the list holds the address: see the address rules.

use std::net::IpAddr;

use ipnet::IpNet;
use url::{Host, Url};

/// An entry that grants nothing that could be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Not of a form in the table.
    #[error(
        "{field}: {entry:?} {reason}; write it as \"https://host\", with a port or a path where needed"
    )]
    Entry {
        /// Where in the configuration.
        field: String,
        /// The entry.
        entry: String,
        /// What is wrong.
        reason: String,
    },
    /// Not an address range.
    #[error("grants.http_private: {0:?} is not an address range such as \"10.0.0.0/8\"")]
    Range(String),
    /// A secret so short that it stands in answers by chance.
    #[error(
        "secrets.{0}: the value has fewer than {MIN_SECRET} bytes; it is masked wherever it comes back, and a short one would damage answers that hold it by chance"
    )]
    ShortSecret(String),
}

/// The shortest secret, in bytes.
pub(crate) const MIN_SECRET: usize = 8;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    text: String,
    scheme: String,
    host: Host<String>,
    port: u16,
    /// `/` grants every path.
    path: String,
}

impl Grant {
    fn parse(field: &str, text: &str) -> Result<Self, PolicyError> {
        let bad = |reason: &str| PolicyError::Entry {
            field: field.into(),
            // A user or a query could hold something secret.
            entry: if text.contains(['@', '?']) {
                "...".into()
            } else {
                text.into()
            },
            reason: reason.into(),
        };
        let url = Url::parse(text).map_err(|_| bad("is not a URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad("does not begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("has a user in it"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("has a query or a fragment"));
        }
        let host = url.host().ok_or_else(|| bad("has no host"))?.to_owned();
        if text.contains('*') {
            return Err(bad("has a wildcard"));
        }
        Ok(Self {
            text: text.into(),
            scheme: url.scheme().into(),
            port: url.port_or_known_default().unwrap_or(0),
            path: url.path().trim_end_matches('/').into(),
            host,
        })
    }

    fn covers(&self, url: &Url) -> bool {
        let path_fits = match url.path().strip_prefix(&self.path) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        };
        path_fits
            && (self.path.is_empty() || !climbs(url.path()))
            && url.scheme() == self.scheme
            && url.port_or_known_default() == Some(self.port)
            && url.host().map(|h| h.to_owned()).as_ref() == Some(&self.host)
    }
}

/// Whether a server that decodes before it resolves `..` would leave the path it is in. `Url` has
/// resolved the plain ones already.
fn climbs(path: &str) -> bool {
    let decoded = path
        .to_ascii_lowercase()
        .replace("%2f", "/")
        .replace("%5c", "/")
        .replace("%2e", ".");
    decoded.split('/').any(|segment| segment == "..")
}

/// Entries without the addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants(Vec<Grant>);

impl Grants {
    pub(crate) fn parse(field: &str, entries: &[String]) -> Result<Self, PolicyError> {
        entries
            .iter()
            .map(|text| Grant::parse(field, text))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn cover(&self, url: &Url) -> bool {
        self.0.iter().any(|grant| grant.covers(url))
    }
}

/// Where a sink may send requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpPolicy {
    grants: Grants,
    private: Vec<IpNet>,
}

impl HttpPolicy {
    /// Parses `grants.http` and `grants.http_private` of the configuration.
    ///
    /// # Errors
    /// [`PolicyError`] naming the entry.
    pub fn parse(http: &[String], private: &[String]) -> Result<Self, PolicyError> {
        let range = |text: &String| {
            let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
            text.parse()
                .ok()
                .or_else(address)
                .ok_or_else(|| PolicyError::Range(text.clone()))
        };
        Ok(Self {
            grants: Grants::parse("grants.http", http)?,
            private: private.iter().map(range).collect::<Result<_, _>>()?,
        })
    }

    /// What is said about a URL that is not granted, with the line to add; `None` when it is.
    pub(crate) fn denial(&self, url: &Url) -> Option<String> {
        if self.grants.cover(url) {
            return None;
        }
        let origin = url.origin().ascii_serialization();
        let granted = match self.grants.0.as_slice() {
            [] => "nothing is".to_string(),
            some => format!(
                "granted are {}",
                some.iter()
                    .map(|g| g.text.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        };
        Some(format!(
            "HTTP to {origin} is not granted to this sink ({granted}); to grant it, add it to the \
             configuration: [grants] http = [\"{origin}\"]"
        ))
    }

    /// Ranges that are granted although they are not public.
    pub(crate) fn private(&self) -> &[IpNet] {
        &self.private
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(entries: &[&str]) -> HttpPolicy {
        let entries: Vec<_> = entries.iter().map(|e| (*e).to_string()).collect();
        HttpPolicy::parse(&entries, &[]).unwrap()
    }

    fn grants(entry: &str, url: &str) -> bool {
        policy(&[entry]).denial(&Url::parse(url).unwrap()).is_none()
    }

    #[test]
    fn an_entry_grants_exactly_its_scheme_host_port_and_path() {
        let entry = "https://api.example.com/v2/";
        for url in [
            "https://api.example.com/v2/x",
            "https://api.example.com:443/v2",
            "https://API.example.com/v2/x?y=/v3",
            "https://api.example.com/v2/a%2Fb..c",
        ] {
            assert!(grants(entry, url), "{url}");
        }
        for url in [
            "http://api.example.com/v2/x",
            "https://api.example.com:8443/v2/x",
            "https://api.example.com/v22",
            "https://api.example.com/v2/../v3",
            "https://api.example.com/v2/%2e%2e/v3",
            "https://api.example.com/v2/..%2Fv3",
            "https://api.example.com/v2/x%2f%2e.%5cv3",
            "https://evil.api.example.com/v2/x",
            "https://api.example.com.evil.com/v2/x",
            "https://api.example.com./v2/x",
        ] {
            assert!(!grants(entry, url), "{url}");
        }
    }

    #[test]
    fn numbers_in_disguise_are_the_address_they_stand_for() {
        assert!(!grants("https://api.example.com", "https://0x7f.1/"));
        assert!(grants("http://127.0.0.1:80", "http://2130706433/"));
        assert!(!grants("http://127.0.0.1", "http://[::ffff:127.0.0.1]/"));
    }

    #[test]
    fn an_empty_list_grants_nothing_and_says_what_to_add() {
        let denial = policy(&[])
            .denial(&Url::parse("https://x.example/v1").unwrap())
            .unwrap();
        assert_eq!(
            denial,
            "HTTP to https://x.example is not granted to this sink (nothing is); to grant it, \
             add it to the configuration: [grants] http = [\"https://x.example\"]"
        );
    }

    #[test]
    fn entries_of_other_forms_are_refused() {
        for entry in [
            "",
            "api.example.com",
            "ftp://x",
            "https://",
            "https://u:p@x",
            "https://x?y",
            "https://x#y",
            "https://*.example.com",
            "https://x/*",
        ] {
            let refused = HttpPolicy::parse(&[entry.to_string()], &[]);
            assert!(refused.is_err(), "{entry}");
            assert!(!refused.unwrap_err().to_string().contains("u:p"));
        }
        assert!(HttpPolicy::parse(&[], &["10.0.0.0/99".into()]).is_err());
        assert!(HttpPolicy::parse(&[], &["10.0.0.0/8".into(), "::1".into()]).is_ok());
    }
}
