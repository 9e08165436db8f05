//! serde: tensors and views on the host as `{ "size": […], "data": […] }`, with the elements row-major.
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
// Imports: `element`, `tensor`.

use crate::element::{bf16, f16};
use crate::tensor::{Tensor, TensorView};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;

const FIELDS: &[&str] = &["size", "data"];

struct SerializedElements<'a, T, const RANK: usize>(TensorView<'a, T, RANK>);

impl<T: Serialize, const RANK: usize> Serialize for SerializedElements<'_, T, RANK> {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_seq(self.0.iter())
    }
}

impl<T: Serialize, const RANK: usize> Serialize for TensorView<'_, T, RANK> {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        self.ensure_allocated("serialize").map_err(serde::ser::Error::custom)?;
        let mut parts = output.serialize_struct("Tensor", 2)?;
        parts.serialize_field("size", &self.size().0[..])?;
        parts.serialize_field("data", &SerializedElements(*self))?;
        parts.end()
    }
}

impl<T: Serialize, const RANK: usize> Serialize for Tensor<T, RANK> {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        self.view().serialize(output)
    }
}

impl<'de, T: Deserialize<'de> + Send + Sync + 'static, const RANK: usize> Deserialize<'de>
    for Tensor<T, RANK>
{
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_struct("Tensor", FIELDS, TensorParts(std::marker::PhantomData))
    }
}

struct TensorParts<T, const RANK: usize>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de> + Send + Sync + 'static, const RANK: usize> Visitor<'de>
    for TensorParts<T, RANK>
{
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

/// The tensor that was deserialized, if sizes and elements agree.
fn assembled<T: Send + Sync + 'static, E: Error, const RANK: usize>(
    size: Vec<usize>,
    data: Vec<T>,
) -> Result<Tensor<T, RANK>, E> {
    let size: [usize; RANK] = size
        .try_into()
        .map_err(|size: Vec<usize>| E::custom(format_args!("{} sizes, expected {RANK}", size.len())))?;
    Tensor::from_vec(data, size).map_err(E::custom)
}

macro_rules! as_f32 {
    ($($t:ty)*) => { $(
        /// The same number as `f32`.
        impl Serialize for $t {
            fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
                output.serialize_f32((*self).into())
            }
        }
        /// The number nearest to an `f32`.
        impl<'de> Deserialize<'de> for $t {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                struct SerializedNumber;
                impl Visitor<'_> for SerializedNumber {
                    type Value = $t;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a number")
                    }
                    fn visit_f32<E: Error>(self, x: f32) -> Result<$t, E> {
                        Ok(<$t>::from_f32(x))
                    }
                    fn visit_f64<E: Error>(self, x: f64) -> Result<$t, E> {
                        Ok(<$t>::from_f64(x))
                    }
                    fn visit_i64<E: Error>(self, x: i64) -> Result<$t, E> {
                        Ok(<$t>::from_f64(x as f64))
                    }
                    fn visit_u64<E: Error>(self, x: u64) -> Result<$t, E> {
                        Ok(<$t>::from_f64(x as f64))
                    }
                }
                // A format without type information contains an `f32`.
                input.deserialize_f32(SerializedNumber)
            }
        }
    )* };
}
as_f32!(f16 bf16);

#[cfg(test)]
mod tests {
    use super::*;
    use serde::forward_to_deserialize_any;

    /// A number in a format without type information: four bytes, which must be requested as an `f32`.
    struct FourBytes(f32);

    impl<'de> Deserializer<'de> for FourBytes {
        type Error = serde::de::value::Error;
        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(Error::custom("four bytes were written"))
        }
        fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            visitor.visit_f32(self.0)
        }
        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
        }
    }

    #[test]
    fn half_precision_is_read_as_it_was_written() {
        assert_eq!(f16::deserialize(FourBytes(1.5)).unwrap(), f16::from_f32(1.5));
        assert_eq!(bf16::deserialize(FourBytes(-3.0)).unwrap(), bf16::from_f32(-3.0));
        assert!(f64::deserialize(FourBytes(1.0)).is_err());
    }
}
