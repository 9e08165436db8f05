//! The tables: ours next to the best peer and the limit, then all peers.

use crate::cases::{chosen, is_bound_by_memory, is_training, what};
use crate::causes::{cause, cause_of_limit};
use crate::samples::{Best, Measured, Standing, Statistic, TIE, read};
use crate::{Result, chart, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// Prints `peers.md` and `training.md` and writes them, and a chart for each number of threads, into the
/// directory of the samples. A page without samples is not written.
pub fn write(directory: &Path) -> Result<()> {
    write_page(directory, "peers", "rankform beside its peers")?;
    write_page(directory, TRAINING, "Training steps")
}

/// The page of training steps.
const TRAINING: &str = "training";

fn write_page(directory: &Path, page: &str, title: &str) -> Result<()> {
    let mut text = String::new();
    let mut memory = String::new();
    let mut peers = BTreeSet::new();
    for threads in [1, 2] {
        let statistic = Statistic::of(threads);
        let measured = read(directory, threads, statistic)?;
        let is_measured =
            |case: &String| is_training(case) == (page == TRAINING) && measured.contains_key(case);
        let cases: Vec<String> = chosen(1, &[]).into_iter().filter(is_measured).collect();
        if cases.is_empty() {
            continue;
        }
        peers.extend(measured.values().flat_map(|of| of.best.keys().cloned()));
        writeln!(text, "## {threads} thread{}, {}\n", if threads > 1 { "s" } else { "" }, statistic.name())?;
        if page == TRAINING {
            text += &standing(&cases, &measured)?;
            text += &behind(&cases, &measured, threads)?;
            text += &everybody(&cases, &measured)?;
            memory = kept(&cases, &measured)?;
            continue;
        }
        text += &summary(&cases, &measured, threads)?;
        text += &ours(&cases, &measured)?;
        text += &everybody(&cases, &measured)?;
        let name =
            if threads == 1 { "peers.svg".to_string() } else { format!("peers_{threads}_threads.svg") };
        std::fs::write(directory.join(name), chart::draw(&cases, &measured, threads))?;
    }
    if text.is_empty() {
        return Ok(());
    }
    let text = format!(
        "# {title}\n\nBy `benches/peers/run`, on {}\nHow to read it: `benches/peers/README.md`.\n\n\
         {text}{memory}",
        machine(&peers)
    );
    print!("{text}");
    let file = directory.join(format!("{page}.md"));
    std::fs::write(&file, text)?;
    eprintln!("written: {}", file.display());
    Ok(())
}

/// Training steps: ours next to the best peer.
fn standing(cases: &[String], measured: &BTreeMap<String, Measured>) -> Result<String> {
    let mut text = String::from(
        "| case | what | rankform | best peer | which | peer ÷ ours |\n|---|---|---:|---:|---|---:|\n",
    );
    for case in cases {
        let of = &measured[case];
        let (ours, peer) = (cell(of.ours()), cell(of.peer()));
        let which = of.peer().map_or(String::new(), |best| format!("{}: {}", best.peer, best.form));
        let advantage = of.advantage().map_or(String::new(), |advantage| format!("{advantage:.2}"));
        writeln!(text, "| {case} | {} | {ours} | {peer} | {which} | {advantage} |", what(case))?;
    }
    text.push('\n');
    Ok(text)
}

/// The memory that a forward pass keeps.
fn kept(cases: &[String], measured: &BTreeMap<String, Measured>) -> Result<String> {
    let peers: BTreeSet<&String> = cases.iter().flat_map(|case| measured[case].kept.keys()).collect();
    let mut text = String::from("## Memory that a forward pass keeps for the backward pass\n\n| case |");
    for peer in &peers {
        write!(text, " {peer} |")?;
    }
    write!(text, "\n|---|{}\n", "---:|".repeat(peers.len()))?;
    for case in cases {
        write!(text, "| {case} |")?;
        for &peer in &peers {
            let bytes = measured[case].kept.get(peer);
            write!(text, " {} |", bytes.map_or(String::new(), |bytes| format!("{:.0} KiB", bytes / 1024.0)))?;
        }
        text.push('\n');
    }
    text.push('\n');
    Ok(text)
}

/// 1.23 µs.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

/// The part of the limit that a case which memory bounds should reach.
const NEAR_LIMIT: f64 = 0.8;

fn cell(best: Option<&Best>) -> String {
    best.map_or(String::new(), |best| time(best.ns))
}

/// The libraries with a version in the lock file, by the names of their peers.
const LIBRARIES: &[(&str, &str)] = &[
    ("ndarray", "ndarray"),
    ("nalgebra", "nalgebra"),
    ("faer", "faer"),
    ("gemm", "gemm"),
    ("mdarray", "mdarray"),
    ("rten", "rten-vecmath"),
    ("candle", "candle-core"),
    ("burn", "burn"),
];

/// The processor, and the versions of the peers that were measured.
fn machine(peers: &BTreeSet<String>) -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap_or_default();
    let version = |name: &str| {
        let of = |package: &str| {
            package
                .split_once(&format!("name = \"{name}\"\nversion = \""))?
                .1
                .split('"')
                .next()
                .map(str::to_string)
        };
        lock.split("\n\n").filter_map(of).last().map(|version| format!("{name} {version}"))
    };
    let mut libraries: Vec<String> = LIBRARIES
        .iter()
        .filter(|(peer, _)| peers.contains(*peer))
        .filter_map(|(_, name)| version(name))
        .collect();
    let python = std::env::var("PYTHON_VERSIONS").unwrap_or_default();
    libraries.extend(
        python
            .split(", ")
            .filter(|of| of.split_once(' ').is_some_and(|(name, _)| peers.contains(name)))
            .map(str::to_string),
    );
    format!("{cpu}, {cores} cores. {}.", libraries.join(", "))
}

