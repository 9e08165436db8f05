//! The header of a safetensors file, and the index of a model in several: JSON, checked before it is believed.
//!
//! Imports: `error`, `dtype`, `io`.

use crate::dtype::DType;
use crate::error::Result;
use crate::io::file::format_error;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Elements, their names in a file, and bits of one: also of those that no tensor here has, so that a file can be listed.
const NAMES: &[(&str, Option<DType>, u64)] = &[
    ("BOOL", Some(DType::Bool), 8),
    ("U8", Some(DType::U8), 8),
    ("I8", Some(DType::I8), 8),
    ("I16", Some(DType::I16), 16),
    ("U16", Some(DType::U16), 16),
    ("F16", Some(DType::F16), 16),
    ("BF16", Some(DType::BF16), 16),
    ("I32", Some(DType::I32), 32),
    ("U32", Some(DType::U32), 32),
    ("F32", Some(DType::F32), 32),
    ("I64", Some(DType::I64), 64),
    ("U64", Some(DType::U64), 64),
    ("F64", Some(DType::F64), 64),
    ("C64", Some(DType::C32), 64),
    ("F8_E4M3", Some(DType::F8E4M3), 8),
    ("F8_E5M2", Some(DType::F8E5M2), 8),
    ("F8_E8M0", None, 8),
    ("F4", None, 4),
    ("F6_E2M3", None, 6),
    ("F6_E3M2", None, 6),
];

/// The name that an element has in a file.
pub(super) fn name_of(dtype: DType) -> Option<&'static str> {
    NAMES.iter().find(|row| row.1 == Some(dtype)).map(|row| row.0)
}

/// The element that a name stands for.
pub(super) fn element(name: &str) -> Option<DType> {
    NAMES.iter().find(|row| row.0 == name).and_then(|row| row.1)
}

/// What a header says of one tensor.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) size: Vec<usize>,
    /// From the first byte after the header on.
    pub(super) range: std::ops::Range<u64>,
}

pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) tensors: Vec<Entry>,
}

/// Reads a header, and checks that its tensors follow each other without gaps and fill `length` bytes.
pub(super) fn parse(op: &'static str, text: &[u8], length: u64) -> Result<Header> {
    let parsed: Json = serde_json::from_slice(text).or_else(|error| format_error(op, format_args!("the header is not valid: {error}")))?;
    let mut tensors = parsed.tensors;
    tensors.sort_by_key(|entry| (entry.range.start, entry.range.end));
    let mut end = 0;
    for entry in &tensors {
        let Entry { name, dtype, size, range } = entry;
        if range.start != end || range.end < range.start {
            return format_error(op, format_args!("tensor {name:?} stands at bytes {range:?}, expected from byte {end} on"));
        }
        end = range.end;
        if let Some((.., bits)) = NAMES.iter().find(|row| row.0 == dtype) {
            let count = size.iter().try_fold(1u64, |product, &size| product.checked_mul(size as u64));
            let bits = count.and_then(|count| count.checked_mul(*bits));
            if bits != (range.end - range.start).checked_mul(8) {
                return format_error(op, format_args!("tensor {name:?} of {dtype} and sizes {size:?} does not fill bytes {range:?}"));
            }
        }
    }
    if end != length {
        return format_error(op, format_args!("the tensors take {end} bytes, the file has {length} for them"));
    }
    Ok(Header { metadata: parsed.metadata, tensors })
}

/// The files of the tensors of a model, by the name of the tensor.
pub(super) fn parse_index(op: &'static str, text: &[u8]) -> Result<BTreeMap<String, String>> {
    let parsed: Index = serde_json::from_slice(text).or_else(|error| format_error(op, format_args!("the index is not valid: {error}")))?;
    match parsed.0 {
        Some(map) => Ok(map),
        None => format_error(op, format_args!("the index has no `weight_map`")),
    }
}

