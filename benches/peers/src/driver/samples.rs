//! The samples, by threads, case, peer and form.

use crate::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// The fastest in one case: nanoseconds, the peer, and the form.
#[derive(Clone, Debug)]
pub struct Best {
    pub ns: f64,
    pub peer: String,
    pub form: String,
}

/// One case: every peer's best form, and the failures.
#[derive(Default)]
pub struct Measured {
    pub best: BTreeMap<String, Best>,
    /// The fewest bytes that a form of a peer keeps for the backward pass.
    pub kept: BTreeMap<String, f64>,
    pub failed: Vec<String>,
}

impl Measured {
    pub fn ours(&self) -> Option<&Best> {
        self.best.get("rankform")
    }
    /// The limit, unless it was disturbed.
    pub fn limit(&self) -> Option<&Best> {
        self.best.get("limit").filter(|_| !self.is_disturbed())
    }
    /// Whether a peer was a tenth faster than the limit: then another process disturbed the measurement of
    /// the limit.
    pub fn is_disturbed(&self) -> bool {
        let limit = self.best.get("limit").map_or(0.0, |limit| limit.ns);
        self.best.values().any(|best| best.ns * 1.1 < limit)
    }
    /// The fastest of the others.
    pub fn peer(&self) -> Option<&Best> {
        let others = self.best.values().filter(|best| best.peer != "rankform" && best.peer != "limit");
        others.min_by(|a, b| a.ns.total_cmp(&b.ns))
    }
    /// How often ours goes into the best peer's time: above 1 ours is faster.
    pub fn advantage(&self) -> Option<f64> {
        Some(self.peer()?.ns / self.ours()?.ns)
    }
    /// Which part of our time the limit is.
    pub fn of_limit(&self) -> Option<f64> {
        Some(self.limit()?.ns / self.ours()?.ns)
    }
}

/// Within this of the first counts as first.
pub const TIE: f64 = 1.03;

/// Our ratio to the best peer over the cases that have one.
pub struct Standing {
    pub cases: usize,
    /// In how many it is first, or within 3 % of the first.
    pub first: usize,
    /// The geometric mean of the best peer's time over ours.
    pub mean: f64,
    /// That mean if ours ran at the limit of every case that has one.
    pub ceiling: f64,
}

impl Standing {
    pub fn of(cases: &[String], measured: &BTreeMap<String, Measured>) -> Self {
        let advantages: Vec<f64> = cases.iter().filter_map(|case| measured[case].advantage()).collect();
        let first = advantages.iter().filter(|advantage| **advantage * TIE >= 1.0).count();
        let at_limit = |of: &Measured| Some(of.advantage()? / of.of_limit().unwrap_or(1.0).min(1.0));
        let ceilings: Vec<f64> = cases.iter().filter_map(|case| at_limit(&measured[case])).collect();
        Self {
            cases: advantages.len(),
            first,
            mean: geometric_mean(&advantages),
            ceiling: geometric_mean(&ceilings),
        }
    }
}

fn geometric_mean(of: &[f64]) -> f64 {
    (of.iter().map(|x| x.ln()).sum::<f64>() / of.len().max(1) as f64).exp()
}

/// One number for several samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    Median,
    Minimum,
}

impl Statistic {
    /// `STATISTIC`, or the median of one thread; of several the minimum, because pools of threads that wait
    /// by spinning lose milliseconds whenever the system takes one of their cores.
    pub fn of(threads: usize) -> Self {
        match std::env::var("STATISTIC").as_deref() {
            Ok("median") => Self::Median,
            Ok("minimum") => Self::Minimum,
            _ if threads == 1 => Self::Median,
            _ => Self::Minimum,
        }
    }
    fn apply(self, samples: &mut [f64]) -> f64 {
        samples.sort_by(f64::total_cmp);
        match self {
            Self::Median => samples[samples.len() / 2],
            Self::Minimum => samples[0],
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            Self::Median => "medians",
            Self::Minimum => "minima",
        }
    }
}

/// Everything measured with this many threads, by case.
pub fn read(directory: &Path, threads: usize, statistic: Statistic) -> Result<BTreeMap<String, Measured>> {
    let text = std::fs::read_to_string(directory.join("samples.tsv"))?;
    let mut samples = BTreeMap::<[&str; 3], Vec<f64>>::new();
    let mut cases = BTreeMap::<String, Measured>::new();
    for line in text.lines() {
        let [of, case, peer, form, times] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
        if of.parse() != Ok(threads) {
            continue;
        }
        if let Some(bytes) = times.strip_prefix("bytes:") {
            let bytes = bytes.parse()?;
            let kept = &mut cases.entry(case.to_string()).or_default().kept;
            let fewest = kept.get(peer).map_or(bytes, |fewest: &f64| fewest.min(bytes));
            kept.insert(peer.to_string(), fewest);
            continue;
        }
        match times.split(',').map(str::parse).collect::<std::result::Result<Vec<f64>, _>>() {
            Ok(times) => samples.entry([case, peer, form]).or_default().extend(times),
            Err(_) => {
                let failed = format!("{peer}, {form}: {times}");
                let list = &mut cases.entry(case.to_string()).or_default().failed;
                if !list.contains(&failed) {
                    list.push(failed);
                }
            }
        }
    }
    for ([case, peer, form], mut times) in samples {
        let ns = statistic.apply(&mut times);
        let best = &mut cases.entry(case.to_string()).or_default().best;
        if best.get(peer).is_none_or(|best| ns < best.ns) {
            best.insert(peer.to_string(), Best { ns, peer: peer.to_string(), form: form.to_string() });
        }
    }
    Ok(cases)
}
