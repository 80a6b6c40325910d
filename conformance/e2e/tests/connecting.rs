//! What cannot work until somebody changes a setting is told from a connection that failed, which
//! is tried again.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use mz_sink_core::classify::{ErrorClass, Phase, classify};
use mz_sink_core::server_error::ServerError;
use mz_sink_source::{ConnectOptions, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Connects to a server that answers the first message with these bytes.
async fn connect(credentials: &str, query: &str, answer: &'static [u8]) -> ServerError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut message = [0; 1024];
        // A client that gives up by itself says nothing.
        if socket.read(&mut message).await.is_ok_and(|n| n > 0) {
            socket.write_all(answer).await.unwrap();
        }
        // Until the client goes; without an answer the server does.
        while !answer.is_empty() && socket.read(&mut message).await.is_ok_and(|n| n > 0) {}
    });
    let url = format!("postgres://{credentials}@{address}/db?{query}");
    let options = ConnectOptions::parse(&url, None).unwrap();
    let Err(error) = Session::connect(&options).await else {
        panic!("{url} is connected");
    };
    server.await.unwrap();
    error
}

fn class(error: &ServerError) -> ErrorClass {
    classify(Phase::SetUp, error.code.as_deref(), &error.message)
}

const CLEAR_TEXT: &[u8] = b"R\0\0\0\x08\0\0\0\x03";
const MD5: &[u8] = b"R\0\0\0\x0c\0\0\0\x05salt";
const SCRAM: &[u8] = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
const OTHER_SASL: &[u8] = b"R\0\0\0\x0f\0\0\0\x0aOTHER\0\0";
const KERBEROS: &[u8] = b"R\0\0\0\x08\0\0\0\x02";
const OK: &[u8] = b"R\0\0\0\x08\0\0\0\0";
const NO_TLS: &[u8] = b"N";

#[tokio::test]
async fn a_missing_password_says_where_to_set_it_and_is_not_tried_again() {
    for answer in [CLEAR_TEXT, MD5, SCRAM] {
        let error = connect("u", "sslmode=disable", answer).await;
        assert_eq!(class(&error), ErrorClass::Fatal, "{error}");
        for place in ["materialize.password_env", "MATERIALIZE_URL"] {
            assert!(error.message.contains(place), "{error}");
        }
    }
}

#[tokio::test]
async fn what_the_two_sides_cannot_agree_on_is_not_tried_again() {
    for (query, answer, says) in [
        ("sslmode=require", NO_TLS, "does not offer TLS"),
        ("sslmode=disable", KERBEROS, "unsupported authentication"),
        ("sslmode=disable", OTHER_SASL, "unsupported SASL mechanism"),
        (
            "sslmode=disable&channel_binding=require",
            OK,
            "channel_binding in materialize.url",
        ),
        (
            "sslmode=prefer&sslnegotiation=direct",
            b"",
            "sslnegotiation in materialize.url",
        ),
    ] {
        let error = connect("u:hunter2", query, answer).await;
        assert_eq!(class(&error), ErrorClass::Fatal, "{error}");
        assert!(error.message.contains(says), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_may_be_back_soon() {
    for query in ["sslmode=disable", "sslmode=require"] {
        let error = connect("u:hunter2", query, b"").await;
        assert_eq!(class(&error), ErrorClass::Transient, "{error}");
    }
}
