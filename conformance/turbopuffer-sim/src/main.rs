//! Runs the emulator until it is interrupted.

use std::net::SocketAddr;

use clap::Parser;
use turbopuffer_sim::{Options, Server};

/// An emulator of the turbopuffer HTTP API, in memory.
#[derive(Parser)]
struct Arguments {
    /// Address to listen on. Port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Require this API key.
    #[arg(long)]
    api_key: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let server = Server::start(Options {
        address: arguments.listen,
        api_key: arguments.api_key,
        ..Options::default()
    })
    .await?;
    println!("listening on {}", server.url());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
