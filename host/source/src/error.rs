//! From what tokio-postgres, rustls and the system report to one clear text.

use std::error::Error as StdError;
use std::io;

use mz_sink_core::server_error::{ErrorKind, ServerError};
use tokio_postgres::Error;

/// The SQLSTATE class of "invalid authorization specification".
const AUTHORIZATION: &str = "28";

pub(crate) fn connection(message: String) -> ServerError {
    ServerError {
        kind: ErrorKind::Connection,
        code: None,
        message,
        detail: None,
        hint: None,
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
    let remedy = if cause.contains("password missing") {
        return connection(format!(
            "{target} asks for a password and there is none; set materialize.password_env or \
             materialize.password_file"
        ));
    } else if cause.contains("server does not support TLS") {
        return connection(format!(
            "{target} does not offer TLS, which sslmode in materialize.url demands; connect to \
             a server that does, or set sslmode=disable on a trusted network"
        ));
    } else if let Some(tls) = tls(error) {
        return connection(tls_text(target, tls));
    } else if error.is_closed() {
        "the server closed the connection; check that it is Materialize"
    } else {
        "check materialize.url and that the server is up"
    };
    connection(format!("cannot connect to {target}: {cause}; {remedy}"))
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
