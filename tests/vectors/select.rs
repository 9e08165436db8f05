//! The selection in `cases/`, made from the whole set: of each operator that has a row the smallest case of a
//! float, one of another element, one of an error, and one with gradients.

use crate::case::Case;
use crate::gradients::{self, OnTape};
use crate::set::{Set, dtype};
use crate::{GROUPS, differentiable, here, rows, table};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The storages that a case names.
fn storages(value: &Value, found: &mut BTreeSet<usize>) {
    match value {
        Value::Object(map) if map.contains_key("z") => {
            found.extend(map["s"].as_u64().map(|s| s as usize));
        }
        Value::Object(map) => map.values().for_each(|value| storages(value, found)),
        Value::Array(values) => values.iter().for_each(|value| storages(value, found)),
        _ => {}
    }
}

/// The bytes that a case takes.
fn cost(set: &Set, case: &Value) -> usize {
    let mut found = BTreeSet::new();
    storages(case, &mut found);
    case.to_string().len() + found.into_iter().map(|s| set.bytes(s).len()).sum::<usize>()
}

/// Whether its result is more than nothing, or one number.
fn says_something(case: &Value) -> bool {
    let first = case["out"].get(0).and_then(crate::case::Spec::of);
    first.is_none_or(|spec| spec.numel() > 1 || !case["outv"].is_null())
}

#[test]
#[ignore = "writes tests/vectors/cases; needs the whole set"]
fn the_selection_is_written() {
    let folder =
        std::env::var_os("RANKFORM_VECTORS").expect("RANKFORM_VECTORS names the folder of the whole set");
    for group in GROUPS {
        let set = Set::read(&Path::new(&folder).join(group));
        let source = group.split_once('/').unwrap().0;
        let rows = rows(source);
        let on_tape = table(source, differentiable::<OnTape>());
        let mut best: BTreeMap<(&str, u8), (usize, &Value)> = BTreeMap::new();
        for json in &set.cases {
            let case = Case::new(&set, json);
            let Some(row) = rows.get(case.op) else { continue };
            let kind = match json["dtype"].as_str().map(dtype) {
                _ if case.is_error() => 2,
                None => 0,
                Some(Some(rankform::scalar::DType::F32)) => 0,
                // Another element for each operator: all elements occur.
                Some(kind) => match kind.map(|kind| kind as usize % 3 == case.op.len() % 3) {
                    Some(true) => 1,
                    _ => continue,
                },
            };
            let runs = matches!(
                (row(&case), case.is_error()),
                (Ok(_), false) | (Err(crate::case::Stop::Error(_)), true)
            );
            let cost = cost(&set, json);
            let better = best.get(&(case.op, kind)).is_none_or(|known| cost < known.0);
            if runs && better && (says_something(json) || case.is_error()) && cost < 2600 {
                best.insert((case.op, kind), (cost, json));
            }
        }
        for json in set.cases.iter().filter(|json| !json["grad"].is_null()) {
            let op = json["op"].as_str().unwrap();
            let right = || matches!(gradients::check(&set, json, (op, on_tape[op])), Ok(Ok(())));
            let cost = cost(&set, json);
            let better = best.get(&(op, 3)).is_none_or(|known| cost < known.0);
            if better && says_something(json) && cost < 1600 && right() {
                best.insert((op, 3), (cost, json));
            }
        }
        let mut seen = BTreeSet::new();
        let chosen = best.into_values().filter(|(_, case)| seen.insert(case["id"].as_str()));
        let chosen: Vec<Value> = chosen.map(|(_, case)| case.clone()).collect();
        let chosen: Vec<Value> = chosen
            .into_iter()
            .map(|mut case| {
                ["ost", "msg", "err", "rtol", "atol"]
                    .iter()
                    .for_each(|key| drop(case.as_object_mut().unwrap().remove(*key)));
                case
            })
            .collect();
        let base = here("cases").join(group);
        std::fs::create_dir_all(base.parent().unwrap()).unwrap();
        set.write(&base, &chosen);
    }
}