fn summary(cases: &[String], measured: &BTreeMap<String, Measured>, threads: usize) -> Result<String> {
    let mut text = String::new();
    let Standing { cases: all, first, mean, ceiling } = Standing::of(cases, measured);
    writeln!(text, "* {all} cases with a peer: rankform is first or within 3 % of the first in {first}.")?;
    let touched: Vec<String> =
        cases.iter().filter(|case| !case.starts_with("create/zeros/")).cloned().collect();
    let without = Standing::of(&touched, measured).mean;
    writeln!(
        text,
        "* Geometric mean of best peer ÷ rankform: {mean:.2}; {without:.2} without the zeros, which nobody \
         reads or writes."
    )?;
    writeln!(
        text,
        "* If rankform reached the limit in every case that has one, with no time for arithmetic, that mean \
         would be {ceiling:.2}."
    )?;
    let bound: Vec<f64> = cases
        .iter()
        .filter(|case| is_bound_by_memory(case))
        .filter_map(|case| measured[case].of_limit())
        .collect();
    writeln!(
        text,
        "* Of {} cases that memory bounds, {} reach {NEAR_LIMIT} of the limit.",
        bound.len(),
        bound.iter().filter(|of| **of >= NEAR_LIMIT).count()
    )?;
    let disturbed: Vec<&str> =
        cases.iter().filter(|case| measured[*case].is_disturbed()).map(String::as_str).collect();
    if !disturbed.is_empty() {
        writeln!(
            text,
            "* Left out, because somebody was a tenth faster: the limits of {}.",
            disturbed.join(", ")
        )?;
    }
    let not_yet: Vec<&str> =
        cases.iter().filter(|case| measured[*case].ours().is_none()).map(String::as_str).collect();
    if !not_yet.is_empty() {
        writeln!(text, "* Not yet in rankform: {}.", not_yet.join(", "))?;
    }
    text.push('\n');
    text += &behind(cases, measured, threads)?;
    let far = cases
        .iter()
        .filter(|case| is_bound_by_memory(case))
        .filter_map(|case| Some((case, measured[case].of_limit()?)));
    let far: Vec<_> = far.filter(|(_, of)| *of < NEAR_LIMIT).collect();
    if !far.is_empty() {
        writeln!(
            text,
            "| bound by memory, below {NEAR_LIMIT} of the limit | of the limit | because |\n|---|---:|---|"
        )?;
        for (case, of) in far {
            let cause = cause_of_limit(case, threads).unwrap_or("not yet known");
            writeln!(text, "| {case} | {of:.3} | {cause} |")?;
        }
        text.push('\n');
    }
    Ok(text)
}

