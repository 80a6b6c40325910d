//! From a new socket to a session that may send statements.

use std::collections::BTreeMap;
use std::sync::Arc;

use pgwire::messages::response::{GssEncResponse, SslResponse};
use pgwire::messages::startup::{Authentication, NegotiateProtocolVersion};
use pgwire::messages::{
    DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion,
    SslNegotiationMetaMessage,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::error::SqlError;
use crate::faults::Logins;
use crate::wire::{Stop, Wire};
use crate::world::World;

/// What a client said about itself.
pub(crate) struct Client {
    pub(crate) parameters: BTreeMap<String, String>,
}

/// Who may log in, and how far.
pub(crate) struct Access {
    /// Asked for if there is one.
    pub(crate) password: Option<String>,
    pub(crate) logins: Logins,
    /// Bytes after which the connection is cut.
    pub(crate) cut: Option<u64>,
}

/// Negotiates encryption and checks the password. `None` if it was a cancel request.
pub(crate) async fn accept(
    socket: TcpStream,
    tls: Option<&TlsAcceptor>,
    access: Access,
    world: &Arc<World>,
) -> Result<Option<(Wire, Client)>, Stop> {
    let mut wire = negotiate(socket, tls).await?;
    if let Some(bytes) = access.cut {
        wire.cut_after(bytes);
    }
    let startup = match wire.receive().await? {
        PgWireFrontendMessage::Startup(startup) => startup,
        PgWireFrontendMessage::CancelRequest(cancel) => {
            let backends = &world.inner().backends;
            if let Some((key, notify)) = backends.get(&cancel.pid) {
                let secret = pgwire::messages::startup::SecretKey::I32(*key);
                if cancel.secret_key.eq_value(&secret) {
                    notify.notify_one();
                }
            }
            return Ok(None);
        }
        _ => return Err(SqlError::fatal("08P01", "expected a startup message").into()),
    };
    wire.context.awaiting_frontend_startup = false;
    if startup.protocol_number_major != 3 {
        let text = "unsupported frontend protocol; the server speaks version 3";
        return refuse(wire, SqlError::fatal("08004", text)).await;
    }
    if startup.protocol_number_minor > 0 {
        let answer = NegotiateProtocolVersion::new(0, Vec::new());
        wire.put(PgWireBackendMessage::NegotiateProtocolVersion(answer));
    }
    if let Logins::Refused(failure) = &access.logins {
        return refuse(wire, failure.fatal()).await;
    }
    if let Some(expected) = access.password {
        wire.put(PgWireBackendMessage::Authentication(
            Authentication::CleartextPassword,
        ));
        wire.flush().await?;
        let given = match wire.receive().await? {
            PgWireFrontendMessage::PasswordMessageFamily(message) => message.into_password().ok(),
            _ => None,
        };
        if given.is_none_or(|given| given.password != expected) {
            return refuse(wire, SqlError::fatal("28P01", "invalid password")).await;
        }
    }
    wire.put(PgWireBackendMessage::Authentication(Authentication::Ok));
    Ok(Some((
        wire,
        Client {
            parameters: startup.parameters,
        },
    )))
}

async fn refuse<T>(mut wire: Wire, error: SqlError) -> Result<T, Stop> {
    wire.error(&error);
    wire.flush().await?;
    Err(Stop::Gone)
}

/// Answers requests for encryption; the next message is the startup message.
async fn negotiate(mut socket: TcpStream, tls: Option<&TlsAcceptor>) -> Result<Wire, Stop> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
    loop {
        // Requests have eight bytes. A startup or cancel message is at least as long.
        let mut head = [0; 8];
        loop {
            let seen = socket.peek(&mut head).await?;
            if seen == 0 {
                return Err(Stop::Gone);
            }
            if seen == head.len() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let mut request = bytes::BytesMut::from(&head[..]);
        let answer = match PgWireFrontendMessage::decode(&mut request, &context) {
            Ok(Some(PgWireFrontendMessage::SslNegotiation(request))) => request,
            _ => return Err(Stop::Gone),
        };
        let reply = match (&answer, tls) {
            (SslNegotiationMetaMessage::PostgresSsl(_), Some(_)) => {
                PgWireBackendMessage::SslResponse(SslResponse::Accept)
            }
            (SslNegotiationMetaMessage::PostgresSsl(_), None) => {
                PgWireBackendMessage::SslResponse(SslResponse::Refuse)
            }
            (SslNegotiationMetaMessage::PostgresGss(_), _) => {
                PgWireBackendMessage::GssEncResponse(GssEncResponse::Refuse)
            }
            (SslNegotiationMetaMessage::None, _) => {
                context.awaiting_frontend_ssl = false;
                return Ok(Wire::new(Box::new(socket), context));
            }
        };
        socket.read_exact(&mut head).await?;
        let mut bytes = bytes::BytesMut::new();
        reply.encode(&mut bytes).map_err(|_| Stop::Gone)?;
        socket.write_all(&bytes).await?;
        if let (PgWireBackendMessage::SslResponse(SslResponse::Accept), Some(tls)) = (&reply, tls) {
            context.awaiting_frontend_ssl = false;
            let socket = tls.accept(socket).await?;
            return Ok(Wire::new(Box::new(socket), context));
        }
    }
}
