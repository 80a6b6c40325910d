//! The connection to Materialize keeps its promises to the driver.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::path::PathBuf;
use std::time::Duration;

use materialize_sim::{Column, Options, Server, Tls};
use mz_sink_core::decode::Fields as _;
use mz_sink_core::server_error::{ErrorKind, ServerError};
use mz_sink_source::{ConnectOptions, RowBlock, Session};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const PATIENCE: Duration = Duration::from_secs(20);
const FETCH: &str = "FETCH ALL c WITH (timeout = '600s')";

type Values = Vec<Option<String>>;

async fn server() -> Server {
    server_with(Options::default()).await
}

async fn server_with(options: Options) -> Server {
    let tick = Duration::from_millis(10);
    let server = Server::start(Options { tick, ..options }).await.unwrap();
    let columns = vec![
        Column::new("id", "integer").unwrap().not_null(),
        Column::new("name", "text").unwrap(),
    ];
    server.control().create_table("t", columns, None).unwrap();
    server
}

fn options(url: &str) -> ConnectOptions {
    ConnectOptions::parse(url, None).unwrap()
}

async fn subscribed(server: &Server) -> Session {
    let session = Session::connect(&options(&server.url())).await.unwrap();
    for sql in ["BEGIN", "DECLARE c CURSOR FOR SUBSCRIBE t WITH (PROGRESS)"] {
        session.query(sql).await.unwrap();
    }
    session
}

fn insert(server: &Server, id: i32, name: Option<&str>) {
    let row = vec![Some(id.to_string()), name.map(Into::into)];
    server.control().apply("t", vec![(row, 1)]).unwrap();
}

/// The rows of a block that are not progress, without what SUBSCRIBE puts before them.
fn data(block: &RowBlock) -> Vec<Values> {
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    let rows = block.rows().filter(|row| row.get(1) == Some(b"f"));
    rows.map(|row| (3..row.len()).map(|i| row.get(i).map(text)).collect())
        .collect()
}

async fn next_data(session: &mut Session) -> Result<Vec<Values>, ServerError> {
    let mut block = RowBlock::default();
    loop {
        let complete = session.next_block(&mut block, PATIENCE).await?;
        assert!(!complete, "the FETCH was complete before there were rows");
        if !data(&block).is_empty() {
            return Ok(data(&block));
        }
    }
}

async fn refused(options: &ConnectOptions) -> ServerError {
    match Session::connect(options).await {
        Ok(_) => panic!("connected"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_query_gives_its_rows_as_text() {
    let server = server().await;
    let session = Session::connect(&options(&server.url())).await.unwrap();
    let sql = "SELECT name, nullable, type, type_mod FROM mz_catalog.mz_columns WHERE id = 'u1' ORDER BY position";
    let rows = session.query(sql).await.unwrap().rows;
    let first = ["id", "f", "integer", "-1"].map(|v| Some(v.to_owned()));
    assert_eq!(rows[0], first);
    session.close().await;
}

#[tokio::test]
async fn a_session_knows_the_version_of_the_server() {
    let server = server().await;
    let session = Session::connect(&options(&server.url())).await.unwrap();
    let rows = session.query("SELECT mz_version()").await.unwrap().rows;
    assert!(session.mz_version().is_some());
    assert_eq!(session.mz_version(), rows[0][0].as_deref());
}

/// A server that lets anybody in, and then gives what the client sends until it hangs up.
async fn listener() -> (String, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "postgres://u@{}/db?sslmode=disable",
        listener.local_addr().unwrap()
    );
    let heard = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let length = socket.read_u32().await.unwrap() as usize;
        let mut startup = vec![0; length - 4];
        socket.read_exact(&mut startup).await.unwrap();
        let welcome = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
        socket.write_all(welcome).await.unwrap();
        let mut heard = Vec::new();
        socket.read_to_end(&mut heard).await.unwrap();
        heard
    });
    (url, heard)
}

