//! serde: tensors and views on the host as `{ "size": […], "data": […] }`, elements row-major.
//!
//! ```
//! use rankform::prelude::*;
//! let x = Tensor::from([[1, 2], [3, 4]]);
//! let text = serde_json::to_string(&x.transposed()).unwrap();
//! assert_eq!(text, r#"{"size":[2,2],"data":[1,3,2,4]}"#);
//! let y: Tensor<i32, 2> = serde_json::from_str(&text).unwrap();
//! assert_eq!(y, x.transposed());
//! assert!(serde_json::from_str::<Tensor<i32, 2>>(r#"{"size":[2,2],"data":[1,3,2]}"#).is_err());
//! # Ok::<(), rankform::Error>(())
//! ```
//! Imports: `element`, `tensor`.

use crate::element::{bf16, f16};
use crate::tensor::{Tensor, TensorView};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;

const FIELDS: &[&str] = &["size", "data"];

struct Elements<'a, T, const RANK: usize>(TensorView<'a, T, RANK>);

impl<T: Serialize, const RANK: usize> Serialize for Elements<'_, T, RANK> {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_seq(self.0.iter())
    }
}

impl<T: Serialize, const RANK: usize> Serialize for TensorView<'_, T, RANK> {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        self.ready("serialize").map_err(serde::ser::Error::custom)?;
        let mut parts = output.serialize_struct("Tensor", 2)?;
        parts.serialize_field("size", &self.size().0[..])?;
        parts.serialize_field("data", &Elements(*self))?;
        parts.end()
    }
}

impl<T: Serialize, const RANK: usize> Serialize for Tensor<T, RANK> {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        self.view().serialize(output)
    }
}

impl<'de, T: Deserialize<'de> + Send + Sync + 'static, const RANK: usize> Deserialize<'de> for Tensor<T, RANK> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_struct("Tensor", FIELDS, Parts(std::marker::PhantomData))
    }
}

struct Parts<T, const RANK: usize>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de> + Send + Sync + 'static, const RANK: usize> Visitor<'de> for Parts<T, RANK> {
    type Value = Tensor<T, RANK>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a tensor with {RANK} axes: its sizes and its elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let size = parts.next_element()?.ok_or_else(|| Error::invalid_length(0, &self))?;
        let data = parts.next_element()?.ok_or_else(|| Error::invalid_length(1, &self))?;
        assembled(size, data)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let (mut size, mut data) = (None, None);
        while let Some(key) = parts.next_key::<String>()? {
            let twice = match &*key {
                "size" => size.replace(parts.next_value()?).is_some().then_some("size"),
                "data" => data.replace(parts.next_value()?).is_some().then_some("data"),
                _ => parts.next_value::<IgnoredAny>().map(|_| None)?,
            };
            if let Some(field) = twice {
                return Err(Error::duplicate_field(field));
            }
        }
        let size = size.ok_or_else(|| Error::missing_field("size"))?;
        assembled(size, data.ok_or_else(|| Error::missing_field("data"))?)
    }
}

/// What was read, if sizes and elements agree.
fn assembled<T: Send + Sync + 'static, E: Error, const RANK: usize>(size: Vec<usize>, data: Vec<T>) -> Result<Tensor<T, RANK>, E> {
    let size: [usize; RANK] =
        size.try_into().map_err(|size: Vec<usize>| E::custom(format_args!("{} sizes, expected {RANK}", size.len())))?;
    Tensor::from_vec(data, size).map_err(E::custom)
}

macro_rules! as_f32 {
    ($($t:ty)*) => { $(
        /// As the same number in `f32`.
        impl Serialize for $t {
            fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
                output.serialize_f32((*self).into())
            }
        }
        /// Rounded to the nearest.
        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                f64::deserialize(input).map(Self::from_f64)
            }
        }
    )* };
}
as_f32!(f16 bf16);
