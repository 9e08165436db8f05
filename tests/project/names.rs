//! Pages that list names are true: every name that they give exists, and the index has every operator.

use crate::artifacts::Artifacts;
use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The texts between backquotes, in order.
fn spans(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(|span| span.replace("\\|", "|")).collect()
}

/// The cells of a table's row, of which a `|` behind a `\` separates none.
fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\u{0}");
    line.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{0}', "\\|")).collect()
}

/// The expressions in the last column of each table.
fn expressions(page: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| here |"));
    let all = rows.flat_map(|line| spans(cells(line).last().expect("a cell")));
    all.filter(|span| span.contains(['(', '[', ' ']) || span.contains("::")).collect()
}

#[test]
fn every_expression_in_the_page_of_names_compiles() {
    let expressions = expressions(&read("docs/names.md"));
    assert!(expressions.len() > 100, "{} expressions", expressions.len());
    let body: String = expressions.iter().map(|expression| format!("    {{ {expression}; }}\n")).collect();
    let program = format!(
        "#![allow(unused, clippy::all)]
use rankform::ops::{{self, QuantileMethod, Replace}};
use rankform::prelude::*;
use rankform::{{autograd::*, optim::*}};
elementwise! {{ fn f(x) {{ x * x }} }}
fn all<const RANK: usize>(
    x: Tensor<f32, 2>, y: Tensor<f32, 2>, mut w: Tensor<f32, 2>, v: Tensor<f32, 1>, n: Tensor<i32, 2>,
    mask: Tensor<bool, 2>, index: Tensor<i64, 1>, places: Tensor<i64, 2>, images: Tensor<f32, 4>,
    device: Cpu, tape: Tape, on_tape: Var<f32, 2>,
) -> Result<()> {{
{body}    Ok(())
}}
fn main() {{}}
"
    );
    let room = Path::new(env!("CARGO_TARGET_TMPDIR")).join("names");
    std::fs::create_dir_all(&room).expect("a folder");
    std::fs::write(room.join("names.rs"), program).expect("a program");
    let mut rustc = Artifacts::find().rustc(&["rankform"]);
    let output = rustc
        .arg("--emit=metadata")
        .arg("--out-dir")
        .arg(&room)
        .arg(room.join("names.rs"))
        .output()
        .expect("rustc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The identifier at the start of a text.
fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())]
}

#[test]
fn every_name_that_is_caught_is_tried_by_a_program_that_does_not_compile() {
    let source = read("src/tensor/other_names.rs");
    let rows = source.lines().filter(|line| {
        line.starts_with("        ") && !line.contains("//") && line.trim_end().ends_with(");")
    });
    let calls = rows.flat_map(|line| line.split(") ")).map(|call| word(call.trim()));
    let functions = source.lines().filter_map(|line| line.strip_prefix("    fn ")).map(word);
    let caught: BTreeSet<&str> = calls.chain(functions).filter(|name| !name.is_empty()).collect();
    assert!(
        caught.len() > 60 && caught.contains("shape") && caught.contains("randn") && caught.contains("eigh"),
        "{caught:?}"
    );
    let tried = read("tests/compile_fail/names_of_other_libraries.rs")
        + &read("tests/compile_fail/functions_of_other_libraries.rs");
    let missing: Vec<_> = caught
        .iter()
        .filter(|name| ![".", "::"].iter().any(|dot| tried.contains(&format!("{dot}{name}("))))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The methods that a file of operators gives to tensors and views: of public traits, of `impl`s, rows of
/// macros that write them.
fn methods(source: &str) -> BTreeSet<String> {
    let (mut found, mut public, mut rows) = (BTreeSet::new(), false, false);
    for line in source.lines() {
        if !line.starts_with([' ', '}', '/', '#', ')']) && !line.is_empty() {
            public = line.starts_with("impl")
                && ["Tensor<", "TensorView<", "TensorViewMut<"]
                    .iter()
                    .any(|name| line.contains(&format!("> {name}")));
            let is_macro = line.ends_with("! {")
                && !["macro_rules", "elementwise", "reducers"].iter().any(|name| line.starts_with(name));
            let of_tensors =
                ["IntoView<", "Elementwise<", "Reduce<", "Scan<"].iter().any(|name| line.contains(name));
            rows = line.starts_with("pub trait") && of_tensors || is_macro;
        }
        let signature = line.strip_prefix("    ").unwrap_or("");
        // A row of a macro inside a trait: the name and a comma.
        let row = signature.strip_prefix("    fn ").filter(|row| row[word(row).len()..].starts_with(','));
        let name = match (signature.strip_prefix("pub fn "), signature.strip_prefix("fn ").or(row)) {
            (Some(signature), _) if public => word(signature),
            (_, Some(signature)) if rows => word(signature),
            _ => continue,
        };
        found.insert(String::from(name));
    }
    found
}

#[test]
fn every_operator_is_in_the_index() {
    let index = read("src/ops/mod.rs");
    let (index, _) = index.split_once("# Source folders").expect("the index of operators");
    let named: BTreeSet<String> = spans(index).iter().map(|span| String::from(word(span))).collect();
    let mut missing = BTreeSet::new();
    let mut count = 0;
    for source in crate::source::sources("src/ops") {
        let file = source.path.strip_prefix("src/ops/").expect("a file of operators");
        // Types of arguments; operators without a method; `+` and its kin.
        if file.ends_with("mod.rs")
            || file.starts_with("functions/")
            || [
                "define.rs",
                "methods.rs",
                "registry.rs",
                "per_device.rs",
                "std_ops.rs",
                "reduction/slice_kernels.rs",
                "reduction/moments.rs",
            ]
            .contains(&file)
        {
            continue;
        }
        let source = &source.text;
        for name in methods(source) {
            count += 1;
            let base = ["_axis_into", "_along_into", "_into", "_axis", "_along"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(&name);
            if !named.contains(&name) && !named.contains(base) {
                missing.insert(format!("{file}: {name}"));
            }
        }
    }
    assert!(count > 250, "{count} operators found");
    assert!(missing.is_empty(), "add them to the table in src/ops/mod.rs: {missing:#?}");
}

#[test]
fn a_method_without_a_place_in_the_index_is_found() {
    let source = "pub trait New<T>: IntoView<T> + Sized {\n    fn novel(self) {}\n}\n\
                  impl<T> Tensor<T> {\n    pub fn another(&self) {}\n    fn hidden(&self) {}\n}\n\
                  rows! {\n    /// Words.\n    fn third, third_into = Third;\n}\n\
                  fn free() {\n    fn inner() {}\n}\n\
                  pub trait More<T>: IntoView<T> {\n    rows! {\n        \
                  fn fourth, fourth_into = Fourth;\n    }\n\
                  \x20   fn fifth() {\n        fn inner() {}\n    }\n}\n";
    let found: Vec<_> = methods(source).into_iter().collect();
    assert_eq!(found, ["another", "fifth", "fourth", "novel", "third"]);
    assert_eq!(expressions("| a | here |\n|---|---|\n| `b` | `T`, `x.f(\\|a\\| a)?` |\n"), ["x.f(|a| a)?"]);
}