#[tokio::test]
async fn a_session_says_goodbye_when_it_is_closed() {
    let (url, heard) = listener().await;
    let session = Session::connect(&options(&url)).await.unwrap();
    session.close().await;
    assert_eq!(heard.await.unwrap(), b"X\0\0\0\x04");
}

#[tokio::test]
async fn a_session_is_closed_while_a_fetch_waits_for_rows() {
    let (url, heard) = listener().await;
    let mut session = Session::connect(&options(&url)).await.unwrap();
    session.fetch(FETCH).await.unwrap();
    session.close().await;
    assert!(!heard.await.unwrap().ends_with(b"X\0\0\0\x04"));
}

#[tokio::test]
async fn a_statement_is_refused_at_once_while_a_fetch_is_running() {
    let server = server().await;
    let mut session = subscribed(&server).await;
    session.fetch(FETCH).await.unwrap();
    let error = session.query("SELECT 1").await.unwrap_err();
    assert_eq!(error.message, "a FETCH is running");
    insert(&server, 1, None);
    assert_eq!(next_data(&mut session).await.unwrap().len(), 1);
}

#[tokio::test]
async fn rows_are_handed_out_while_the_fetch_still_waits_for_more() {
    let server = server().await;
    let mut session = subscribed(&server).await;
    session.fetch(FETCH).await.unwrap();
    for id in 1..4 {
        insert(&server, id, Some("x"));
        let expected = vec![Some(id.to_string()), Some("x".into())];
        assert_eq!(next_data(&mut session).await.unwrap(), [expected]);
    }
}

#[tokio::test]
async fn values_arrive_as_they_are_be_they_null_empty_or_unicode() {
    let server = server().await;
    let names = [None, Some(""), Some("żółć 🦀"), Some("\t\"\\\n")];
    for (id, name) in names.iter().enumerate() {
        insert(&server, id as i32, *name);
    }
    let mut session = subscribed(&server).await;
    session.fetch(FETCH).await.unwrap();
    let mut rows = Vec::new();
    while rows.len() < names.len() {
        rows.extend(next_data(&mut session).await.unwrap());
    }
    rows.sort();
    let expected = (0..).zip(names);
    let expected = expected.map(|(id, name)| vec![Some(format!("{id}")), name.map(Into::into)]);
    assert_eq!(rows, expected.collect::<Vec<Values>>());
}

#[tokio::test]
async fn a_block_names_its_columns() {
    let server = server().await;
    let mut session = subscribed(&server).await;
    session.fetch(FETCH).await.unwrap();
    let mut block = RowBlock::default();
    while block.is_empty() {
        session.next_block(&mut block, PATIENCE).await.unwrap();
    }
    let names = ["mz_timestamp", "mz_progressed", "mz_diff", "id", "name"];
    assert_eq!(block.names(), names);
}

#[tokio::test]
async fn a_fetch_that_is_complete_says_so_and_another_may_follow() {
    let server = server().await;
    let mut session = subscribed(&server).await;
    let mut block = RowBlock::default();
    for _ in 0..2 {
        session.fetch("FETCH 1 c").await.unwrap();
        let mut rows = 0;
        loop {
            let complete = session.next_block(&mut block, PATIENCE).await.unwrap();
            rows += block.rows().count();
            if complete {
                break;
            }
        }
        assert_eq!(rows, 1);
    }
    let again = session.next_block(&mut block, PATIENCE).await.unwrap_err();
    assert_eq!(again.message, "no FETCH is running");
}

#[tokio::test]
async fn rows_that_came_before_an_error_are_handed_out_before_it() {
    let server = server().await;
    insert(&server, 1, Some("x"));
    let mut session = subscribed(&server).await;
    session.fetch(FETCH).await.unwrap();
    while !server.control().statements().iter().any(|sql| sql == FETCH) {
        tokio::task::yield_now().await;
    }
    // Both are on their way before the first block is asked for.
    server.control().drop_object("t").unwrap();
    assert_eq!(next_data(&mut session).await.unwrap().len(), 1);
    let error = next_data(&mut session).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Server);
    assert!(
        error.code.is_some() && error.message.contains("drop"),
        "{error}"
    );
}

