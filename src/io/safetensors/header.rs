//! The header of a safetensors file, and the index of a model in several files: JSON, which is checked before
//! it is used.
// Imports: `error`, `dtype`, `io`.

use super::json::{Json, quoted};
use crate::dtype::DType;
use crate::error::Result;
use crate::io::file::format_error;
use std::collections::BTreeMap;

/// Elements of files that no tensor of this crate has, and the bits of one: files with them can be listed.
const UNSUPPORTED: &[(&str, u64)] = &[("F8_E8M0", 8), ("F4", 4), ("F6_E2M3", 6), ("F6_E3M2", 6)];

/// The bits of an element with a known name.
fn bits_of(name: &str) -> Option<u64> {
    let unsupported = || UNSUPPORTED.iter().find(|row| row.0 == name).map(|row| row.1);
    element(name).map(|dtype| 8 * dtype.size() as u64).or_else(unsupported)
}

/// The name of an element in a file.
pub(super) fn name_of(dtype: DType) -> Option<&'static str> {
    dtype.safetensors_name()
}

/// The element with a name.
pub(super) fn element(name: &str) -> Option<DType> {
    DType::ALL.iter().copied().find(|dtype| dtype.safetensors_name() == Some(name))
}

/// The entry of one tensor in a header.
#[derive(Debug)]
pub(super) struct TensorEntry {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) size: Vec<usize>,
    /// Relative to the first byte after the header.
    pub(super) range: std::ops::Range<u64>,
}

pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) tensors: Vec<TensorEntry>,
}

/// Reads a header. Checks that its tensors follow each other without gaps and fill `length` bytes.
pub(super) fn parse(op: &'static str, text: &[u8], length: u64) -> Result<Header> {
    let (mut metadata, mut tensors) = (None, Vec::new());
    let mut json = Json::new(op, text)?;
    json.object(|json, name| {
        if name != "__metadata__" {
            tensors.push(entry(op, json, name)?);
            return Ok(());
        }
        once(op, &name, &mut metadata, pairs(op, json)?)
    })?;
    json.end()?;
    unique(op, tensors.iter().map(|entry| entry.name.as_str()).collect())?;
    tensors.sort_by_key(|entry| (entry.range.start, entry.range.end));
    let mut end = 0;
    for entry in &tensors {
        let TensorEntry { name, dtype, size, range } = entry;
        if range.start != end || range.end < range.start {
            return format_error(
                op,
                format_args!("tensor {name:?} stands at bytes {range:?}, expected from byte {end} on"),
            );
        }
        end = range.end;
        if let Some(bits) = bits_of(dtype) {
            let count = size.iter().try_fold(1u64, |product, &size| product.checked_mul(size as u64));
            let bits = count.and_then(|count| count.checked_mul(bits));
            if bits != (range.end - range.start).checked_mul(8) {
                return format_error(
                    op,
                    format_args!(
                        "tensor {name:?} of {dtype} and sizes {size:?} does not fill bytes {range:?}"
                    ),
                );
            }
        }
    }
    if end != length {
        return format_error(
            op,
            format_args!("the tensors take {end} bytes, the file has {length} for them"),
        );
    }
    Ok(Header { metadata: metadata.unwrap_or_default(), tensors })
}

/// The files that contain the tensors of a model, by the name of the tensor.
pub(super) fn parse_index(op: &'static str, text: &[u8]) -> Result<BTreeMap<String, String>> {
    let mut map = None;
    let mut json = Json::new(op, text)?;
    json.object(|json, key| match &*key {
        "weight_map" => once(op, &key, &mut map, pairs(op, json)?),
        _ => json.skip(),
    })?;
    json.end()?;
    match map {
        Some(map) => Ok(map),
        None => format_error(op, format_args!("the index has no `weight_map`")),
    }
}

/// Sets a value that may occur once only.
fn once<T>(op: &'static str, key: &str, place: &mut Option<T>, value: T) -> Result<()> {
    match place.replace(value) {
        Some(_) => format_error(op, format_args!("{key:?} occurs twice")),
        None => Ok(()),
    }
}

fn unique(op: &'static str, mut names: Vec<&str>) -> Result<()> {
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => format_error(op, format_args!("{:?} occurs twice", pair[0])),
        None => Ok(()),
    }
}

fn pairs(op: &'static str, json: &mut Json<'_>) -> Result<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    json.object(|json, key| {
        let value = json.string()?;
        if pairs.contains_key(&key) {
            return format_error(op, format_args!("{key:?} occurs twice"));
        }
        pairs.insert(key, value);
        Ok(())
    })?;
    Ok(pairs)
}

fn entry(op: &'static str, json: &mut Json<'_>, name: String) -> Result<TensorEntry> {
    let (mut dtype, mut shape, mut range) = (None, None, None);
    json.object(|json, key| match &*key {
        "dtype" => once(op, &key, &mut dtype, json.string()?),
        "shape" => once(op, &key, &mut shape, json.numbers()?),
        "data_offsets" => once(op, &key, &mut range, json.numbers()?),
        _ => json.skip(),
    })?;
    let (Some(dtype), Some(shape), Some(range)) = (dtype, shape, range) else {
        return format_error(
            op,
            format_args!("tensor {name:?} lacks one of `dtype`, `shape` and `data_offsets`"),
        );
    };
    let size: Option<Vec<usize>> = shape.iter().map(|&size| size.try_into().ok()).collect();
    match (size, &range[..]) {
        (Some(size), &[start, end]) => Ok(TensorEntry { name, dtype, size, range: start..end }),
        _ => format_error(op, format_args!("tensor {name:?} has sizes {shape:?} and offsets {range:?}")),
    }
}

/// The text of a header, with the tensors in the order of their bytes.
pub(super) fn compose(
    metadata: &[(&str, &str)],
    tensors: &[(&str, &'static str, Vec<usize>, std::ops::Range<u64>)],
) -> Vec<u8> {
    let mut parts = Vec::new();
    if !metadata.is_empty() {
        let pairs: Vec<String> =
            metadata.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
        parts.push(format!("\"__metadata__\":{{{}}}", pairs.join(",")));
    }
    for (name, dtype, size, range) in tensors {
        let size: Vec<String> = size.iter().map(usize::to_string).collect();
        parts.push(format!(
            "{}:{{\"dtype\":\"{dtype}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
            quoted(name),
            size.join(","),
            range.start,
            range.end
        ));
    }
    let mut text = format!("{{{}}}", parts.join(",")).into_bytes();
    text.resize(text.len().next_multiple_of(8), b' '); // aligns the elements in a mapped file
    text
}
