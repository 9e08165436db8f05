//! Reference cases that other projects made, through the typed API: operators of PyTorch with their results,
//! strides, aliasing, gradients and errors, and the single-operator cases of ONNX.
//!
//! `RANKFORM_VECTORS` names the folder with all of them (`torch/` and `onnx/`); the folder `cases/` holds a
//! few of each operator, which always run. A case runs, or a line of `unsupported` gives the reason.
//! `VECTORS=word` runs only the cases with the word in their name.
//!
//! | file | |
//! |---|---|
//! | `set.rs` | the files: pools of elements, cases as JSON lines |
//! | `case.rs` | one case, its operands as typed tensors; results |
//! | `judge.rs` | whether a result is right |
//! | `elementwise.rs` `reduce.rs` `views.rs` `contract.rs` `product.rs` `window.rs` `arrange.rs` `index.rs` `order.rs` `normalize.rs` | a row an operator of PyTorch |
//! | `neural.rs` | losses, norms over channels, images |
//! | `onnx.rs` `quantized.rs` | a row an operator of ONNX |
//! | `gradients.rs` | the same rows on a tape |
//! | `select.rs` | the selection of cases |

mod arrange;
mod case;
mod contract;
mod elementwise;
mod gradients;
mod index;
mod judge;
mod neural;
mod normalize;
mod onnx;
mod order;
mod product;
mod quantized;
mod reduce;
mod select;
mod set;
mod views;
mod window;

use case::{Case, CaseDevice, Run, Stop};
use rankform::prelude::*;
use set::Set;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The name of an operator in the files, and its row here.
type Row<D = Cpu> = (&'static str, fn(&Case<D>) -> Run);

/// The rows of operators of PyTorch that have gradients.
fn differentiable<D: CaseDevice>() -> Vec<Row<D>> {
    [
        elementwise::reals(),
        elementwise::rows(),
        reduce::rows(),
        views::rows(),
        contract::rows(),
        product::rows(),
        window::rows(),
        arrange::rows(),
        index::rows(),
        order::rows(),
        normalize::rows(),
        neural::rows(),
    ]
    .concat()
}
/// The rows of operators of PyTorch that have none.
const DISCRETE: &[&[Row]] = &[
    elementwise::DISCRETE_REALS,
    elementwise::DISCRETE,
    reduce::DISCRETE,
    views::DISCRETE,
    arrange::DISCRETE,
    index::DISCRETE,
    order::DISCRETE,
];
const ONNX: &[&[Row]] =
    &[onnx::ROWS, quantized::ROWS, index::ONNX, order::ONNX, product::ONNX, window::ONNX, neural::ONNX];

/// The groups of files in a folder.
const GROUPS: [&str; 9] = [
    "torch/unary",
    "torch/binary",
    "torch/reduce",
    "torch/matmul",
    "torch/nn",
    "torch/index",
    "torch/view",
    "torch/create",
    "onnx/onnx",
];

/// Why cases are not run: a pattern of `source/case: why`, in which `*` matches any text, and a reason, one a
/// line.
struct Unsupported {
    lines: Vec<(String, String, usize)>,
}

impl Unsupported {
    fn read() -> Self {
        let text = std::fs::read_to_string(here("unsupported")).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
            let (pattern, reason) = line.split_once('|').unwrap_or_else(|| panic!("no `|` in {line:?}"));
            (pattern.trim().to_string(), reason.trim().to_string(), 0)
        });
        Unsupported { lines: lines.collect() }
    }
    /// Whether a line says why; counts it.
    fn explains(&mut self, name: &str) -> bool {
        let line =
            self.lines.iter_mut().find(|(pattern, reason, _)| !reason.is_empty() && matches(pattern, name));
        line.map(|line| line.2 += 1).is_some()
    }
}

/// Whether a text matches a pattern.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => {
            let Some(rest) = text.strip_prefix(before) else { return false };
            (0..=rest.len()).filter(|&k| rest.is_char_boundary(k)).any(|k| matches(after, &rest[k..]))
        }
    }
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
}

