//! The simulator as a program.

use std::path::PathBuf;

use clap::Parser;
use materialize_sim::{BenchOptions, Options, ReplayOptions, Server, Speed};

/// A simulated Materialize on real pgwire.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// A recorded stream (.jsonl or .jsonl.gz) to serve as the object it was recorded from.
    #[arg(long, value_name = "FILE")]
    replay: Vec<PathBuf>,
    /// Grow each recording to at least this many rows.
    #[arg(long)]
    rows: Option<u64>,
    /// Recorded seconds per second, or "max".
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// Also serve a generated table `bench` with this many rows.
    #[arg(long, value_name = "ROWS")]
    bench: Option<u64>,
    /// Ask for this password.
    #[arg(long, env = "MZ_SIM_PASSWORD", hide_env_values = true)]
    password: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let options = Options {
        listen: arguments.listen,
        password: arguments.password,
        ..Options::default()
    };
    let server = Server::start(options).await?;
    let control = server.control();
    for file in &arguments.replay {
        let options = ReplayOptions {
            speed: arguments.speed,
            rows: arguments.rows,
        };
        let name = control.replay(file, options)?;
        println!("replaying {name}");
    }
    if let Some(rows) = arguments.bench {
        control.create_bench(
            "bench",
            BenchOptions {
                rows,
                changes_per_second: 0,
            },
        )?;
        println!("generating materialize.public.bench");
    }
    println!("listening on {}", server.url());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
