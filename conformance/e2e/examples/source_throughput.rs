//! How fast rows come out of the source: `cargo run --release -p e2e --example source_throughput`.
//!
//! The simulator runs in the same process and shares the machine.

use std::time::{Duration, Instant};

use materialize_sim::{BenchOptions, Options, Server};
use mz_sink_source::{ConnectOptions, RowBlock, Session};

const ROWS: u64 = 2_000_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = Server::start(Options::default()).await?;
    let bench = BenchOptions {
        rows: ROWS,
        changes_per_second: 0,
    };
    server.control().create_bench("bench", bench)?;
    let mut session = Session::connect(&ConnectOptions::parse(&server.url(), None)?).await?;
    session.query("BEGIN").await?;
    let subscribe =
        "DECLARE c CURSOR FOR SUBSCRIBE bench ENVELOPE UPSERT (KEY (id)) WITH (PROGRESS)";
    session.query(subscribe).await?;
    let started = Instant::now();
    session
        .fetch(&format!("FETCH {ROWS} c WITH (timeout = '600s')"))
        .await?;
    let (mut rows, mut bytes, mut blocks, mut complete) = (0_usize, 0, 0, false);
    let mut block = RowBlock::default();
    while !complete {
        complete = session
            .next_block(&mut block, Duration::from_secs(60))
            .await?;
        blocks += 1;
        for row in block.rows() {
            rows += 1;
            bytes += (0..block.names().len())
                .filter_map(|index| row.value(index))
                .map(<[u8]>::len)
                .sum::<usize>();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{:.2} million rows/s, {:.0} MiB/s of values, {} rows per block",
        rows as f64 / seconds / 1e6,
        bytes as f64 / seconds / f64::from(1 << 20),
        rows / blocks,
    );
    server.shutdown().await;
    Ok(())
}
