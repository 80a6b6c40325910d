//! One connection's messages.

use bytes::BytesMut;
use pgwire::messages::data::{FieldDescription, RowDescription};
use pgwire::messages::response::{
    CommandComplete, ErrorResponse, NoticeResponse, ReadyForQuery, TransactionStatus,
};
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::SqlError;
use crate::types::{Column, type_size};

/// A plain or encrypted stream.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Socket for T {}

/// Why a session ends early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The statement failed; the session goes on unless it is fatal.
    Sql(SqlError),
    /// The socket is closed or broken; nobody is left to be told.
    Gone,
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<std::io::Error> for Stop {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

/// Framing in both directions. Nothing is sent before [`Wire::flush`].
pub(crate) struct Wire {
    pub(crate) socket: Box<dyn Socket>,
    pub(crate) context: DecodeContext,
    inbox: BytesMut,
    outbox: BytesMut,
    /// Bytes that may still be sent before the connection is cut.
    left: Option<u64>,
}

impl Wire {
    pub(crate) fn new(socket: Box<dyn Socket>, context: DecodeContext) -> Self {
        Self {
            socket,
            context,
            inbox: BytesMut::new(),
            outbox: BytesMut::new(),
            left: None,
        }
    }

    /// Closes the connection after this many more bytes, in the middle of a message or not.
    pub(crate) fn cut_after(&mut self, bytes: u64) {
        self.left = Some(bytes);
    }

    /// The next message. Cancelling it loses nothing.
    pub(crate) async fn receive(&mut self) -> Result<PgWireFrontendMessage, Stop> {
        loop {
            match PgWireFrontendMessage::decode(&mut self.inbox, &self.context) {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => self.read_more().await?,
                Err(error) => return Err(SqlError::fatal("08P01", error.to_string()).into()),
            }
        }
    }

    /// Waits for more bytes and keeps them. Cancelling it loses nothing.
    pub(crate) async fn read_more(&mut self) -> Result<(), Stop> {
        if self.socket.read_buf(&mut self.inbox).await? == 0 {
            return Err(Stop::Gone);
        }
        Ok(())
    }

    pub(crate) fn put(&mut self, message: PgWireBackendMessage) {
        // Encoding fails only for messages beyond protocol limits, which are never built here.
        if let Err(error) = message.encode(&mut self.outbox) {
            tracing::error!(%error, "a message could not be encoded");
        }
    }

    pub(crate) fn complete(&mut self, tag: impl Into<String>) {
        self.put(PgWireBackendMessage::CommandComplete(CommandComplete::new(
            tag.into(),
        )));
    }

    pub(crate) fn ready(&mut self, status: TransactionStatus) {
        self.put(PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(
            status,
        )));
    }

    pub(crate) fn notice(&mut self, code: &str, message: impl Into<String>) {
        let fields = vec![
            (b'S', "NOTICE".to_owned()),
            (b'C', code.to_owned()),
            (b'M', message.into()),
        ];
        self.put(PgWireBackendMessage::NoticeResponse(NoticeResponse::new(
            fields,
        )));
    }

    pub(crate) fn notice_with_detail(&mut self, message: &str, detail: &str) {
        let fields = vec![
            (b'S', "NOTICE".to_owned()),
            (b'C', "00000".to_owned()),
            (b'M', message.to_owned()),
            (b'D', detail.to_owned()),
        ];
        self.put(PgWireBackendMessage::NoticeResponse(NoticeResponse::new(
            fields,
        )));
    }

    pub(crate) fn error(&mut self, error: &SqlError) {
        let mut fields = vec![
            (b'S', error.severity.to_owned()),
            (b'C', error.code.to_owned()),
            (b'M', error.message.clone()),
        ];
        fields.extend(error.detail.clone().map(|detail| (b'D', detail)));
        fields.extend(error.position.map(|at| (b'P', at.to_string())));
        self.put(PgWireBackendMessage::ErrorResponse(ErrorResponse::new(
            fields,
        )));
    }

    pub(crate) fn describe(&mut self, columns: &[Column]) {
        let fields = columns
            .iter()
            .map(|c| {
                FieldDescription::new(c.name.clone(), 0, 0, c.oid, type_size(c.oid), c.typmod, 0)
            })
            .collect();
        self.put(PgWireBackendMessage::RowDescription(RowDescription::new(
            fields,
        )));
    }

    /// Sends what was put, then `rows`.
    pub(crate) async fn send_rows(&mut self, rows: &[u8]) -> Result<(), Stop> {
        self.flush().await?;
        write(&mut self.socket, &mut self.left, rows).await
    }

    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        let sent = write(&mut self.socket, &mut self.left, &self.outbox).await;
        self.outbox.clear();
        sent
    }
}

async fn write(
    socket: &mut Box<dyn Socket>,
    left: &mut Option<u64>,
    bytes: &[u8],
) -> Result<(), Stop> {
    let allowed = match left {
        Some(left) => usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len())),
        None => bytes.len(),
    };
    socket.write_all(&bytes[..allowed]).await?;
    socket.flush().await?;
    if let Some(left) = left {
        *left -= allowed as u64;
        if allowed < bytes.len() {
            return Err(Stop::Gone);
        }
    }
    Ok(())
}
