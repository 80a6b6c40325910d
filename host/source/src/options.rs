//! Where to connect to, and how.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::Url;

use crate::tls::{self, Check, Roots};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_PORT: u16 = 5432;

/// A dead peer is noticed after about a minute of silence.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// Why a URL cannot be used. Never holds any part of it but a host or a file name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// No URL, or not one of PostgreSQL.
    #[error(
        "materialize.url is not a URL of the form postgres://user@host:6875/database?sslmode=verify-full (write / ? # @ and other special characters of a password or a name as %XX, or take the password from materialize.password_env)"
    )]
    Url,
    /// An option after `?` that is not known or has a value it cannot have.
    #[error(
        "{} in materialize.url is not known or has a value it cannot have; sslmode, sslrootcert, application_name, connect_timeout, options, keepalives and keepalives_idle are the usual ones",
        .name.as_ref().map_or("an option after the ?".into(), |name| format!("the option {name}"))
    )]
    Option {
        /// Its name, unless it could be a part of a password.
        name: Option<String>,
    },
    /// A bad `sslmode`.
    #[error(
        "sslmode in materialize.url must be disable, prefer, require, verify-ca or verify-full"
    )]
    SslMode,
    /// A check of the authority alone, with authorities that sign for everybody.
    #[error(
        "sslmode={0} in materialize.url needs sslrootcert to name a PEM file: the system's authorities sign certificates for any host; use sslmode=verify-full to check the host too"
    )]
    AnyHost(&'static str),
    /// `sslrootcert` is not usable.
    #[error(
        "cannot use {path}, which sslrootcert in materialize.url names: {reason}; it must be a PEM file with the certificate of the server's authority"
    )]
    Roots {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A check against the system's authorities, and there are none.
    #[error(
        "this system has no trusted certificates to check the server's with; install them (ca-certificates) or name a PEM file with sslrootcert in materialize.url"
    )]
    NoSystemRoots,
    /// TLS could not be set up.
    #[error("TLS cannot be set up: {0}; check sslmode and sslrootcert in materialize.url")]
    Tls(String),
}

/// Where to connect to, and how.
#[derive(Clone)]
pub struct ConnectOptions {
    config: Config,
    target: String,
    tls: MakeRustlsConnect,
}

/// Shows the target only: the rest may hold credentials.
impl std::fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl ConnectOptions {
    /// Reads a URL such as `postgres://user@host:6875/materialize?sslmode=verify-full`. A
    /// `password` given apart from it wins.
    ///
    /// `sslmode` means what it does in libpq: `disable`, `prefer` (encrypt if the server can),
    /// `require` (encrypt, trust anybody; with `sslrootcert` as `verify-ca`), `verify-ca` (an
    /// authority in `sslrootcert` signed the certificate), `verify-full` (and it is for this
    /// host). Without `sslmode` and `sslrootcert`, a server on this machine gets `prefer`; any
    /// other gets `verify-full`: a URL copied without its options must not send a password to
    /// whoever answers. `sslrootcert` names a PEM file of trusted authorities, which is read
    /// now; without it, or as `system`, they are the system's, for `verify-full` only.
    ///
    /// # Errors
    /// What is wrong with the URL or the certificates, without the URL.
    pub fn parse(url: &str, password: Option<String>) -> Result<Self, OptionsError> {
        let mut url = Url::parse(url).map_err(|_| OptionsError::Url)?;
        if !matches!(url.scheme(), "postgres" | "postgresql") || is_cut_short(&url) {
            return Err(OptionsError::Url);
        }
        let given = |name| {
            let mut pairs = url.query_pairs();
            pairs.find_map(|(k, v)| (k == name).then(|| v.into_owned()))
        };
        let (sslmode, sslrootcert) = (given("sslmode"), given("sslrootcert"));
        // Kept as written: the two libraries decode `+` differently.
        let rest: Vec<_> = url
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !matches!(pair.split('=').next(), Some("sslmode" | "sslrootcert")))
            .collect();
        let rest = rest.join("&");
        url.set_query((!rest.is_empty()).then_some(rest.as_str()));