#[tokio::test]
async fn a_refused_statement_is_reported_as_the_server_put_it() {
    let server = server().await;
    let session = Session::connect(&options(&server.url())).await.unwrap();
    let error = session.query("FETCH ALL nowhere").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Server);
    assert_eq!(error.code.as_deref(), Some("34000"));
}

#[tokio::test]
async fn a_server_that_goes_away_is_a_lost_connection() {
    let server = server().await;
    let mut session = subscribed(&server).await;
    session.fetch(FETCH).await.unwrap();
    insert(&server, 1, None);
    next_data(&mut session).await.unwrap();
    server.control().kill_connections();
    let error = next_data(&mut session).await.unwrap_err();
    assert_eq!((error.kind, error.code), (ErrorKind::Connection, None));
    let expected = format!("the connection to {} is lost", server.address());
    assert!(error.message.starts_with(&expected), "{}", error.message);
    let error = session.query("SELECT 1").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Connection);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let server = server().await;
    let mut session = subscribed(&server).await;
    session.fetch(FETCH).await.unwrap();
    server.control().stall(true);
    let mut block = RowBlock::default();
    let error = loop {
        let silence = Duration::from_millis(100);
        if let Err(error) = session.next_block(&mut block, silence).await {
            break error;
        }
    };
    assert_eq!(error.kind, ErrorKind::Connection);
    assert!(error.message.contains("sent nothing for 100ms"), "{error}");
}

