//! A client that sees every message, in the form of the recordings.

use bytes::{BufMut, BytesMut};
use materialize_sim::Server;
use pgwire::messages::simplequery::Query;
use pgwire::messages::startup::{SecretKey, Startup};
use pgwire::messages::{
    DecodeContext, Message as _, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection.
pub struct Raw {
    socket: TcpStream,
    inbox: BytesMut,
    context: DecodeContext,
    /// What a cancel request must name.
    pub pid: i32,
    key: i32,
}

impl Raw {
    pub async fn connect(server: &Server) -> Self {
        let mut raw = Self::open(server, &[("user", "materialize")]).await;
        raw.until_ready().await;
        raw
    }

    /// Sends the startup message and reads nothing yet.
    pub async fn open(server: &Server, parameters: &[(&str, &str)]) -> Self {
        let socket = TcpStream::connect(server.address()).await.unwrap();
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        context.awaiting_frontend_ssl = false;
        context.awaiting_frontend_startup = false;
        let mut startup = Startup::default();
        startup.protocol_number_minor = 0;
        for (name, value) in parameters {
            let (name, value) = ((*name).to_owned(), (*value).to_owned());
            startup.parameters.insert(name, value);
        }
        let mut bytes = BytesMut::new();
        startup.encode(&mut bytes).unwrap();
        let mut raw = Self {
            socket,
            inbox: BytesMut::new(),
            context,
            pid: 0,
            key: 0,
        };
        raw.send_bytes(&bytes).await;
        raw
    }

    pub async fn query(&mut self, sql: &str) -> Vec<Value> {
        self.send_query(sql).await;
        self.until_ready().await
    }

    pub async fn send_query(&mut self, sql: &str) {
        self.send(PgWireFrontendMessage::Query(Query::new(sql.to_owned())))
            .await;
    }

    pub async fn send(&mut self, message: PgWireFrontendMessage) {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes).unwrap();
        self.send_bytes(&bytes).await;
    }

    /// Parse, Describe, Bind, Execute and Sync of a statement without parameters.
    pub async fn send_extended(&mut self, sql: &str) {
        let mut bytes = BytesMut::new();
        let mut message = |kind: u8, body: &[u8]| {
            bytes.put_u8(kind);
            bytes.put_i32(body.len() as i32 + 4);
            bytes.put_slice(body);
        };
        message(
            b'P',
            &[b"\0".as_slice(), sql.as_bytes(), b"\0\0\0"].concat(),
        );
        message(b'D', b"S\0");
        message(b'B', b"\0\0\0\0\0\0\0\0");
        message(b'E', b"\0\0\0\0\0");
        message(b'S', b"");
        self.send_bytes(&bytes).await;
    }

    /// A server may have closed the connection already; then that is what will be read.
    async fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes).await;
    }

    /// Asks, on another connection, to cancel what this one runs.
    pub async fn cancel(&self, server: &Server) {
        let mut request = BytesMut::new();
        for number in [16, 80_877_102, self.pid, self.key] {
            request.put_i32(number);
        }
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        socket.write_all(&request).await.unwrap();
    }

    /// The number of bytes up to the end of the connection.
    pub async fn bytes_to_the_end(mut self) -> usize {
        while self.socket.read_buf(&mut self.inbox).await.unwrap_or(0) > 0 {}
        self.inbox.len()
    }

    /// Everything up to ReadyForQuery, or up to the end of the connection.
    pub async fn until_ready(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            all.push(self.next().await);
            if ends_answer(&all[all.len() - 1]) {
                return all;
            }
        }
    }

    /// The next message, `{"closed": true}` at the end. Cancelling it loses nothing.
    pub async fn next(&mut self) -> Value {
        loop {
            if let Some(message) =
                PgWireBackendMessage::decode(&mut self.inbox, &self.context).unwrap()
            {
                if let PgWireBackendMessage::BackendKeyData(data) = &message {
                    self.pid = data.pid;
                    if let SecretKey::I32(key) = data.secret_key {
                        self.key = key;
                    }
                }
                return show(message);
            }
            if self.socket.read_buf(&mut self.inbox).await.unwrap_or(0) == 0 {
                return json!({"closed": true});
            }
        }
    }
}

/// Whether nothing follows before the next statement.
pub fn ends_answer(message: &Value) -> bool {
    message.get("ReadyForQuery").is_some() || message.get("closed").is_some()
}

fn show(message: PgWireBackendMessage) -> Value {
    let fields = |fields: &[(u8, String)]| -> Value {
        fields
            .iter()
            .map(|(k, v)| ((*k as char).to_string(), json!(v)))
            .collect()
    };
    match message {
        PgWireBackendMessage::Authentication(_) => json!({"Authentication": 0}),
        PgWireBackendMessage::BackendKeyData(_) => json!({"BackendKeyData": "..."}),
        PgWireBackendMessage::RowDescription(m) => {
            json!({"RowDescription": m.fields.iter().map(|f| json!({
            "name": f.name, "table": f.table_id, "att": f.column_id, "oid": f.type_id,
            "typlen": f.type_size, "typmod": f.type_modifier, "fmt": f.format_code,
        })).collect::<Vec<_>>()})
        }
        PgWireBackendMessage::DataRow(m) => json!({"DataRow": values(&m.data, m.field_count)}),
        PgWireBackendMessage::CommandComplete(m) => json!({"CommandComplete": m.tag}),
        PgWireBackendMessage::ReadyForQuery(m) => {
            json!({"ReadyForQuery": (m.status as u8 as char).to_string()})
        }
        PgWireBackendMessage::ErrorResponse(m) => json!({"ErrorResponse": fields(&m.fields)}),
        PgWireBackendMessage::NoticeResponse(m) => json!({"NoticeResponse": fields(&m.fields)}),
        PgWireBackendMessage::ParameterStatus(m) => json!({"ParameterStatus": [m.name, m.value]}),
        other => json!({"other": format!("{other:?}")}),
    }
}

fn values(mut bytes: &[u8], count: i16) -> Vec<Option<String>> {
    let mut values = Vec::new();
    for _ in 0..count {
        let (length, rest) = bytes.split_first_chunk::<4>().unwrap();
        let length = i32::from_be_bytes(*length);
        let (text, rest) = rest.split_at(length.max(0) as usize);
        values.push((length >= 0).then(|| String::from_utf8(text.to_vec()).unwrap()));
        bytes = rest;
    }
    values
}