/// The outcomes of the cases of one operator.
#[derive(Default, Clone, Copy)]
struct Tally {
    run: usize,
    listed: usize,
    has_row: bool,
}

#[derive(Default)]
struct Report {
    operators: BTreeMap<String, Tally>,
    reasons: BTreeMap<String, usize>,
    wrong: Vec<String>,
    unlisted: Vec<String>,
}

/// The rows of a source, by the name of the operator.
fn rows(source: &str) -> BTreeMap<&'static str, fn(&Case) -> Run> {
    let mut all = if source == "torch" { DISCRETE } else { ONNX }.concat();
    if source == "torch" {
        all.extend(differentiable::<Cpu>());
    }
    table(source, all)
}
/// Rows by the name of their operator, which has one.
fn table<D: CaseDevice>(source: &str, all: Vec<Row<D>>) -> BTreeMap<&'static str, fn(&Case<D>) -> Run> {
    let rows: BTreeMap<_, _> = all.iter().copied().collect();
    assert_eq!(rows.len(), all.len(), "an operator of {source} has two rows");
    rows
}

/// Runs the cases of every group in a folder.
fn run_all(folder: &Path, unsupported: &mut Unsupported) -> Report {
    let (torch, onnx) = (rows("torch"), rows("onnx"));
    let wanted = std::env::var("VECTORS").unwrap_or_default();
    let mut report = Report::default();
    let mut used = std::collections::BTreeSet::new();
    for group in GROUPS {
        let (source, _) = group.split_once('/').unwrap();
        let rows = if source == "torch" { &torch } else { &onnx };
        let set = Set::read(&folder.join(group));
        for json in &set.cases {
            let case = Case::new(&set, json);
            let name = if source == "onnx" {
                format!("onnx/{}/{}", case.op, case.id)
            } else {
                format!("torch/{}", case.id)
            };
            if !name.contains(&wanted) {
                continue;
            }
            let row = rows.get(case.op);
            used.extend(row.map(|_| (source, case.op.to_string())));
            let tally = report.operators.entry(format!("{source}/{}", case.op)).or_default();
            tally.has_row = row.is_some();
            let found = match row {
                None => case::unrun("no operator"),
                Some(row) => match catch_unwind(AssertUnwindSafe(|| row(&case))) {
                    Ok(found) => found,
                    Err(_) => {
                        tally.run += 1;
                        report.wrong.push(format!("{name}: panics"));
                        continue;
                    }
                },
            };
            let complaint = case.complaint();
            report.wrong.extend(complaint.map(|wrong| format!("{name}: {wrong}")));
            let why = match (found, case.is_error()) {
                (Ok(_), true) => "gives a result".to_string(),
                (Err(Stop::Error(_)), true) => {
                    tally.run += 1;
                    continue;
                }
                (Ok(found), false) => {
                    tally.run += 1;
                    if let Err(wrong) = judge::judge(&case, &found) {
                        report.wrong.push(format!("{name}: {wrong}"));
                    }
                    continue;
                }
                (Err(Stop::Error(error)), false) => {
                    tally.run += 1;
                    report.wrong.push(format!("{name}: {error}"));
                    continue;
                }
                (Err(Stop::Unrun(why)), _) => why,
            };
            tally.listed += 1;
            let said = format!("{name}: {why}");
            if !unsupported.explains(&said) {
                report.unlisted.push(said);
            }
            *report.reasons.entry(format!("{source}/{}: {why}", case.op)).or_default() += 1;
        }
    }
    if wanted.is_empty() && std::env::var_os("RANKFORM_VECTORS").is_some() {
        let unused = torch
            .keys()
            .map(|op| ("torch", op.to_string()))
            .chain(onnx.keys().map(|op| ("onnx", op.to_string())));
        let unused: Vec<_> = unused.filter(|row| !used.contains(row)).collect();
        assert!(unused.is_empty(), "rows that no case asks for: {unused:?}");
    }
    report
}