/// The text of a header: tensors in the order of their bytes.
pub(super) fn compose(metadata: &[(&str, &str)], tensors: &[(&str, &'static str, Vec<usize>, std::ops::Range<u64>)]) -> Vec<u8> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut parts = Vec::new();
    if !metadata.is_empty() {
        let pairs: Vec<String> = metadata.iter().map(|(key, value)| format!("{}:{}", quoted(key), quoted(value))).collect();
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
    text.resize(text.len().next_multiple_of(8), b' '); // so that elements are aligned in a mapped file
    text
}

// ------------------------------------------------------------ JSON

/// A visitor of objects by a function from a key and the rest to `()`.
struct Object<T, F>(&'static str, T, F);

impl<'de, T, F> Visitor<'de> for Object<T, F>
where
    F: FnMut(&mut T, String, &mut dyn Next<'de>) -> Result<(), String>,
{
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let Object(_, mut value, mut each) = self;
        while let Some(key) = map.next_key::<String>()? {
            each(&mut value, key, &mut Rest(&mut map)).map_err(serde::de::Error::custom)?;
        }
        Ok(value)
    }
}

/// The value of an entry, as one of the types that occur.
trait Next<'de> {
    fn text(&mut self) -> Result<String, String>;
    fn pairs(&mut self) -> Result<BTreeMap<String, String>, String>;
    fn sizes(&mut self) -> Result<Vec<usize>, String>;
    fn range(&mut self) -> Result<[u64; 2], String>;
    fn tensor(&mut self) -> Result<Tensor, String>;
    fn anything(&mut self) -> Result<(), String>;
}

struct Rest<'a, A>(&'a mut A);

impl<'de, A: MapAccess<'de>> Next<'de> for Rest<'_, A> {
    fn text(&mut self) -> Result<String, String> {
        self.0.next_value().map_err(|error| error.to_string())
    }
    fn pairs(&mut self) -> Result<BTreeMap<String, String>, String> {
        self.0.next_value::<Pairs>().map(|pairs| pairs.0).map_err(|error| error.to_string())
    }
    fn sizes(&mut self) -> Result<Vec<usize>, String> {
        self.0.next_value().map_err(|error| error.to_string())
    }
    fn range(&mut self) -> Result<[u64; 2], String> {
        self.0.next_value().map_err(|error| error.to_string())
    }
    fn tensor(&mut self) -> Result<Tensor, String> {
        self.0.next_value().map_err(|error| error.to_string())
    }
    fn anything(&mut self) -> Result<(), String> {
        self.0.next_value::<IgnoredAny>().map(drop).map_err(|error| error.to_string())
    }
}

struct Pairs(BTreeMap<String, String>);
impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let each = |pairs: &mut BTreeMap<_, _>, key: String, next: &mut dyn Next<'de>| match pairs.insert(key.clone(), next.text()?) {
            Some(_) => Err(format!("{key:?} occurs twice")),
            None => Ok(()),
        };
        Ok(Pairs(input.deserialize_map(Object("an object of strings", BTreeMap::new(), each))?))
    }
}

struct Tensor {
    dtype: String,
    size: Vec<usize>,
    range: [u64; 2],
}
impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        type Parts = (Option<String>, Option<Vec<usize>>, Option<[u64; 2]>);
        let each = |(dtype, size, range): &mut Parts, key: String, next: &mut dyn Next<'de>| {
            let twice = match &*key {
                "dtype" => dtype.replace(next.text()?).is_some(),
                "shape" => size.replace(next.sizes()?).is_some(),
                "data_offsets" => range.replace(next.range()?).is_some(),
                _ => return next.anything(),
            };
            if twice { Err(format!("{key:?} occurs twice")) } else { Ok(()) }
        };
        match input.deserialize_map(Object("an object that describes a tensor", Parts::default(), each))? {
            (Some(dtype), Some(size), Some(range)) => Ok(Tensor { dtype, size, range }),
            _ => Err(serde::de::Error::custom("a tensor lacks one of `dtype`, `shape` and `data_offsets`")),
        }
    }
}

#[derive(Default)]
struct Json {
    metadata: BTreeMap<String, String>,
    tensors: Vec<Entry>,
}
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let mut seen = std::collections::BTreeSet::new();
        let each = |json: &mut Json, name: String, next: &mut dyn Next<'de>| {
            if !seen.insert(name.clone()) {
                return Err(format!("{name:?} occurs twice"));
            }
            if name == "__metadata__" {
                json.metadata = next.pairs()?;
            } else {
                let Tensor { dtype, size, range: [start, end] } = next.tensor()?;
                json.tensors.push(Entry { name, dtype, size, range: start..end });
            }
            Ok(())
        };
        input.deserialize_map(Object("an object of tensors", Json::default(), each))
    }
}

struct Index(Option<BTreeMap<String, String>>);
impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let each = |map: &mut Option<_>, key: String, next: &mut dyn Next<'de>| {
            if key != "weight_map" {
                return next.anything();
            }
            match map.replace(next.pairs()?) {
                Some(_) => Err("\"weight_map\" occurs twice".to_string()),
                None => Ok(()),
            }
        };
        Ok(Index(input.deserialize_map(Object("an object with a `weight_map`", None, each))?))
    }
}