/// The cases that are behind, with their causes.
fn behind(cases: &[String], measured: &BTreeMap<String, Measured>, threads: usize) -> Result<String> {
    let mut text = String::new();
    let behind = cases
        .iter()
        .filter_map(|case| Some((case, 1.0 / measured[case].advantage()?)))
        .filter(|(_, times)| *times > TIE);
    let behind: Vec<_> = behind.collect();
    if !behind.is_empty() {
        text += "| behind the best peer | times | because |\n|---|---:|---|\n";
        for (case, times) in behind {
            let cause = cause(case, threads).unwrap_or("not yet known");
            writeln!(text, "| {case} | {times:.2} | {cause} |")?;
        }
        text.push('\n');
    }
    Ok(text)
}

fn ours(cases: &[String], measured: &BTreeMap<String, Measured>) -> Result<String> {
    let mut text = String::from(
        "| case | what | rankform | form | best peer | which | peer ÷ ours | limit | limit ÷ ours |\n\
         |---|---|---:|---|---:|---|---:|---:|---:|\n",
    );
    for case in cases {
        let of = &measured[case];
        let (ours, form) = of.ours().map_or(("not yet".to_string(), ""), |best| (time(best.ns), &best.form));
        let peer = of.peer().map_or(String::new(), |best| format!("{}: {}", best.peer, best.form));
        let advantage = of.advantage().map_or(String::new(), |advantage| match advantage {
            advantage if advantage >= 1.0 => format!("**{advantage:.2}**"),
            advantage => format!("{advantage:.2}"),
        });
        let of_limit = of.of_limit().map_or(String::new(), |of| format!("{of:.2}"));
        let (best, limit) = (cell(of.peer()), cell(of.limit()));
        writeln!(
            text,
            "| {case} | {} | {ours} | {form} | {best} | {peer} | {advantage} | {limit} | {of_limit} |",
            what(case)
        )?;
    }
    text.push('\n');
    Ok(text)
}

/// The best form of every peer; the fastest is bold.
fn everybody(cases: &[String], measured: &BTreeMap<String, Measured>) -> Result<String> {
    let peers: BTreeSet<&String> = measured
        .values()
        .flat_map(|of| of.best.keys())
        .filter(|peer| *peer != "limit" && *peer != "rankform")
        .collect();
    let names: Vec<&str> = std::iter::once("rankform").chain(peers.into_iter().map(String::as_str)).collect();
    let mut text = format!("| case | {} |\n|---|{}\n", names.join(" | "), "---:|".repeat(names.len()));
    for case in cases {
        let of = &measured[case];
        let first = names
            .iter()
            .filter_map(|name| of.best.get(*name))
            .map(|best| best.ns)
            .fold(f64::INFINITY, f64::min);
        let cells = names.iter().map(|name| match of.best.get(*name) {
            Some(best) if best.ns == first => format!(" **{}** |", time(best.ns)),
            best => format!(" {} |", cell(best)),
        });
        writeln!(text, "| {case} |{}", cells.collect::<String>())?;
    }
    text.push('\n');
    let failed: Vec<String> = cases
        .iter()
        .flat_map(|case| measured[case].failed.iter().map(move |why| format!("* {case}: {why}\n")))
        .collect();
    if !failed.is_empty() {
        write!(text, "Failed:\n\n{}\n", failed.concat())?;
    }
    Ok(text)
}
