//! The listening server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::control::Control;
use crate::error::SimError;
use crate::faults::Logins;
use crate::session::Session;
use crate::startup::{self, Access};
use crate::wire::Stop;
use crate::world::World;

/// The version that recordings in this repository come from.
const VERSION: &str = "v26.23.0-dev.0 (b861406cf)";

/// A client must have said who it is after this long.
const STARTUP_LIMIT: Duration = Duration::from_secs(30);

/// How to start a server.
#[derive(Clone)]
pub struct Options {
    /// Where to listen; port 0 takes a free one.
    pub listen: String,
    /// How often the clock moves every table's frontier. A real server does once a second.
    pub tick: Duration,
    /// Asked for in clear text; no password is asked for if `None`.
    pub password: Option<String>,
    /// Offered to clients that ask for encryption; refused if `None`.
    pub tls: Option<Tls>,
    /// What `mz_version()` says.
    pub version: String,
    /// What the timeouts of FETCH and of idle sessions are measured by.
    pub time_limits: TimeLimits,
    /// The catalog id of the first object is `u` and this number, at least 1.
    pub first_id: u64,
}

/// What timeouts are measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimits {
    /// Real time, whatever the simulated clock says.
    RealTime,
    /// The clock of [`Control::set_clock`]: a test moves it, and nothing depends on how fast the
    /// machine is.
    SimulatedClock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            tick: Duration::from_secs(1),
            password: None,
            tls: None,
            version: VERSION.to_owned(),
            time_limits: TimeLimits::RealTime,
            first_id: 1,
        }
    }
}

/// The identity a server shows to clients that ask for encryption.
#[derive(Clone)]
pub struct Tls {
    /// Certificate chain, PEM.
    pub certificate_pem: Vec<u8>,
    /// Its private key, PEM.
    pub key_pem: Vec<u8>,
}

impl Tls {
    fn acceptor(&self) -> Result<TlsAcceptor, SimError> {
        let bad = |error: &dyn std::fmt::Display| SimError::Tls(error.to_string());
        let chain = CertificateDer::pem_slice_iter(&self.certificate_pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| bad(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key_pem).map_err(|error| bad(&error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| bad(&error))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// A running server. Dropping it stops it and closes its connections.
pub struct Server {
    address: SocketAddr,
    world: Arc<World>,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts listening, on the current tokio runtime.
    ///
    /// # Errors
    /// [`SimError::Listen`] if the address cannot be had, [`SimError::Tls`] for a bad identity.
    pub async fn start(options: Options) -> Result<Self, SimError> {
        let listen = |source| SimError::Listen {
            address: options.listen.clone(),
            source,
        };
        let acceptor = options.tls.as_ref().map(Tls::acceptor).transpose()?;
        let listener = TcpListener::bind(&options.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let world = Arc::new(World::new(options.time_limits, options.first_id.max(1)));
        world.inner().password.clone_from(&options.password);
        let ticking = tokio::spawn(tick(world.clone(), options.tick));
        let accepting = tokio::spawn(accept(listener, world.clone(), Arc::new(options), acceptor));
        Ok(Self {
            address,
            world,
            tasks: vec![ticking, accepting],
        })
    }

    /// `postgres://materialize@127.0.0.1:PORT/materialize`.
    pub fn url(&self) -> String {
        format!("postgres://materialize@{}/materialize", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The handle through which tests change and look at the server.
    pub fn control(&self) -> Control {
        Control::new(self.world.clone())
    }

    /// Stops listening and closes every connection.
    pub async fn shutdown(mut self) {
        for task in std::mem::take(&mut self.tasks) {
            task.abort();
            // An aborted task reports that it was aborted.
            let _ = task.await;
        }
        self.world.killed.send_modify(|count| *count += 1);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.world.killed.send_modify(|count| *count += 1);
    }
}

async fn tick(world: Arc<World>, every: Duration) {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        world.tick();
    }
}

async fn accept(
    listener: TcpListener,
    world: Arc<World>,
    options: Arc<Options>,
    tls: Option<TlsAcceptor>,
) {
    let next_pid = AtomicI32::new(1);
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                // Out of file descriptors, most likely: let some be closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let pid = next_pid.fetch_add(1, Ordering::Relaxed);
        let (world, options, tls) = (world.clone(), options.clone(), tls.clone());
        let mut killed = world.killed.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                _ = killed.changed() => {}
                () = connection(socket, world, options, tls, pid) => {}
            }
        });
    }
}

async fn connection(
    socket: TcpStream,
    world: Arc<World>,
    options: Arc<Options>,
    tls: Option<TlsAcceptor>,
    pid: i32,
) {
    // Rows of a waiting FETCH must not wait for a full packet.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "nodelay was refused");
    }
    let (password, logins, cut) = {
        let mut inner = world.inner();
        let cut = inner.cut_next_after.take();
        (inner.password.clone(), inner.logins.clone(), cut)
    };
    if matches!(logins, Logins::Closed) {
        return;
    }
    let access = Access {
        password,
        logins,
        cut,
    };
    let started = startup::accept(socket, tls.as_ref(), access, &world);
    match tokio::time::timeout(STARTUP_LIMIT, started).await {
        Ok(Ok(Some((wire, client)))) => {
            Session::new(world, wire, &client, &options.version, pid)
                .run()
                .await;
        }
        Ok(Ok(None) | Err(Stop::Gone)) => {}
        Ok(Err(Stop::Sql(error))) => tracing::debug!(message = error.message, "a bad startup"),
        Err(_) => tracing::debug!("a client did not finish its startup in time"),
    }
}
