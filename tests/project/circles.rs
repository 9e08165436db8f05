//! Files do not import each other in a circle.
//!
//! The graph has a node for each file below `src` and an arrow for each import, followed through the
//! re-exports of `mod.rs`. A folder's `mod.rs` and the files of the folder are one type or mechanism and its
//! parts: arrows between them do not count.

use crate::source::{Source, paths, reads, sources, uses};
use std::collections::{BTreeMap, BTreeSet};

/// Circles that stay, and why.
const ALLOWED: &[(&[&str], &str)] = &[
    (
        &["dynamic::extra", "dynamic::opaque", "dynamic::tensor"],
        "a `DynTensor` and its parts, which hold tensors themselves",
    ),
    (
        &["tensor::tensor", "tensor::view", "tensor::view_mut"],
        "three handles, each of which makes the others",
    ),
    (
        &[
            "ops::define",
            "ops::elementwise::activation",
            "ops::elementwise::arithmetic",
            "ops::elementwise::comparison",
            "ops::elementwise::math",
            "ops::nn::loss",
            "ops::registry",
        ],
        "the macro of operators writes the rows that the registry lists",
    ),
];

type Graph = BTreeMap<String, BTreeSet<String>>;

/// The names that a file's `mod` lines declare.
fn children(file: &Source) -> BTreeSet<String> {
    let tokens = &file.tokens;
    (0..tokens.len())
        .filter(|&i| tokens[i].text == "mod" && reads(tokens, i + 2, &[";"]))
        .map(|i| tokens[i + 1].text.clone())
        .collect()
}

/// The imports of each file, as modules joined by `::`.
fn graph(files: &[Source]) -> Graph {
    let key = |module: &[String]| module.join("::");
    let modules: BTreeSet<String> = files.iter().map(|file| key(&file.module())).collect();
    // What a module re-exports of its children: the module and the name, to the path where the item is.
    let mut faces: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut stars: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for file in files {
        for (path, name) in uses(file, &children(file)) {
            let own = key(&file.module());
            if name == "*" {
                stars.entry(own).or_default().push(path[..path.len() - 1].to_vec());
            } else {
                faces.insert((own, name), path);
            }
        }
    }
    let defines = |module: &str, name: &str| {
        let file = files.iter().find(|file| key(&file.module()) == module);
        file.is_some_and(|file| {
            (1..file.tokens.len()).any(|i| {
                file.tokens[i].text == name
                    && matches!(
                        file.tokens[i - 1].text.as_str(),
                        "fn" | "struct"
                            | "enum"
                            | "trait"
                            | "const"
                            | "type"
                            | "static"
                            | "union"
                            | "macro_rules"
                    )
            })
        })
    };
    let resolve = |path: &[String]| -> Option<String> {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let deepest = (1..=path.len()).rev().find(|&n| modules.contains(&path[..n].join("::")))?;
            let module = path[..deepest].join("::");
            let Some(name) = path.get(deepest) else { return Some(module) };
            if let Some(target) = faces.get(&(module.clone(), name.clone())) {
                path = target.clone();
                continue;
            }
            let mut below = stars.get(&module).into_iter().flatten();
            if !defines(&module, name)
                && let Some(child) = below.find(|child| defines(&child.join("::"), name))
            {
                return Some(child.join("::"));
            }
            return Some(module);
        }
        panic!("{path:?} is behind more than eight re-exports")
    };
    let mut graph = Graph::new();
    for file in files {
        let own = key(&file.module());
        let arrows = graph.entry(own.clone()).or_default();
        for (path, _) in paths(file) {
            let Some(target) = resolve(&path) else { continue };
            let is_part = |inner: &str, outer: &str| inner.starts_with(&format!("{outer}::"));
            if target != own && !is_part(&target, &own) && !is_part(&own, &target) {
                arrows.insert(target);
            }
        }
    }
    graph
}

/// The sets of files that reach each other, of two files and more.
fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reach = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(next) = open.pop() {
            for target in graph.get(&next).into_iter().flatten() {
                if seen.insert(target.clone()) {
                    open.push(target.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = graph.keys().map(|node| (node, reach(node))).collect();
    let mut found: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (node, seen) in &reached {
        let both = seen.iter().filter(|other| reached.get(other).is_some_and(|back| back.contains(*node)));
        let circle: BTreeSet<String> = both.cloned().chain([(*node).clone()]).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let graph = graph(&sources("src"));
    for folder in ["device::cpu", "device::cuda", "ops"] {
        let inside = |name: &String| name.starts_with(folder);
        let files = graph.keys().filter(|name| inside(name)).count();
        let arrows: usize = graph
            .iter()
            .filter(|(name, _)| inside(name))
            .map(|(_, to)| to.iter().filter(|name| inside(name)).count())
            .sum();
        println!("{folder}: {files} files, {arrows} imports between them");
    }
    let allowed = |circle: &BTreeSet<String>| {
        ALLOWED
            .iter()
            .any(|(names, _)| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>() == *circle)
    };
    let found = circles(&graph);
    let wrong: Vec<_> = found.iter().filter(|circle| !allowed(circle)).collect();
    assert!(wrong.is_empty(), "{} circles:\n{wrong:#?}", wrong.len());
    assert_eq!(found.len(), ALLOWED.len(), "an allowed circle does not exist any more: {found:#?}");
}

#[test]
fn a_circle_is_found_through_a_folders_face() {
    let file = |path: &str, text: &str| Source::new(path, text);
    let files = [
        file("src/a/mod.rs", "mod b; mod c; pub use b::B; use c::C;"),
        file("src/a/b.rs", "use super::c::C; pub struct B;"),
        file("src/a/c.rs", "use super::{B, mean}; pub struct C;"),
        file("src/d.rs", "use crate::a::B;"),
    ];
    let expected: BTreeSet<String> = ["a::b".to_string(), "a::c".to_string()].into();
    assert_eq!(circles(&graph(&files)), [expected]);
    assert!(circles(&graph(&files[..2])).is_empty());
}
