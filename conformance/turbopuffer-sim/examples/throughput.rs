//! Measures how many rows per second one core of the emulator applies.
//!
//! `cargo run --release -p turbopuffer-sim --example throughput [part of a case's name]`
//!
//! Bodies are made beforehand and sent one after the other over one connection, so the time
//! is the server's own (receiving, parsing, applying) plus a copy into the socket.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use turbopuffer_sim::{Options, Server};

const BATCHES: u64 = 50;
const ROWS: u64 = 20_000;

const SCHEMA: &str = r#""schema":{"id":"uint","mz_timestamp":"uint","generation":"uint","deleted":"bool","written_at":"uint","a":"int","b":"int","title":"string","city":"string","note":{"type":"string","filterable":false},"price":"float"},"upsert_condition":["Or",[["mz_timestamp","Lt",{"$ref_new":"mz_timestamp"}],["mz_timestamp","Eq",null]]]"#;

fn values(id: u64, timestamp: u64) -> [(&'static str, String); 11] {
    [
        ("id", id.to_string()),
        ("mz_timestamp", timestamp.to_string()),
        ("generation", "1764556800000".to_owned()),
        ("deleted", "false".to_owned()),
        ("written_at", "1764556801234".to_owned()),
        ("a", (id % 1000).to_string()),
        ("b", format!("-{}", id % 77 + 1)),
        (
            "title",
            format!("\"title of document number {id} with some more words in it\""),
        ),
        ("city", format!("\"city {}\"", id % 100)),
        ("note", format!("\"a note of about forty bytes, {id}\"")),
        ("price", format!("{}.25", id % 500)),
    ]
}

fn columns(ids: &[u64], timestamp: u64) -> String {
    let rows: Vec<_> = ids.iter().map(|&id| values(id, timestamp)).collect();
    let mut body = format!("{{{SCHEMA},\"upsert_columns\":{{");
    for column in 0..11 {
        let cells: Vec<&str> = rows.iter().map(|row| row[column].1.as_str()).collect();
        let comma = if column == 0 { "" } else { "," };
        let _ = write!(
            body,
            "{comma}\"{}\":[{}]",
            rows[0][column].0,
            cells.join(",")
        );
    }
    body.push_str("}}");
    body
}

fn rows(ids: &[u64], timestamp: u64) -> String {
    let rows: Vec<String> = ids
        .iter()
        .map(|&id| {
            let cells = values(id, timestamp).map(|(name, value)| format!("\"{name}\":{value}"));
            format!("{{{}}}", cells.join(","))
        })
        .collect();
    format!("{{{SCHEMA},\"upsert_rows\":[{}]}}", rows.join(","))
}

fn send(stream: &mut TcpStream, namespace: &str, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "POST /v2/namespaces/{namespace} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body.as_bytes())?;
    let mut answer = [0; 4096];
    let read = stream.read(&mut answer)?;
    if !answer[..read].starts_with(b"HTTP/1.1 200") {
        return Err(std::io::Error::other(
            String::from_utf8_lossy(&answer[..read]).into_owned(),
        ));
    }
    Ok(())
}

fn resident_mb() -> String {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("VmRSS"))?;
            let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
            Some(format!("{} MB resident", kilobytes / 1024))
        })
        .unwrap_or_default()
}

/// CPU time of the whole process, in clock ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|t| t.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> std::io::Result<()> {
    let server = Server::start(Options::default()).await?;
    let address = server.url().replace("http://", "");
    tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address)?;
        // A multiplier that is odd permutes the ids: a key order that is not sorted.
        let id = |n: u64, scattered: bool| {
            if scattered {
                n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            } else {
                n
            }
        };
        type Body = fn(&[u64], u64) -> String;
        let forms: [(&str, Body, bool); 3] = [
            ("columns, sorted ids", columns, false),
            ("columns, scattered ids", columns, true),
            ("rows, sorted ids", rows, false),
        ];
        let wanted = std::env::args().nth(1).unwrap_or_default();
        let forms = forms
            .into_iter()
            .filter(|(name, ..)| name.contains(&wanted));
        for (number, (name, body, scattered)) in forms.enumerate() {
            for (pass, timestamp) in [("insert", 1), ("update", 2), ("replay", 2)] {
                let mut seconds = 0.0;
                let mut cpu = 0.0;
                for batch in 0..BATCHES {
                    let ids: Vec<u64> = (batch * ROWS..(batch + 1) * ROWS)
                        .map(|n| id(n, scattered))
                        .collect();
                    let body = body(&ids, timestamp);
                    let (start, start_cpu) = (Instant::now(), cpu_seconds());
                    send(&mut stream, &format!("n{number}"), &body)?;
                    seconds += start.elapsed().as_secs_f64();
                    cpu += cpu_seconds() - start_cpu;
                }
                let total = (BATCHES * ROWS) as f64;
                println!(
                    "{name}, {pass}: {:.0} rows/s, {:.0} rows per CPU second, {}",
                    total / seconds,
                    total / cpu,
                    resident_mb()
                );
            }
        }
        Ok::<(), std::io::Error>(())
    })
    .await??;
    server.shutdown().await;
    Ok(())
}