#[tokio::test]
async fn an_abandoned_wait_loses_no_row() {
    let server = server().await;
    let mut session = subscribed(&server).await;
    session.fetch(FETCH).await.unwrap();
    let mut names = Vec::new();
    let mut block = RowBlock::default();
    for id in 0..200 {
        insert(&server, id, None);
        // A wait of this length is cut short again and again.
        let wait = session.next_block(&mut block, PATIENCE);
        if let Ok(complete) = tokio::time::timeout(Duration::from_micros(300), wait).await {
            complete.unwrap();
            names.extend(data(&block));
        }
    }
    while names.len() < 200 {
        names.extend(next_data(&mut session).await.unwrap());
    }
    let mut ids: Vec<i32> = names
        .iter()
        .map(|row| row[0].as_deref().unwrap().parse().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_told_without_showing_it() {
    let password = Some("right".to_owned());
    let server = server_with(Options {
        password,
        ..Options::default()
    })
    .await;
    let given = |password: &str| ConnectOptions::parse(&server.url(), Some(password.into()));
    assert!(Session::connect(&given("right").unwrap()).await.is_ok());

    let wrong = given("hunter2").unwrap();
    let error = refused(&wrong).await;
    assert_eq!(error.code.as_deref(), Some("28P01"));
    assert!(error.to_string().contains("its password"), "{error}");
    assert!(!format!("{error:?}{wrong:?}").contains("hunter2"));

    let error = refused(&options(&server.url())).await;
    assert_eq!(error.kind, ErrorKind::Connection);
    assert!(
        error.message.contains("materialize.password_env"),
        "{error}"
    );
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = refused(&options(&format!("postgres://u@{address}/db"))).await;
    assert_eq!((error.kind, error.code), (ErrorKind::Connection, None));
    let start = format!("cannot connect to {address}: Connection refused");
    assert!(error.message.starts_with(&start), "{}", error.message);
    assert!(
        error.message.contains("check materialize.url"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("postgres://u@{address}/db?connect_timeout=1");
    let error = refused(&options(&url)).await;
    assert!(error.message.contains("no answer within 1s"), "{error}");
}

/// A server for `localhost`, its certificate as a file, and another authority's.
async fn encrypted() -> (Server, tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let identity = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (own, other) = (identity(), identity());
    let tls = Some(Tls {
        certificate_pem: own.cert.pem().into_bytes(),
        key_pem: own.signing_key.serialize_pem().into_bytes(),
    });
    let server = server_with(Options {
        tls,
        ..Options::default()
    })
    .await;
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let own = file("own.pem", own.cert.pem());
    let other = file("other.pem", other.cert.pem());
    (server, directory, own, other)
}

#[tokio::test]
async fn each_sslmode_checks_what_it_says() {
    let (server, _directory, own, other) = encrypted().await;
    let by_name = server.url().replace("127.0.0.1", "localhost");
    let by_address = server.url();
    let (own, other) = (own.display(), other.display());
    for url in [
        format!("{by_address}?sslmode=disable"),
        format!("{by_address}?sslmode=prefer"),
        format!("{by_address}?sslmode=require"),
        format!("{by_address}?sslmode=verify-ca&sslrootcert={own}"),
        format!("{by_name}?sslmode=verify-full&sslrootcert={own}"),
        by_address.clone(),
        format!("{by_name}?sslrootcert={own}"),
    ] {
        assert!(Session::connect(&options(&url)).await.is_ok(), "{url}");
    }
    for (url, remedy) in [
        (
            format!("{by_address}?sslmode=verify-full&sslrootcert={own}"),
            "verify-ca",
        ),
        (
            format!("{by_address}?sslmode=verify-ca&sslrootcert={other}"),
            "sslrootcert",
        ),
        (
            format!("{by_address}?sslmode=require&sslrootcert={other}"),
            "sslrootcert",
        ),
        (
            format!("{by_name}?sslmode=verify-full&sslrootcert={other}"),
            "sslrootcert",
        ),
        (format!("{by_name}?sslrootcert={other}"), "sslrootcert"),
        (format!("{by_address}?sslrootcert={own}"), "verify-ca"),
    ] {
        let error = refused(&options(&url)).await;
        assert_eq!(error.kind, ErrorKind::Connection);
        // With a code: without one it would be tried again.
        assert_eq!(error.code.as_deref(), Some("08P01"), "{url}: {error}");
        assert!(error.message.starts_with("cannot trust"), "{url}: {error}");
        assert!(error.message.contains(remedy), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_encryption_is_demanded() {
    let server = server().await;
    let error = refused(&options(&format!("{}?sslmode=require", server.url()))).await;
    assert!(error.message.contains("does not offer TLS"), "{error}");
}

#[test]
fn a_bad_url_is_explained_without_showing_it() {
    for (url, says) in [
        ("", "postgres://"),
        ("hunter2", "postgres://"),
        ("http://u:hunter2@h/db", "postgres://"),
        ("postgres://u:hunter2/x@h:z/db", "postgres://"),
        ("postgres://u:hunter2@localhost/db#x", "%XX"),
        // What stands before an unescaped / ? or # looks like a port.
        ("postgres://u:6875/hunter2@h/db", "%XX"),
        ("postgres://u:6875?hunter2@h/db", "%XX"),
        ("postgres://u:6875#hunter2@h/db", "%XX"),
        (
            "postgres://u:hunter2@localhost/db?nonsense=1",
            "the option nonsense",
        ),
        (
            "postgres://u:hunter2@localhost/db?application_name=a&connect_timeout=soon",
            "the option connect_timeout",
        ),
        (
            "postgres://localhost/db?password=not&hunter=hunter2",
            "an option after the ?",
        ),
        (
            "postgres://u:hunter2@localhost/db?sslmode=on",
            "verify-full",
        ),
        (
            "postgres://u:hunter2@localhost/db?sslmode=verify-ca",
            "sslmode=verify-full",
        ),
        (
            "postgres://u:hunter2@localhost/db?sslmode=require&sslrootcert=system",
            "sslmode=verify-full",
        ),
        (
            "postgres://u:hunter2@localhost/db?sslmode=verify-ca&sslrootcert=/no/such.pem",
            "/no/such.pem",
        ),
    ] {
        let error = ConnectOptions::parse(url, None).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error}");
    }
}

#[test]
fn a_user_may_be_an_address_of_mail_as_it_is() {
    for user in ["joe@example.com", "joe%40example.com"] {
        let options = options(&format!("postgres://{user}:x@localhost:6875/materialize"));
        assert_eq!(options.target(), "localhost:6875");
    }
}
