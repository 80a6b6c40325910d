//! How fast rows leave the simulator: `cargo run --release -p materialize-sim --example throughput`.
//!
//! The client only reads bytes from the socket, so that the simulator is what is measured.
//! Both ends share the machine; CPU time of the whole process is the fairer number.

use std::path::Path;
use std::time::Instant;

use materialize_sim::{BenchOptions, Options, ReplayOptions, Server, Speed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ROWS: u64 = 2_000_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = Server::start(Options::default()).await?;
    let control = server.control();
    control.create_bench(
        "bench",
        BenchOptions {
            rows: ROWS,
            changes_per_second: 0,
        },
    )?;
    let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recordings/streams");
    let options = ReplayOptions {
        speed: Speed::Max,
        rows: Some(ROWS),
    };
    control.replay(&streams.join("auction_board.jsonl.gz"), options)?;
    for (what, subscribe) in [
        ("generated, diff", "bench WITH (PROGRESS)"),
        (
            "generated, upsert",
            "bench ENVELOPE UPSERT (KEY (id)) WITH (PROGRESS)",
        ),
        (
            "grown recording, upsert",
            "market.auction_board ENVELOPE UPSERT (KEY (auction_id)) WITH (PROGRESS)",
        ),
    ] {
        measure(&server, what, subscribe).await?;
    }
    server.shutdown().await;
    Ok(())
}

async fn measure(server: &Server, what: &str, subscribe: &str) -> anyhow::Result<()> {
    let mut socket = TcpStream::connect(server.address()).await?;
    let parameters = b"user\0materialize\0\0";
    let mut startup = (8 + parameters.len() as u32).to_be_bytes().to_vec();
    startup.extend_from_slice(&196_608_u32.to_be_bytes());
    startup.extend_from_slice(parameters);
    socket.write_all(&startup).await?;
    let mut buffer = vec![0; 1 << 20];
    let _ = socket.read(&mut buffer).await?;
    let sql = format!(
        "BEGIN; DECLARE c CURSOR FOR SUBSCRIBE {subscribe}; FETCH {ROWS} c WITH (timeout = '600s')\0"
    );
    let mut query = vec![b'Q'];
    query.extend_from_slice(&(4 + sql.len() as u32).to_be_bytes());
    query.extend_from_slice(sql.as_bytes());
    let (started, cpu) = (Instant::now(), cpu_seconds());
    socket.write_all(&query).await?;
    let mut bytes = 0;
    loop {
        let read = socket.read(&mut buffer).await?;
        anyhow::ensure!(read > 0, "the server closed the connection");
        bytes += read;
        // The answer ends with ReadyForQuery in a transaction: 'Z', length 5, 'T'.
        if buffer[..read].ends_with(&[b'Z', 0, 0, 0, 5, b'T']) {
            break;
        }
    }
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!(
        "{what}: {:.2} million rows/s, {:.0} MiB/s, {} bytes/row, {:.2} s of CPU in {seconds:.2} s",
        ROWS as f64 / seconds / 1e6,
        bytes as f64 / seconds / (1 << 20) as f64,
        bytes as u64 / ROWS,
        cpu,
    );
    Ok(())
}

/// CPU time of this process, both ends of the socket together; 0 where /proc does not tell.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|t| t.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(12) + ticks(13)) / 100.0
}
