//! Pages are consistent: links lead to files and headings, files that they name exist, every page is in the
//! summary, pages of the book are compiled, decisions have their three parts, and the first pages are short.

use crate::architecture::ORDER;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The Markdown files of a folder and the folders in it, as paths from the root.
fn pages(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    for entry in entries {
        let name = entry.expect("an entry").file_name().into_string().expect("a name in ASCII");
        let path = Path::new(folder).join(&name);
        if root().join(&path).is_dir() {
            if folder.starts_with("docs") {
                found.extend(pages(path.to_str().expect("ASCII")));
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn all_pages() -> Vec<PathBuf> {
    [pages(""), pages("docs"), pages("benches/results"), pages("benches/peers"), pages("tools/cuda-sim")]
        .concat()
}

/// The lines of a page outside of its blocks of code.
fn prose(page: &str) -> Vec<&str> {
    let mut code = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code {
            lines.push(line);
        }
    }
    lines
}

/// The texts between backquotes, and a line without them.
fn without_code(line: &str) -> (Vec<&str>, String) {
    let code = line.split('`').skip(1).step_by(2).collect();
    (code, line.split('`').step_by(2).collect::<Vec<_>>().join("`"))
}

/// The targets of links in a page: `](target)`.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page) {
        let (_, text) = without_code(line);
        for part in text.split("](").skip(1) {
            found.push(part.split(')').next().unwrap_or("").to_string());
        }
    }
    found
}

/// The anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Complaints about the links of one page.
fn broken(path: &Path, page: &str) -> Vec<String> {
    let folder = root().join(path).parent().expect("a folder").to_path_buf();
    let mut complaints = Vec::new();
    for link in links(page) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
        let target = if file.is_empty() { root().join(path) } else { folder.join(file) };
        if !target.exists() {
            complaints.push(format!("{}: there is no {link}", path.display()));
        } else if !heading.is_empty() && target.extension().is_some_and(|end| end == "md") {
            let text = std::fs::read_to_string(&target).expect("a page");
            if !prose(&text).iter().any(|line| line.starts_with('#') && anchor(line) == heading) {
                complaints.push(format!("{}: there is no heading {link}", path.display()));
            }
        }
    }
    complaints
}

/// Files and folders that a page names in backquotes: paths from the root, `src`, `tests` or the page's
/// folder.
fn named(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page) {
        for code in without_code(line).0 {
            let path = code.split([' ', ':']).next().unwrap_or("");
            let is_source = path.ends_with(".rs") || path.ends_with('/');
            let is_source = is_source && path.trim_end_matches('/').contains('/');
            let is_path = is_source || FOLDERS.iter().any(|folder| path.starts_with(folder));
            if is_path
                && !OTHERS.iter().any(|folder| path.starts_with(folder))
                && !path.contains(['<', '>', '*', '{', '…'])
            {
                found.push(path.trim_end_matches('/').to_string());
            }
        }
    }
    found
}

/// Folders of the project: any path in them is a file or folder of it.
const FOLDERS: [&str; 9] =
    ["src/", "tests/", "benches/", "examples/", "docs/", "tools/", "fuzz/", ".ci/", "include/"];

/// Folders that are made by commands, or are of the system.
const OTHERS: [&str; 3] = ["target/", ".gpu/", "/"];

#[track_caller]
fn none(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn links_lead_to_files_and_headings() {
    let pages = all_pages();
    assert!(pages.len() > 100, "{} pages", pages.len());
    none(pages.iter().flat_map(|path| broken(path, &read(path))));
}

#[test]
fn files_that_pages_name_exist() {
    let about_now = |path: &&PathBuf| !path.ends_with("CHANGELOG.md");
    let pages = all_pages();
    none(pages.iter().filter(about_now).flat_map(|path| {
        let from = ["", "src", "tests", path.parent().and_then(Path::to_str).expect("a folder")];
        let folders = from.map(|folder| root().join(folder));
        let exists = |file: &String| folders.iter().any(|folder| folder.join(file).exists());
        let missing = named(&read(path)).into_iter().filter(|file| !exists(file));
        missing.map(|file| format!("{}: there is no {file}", path.display())).collect::<Vec<_>>()
    }));
}

#[test]
fn every_page_is_in_the_summary_and_the_book_is_compiled() {
    let summary: BTreeSet<String> = links(&read("docs/SUMMARY.md")).into_iter().collect();
    let sources = read("src/lib.rs");
    for path in pages("docs") {
        let name = path.strip_prefix("docs").expect("a page of docs").to_str().expect("ASCII").to_string();
        assert!(name == "SUMMARY.md" || summary.contains(&name), "docs/SUMMARY.md has no {name}");
        if name.starts_with("book/") {
            assert!(sources.contains(&format!("\"../docs/{name}\"")), "src/lib.rs compiles no {name}");
        }
    }
}

#[test]
fn decisions_have_a_context_a_decision_and_consequences() {
    let decisions = pages("docs/decisions");
    let (_, decisions): (Vec<_>, Vec<_>) =
        decisions.into_iter().partition(|path| path.ends_with("README.md"));
    for (i, path) in decisions.iter().enumerate() {
        let page = read(path);
        let number = format!("{:04}", i + 1);
        let name = path.file_name().expect("a name").to_str().expect("ASCII");
        assert!(
            name.starts_with(&number) && page.starts_with(&format!("# {number} ")),
            "{name}: number {number}"
        );
        let headings: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(headings, ["## Context", "## Decision", "## Consequences"], "{name}");
    }
}

#[test]
fn the_first_pages_are_short_and_the_reading_order_is_that_of_the_modules() {
    let (readme, design) = (read("README.md"), read("DESIGN.md"));
    assert!(readme.lines().count() <= 120, "README.md has {} lines", readme.lines().count());
    assert!(design.len() <= 10_240, "DESIGN.md has {} bytes", design.len());
    let (_, order) = design.split_once("## Reading order").expect("the reading order");
    let (order, _) = order.split_once("\n## ").expect("a section after it");
    let rows = order.lines().filter_map(|line| line.strip_prefix("| `"));
    let modules: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    assert_eq!(modules, ORDER);
}

#[test]
fn a_broken_link_and_a_missing_file_are_found() {
    let page = "# One `two`\n[a](README.md) [b](no.md) [c](#one-two) [d](#three) `[e](no.md)`\n```\n\
                [f](no.md)\n```\n";
    let path = Path::new("PAGE.md");
    let complaints: Vec<String> = links(page);
    assert_eq!(complaints, ["README.md", "no.md", "#one-two", "#three"]);
    assert_eq!(anchor("## One `two`, three"), "one-two-three");
    assert_eq!(broken(path, "[a](README.md) [b](no.md)"), ["PAGE.md: there is no no.md"]);
    assert_eq!(
        named("`src/lib.rs` `cargo` `.ci/run quick` `src/<name>.rs` `expr/x.rs` `a/b`\n"),
        ["src/lib.rs", ".ci/run", "expr/x.rs"]
    );
}