/// Runs the cases with recorded gradients on a tape.
fn run_gradients(folder: &Path, unsupported: &mut Unsupported) -> Report {
    let rows = table("torch", differentiable::<gradients::OnTape>());
    let wanted = std::env::var("VECTORS").unwrap_or_default();
    let mut report = Report::default();
    for group in GROUPS.into_iter().filter(|group| group.starts_with("torch")) {
        let set = Set::read(&folder.join(group));
        for json in set.cases.iter().filter(|json| !json["grad"].is_null()) {
            let (op, id) = (json["op"].as_str().unwrap(), json["id"].as_str().unwrap());
            let name = format!("gradient/{id}");
            if !name.contains(&wanted) {
                continue;
            }
            let tally = report.operators.entry(format!("gradient/{op}")).or_default();
            tally.has_row = true;
            let found = match rows.get_key_value(op) {
                None => case::unrun("no operator"),
                Some(row) => {
                    let run = || gradients::check(&set, json, (*row.0, *row.1));
                    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Ok(Err("panics".into())))
                }
            };
            let (wrong, unrun) = match found {
                Ok(Ok(())) => (None, None),
                Ok(Err(wrong)) => (Some(wrong), None),
                Err(Stop::Error(error)) => (Some(error.to_string()), None),
                Err(Stop::Unrun(why)) => (None, Some(why)),
            };
            // A gradient that differs may be listed: the reference's is wrong then, or of another function.
            let listed =
                wrong.as_ref().is_some_and(|wrong| unsupported.explains(&format!("{name}: {wrong}")));
            if listed {
                tally.listed += 1;
                continue;
            }
            report.wrong.extend(wrong.map(|wrong| format!("{name}: {wrong}")));
            match unrun {
                None => tally.run += 1,
                Some(why) => {
                    tally.listed += 1;
                    let said = format!("{name}: {why}");
                    if !unsupported.explains(&said) {
                        report.unlisted.push(said);
                    }
                    *report.reasons.entry(format!("gradient/{op}: {why}")).or_default() += 1;
                }
            }
        }
    }
    report
}

impl Report {
    fn sum(&self, of: impl Fn(&Tally) -> usize) -> usize {
        self.operators.values().map(of).sum()
    }
    /// Prints the figures. Fails unless every case is right or listed, and `percent` of the cases with a row
    /// run.
    fn check(&self, what: &str, percent: usize) {
        let (run, listed) = (self.sum(|tally| tally.run), self.sum(|tally| tally.listed));
        let (here, of) = (
            self.sum(|tally| if tally.has_row { tally.run } else { 0 }),
            self.sum(|t| if t.has_row { t.run + t.listed } else { 0 }),
        );
        // Past the capture of the test harness: this line is the purpose of the test.
        let _ = writeln!(
            std::io::stderr(),
            "{what}: {run} run, {listed} listed, {} wrong; of the cases whose operator is here {here} of \
             {of} run",
            self.wrong.len()
        );
        if std::env::var_os("VECTORS_REASONS").is_some() {
            let mut reasons: Vec<_> = self.reasons.iter().collect();
            reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            reasons.iter().for_each(|(reason, count)| println!("{count:6} {reason}"));
        }
        let most = if std::env::var_os("VECTORS_REASONS").is_some() { usize::MAX } else { 60 };
        let few = |lines: &[String]| lines.iter().take(most).cloned().collect::<Vec<_>>().join("\n");
        assert!(self.wrong.is_empty(), "{} wrong:\n{}", self.wrong.len(), few(&self.wrong));
        assert!(
            self.unlisted.is_empty(),
            "{} neither run nor listed:\n{}",
            self.unlisted.len(),
            few(&self.unlisted)
        );
        assert!(here * 100 >= of * percent, "only {here} of {of} cases whose operator is here run");
    }
}

