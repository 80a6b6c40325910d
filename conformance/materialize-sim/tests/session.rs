//! What a session promises around its statements.

mod support;

use std::time::Duration;

use materialize_sim::{Options, Tls};
use pgwire::messages::PgWireFrontendMessage;
use pgwire::messages::extendedquery::{Parse, Sync};
use support::{
    Raw, code, connect, prepared, rows, rows_then_error, server, server_with, subscribed,
};
use tokio_postgres::NoTls;

#[tokio::test]
async fn a_wrong_password_is_refused_and_the_right_one_is_not() {
    let options = Options {
        password: Some("secret".to_owned()),
        ..Options::default()
    };
    let server = server_with(options).await;
    let url = |password| {
        server
            .url()
            .replace("materialize@", &format!("materialize:{password}@"))
    };
    let Err(error) = tokio_postgres::connect(&url("wrong"), NoTls).await else {
        panic!("a wrong password was taken");
    };
    assert_eq!(code(&error), "28P01 invalid password");
    assert!(tokio_postgres::connect(&url("secret"), NoTls).await.is_ok());
}

#[tokio::test]
async fn a_client_that_asks_for_encryption_gets_it_and_can_check_who_answers() {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = Tls {
        certificate_pem: identity.cert.pem().into_bytes(),
        key_pem: identity.signing_key.serialize_pem().into_bytes(),
    };
    let server = server_with(Options {
        tls: Some(tls),
        ..Options::default()
    })
    .await;
    let url = format!(
        "{}?sslmode=require",
        server.url().replace("127.0.0.1", "localhost")
    );
    let connector = |roots: rustls::RootCertStore| {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tokio_postgres_rustls::MakeRustlsConnect::new(config)
    };
    let mut roots = rustls::RootCertStore::empty();
    let stranger = tokio_postgres::connect(&url, connector(roots.clone())).await;
    assert!(stranger.is_err(), "an unknown certificate was trusted");
    roots.add(identity.cert.der().clone()).unwrap();
    let (client, connection) = tokio_postgres::connect(&url, connector(roots))
        .await
        .unwrap();
    tokio::spawn(connection);
    assert_eq!(
        rows(&client, "SELECT 1").await.unwrap(),
        [[Some("1".to_owned())]]
    );
}

#[tokio::test]
async fn a_server_without_an_identity_refuses_encryption_and_takes_clear_text() {
    let server = server().await;
    let url = format!("{}?sslmode=prefer", server.url());
    assert!(tokio_postgres::connect(&url, NoTls).await.is_ok());
    let mut socket = tokio::net::TcpStream::connect(server.address())
        .await
        .unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut socket, &[0, 0, 0, 8, 4, 210, 22, 47])
        .await
        .unwrap();
    let answer = tokio::io::AsyncReadExt::read_u8(&mut socket).await.unwrap();
    assert_eq!(answer, b'N');
}

