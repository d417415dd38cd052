//! An open-loop load generator for `dikast serve`: requests are sent when they are due, whether or not earlier ones were
//! answered, and their time counts from when they were due. A server that stalls cannot slow its own measurement down.

mod client;
mod mix;
mod report;
mod steps;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};

use crate::mix::Mix;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Sends requests at given rates and writes what came back as JSON.
#[derive(Debug, Parser)]
#[command(name = "dikast-load")]
struct Args {
    /// Where the server listens.
    #[arg(long, default_value = "127.0.0.1:8080")]
    address: SocketAddr,
    /// Requests a second, one step a value. Without any, the capacity is measured and multiples of it are offered.
    #[arg(long, value_delimiter = ',')]
    rates: Vec<f64>,
    /// Multiples of the capacity that are offered.
    #[arg(long, value_delimiter = ',', default_value = "0.25,0.5,0.75,1,1.5,2,3,4")]
    multiples: Vec<f64>,
    /// Seconds of each step.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Connections at most; a request that is due while all are busy waits, and its time runs.
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// Part of the requests whose client leaves before the answer, at a random time up to the patience.
    #[arg(long, default_value_t = 0.0)]
    leaving: f64,
    /// Longest time until a client leaves, in milliseconds.
    #[arg(long, default_value_t = 50.0)]
    patience: f64,
    /// How long an answer may take, in seconds.
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
    /// Requests one after the other before the steps, each beside the server's own times.
    #[arg(long, default_value_t = 200)]
    alone: usize,
    /// Pause before one more of them, in seconds: the first request after it is compared with warm ones.
    #[arg(long, default_value_t = 0.0)]
    idle: f64,
    /// What is asked: `mixed`, `labels`, `questions`, or a file of `{"path", "body"}`, one a line.
    #[arg(long, default_value = "mixed")]
    mix: String,
    /// The server's process, whose memory is recorded.
    #[arg(long)]
    pid: Option<u32>,
    /// Seed of all that is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A note for the report, such as what else the machine did.
    #[arg(long, default_value = "")]
    note: String,
    /// Where the report goes; standard output without it.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let mix = Mix::open(&args.mix, args.seed)?;
    let mut report = json!({
        "command": std::env::args().collect::<Vec<_>>(),
        "note": args.note,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "mix": mix.kinds(),
    });
    if args.alone > 0 {
        let idle = Duration::from_secs_f64(args.idle);
        report["alone"] = steps::alone(args.address, &mix, args.alone, idle).await?;
        eprintln!("alone: {}", report["alone"]);
    }
    let offer = |rate, seconds| steps::Offer {
        address: args.address,
        rate,
        time: Duration::from_secs_f64(seconds),
        connections: args.connections,
        leaving: args.leaving,
        patience: Duration::from_secs_f64(args.patience / 1e3),
        timeout: Duration::from_secs_f64(args.timeout),
        pid: args.pid,
        seed: args.seed,
    };
    let mut rates = args.rates.clone();
    if rates.is_empty() {
        let capacity = steps::capacity(args.address, &mix, Duration::from_secs_f64(args.seconds)).await?;
        eprintln!("capacity: {capacity:.1} requests/s");
        report["capacity"] = json!(capacity);
        rates = args.multiples.iter().map(|multiple| multiple * capacity).collect();
    }
    let mut steps = Vec::new();
    for rate in rates {
        let step = steps::open_loop(&offer(rate, args.seconds), &mix).await?;
        eprintln!("{step}");
        steps.push(step);
    }
    report["steps"] = Value::Array(steps);
    let text = serde_json::to_string_pretty(&report)?;
    match args.out {
        Some(path) => std::fs::write(path, text + "\n")?,
        None => {
            use std::io::Write as _;
            writeln!(std::io::stdout().lock(), "{text}")?;
        }
    }
    Ok(())
}
