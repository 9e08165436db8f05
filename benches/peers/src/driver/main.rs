//! Measures every peer, and reports.
//!
//! `driver measure THREADS [PREFIX ...]`: one case at a time goes to each peer in turn, in rounds that
//! alternate their order: a disturbance of the machine then affects all of them alike. Samples are appended
//! to a file. `driver report`: the tables and charts of the samples.

mod cases;
mod causes;
mod chart;
mod process;
mod report;
mod samples;

use process::Peer;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The project's folder, and that of the results.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
fn results() -> PathBuf {
    std::env::var_os("RESULTS").map_or(root().join("target/results"), PathBuf::from)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["measure", threads, ..] => measure(threads.parse()?, &arguments[2..]),
        ["report"] => report::write(&results()),
        _ => Err("usage: driver measure THREADS [PREFIX ...] | driver report".into()),
    }
}

fn measure(threads: usize, prefixes: &[String]) -> Result<()> {
    let rounds: usize = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let python = std::env::var("PYTHON").unwrap_or("python3".to_string());
    let wanted = std::env::var("PEERS")?;
    let mut peers = Vec::new();
    for name in wanted.split_whitespace() {
        match Peer::find(name, root(), &python) {
            Ok(peer) => peers.push(peer),
            Err(why) => eprintln!("skipped: {name} ({why})"),
        }
    }
    std::fs::create_dir_all(results())?;
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open(results().join("samples.tsv"))?;
    let cases = cases::chosen(threads, prefixes);
    let start = Instant::now();
    for (i, case) in cases.iter().enumerate() {
        for round in 0..rounds {
            if round > 0 {
                peers.reverse();
            }
            for peer in &mut peers {
                for answer in peer.ask(case, threads) {
                    writeln!(file, "{threads}\t{case}\t{}\t{}\t{}", peer.name, answer.form, answer.times)?;
                }
            }
        }
        eprintln!(
            "[{:4.0} s] {threads} thread(s), {} of {}: {case}",
            start.elapsed().as_secs_f64(),
            i + 1,
            cases.len()
        );
    }
    peers.iter_mut().for_each(Peer::stop);
    Ok(())
}