#[tokio::test]
async fn killed_connections_close_in_the_middle_of_a_fetch_without_an_error_response() {
    let server = server().await;
    prepared(&server, &["CREATE TABLE t (id int)"]).await;
    let (client, _) = subscribed(&server, "SUBSCRIBE t WITH (PROGRESS)").await;
    let control = server.control();
    let fetch = tokio::spawn(async move {
        let error = rows(&client, "FETCH 1000000 c WITH (timeout = '60s')")
            .await
            .unwrap_err();
        (error.as_db_error().is_none(), error.is_closed())
    });
    while !control
        .statements()
        .iter()
        .any(|sql| sql.contains("1000000"))
    {
        tokio::task::yield_now().await;
    }
    control.kill_connections();
    assert_eq!(fetch.await.unwrap(), (true, true));
    // The server itself goes on.
    connect(&server)
        .await
        .batch_execute("SELECT 1")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_cancelled_fetch_fails_with_57014() {
    let server = server().await;
    prepared(&server, &["CREATE TABLE t (id int)"]).await;
    let (client, _) = subscribed(&server, "SUBSCRIBE t WITH (PROGRESS)").await;
    let cancel = client.cancel_token();
    let fetch = tokio::spawn(async move {
        rows_then_error(&client, "FETCH 1000000 c WITH (timeout = '60s')")
            .await
            .1
    });
    cancel.cancel_query(NoTls).await.unwrap();
    assert_eq!(
        fetch.await.unwrap(),
        "57014 canceling statement due to user request"
    );
}

#[tokio::test]
async fn cursors_live_in_transactions() {
    let server = server().await;
    let client = prepared(&server, &["CREATE TABLE t (id int)"]).await;
    for (before, sql, expected) in [
        (
            "SELECT 1",
            "FETCH ALL c",
            "34000 cursor \"c\" does not exist",
        ),
        (
            "SELECT 1",
            "DECLARE c CURSOR FOR SUBSCRIBE t",
            "25P01 DECLARE CURSOR can only be used in transaction blocks",
        ),
        (
            "BEGIN; DECLARE c CURSOR FOR SUBSCRIBE t",
            "FETCH ALL c WITH (timeout = '2d')",
            "XX000 timeout out of range: 172800s",
        ),
        (
            "BEGIN; SELECT * FROM t; DECLARE c CURSOR FOR SUBSCRIBE t",
            "FETCH ALL c",
            "25006 transaction in read-only mode",
        ),
        ("BEGIN", "CLOSE c", "34000 cursor \"c\" does not exist"),
    ] {
        client.batch_execute(before).await.unwrap();
        let error = client.batch_execute(sql).await.unwrap_err();
        assert_eq!(code(&error), expected, "{sql}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
}

#[tokio::test]
async fn idling_in_a_transaction_ends_the_session_between_fetches_only() {
    let server = server().await;
    prepared(&server, &["CREATE TABLE t (id int)"]).await;
    let mut raw = Raw::connect(&server).await;
    for sql in [
        "SET idle_in_transaction_session_timeout = '300ms'",
        "BEGIN",
        "DECLARE c CURSOR FOR SUBSCRIBE t WITH (PROGRESS)",
        "FETCH ALL c WITH (timeout = '500ms')",
    ] {
        assert!(
            raw.query(sql)
                .await
                .iter()
                .all(|m| m.get("ErrorResponse").is_none()),
            "{sql}"
        );
    }
    let told = raw.until_ready().await;
    assert_eq!(told[0]["ErrorResponse"]["S"], "FATAL");
    assert_eq!(told[0]["ErrorResponse"]["C"], "25P03");
    assert_eq!(told[1]["closed"], true);
}

#[tokio::test]
async fn the_extended_protocol_is_refused_and_the_session_goes_on() {
    let server = server().await;
    let mut raw = Raw::connect(&server).await;
    let parse = Parse::new(None, "SELECT 1".to_owned(), Vec::new());
    raw.send(PgWireFrontendMessage::Parse(parse)).await;
    raw.send(PgWireFrontendMessage::Sync(Sync::new())).await;
    let answer = raw.until_ready().await;
    assert_eq!(answer[0]["ErrorResponse"]["C"], "0A000");
    assert_eq!(answer.len(), 2);
    assert_eq!(raw.query("SELECT 1").await[1]["DataRow"][0], "1");
}

#[tokio::test]
async fn a_stalled_server_says_nothing_until_it_goes_on() {
    let server = server().await;
    let client = connect(&server).await;
    server.control().stall(true);
    let mut query = std::pin::pin!(client.simple_query("SELECT 1"));
    assert!(
        tokio::time::timeout(Duration::from_millis(100), &mut query)
            .await
            .is_err()
    );
    server.control().stall(false);
    query.await.unwrap();
}

#[tokio::test]
async fn variables_have_the_defaults_of_a_real_server_and_unknown_ones_are_refused() {
    let server = server().await;
    let client = connect(&server).await;
    for (name, value) in [
        ("idle_in_transaction_session_timeout", "2 min"),
        ("statement_timeout", "1 min"),
        ("cluster", "quickstart"),
        ("search_path", "public"),
        ("transaction_isolation", "strict serializable"),
    ] {
        let shown = rows(&client, &format!("SHOW {name}")).await.unwrap();
        assert_eq!(shown, [vec![Some(value.to_owned())]], "{name}");
    }
    client
        .batch_execute("SET idle_in_transaction_session_timeout = 0")
        .await
        .unwrap();
    let error = client.batch_execute("SET nonsense = 1").await.unwrap_err();
    assert_eq!(
        code(&error),
        "42704 unrecognized configuration parameter \"nonsense\""
    );
}
