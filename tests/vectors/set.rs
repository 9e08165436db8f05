//! The files of reference cases: pools of elements, one an element type, in one safetensors file; cases as
//! JSON lines in another.
//!
//! The first line lists the storages, `[pool, first element, number of elements]`; then one case a line. A
//! tensor is `{"s": storage, "o": offset, "z": sizes, "t": strides, "d": element}`, with strides and offset
//! in elements.

use rankform::scalar::DType;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The element of a pool by the name it has in the files.
pub const NAMES: [(&str, DType, usize); 15] = [
    ("bool", DType::Bool, 1),
    ("i8", DType::I8, 1),
    ("i16", DType::I16, 2),
    ("i32", DType::I32, 4),
    ("i64", DType::I64, 8),
    ("u8", DType::U8, 1),
    ("u16", DType::U16, 2),
    ("u32", DType::U32, 4),
    ("u64", DType::U64, 8),
    ("f16", DType::F16, 2),
    ("bf16", DType::BF16, 2),
    ("f32", DType::F32, 4),
    ("f64", DType::F64, 8),
    ("c64", DType::C32, 8),
    ("c128", DType::C64, 16),
];

/// The element of this name.
pub fn dtype(name: &str) -> Option<DType> {
    NAMES.iter().find(|row| row.0 == name).map(|row| row.1)
}

/// One pair of files.
pub struct Set {
    pools: BTreeMap<String, Vec<u8>>,
    pub storages: Vec<(String, usize, usize)>,
    pub cases: Vec<Value>,
    /// The line of metadata.
    pub meta: Value,
}

impl Set {
    /// Reads `base.safetensors` and `base.jsonl`.
    pub fn read(base: &Path) -> Set {
        let bytes = std::fs::read(base.with_extension("safetensors"))
            .unwrap_or_else(|error| panic!("{}: {error}", base.display()));
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let (header, data) = bytes[8..].split_at(length);
        let header: BTreeMap<String, Value> = serde_json::from_slice(header).unwrap();
        let pools = header.into_iter().filter(|(name, _)| name != "__metadata__").map(|(name, entry)| {
            let ends = entry["data_offsets"].as_array().unwrap();
            let end = |k: usize| ends[k].as_u64().unwrap() as usize;
            (name, data[end(0)..end(1)].to_vec())
        });
        let pools = pools.collect();
        let text = std::fs::read_to_string(base.with_extension("jsonl")).unwrap();
        let mut lines = text.lines().map(ordered);
        let meta = lines.next().unwrap();
        let storages = meta["storages"].as_array().unwrap().iter().map(|row| {
            let number = |k: usize| row[k].as_u64().unwrap() as usize;
            (row[0].as_str().unwrap().to_string(), number(1), number(2))
        });
        Set { pools, storages: storages.collect(), cases: lines.collect(), meta }
    }

    /// The bytes of a storage.
    pub fn bytes(&self, storage: usize) -> &[u8] {
        let (pool, first, count) = &self.storages[storage];
        let width = NAMES.iter().find(|row| row.0 == pool).unwrap().2;
        self.pools.get(pool).map_or(&[], |bytes| &bytes[first * width..(first + count) * width])
    }

    /// Writes some of the cases, with the storages that they name, as another pair of files.
    pub fn write(&self, base: &Path, chosen: &[Value]) {
        let mut pools: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let (mut storages, mut places) = (Vec::new(), BTreeMap::new());
        let mut lines = Vec::new();
        for case in chosen {
            let mut case = case.clone();
            renumber(&mut case, &mut |storage| {
                *places.entry(storage).or_insert_with(|| {
                    let (name, _, count) = &self.storages[storage];
                    let width = NAMES.iter().find(|row| row.0 == name).unwrap().2;
                    let pool = pools.entry(name.clone()).or_default();
                    pool.resize(pool.len().next_multiple_of(16), 0);
                    storages.push(serde_json::json!([name, pool.len() / width, count]));
                    pool.extend_from_slice(self.bytes(storage));
                    storages.len() - 1
                })
            });
            lines.push(case.to_string());
        }
        let mut header = serde_json::Map::new();
        let mut data = Vec::new();
        for (name, pool) in pools {
            // Complex numbers are stored as pairs: safetensors has no name for them.
            let (name_there, width) = match &*name {
                "c64" => ("F32".to_string(), 4),
                "c128" => ("F64".to_string(), 8),
                "bool" => ("BOOL".to_string(), 1),
                _ => (name.to_uppercase(), NAMES.iter().find(|row| row.0 == name).unwrap().2),
            };
            let entry = serde_json::json!({
                "dtype": name_there, "shape": [pool.len() / width],
                "data_offsets": [data.len(), data.len() + pool.len()]
            });
            header.insert(name, entry);
            data.extend(pool);
            data.resize(data.len().next_multiple_of(16), 0);
        }
        let mut head = Value::Object(header).to_string().into_bytes();
        head.resize(head.len().next_multiple_of(8), b' ');
        let bytes = [&(head.len() as u64).to_le_bytes()[..], &head, &data].concat();
        std::fs::write(base.with_extension("safetensors"), bytes).unwrap();
        let mut meta = self.meta.clone();
        meta["storages"] = Value::Array(storages);
        std::fs::write(base.with_extension("jsonl"), format!("{meta}\n{}\n", lines.join("\n"))).unwrap();
    }
}

/// One line; `order` lists the named arguments of a case with gradients in the order of the text, by which
/// `wrt` counts tensors.
fn ordered(line: &str) -> Value {
    let mut case: Value = serde_json::from_str(line).unwrap();
    if case["grad"].is_null() || !case["order"].is_null() {
        return case;
    }
    let text = line.find("\"kw\":").map_or("", |at| &line[at..]);
    let mut names: Vec<String> =
        case["kw"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    names.sort_by_key(|name| text.find(&format!("\"{name}\":")));
    case["order"] = names.into();
    case
}

/// Gives every tensor in a case another number of its storage.
fn renumber(value: &mut Value, number: &mut dyn FnMut(usize) -> usize) {
    match value {
        Value::Object(map) if map.contains_key("s") && map.contains_key("z") => {
            let storage = map["s"].as_u64().unwrap() as usize;
            map.insert("s".into(), number(storage).into());
        }
        Value::Object(map) => map.values_mut().for_each(|value| renumber(value, number)),
        Value::Array(values) => values.iter_mut().for_each(|value| renumber(value, number)),
        _ => {}
    }
}
