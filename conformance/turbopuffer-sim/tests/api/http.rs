//! A server and a blocking client that knows nothing but HTTP.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use turbopuffer_sim::{Options, Server};

pub struct Sim {
    pub server: Server,
}

/// Status, headers in lower case, and body of an answer.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }
}

impl Sim {
    pub async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        let server = Server::start(options).await.expect("starts");
        Self { server }
    }

    /// See [`send`].
    pub fn send(&self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        send(&self.server.url(), method, path, body)
    }

    /// Writes to the namespace `ns` and expects a status.
    pub fn write(&self, status: u16, body: Value) -> Value {
        let answer = self
            .send("POST", "/v2/namespaces/ns", &body.to_string())
            .expect("answers");
        assert_eq!(answer.status, status, "{}", answer.body);
        answer.json()
    }

    /// All documents of `ns` with all attributes, by id.
    pub fn rows(&self) -> Value {
        self.query(json!({ "rank_by": ["id", "asc"], "limit": 10000, "include_attributes": true }))
            ["rows"]
            .clone()
    }

    /// Ids in `ns` that match a filter.
    pub fn matching(&self, filters: Value) -> Vec<u64> {
        let rows = self.query(json!({ "filters": filters, "limit": 10000 }))["rows"].clone();
        let rows = rows.as_array().expect("rows");
        rows.iter().filter_map(|row| row["id"].as_u64()).collect()
    }

    pub fn query(&self, body: Value) -> Value {
        let answer = self
            .send("POST", "/v2/namespaces/ns/query", &body.to_string())
            .expect("answers");
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }
}

/// Sends one request on its own connection. An error when the server gives no answer.
pub fn send(url: &str, method: &str, path: &str, body: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(url.replace("http://", ""))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head[9..12].parse().map_err(io::Error::other)?;
    Ok(Answer {
        status,
        head: head.to_lowercase(),
        body: body.to_owned(),
    })
}