#[test]
fn results_are_those_of_pytorch_and_onnx() {
    let mut unsupported = Unsupported::read();
    match std::env::var_os("RANKFORM_VECTORS") {
        Some(folder) => {
            let report = run_all(Path::new(&folder), &mut unsupported);
            report.check("all cases", 94);
            run_gradients(Path::new(&folder), &mut unsupported).check("gradients on a tape", 95);
            if std::env::var_os("VECTORS").is_none() {
                let idle: Vec<_> =
                    unsupported.lines.iter().filter(|line| line.2 == 0).map(|line| &line.0).collect();
                assert!(idle.is_empty(), "lines of `unsupported` that no case needs: {idle:#?}");
            }
        }
        None => {
            println!(
                "the whole set: skipped, because RANKFORM_VECTORS names no folder; the selection in \
                 tests/vectors/cases runs"
            );
            run_all(&here("cases"), &mut unsupported).check("selection", 94);
            run_gradients(&here("cases"), &mut unsupported).check("gradients of the selection", 95);
        }
    }
}

#[test]
fn a_wrong_result_is_found() {
    let set = Set::read(&here("cases/torch/view"));
    let rows = rows("torch");
    let mut spoilt = 0;
    for json in &set.cases {
        let case = Case::new(&set, json);
        let Some(Ok(found)) = rows.get(case.op).map(|row| row(&case)) else { continue };
        if case.is_error() || found.is_empty() || found[0].values.is_empty() {
            continue;
        }
        assert_eq!(judge::judge(&case, &found), Ok(()), "{}", case.id);
        let complains = |spoil: &dyn Fn(&mut case::Out)| {
            let mut found = rows[case.op](&case).unwrap();
            spoil(&mut found[0]);
            judge::judge(&case, &found).is_err()
        };
        assert!(complains(&|out| out.size.push(1)), "{}: another rank", case.id);
        assert!(complains(&|out| out.dtype = rankform::scalar::DType::U16), "{}: another element", case.id);
        assert!(complains(&|out| out.values[0] = case::Scalar::Real(0.123)), "{}: another value", case.id);
        let is_view = found[0].layout.is_some();
        assert!(
            !is_view || complains(&|out| out.layout.as_mut().unwrap().1 += 1),
            "{}: another offset",
            case.id
        );
        spoilt += 1;
    }
    assert!(spoilt > 20, "{spoilt}");
}

#[test]
fn a_wrong_gradient_is_found() {
    let set = Set::read(&here("cases/torch/reduce"));
    let rows = table("torch", differentiable::<gradients::OnTape>());
    let mut spoilt = 0;
    for json in set.cases.iter().filter(|json| !json["grad"].is_null()) {
        let op = json["op"].as_str().unwrap();
        let run = |json| gradients::check(&set, json, (op, rows[op]));
        let Ok(found) = run(json) else { continue }; // listed
        assert_eq!(found, Ok(()), "{}", json["id"]);
        // The operand in place of its gradient.
        let mut wrong = json.clone();
        wrong["grad"]["g"][0] = json["args"][0]["T"].clone();
        assert!(matches!(run(&wrong), Ok(Err(_))), "{}: another gradient", json["id"]);
        spoilt += 1;
    }
    assert!(spoilt > 10, "{spoilt}");
}

#[test]
fn an_error_above_the_bound_is_found() {
    use case::{Out, Scalar};
    let set = Set::read(&here("cases/torch/unary"));
    let json = set.cases.iter().find(|case| case["op"] == "exp" && case["dtype"] == "f32").unwrap();
    let case = Case::new(&set, json);
    let row = rows("torch")["exp"];
    let moved = |ulp: f64| {
        let mut found: Vec<Out> = row(&case).unwrap();
        let Scalar::Real(y) = found[0].values[0] else { panic!("not a float") };
        found[0].values[0] = Scalar::Real(y * (1.0 + ulp * f32::EPSILON as f64));
        judge::judge(&case, &found).is_ok()
    };
    assert!(moved(0.0) && moved(0.4) && !moved(12.0) && !moved(-12.0));
}

#[test]
fn a_pattern_matches_its_texts() {
    assert!(
        matches("a*c", "abbc") && matches("*", "") && matches("a*b*c", "a-b-b-c") && matches("abc", "abc")
    );
    assert!(!matches("a*c", "abcd") && !matches("abc", "abcd") && !matches("a*b*c", "acb"));
}
