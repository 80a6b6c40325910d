//! From what tokio-postgres, rustls and the system report to one clear text, and to whether trying
//! again may help.

use std::error::Error as StdError;
use std::io;

use mz_sink_core::server_error::{ErrorKind, ServerError};
use tokio_postgres::Error;

/// The SQLSTATE class of "invalid authorization specification".
const AUTHORIZATION: &str = "28";

/// "Invalid password", which a server says to a wrong one: the same for none.
const INVALID_PASSWORD: &str = "28P01";

/// "Protocol violation": the two sides cannot agree how to talk.
const NO_AGREEMENT: &str = "08P01";

/// What the network or the server may mend by itself.
pub(crate) fn connection(message: String) -> ServerError {
    ServerError {
        kind: ErrorKind::Connection,
        code: None,
        message,
        detail: None,
        hint: None,
    }
}

/// What stays until somebody changes the settings of one side. It has the SQLSTATE that a server
/// would have given: an error without one is taken for a broken connection, and tried again.
fn refused(code: &str, message: String) -> ServerError {
    ServerError {
        code: Some(code.into()),
        ..connection(message)
    }
}

/// An error before the session was ready.
pub(crate) fn connecting(target: &str, error: &Error) -> ServerError {
    if let Some(mut reported) = server(error) {
        let authorization = |code: &str| code.starts_with(AUTHORIZATION);
        if reported.hint.is_none() && reported.code.as_deref().is_some_and(authorization) {
            reported.hint = Some("check the user in materialize.url and its password".into());
        }
        return reported;
    }
    let cause = chain(error);
    if let Some(tls) = tls(error) {
        let text = tls_text(target, tls);
        return if stays(tls) {
            refused(NO_AGREEMENT, text)
        } else {
            connection(text)
        };
    }
    // The library tells its kinds of error apart by this text only.
    match (error.to_string().as_str(), cause.as_str()) {
        (_, "password missing") => refused(
            INVALID_PASSWORD,
            format!(
                "{target} asks for a password and there is none; set materialize.password_env \
                 or materialize.password_file, or write user:password@ in materialize.url or \
                 MATERIALIZE_URL"
            ),
        ),
        (_, "server does not support TLS") => refused(
            NO_AGREEMENT,
            format!(
                "{target} does not offer TLS, which sslmode in materialize.url demands; connect \
                 to a server that does, or set sslmode=disable on a trusted network"
            ),
        ),
        ("authentication error", _) => refused(
            NO_AGREEMENT,
            format!(
                "cannot authenticate to {target}: {cause}; the server must take a password, in \
                 clear text, as MD5 or by SCRAM-SHA-256, and channel_binding in materialize.url \
                 must be what it can do"
            ),
        ),
        ("invalid configuration", _) => refused(
            NO_AGREEMENT,
            format!("cannot connect to {target}: {cause}; check materialize.url"),
        ),
        ("error performing TLS handshake", _) if !is_io(error) => refused(
            NO_AGREEMENT,
            format!(
                "cannot connect to {target}: {cause}; check sslmode and sslnegotiation in \
                 materialize.url"
            ),
        ),
        _ => {
            let remedy = if error.is_closed() {
                "the server closed the connection; check that it is Materialize"
            } else {
                "check materialize.url and that the server is up"
            };
            connection(format!("cannot connect to {target}: {cause}; {remedy}"))
        }
    }
}

/// An error of a session that was ready.
pub(crate) fn running(target: &str, error: &Error) -> ServerError {
    server(error).unwrap_or_else(|| {
        connection(format!(
            "the connection to {target} is lost: {}",
            chain(error)
        ))
    })
}

fn tls_text(target: &str, error: &rustls::Error) -> String {
    use rustls::CertificateError as C;
    let remedy = match error {
        rustls::Error::InvalidCertificate(C::UnknownIssuer | C::BadSignature) => {
            "name the certificate of its authority with sslrootcert in materialize.url"
        }
        rustls::Error::InvalidCertificate(
            C::NotValidForName | C::NotValidForNameContext { .. },
        ) => {
            "use a host name that the certificate is for, or sslmode=verify-ca with a private \
             authority in sslrootcert"
        }
        _ => "check the server's TLS set-up and sslmode in materialize.url",
    };
    format!("cannot trust {target}: {error}; {remedy}")
}

/// Whether trying again meets the same: the certificate, or what the two sides know of TLS.
fn stays(error: &rustls::Error) -> bool {
    use rustls::Error as E;
    matches!(
        error,
        E::InvalidCertificate(_) | E::NoCertificatesPresented | E::PeerIncompatible(_)
    )
}

fn is_io(error: &Error) -> bool {
    error.source().is_some_and(|cause| cause.is::<io::Error>())
}

/// What the server said, if it was the server.
fn server(error: &Error) -> Option<ServerError> {
    let error = error.as_db_error()?;
    Some(ServerError {
        kind: ErrorKind::Server,
        code: Some(error.code().code().into()),
        message: error.message().into(),
        detail: error.detail().map(Into::into),
        hint: error.hint().map(Into::into),
    })
}

fn tls(error: &Error) -> Option<&rustls::Error> {
    let io = error.source()?.downcast_ref::<io::Error>()?;
    io.get_ref()?.downcast_ref()
}

/// The causes, outermost first, without what the library puts before them.
fn chain(error: &Error) -> String {
    let Some(mut cause) = error.source() else {
        return error.to_string();
    };
    let mut text = cause.to_string();
    while let Some(next) = cause.source() {
        text = format!("{text}: {next}");
        cause = next;
    }
    text
}