        let mut config: Config = url.as_str().parse().map_err(|_| bad_option(&rest))?;
        if config.get_hosts().is_empty() {
            return Err(OptionsError::Url);
        }
        if let Some(password) = password {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("mz-wasm-sink");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let named = |name| url.query_pairs().any(|(k, _)| k == name);
        if !named("keepalives_idle") {
            config.keepalives_idle(KEEPALIVE_IDLE);
        }
        if !named("keepalives_interval") {
            config.keepalives_interval(KEEPALIVE_INTERVAL);
        }
        if !named("keepalives_retries") {
            config.keepalives_retries(KEEPALIVE_RETRIES);
        }
        let roots = match sslrootcert.as_deref() {
            None | Some("system") => Roots::System,
            Some(path) => Roots::File(PathBuf::from(path)),
        };
        let (mode, check) = match sslmode.as_deref() {
            Some("disable") => (SslMode::Disable, Check::Nothing),
            Some("prefer") => (SslMode::Prefer, Check::Nothing),
            Some("require") if sslrootcert.is_none() => (SslMode::Require, Check::Nothing),
            Some("require") if roots == Roots::System => {
                return Err(OptionsError::AnyHost("require"));
            }
            Some("verify-ca") if roots == Roots::System => {
                return Err(OptionsError::AnyHost("verify-ca"));
            }
            Some("require" | "verify-ca") => (SslMode::Require, Check::Chain),
            Some("verify-full") => (SslMode::Require, Check::ChainAndName),
            None if sslrootcert.is_none() && is_local(&config) => (SslMode::Prefer, Check::Nothing),
            None => (SslMode::Require, Check::ChainAndName),
            Some(_) => return Err(OptionsError::SslMode),
        };
        config.ssl_mode(mode);
        Ok(Self {
            target: target(&config),
            config,
            tls: MakeRustlsConnect::new(tls::client(check, &roots)?),
        })
    }

    /// Uses this password from the next connection on.
    pub fn set_password(&mut self, password: String) {
        self.config.password(password);
    }

    /// Host and port, for messages.
    pub fn target(&self) -> &str {
        &self.target
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn tls(&self) -> MakeRustlsConnect {
        self.tls.clone()
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        let timeout = self.config.get_connect_timeout();
        timeout.copied().unwrap_or(CONNECT_TIMEOUT)
    }
}

/// Whether an unescaped `/`, `?` or `#` of a password ended the part before the host, so that a
/// piece of the password would be taken for a port or a database, and shown as one.
fn is_cut_short(url: &Url) -> bool {
    let rest = [url.path(), url.query().unwrap_or_default()];
    url.fragment().is_some() || rest.iter().any(|part| part.contains('@'))
}

/// Names the first option that cannot be used alone.
fn bad_option(query: &str) -> OptionsError {
    let options = || query.split('&');
    let name = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
    let is_word = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    // What follows a password may be the rest of it, after an unescaped `&`.
    let is_safe = !options().any(|option| name(option) == "password");
    let bad = options().find(|option| format!("postgres://h?{option}").parse::<Config>().is_err());
    OptionsError::Option {
        name: bad.map(name).filter(|name| is_safe && is_word(name)),
    }
}

/// Whether nothing is sent over a network.
fn is_local(config: &Config) -> bool {
    let host_is_local = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
    };
    config.get_hosts().iter().all(host_is_local)
        && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

fn target(config: &Config) -> String {
    let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
    match config.get_hosts().first() {
        Some(Host::Tcp(host)) if host.contains(':') => format!("[{host}]:{port}"),
        Some(Host::Tcp(host)) => format!("{host}:{port}"),
        Some(Host::Unix(path)) => format!("{}:{port}", path.display()),
        None => format!("localhost:{port}"),
    }
}
