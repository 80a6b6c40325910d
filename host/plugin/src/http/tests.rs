//! The client against small servers on this machine.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Answers every connection with `answer`, as it is; keeps it open without one.
async fn server(answer: Option<&'static [u8]>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 65536];
                let n = socket.read(&mut buffer).await.unwrap_or(0);
                match answer {
                    None => std::future::pending().await,
                    Some(b"echo") => {
                        let head = format!(
                            "HTTP/1.1 200 OK\r\nx-echo: yes\r\ncontent-length: {n}\r\n\r\n"
                        );
                        let _ = socket.write_all(head.as_bytes()).await;
                        let _ = socket.write_all(&buffer[..n]).await;
                    }
                    Some(bytes) => {
                        let _ = socket.write_all(bytes).await;
                    }
                }
            });
        }
    });
    url
}

fn client(url: &str) -> HttpClient {
    HttpClient::new(HttpOptions {
        policy: HttpPolicy::parse(&[url.to_string()], &[]).unwrap(),
        secrets: vec![Secret::new("key".into(), "canary-value".into(), None).unwrap()],
        timeout: Duration::from_millis(500),
        request_bytes: 1000,
        response_bytes: 1000,
        in_flight: 2,
    })
    .unwrap()
}

fn get(url: &str) -> Request {
    Request {
        method: "GET".into(),
        url: url.into(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout_ms: None,
    }
}

async fn send(client: &HttpClient, request: Request) -> Result<Response, HttpError> {
    client.start(request)?.wait().await
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let url = server(Some(
        b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
    ))
    .await;
    let response = send(&client(&url), get(&url)).await.ok().unwrap();
    assert_eq!(response.status, 302);
}

#[tokio::test]
async fn silence_and_nonsense_may_have_been_processed_and_a_closed_port_was_not_reached() {
    let silent = server(None).await;
    assert!(matches!(
        send(&client(&silent), get(&silent)).await.err(),
        Some(HttpError::MaybeSent(_))
    ));
    let garbage = server(Some(b"\x00\x01 what is this\r\n\r\n")).await;
    assert!(matches!(
        send(&client(&garbage), get(&garbage)).await.err(),
        Some(HttpError::MaybeSent(_))
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert!(matches!(
        send(&client(&closed), get(&closed)).await.err(),
        Some(HttpError::NotSent(_))
    ));
}

#[tokio::test]
async fn sizes_are_limited_both_ways_and_the_setting_is_named() {
    let url = server(Some(
        b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n".as_slice(),
    ))
    .await;
    let mut large = get(&url);
    large.body = vec![b'x'; 1001];
    match send(&client(&url), large).await.err() {
        Some(HttpError::Limit(text)) => assert!(text.contains("limits.http_request")),
        other => panic!("{other:?}"),
    }
    static LONG: &[u8] = &{
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n";
        let mut bytes = [b'x'; 5041];
        let mut i = 0;
        while i < head.len() {
            bytes[i] = head[i];
            i += 1;
        }
        bytes
    };
    let url = server(Some(LONG)).await;
    match send(&client(&url), get(&url)).await.err() {
        Some(HttpError::Limit(text)) => assert!(text.contains("limits.http_response")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_secret_goes_out_and_does_not_come_back() {
    let url = server(Some(b"echo")).await;
    let mut request = get(&url);
    request.headers = vec![("authorization".into(), "Bearer {{secret:key}}".into())];
    request.method = "POST".into();
    request.body = b"a row with {{secret:key}} in it".to_vec();
    let response = send(&client(&url), request).await.ok().unwrap();
    let body = String::from_utf8(response.body).unwrap();
    assert!(
        body.contains("authorization: Bearer {{secret:key}}"),
        "{body}"
    );
    // A row that names a secret is only a row.
    assert!(body.ends_with("a row with {{secret:key}} in it"), "{body}");
    // The server counted the bytes that came: the value was among them.
    let received = response
        .headers
        .iter()
        .find(|(name, _)| name == "content-length");
    let longer = "{{secret:key}}".len() - "canary-value".len();
    let sent = received.unwrap().1.parse::<usize>().unwrap();
    assert_eq!(sent + longer, body.len());
    assert!(!body.contains("canary"));
}

#[tokio::test]
async fn what_would_change_the_framing_or_the_place_is_refused() {
    let url = server(Some(b"echo")).await;
    let refused = |change: &dyn Fn(&mut Request)| {
        let mut request = get(&url);
        change(&mut request);
        client(&url).start(request).err()
    };
    for header in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "connection",
        "TE",
        "trailer",
        "upgrade",
        "Proxy-Authorization",
        "proxy-connection",
        "bad name",
        "x\r\ny",
    ] {
        let error = refused(&|r| r.headers = vec![(header.into(), "1".into())]);
        assert!(matches!(error, Some(HttpError::Invalid(_))), "{header}");
    }
    let error = refused(&|r| r.headers = vec![("x".into(), "a\r\nb: c".into())]);
    assert!(matches!(error, Some(HttpError::Invalid(_))));
    let error = refused(&|r| r.url = url.replace("http://", "http://user:canary@"));
    assert!(matches!(error, Some(HttpError::Invalid(ref text)) if !text.contains("canary")));
    let error = refused(&|r| r.method = "CONNECT".into());
    assert!(matches!(error, Some(HttpError::Invalid(_))));
    let error = refused(&|r| r.url = "http://127.0.0.1:1/".into());
    assert!(matches!(error, Some(HttpError::Denied(_))));
}

#[tokio::test]
async fn a_granted_name_that_stands_for_another_network_is_denied() {
    // Every system resolves its own host name or `localhost` to loopback; only the exact name
    // `localhost` is granted that.
    let policy = HttpPolicy::parse(&["http://localhost.:9".into()], &[]).unwrap();
    let client = HttpClient::new(HttpOptions {
        policy,
        ..HttpOptions::default()
    })
    .unwrap();
    match send(&client, get("http://localhost.:9/")).await.err() {
        Some(HttpError::Denied(text)) => assert!(text.contains("http_private"), "{text}"),
        // Where the resolver does not know the name with a dot, there is nothing to dial.
        Some(HttpError::NotSent(_)) => {}
        other => panic!("{other:?}"),
    }
}

/// Accepts connections and hands them over, without reading from them.
async fn accepting() -> (String, tokio::sync::mpsc::Receiver<tokio::net::TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (accepted, connections) = tokio::sync::mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            if accepted.send(socket).await.is_err() {
                break;
            }
        }
    });
    (url, connections)
}

/// A client that allows `in_flight` requests and all the time they need.
fn patient(url: &str, in_flight: usize) -> HttpClient {
    HttpClient::new(HttpOptions {
        policy: HttpPolicy::parse(&[url.to_string()], &[]).unwrap(),
        in_flight,
        ..HttpOptions::default()
    })
    .unwrap()
}

const EMPTY: &[u8] = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn requests_are_under_way_together_before_any_is_waited_for() {
    let (url, mut connections) = accepting().await;
    let client = patient(&url, 2);
    let exchanges = [0, 1].map(|_| client.start(get(&url)).ok().unwrap());
    let mut both = [
        connections.recv().await.unwrap(),
        connections.recv().await.unwrap(),
    ];
    for socket in &mut both {
        socket.write_all(EMPTY).await.unwrap();
    }
    for exchange in exchanges {
        assert_eq!(exchange.wait().await.ok().unwrap().status, 204);
    }
}

#[tokio::test]
async fn a_request_beyond_those_in_flight_waits_for_its_turn() {
    let (url, mut connections) = accepting().await;
    let client = patient(&url, 1);
    let first = client.start(get(&url)).ok().unwrap();
    let second = client.start(get(&url)).ok().unwrap();
    let mut socket = connections.recv().await.unwrap();
    // All that can be done without an answer is done: the other one has not connected.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(connections.try_recv().is_err());
    socket.write_all(EMPTY).await.unwrap();
    assert_eq!(first.wait().await.ok().unwrap().status, 204);
    let mut socket = connections.recv().await.unwrap();
    socket.write_all(EMPTY).await.unwrap();
    assert_eq!(second.wait().await.ok().unwrap().status, 204);
}

#[tokio::test]
async fn dropping_an_exchange_closes_its_connection_and_frees_its_slot() {
    let (url, mut connections) = accepting().await;
    let client = patient(&url, 1);
    let exchange = client.start(get(&url)).ok().unwrap();
    let mut socket = connections.recv().await.unwrap();
    drop(exchange);
    let next = client.start(get(&url)).ok().unwrap();
    // Ends only when the client closes, long before its own timeout; a reset is an end too.
    let mut sent = Vec::new();
    let closed = socket.read_to_end(&mut sent);
    let _ = tokio::time::timeout(Duration::from_secs(10), closed)
        .await
        .expect("the connection is still open");
    let mut socket = connections.recv().await.unwrap();
    socket.write_all(EMPTY).await.unwrap();
    assert_eq!(next.wait().await.ok().unwrap().status, 204);
}

#[tokio::test]
async fn a_secret_whose_server_is_gone_or_talks_nonsense_is_in_no_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let garbage = server(Some(b"canary-value\r\n\r\n")).await;
    let silent = server(None).await;
    for url in [closed, garbage, silent] {
        let mut request = get(&url);
        request.headers = vec![("x-key".into(), "{{secret:key}}".into())];
        let error = send(&client(&url), request).await.err().unwrap();
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
}

#[tokio::test]
async fn a_header_that_comes_back_with_a_secret_is_masked() {
    let url = server(Some(
        b"HTTP/1.1 200 OK\r\nx-echo: Bearer canary-value\r\ncontent-length: 0\r\n\r\n",
    ))
    .await;
    let response = send(&client(&url), get(&url)).await.ok().unwrap();
    let echo = ("x-echo".into(), "Bearer {{secret:key}}".into());
    assert!(response.headers.contains(&echo));
}
