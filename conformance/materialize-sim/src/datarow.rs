//! DataRow messages, written straight into the buffer that goes to the socket.

/// When a buffer holds this many bytes it is handed to the socket.
const FULL: usize = 128 * 1024;

/// Complete DataRow messages on their way to the client.
pub(crate) struct RowBuffer {
    /// The bytes; always whole messages.
    pub(crate) bytes: Vec<u8>,
    /// Rows that may still be added before the FETCH has its count.
    pub(crate) room: u64,
}

impl RowBuffer {
    pub(crate) fn new(room: u64) -> Self {
        Self {
            bytes: Vec::with_capacity(FULL + 16 * 1024),
            room,
        }
    }

    /// Whether the socket should have the bytes (or the FETCH its count) before more rows come.
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0 || self.bytes.len() >= FULL
    }

    /// Adds one encoded message.
    pub(crate) fn push(&mut self, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.room -= 1;
    }

    /// Writes a row in place and counts it.
    pub(crate) fn row(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.room -= 1;
    }
}

/// Starts a message of `columns` values; [`finish`] with the returned position ends it.
pub(crate) fn start(out: &mut Vec<u8>, columns: usize) -> usize {
    let at = out.len();
    out.extend_from_slice(&[b'D', 0, 0, 0, 0]);
    // More than i16::MAX columns cannot be declared, so nothing is cut off here.
    out.extend_from_slice(&(columns as i16).to_be_bytes());
    at
}

/// Fills in the length of the message started at `at`.
pub(crate) fn finish(out: &mut [u8], at: usize) {
    let length = (out.len() - at - 1) as i32;
    out[at + 1..at + 5].copy_from_slice(&length.to_be_bytes());
}

/// Adds a value of the current message.
pub(crate) fn value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

/// Adds an integer value of the current message.
pub(crate) fn integer(out: &mut Vec<u8>, number: impl itoa::Integer) {
    value(out, Some(itoa::Buffer::new().format(number).as_bytes()));
}

/// A whole message of text values.
pub(crate) fn text_row(out: &mut Vec<u8>, values: &[Option<String>]) {
    let at = start(out, values.len());
    for text in values {
        value(out, text.as_deref().map(str::as_bytes));
    }
    finish(out, at);
}
