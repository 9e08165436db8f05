//! One case, and its operands as typed tensors: strides, offset and shared storage as the file has them.

use crate::set::{Set, dtype};
use num_complex::Complex;
use rankform::prelude::*;
use rankform::scalar::DType;
use rankform::{bf16, f16};
use serde_json::Value;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;

/// Elementwise operators run at this rank, on operands with new leading axes of size 1.
pub const N: usize = 5;

/// Why a case gave no result.
#[derive(Debug)]
pub enum Stop {
    /// The crate says no, as it should for a case of an error.
    Error(rankform::Error),
    /// It was not run, and why.
    Unrun(String),
}
impl From<rankform::Error> for Stop {
    fn from(error: rankform::Error) -> Self {
        Stop::Error(error)
    }
}
/// A case that cannot be said, or that the crate has nothing for.
pub fn unrun<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Unrun(why.into()))
}

/// An operator's result.
pub type Run = Result<Vec<Out>, Stop>;

/// An element as the comparison sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    Real(f64),
    Integer(i128),
    Complex(f64, f64),
}

impl Scalar {
    pub fn magnitude(self) -> f64 {
        match self {
            Scalar::Real(x) => x.abs(),
            Scalar::Integer(x) => x.abs() as f64,
            Scalar::Complex(re, im) => re.hypot(im),
        }
    }
}

/// Elements of the cases.
pub trait Seen: Element {
    fn scalar(self) -> Scalar;
    fn from_f64(value: f64) -> Self;
    /// From the parts of a complex number; another element has no imaginary part.
    fn from_parts(re: f64, _im: f64) -> Option<Self> {
        (_im == 0.0).then(|| Self::from_f64(re))
    }
    /// Elements one after the other, complex ones as pairs; nothing of elements without a gradient.
    fn line<D: Device, const R: usize>(_: TensorView<'_, Self, R, D>) -> Option<Line<D>> {
        None
    }
}
/// Elements one after the other.
pub type Line<D> = Result<Tensor<f64, 1, D>, rankform::Error>;
fn reals<T: Seen, D: Device, const R: usize>(x: TensorView<'_, T, R, D>) -> Line<D> {
    x.to_shape([x.numel()])?.cast::<f64>()
}
fn pairs<P: Float, D: Device, const R: usize>(x: TensorView<'_, Complex<P>, R, D>) -> Line<D>
where
    Complex<P>: Element,
{
    x.to_shape([x.numel()])?.view_as_real()?.to_shape([2 * x.numel()])?.cast::<f64>()
}
macro_rules! seen {
    (
        $(
            $t:ty: |$x:ident| $scalar:expr,
            |$v:ident| $from:expr $(, |$re:ident, $im:ident| $parts:expr)? $(=> $line:ident)?;
        )*
    ) => { $(
        impl Seen for $t {
            $(fn line<D: Device, const R: usize>(x: TensorView<'_, Self, R, D>) -> Option<Line<D>> {
                Some($line(x))
            })?
            $(fn from_parts($re: f64, $im: f64) -> Option<Self> { Some($parts) })?
            fn scalar(self) -> Scalar { let $x = self; $scalar }
            fn from_f64($v: f64) -> Self { $from }
        }
    )* };
}
seen! {
    bool: |x| Scalar::Integer(x as i128), |v| v != 0.0;
    i8: |x| Scalar::Integer(x as i128), |v| v as i128 as i8;
    i16: |x| Scalar::Integer(x as i128), |v| v as i128 as i16;
    i32: |x| Scalar::Integer(x as i128), |v| v as i128 as i32;
    i64: |x| Scalar::Integer(x as i128), |v| v as i128 as i64;
    u8: |x| Scalar::Integer(x as i128), |v| v as i128 as u8;
    u16: |x| Scalar::Integer(x as i128), |v| v as i128 as u16;
    u32: |x| Scalar::Integer(x as i128), |v| v as i128 as u32;
    u64: |x| Scalar::Integer(x as i128), |v| v as i128 as u64;
    f16: |x| Scalar::Real(x.to_f64()), |v| f16::from_f64(v) => reals;
    bf16: |x| Scalar::Real(x.to_f64()), |v| bf16::from_f64(v) => reals;
    f32: |x| Scalar::Real(x as f64), |v| v as f32 => reals;
    f64: |x| Scalar::Real(x), |v| v => reals;
    Complex<f32>: |x| Scalar::Complex(x.re as f64, x.im as f64), |v| Complex::new(v as f32, 0.0),
        |re, im| Complex::new(re as f32, im as f32) => pairs;
    Complex<f64>: |x| Scalar::Complex(x.re, x.im), |v| Complex::new(v, 0.0),
        |re, im| Complex::new(re, im) => pairs;
}

/// A device that cases run on.
pub trait CaseDevice: Device {
    /// Whether rows run with every element, rather than with `f64` alone.
    const EVERY_ELEMENT: bool;

    /// Runs a row with another element than `f64`. A device that takes no other does not compile it.
    fn with_element<R>(run: impl FnOnce() -> Result<R, Stop>) -> Result<R, Stop>;

    /// Memory on this device.
    fn constant<T: Seen>(&self, memory: Tensor<T, 1>) -> Result<Tensor<T, 1, Self>, Stop>;
    /// Memory on this device, of which the gradient is wanted.
    fn variable(&self, memory: Tensor<f64, 1>) -> Result<Tensor<f64, 1, Self>, Stop>;
    /// The elements of a result, kept to compute gradients from them.
    fn keep<T: Seen, const R: usize>(_: TensorView<'_, T, R, Self>) -> Option<Line<Self>> {
        None
    }
}
impl CaseDevice for Cpu {
    const EVERY_ELEMENT: bool = true;

    fn with_element<R>(run: impl FnOnce() -> Result<R, Stop>) -> Result<R, Stop> {
        run()
    }
    fn constant<T: Seen>(&self, memory: Tensor<T, 1>) -> Result<Tensor<T, 1>, Stop> {
        Ok(memory)
    }
    fn variable(&self, memory: Tensor<f64, 1>) -> Result<Tensor<f64, 1>, Stop> {
        Ok(memory)
    }
}

/// Runs an expression with `$T` as the type of an element known at run time, one of those that the device `D`
/// of the case takes. With `any` also of those that it does not take.
#[macro_export]
macro_rules! by_type {
    ($dtype:expr, $T:ident in [$($t:ident)*] => $run:expr) => {
        match $dtype {
            $(<by_type!(@ty $t) as rankform::Element>::DTYPE => by_type!(@arm $t $T => $run),)*
            other => $crate::case::unrun(format!("no {other}")),
        }
    };
    (@arm f64 $T:ident => $run:expr) => {{ type $T = f64; $run }};
    (@arm $t:ident $T:ident => $run:expr) => {
        <D as $crate::case::CaseDevice>::with_element(|| { type $T = by_type!(@ty $t); $run })
    };
    ($dtype:expr, any $T:ident in [$($t:ident)*] => $run:expr) => {
        match $dtype {
            $(<by_type!(@ty $t) as rankform::Element>::DTYPE => { type $T = by_type!(@ty $t); $run })*
            other => $crate::case::unrun(format!("no {other}")),
        }
    };
    (@ty c64) => { num_complex::Complex<f32> };
    (@ty c128) => { num_complex::Complex<f64> };
    (@ty f16) => { rankform::f16 };
    (@ty bf16) => { rankform::bf16 };
    (@ty $t:ident) => { $t };
}

/// Runs an expression with `$R` as a constant rank known at run time.
#[macro_export]
macro_rules! by_rank {
    ($rank:expr, $R:ident in [$($r:literal)*] => $run:expr) => {
        match $rank {
            $($r => { const $R: usize = $r; $run })*
            other => $crate::case::unrun(format!("rank {other}")),
        }
    };
}

/// The storage and layout of a tensor of a case.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    pub dtype: DType,
    pub size: Vec<usize>,
    pub stride: Vec<isize>,
    pub offset: usize,
    pub storage: usize,
}

impl Spec {
    /// The tensor that a value is, with or without its mark `T`.
    pub fn of(value: &Value) -> Option<Spec> {
        let value = value.get("T").unwrap_or(value);
        let numbers =
            |key: &str| value.get(key)?.as_array()?.iter().map(Value::as_i64).collect::<Option<Vec<_>>>();
        Some(Spec {
            dtype: dtype(value.get("d")?.as_str()?)?,
            size: numbers("z")?.into_iter().map(|n| n as usize).collect(),
            stride: numbers("t")?.into_iter().map(|n| n as isize).collect(),
            offset: value.get("o")?.as_u64()? as usize,
            storage: value.get("s")?.as_u64()? as usize,
        })
    }
    pub fn rank(&self) -> usize {
        self.size.len()
    }
    pub fn numel(&self) -> usize {
        self.size.iter().product()
    }
    /// The offset of each element, row-major.
    pub fn positions(&self) -> Vec<usize> {
        let mut positions = vec![self.offset as isize];
        for (&n, &step) in self.size.iter().zip(&self.stride) {
            positions = positions.iter().flat_map(|at| (0..n as isize).map(move |k| at + k * step)).collect();
        }
        positions.into_iter().map(|at| at as usize).collect()
    }
}

/// A typed operand: a storage, which other operands of the case may share, and where the operand lies in it.
pub struct Operand<T, D: CaseDevice = Cpu> {
    memory: Tensor<T, 1, D>,
    spec: Spec,
}

impl<T: Seen, D: CaseDevice> Operand<T, D> {
    /// It, with new leading axes up to the rank of elementwise operators.
    pub fn view(&self) -> Result<TensorView<'_, T, N, D>, Stop> {
        self.at::<N>()
    }
    /// It, with new leading axes up to rank `R`.
    pub fn at<const R: usize>(&self) -> Result<TensorView<'_, T, R, D>, Stop> {
        let Some(new) = R.checked_sub(self.spec.rank()) else {
            return unrun(format!("rank {}", self.spec.rank()));
        };
        let size = std::array::from_fn(|axis| if axis < new { 1 } else { self.spec.size[axis - new] });
        let stride: [isize; R] =
            std::array::from_fn(|axis| if axis < new { 0 } else { self.spec.stride[axis - new] });
        Ok(self.memory.as_strided(size, stride, self.spec.offset)?)
    }
    /// A row-major operand of a rank known at run time.
    pub fn new(values: Vec<T>, size: &[usize], device: &D) -> Result<Operand<T, D>, Stop> {
        let stride =
            (0..size.len()).map(|axis| size[axis + 1..].iter().product::<usize>() as isize).collect();
        let spec = Spec { dtype: T::DTYPE, size: size.to_vec(), stride, offset: 0, storage: usize::MAX };
        Ok(Operand { memory: device.constant(Tensor::from_vec(values, [size.iter().product()])?)?, spec })
    }
    /// The only element.
    pub fn item(&self) -> Result<T, Stop> {
        Ok(self.view()?.item()?)
    }
    /// The elements, row-major.
    pub fn to_vec(&self) -> Result<Vec<T>, Stop> {
        Ok(self.view()?.to_vec()?)
    }
    /// All of the storage.
    pub fn memory(&self) -> &Tensor<T, 1, D> {
        &self.memory
    }
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
    /// Dense elements under other sizes of the same number of elements.
    pub fn reshaped(mut self, size: Vec<usize>) -> Operand<T, D> {
        self.spec.stride =
            (0..size.len()).map(|axis| size[axis + 1..].iter().product::<usize>() as isize).collect();
        self.spec.size = size;
        self
    }
    /// With two axes swapped.
    pub fn swapped(mut self, a: usize, b: usize) -> Operand<T, D> {
        self.spec.size.swap(a, b);
        self.spec.stride.swap(a, b);
        self
    }
    /// A dense operand with these values.
    pub fn dense<const R: usize>(values: Tensor<T, R, D>) -> Result<Operand<T, D>, Stop> {
        let size = values.size().0;
        let values = values.to_contiguous()?;
        let layout = *values.layout();
        let memory = values.into_shape([size.iter().product::<usize>()])?;
        let spec = Spec {
            dtype: T::DTYPE,
            size: size.to_vec(),
            stride: layout.stride().0.to_vec(),
            offset: 0,
            storage: usize::MAX,
        };
        Ok(Operand { memory, spec })
    }
}

/// One case of a set.
pub struct Case<'s, D: CaseDevice = Cpu> {
    pub set: &'s Set,
    pub json: &'s Value,
    pub op: &'s str,
    pub id: &'s str,
    pub device: D,
    /// The arguments of which gradients are wanted; with their memory, once a row has asked for it.
    pub variables: RefCell<Vec<(&'s Value, Option<Tensor<f64, 1, D>>)>>,
    shared: RefCell<HashMap<usize, Box<dyn Any>>>,
    complaint: RefCell<Option<String>>,
}

impl<'s> Case<'s> {
    pub fn new(set: &'s Set, json: &'s Value) -> Self {
        Case::on(Cpu, set, json)
    }
}
impl<'s, D: CaseDevice> Case<'s, D> {
    /// A case with operands on a device.
    pub fn on(device: D, set: &'s Set, json: &'s Value) -> Self {
        let word = |key: &str| json[key].as_str().unwrap();
        Case {
            set,
            json,
            op: word("op"),
            id: word("id"),
            device,
            variables: RefCell::default(),
            shared: RefCell::default(),
            complaint: RefCell::default(),
        }
    }
    /// The same case with its operands on the CPU.
    pub fn on_cpu(&self) -> Case<'s> {
        Case::new(self.set, self.json)
    }
    /// Reports an error outside the results, for example in a gradient.
    pub fn complain(&self, wrong: String) -> Result<(), Stop> {
        *self.complaint.borrow_mut() = Some(wrong);
        Ok(())
    }
    pub fn complaint(&self) -> Option<String> {
        self.complaint.take()
    }
    /// Whether the reference refuses it.
    pub fn is_error(&self) -> bool {
        self.json["kind"] == "error"
    }
    /// The argument at a place; null when there is none.
    pub fn arg(&self, at: usize) -> &'s Value {
        &self.json[if self.json.get("in").is_some() { "in" } else { "args" }][at]
    }
    /// The number of positional arguments.
    pub fn args(&self) -> usize {
        self.json["args"].as_array().map_or(0, Vec::len)
    }
    /// The argument at a place or of a name; null when there is none.
    pub fn get(&self, at: usize, name: &str) -> &'s Value {
        let named = self.kw(name);
        if named.is_null() { self.arg(at) } else { named }
    }
    /// The argument of a name, or the attribute; null when there is none.
    pub fn kw(&self, name: &str) -> &'s Value {
        &self.json[if self.json.get("in").is_some() { "attrs" } else { "kw" }][name]
    }
    /// Refuses a case with an argument that the row does not read: the error of such a case would not be the
    /// expected one.
    pub fn only(&self, names: &[&str]) -> Result<(), Stop> {
        let kw = self.json.get("kw").or(self.json.get("attrs")).and_then(Value::as_object);
        match kw.and_then(|kw| kw.keys().find(|key| !names.contains(&key.as_str()))) {
            Some(key) => unrun(format!("argument {key}")),
            None => Ok(()),
        }
    }
    /// The storage and layout of the tensor argument at a place.
    pub fn spec(&self, at: usize) -> Result<Spec, Stop> {
        Spec::of(self.arg(at)).map_or_else(|| unrun("not a tensor"), Ok)
    }
    /// The reference's result.
    pub fn expected(&self) -> Option<Vec<Option<Spec>>> {
        Some(self.json.get("out")?.as_array()?.iter().map(Spec::of).collect())
    }
    /// The element of the first output, or of the first operand.
    pub fn dtype(&self) -> Result<DType, Stop> {
        let first = self.expected().and_then(|out| out.into_iter().next().flatten()).map(|spec| spec.dtype);
        first.map_or_else(|| Ok(self.spec(0)?.dtype), Ok)
    }

    /// A storage, which several arguments may share.
    fn memory<T: Seen>(&self, storage: usize) -> Result<Tensor<T, 1>, Stop> {
        let mut shared = self.shared.borrow_mut();
        if let Some(known) = shared.get(&storage).and_then(|known| known.downcast_ref::<Tensor<T, 1>>()) {
            return Ok(known.share_data());
        }
        let memory = Tensor::<T, 1>::from_bytes(self.set.bytes(storage), [self.set.storages[storage].2])?;
        shared.insert(storage, Box::new(memory.share_data()));
        Ok(memory)
    }
    /// The memory of an argument of which the gradient is wanted.
    fn variable<T: Seen>(
        &self,
        value: &Value,
        memory: &Tensor<T, 1>,
    ) -> Result<Option<Tensor<T, 1, D>>, Stop> {
        let mut variables = self.variables.borrow_mut();
        let Some((_, known)) = variables.iter_mut().find(|row| std::ptr::eq(row.0, value)) else {
            return Ok(None);
        };
        let Some(memory) = (memory as &dyn Any).downcast_ref::<Tensor<f64, 1>>() else { return Ok(None) };
        if known.is_none() {
            // Other arguments may share the storage, and have gradients of their own.
            *known = Some(self.device.variable(memory.copy()?)?);
        }
        let share = known.as_ref().map(|known| Box::new(known.share_data()) as Box<dyn Any>);
        Ok(share.and_then(|share| share.downcast::<Tensor<T, 1, D>>().ok()).map(|share| *share))
    }
    /// A tensor argument of element `T`.
    pub fn tensor<T: Seen>(&self, value: &Value) -> Result<Operand<T, D>, Stop> {
        match Spec::of(value) {
            Some(spec) if spec.dtype == T::DTYPE => {
                let memory = self.memory(spec.storage)?;
                let memory = match self.variable(value, &memory)? {
                    Some(variable) => variable,
                    None => self.device.constant(memory)?,
                };
                Ok(Operand { memory, spec })
            }
            Some(spec) => unrun(format!("{} beside {}", spec.dtype, T::DTYPE)),
            None => unrun("not a tensor"),
        }
    }
    /// A tensor argument converted to element `T`, or a number as a tensor of one element.
    pub fn operand<T: Seen>(&self, value: &Value) -> Result<Operand<T, D>, Stop> {
        match Spec::of(value) {
            Some(spec) if spec.dtype == T::DTYPE => self.tensor(value),
            Some(spec) if spec.dtype == DType::F64 => {
                Ok(Operand::dense(self.tensor::<f64>(value)?.view()?.cast::<T>()?)?.reshaped(spec.size))
            }
            Some(spec) => {
                let host = self.on_cpu();
                let values = by_type!(spec.dtype, any U in [bool i8 i16 i32 i64 u8 u16 u32 u64
                    f16 bf16 f32 c64 c128] => {
                    Ok(host.tensor::<U>(value)?.view()?.cast::<T>()?.to_vec()?)
                })?;
                Operand::new(values, &spec.size, &self.device)
            }
            None => {
                let mut one = Operand::dense(Tensor::full([1], number::<T>(value)?, &self.device)?)?;
                (one.spec.size, one.spec.stride) = (vec![], vec![]);
                Ok(one)
            }
        }
    }
    /// Whole numbers of a tensor argument, row-major.
    pub fn integers(&self, value: &Value) -> Result<Vec<i64>, Stop> {
        let Some(spec) = Spec::of(value) else { return unrun("not a tensor") };
        let integer = |x: Scalar| match x {
            Scalar::Integer(x) => x as i64,
            x => x.magnitude() as i64,
        };
        Ok(self.values(&spec).into_iter().map(integer).collect())
    }
    /// The magnitudes of an argument, for bounds of rounding.
    pub fn magnitude(&self, value: &Value) -> Result<Tensor<f64, N>, Stop> {
        let Some(spec) = Spec::of(value) else {
            return Ok(Tensor::full([1; N], size_of_number(value), &Cpu)?);
        };
        let size: [usize; N] =
            std::array::from_fn(|axis| (axis + spec.rank()).checked_sub(N).map_or(1, |axis| spec.size[axis]));
        Ok(Tensor::from_vec(self.values(&spec).into_iter().map(Scalar::magnitude).collect(), size)?)
    }
    /// The values of a tensor in a file, row-major.
    pub fn values(&self, spec: &Spec) -> Vec<Scalar> {
        fn read<T: Seen, D: CaseDevice>(case: &Case<D>, spec: &Spec) -> Result<Vec<Scalar>, Stop> {
            let memory = case.memory::<T>(spec.storage)?;
            let memory = memory.as_slice().unwrap_or(&[]);
            Ok(spec.positions().into_iter().map(|at| memory[at].scalar()).collect())
        }
        by_type!(
            spec.dtype,
            any T in [bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128]
                => read::<T, D>(self, spec)
        )
        .unwrap()
    }
}

/// A number of a case.
pub fn number<T: Seen>(value: &Value) -> Result<T, Stop> {
    let parts = value.get("c").and_then(|parts| T::from_parts(real(&parts[0])?, real(&parts[1])?));
    real(value).map(T::from_f64).or(parts).map_or_else(|| unrun("not a number"), Ok)
}
/// A real number or truth value.
pub fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(x) => Some(*x as u8 as f64),
        Value::Number(x) => x.as_f64(),
        Value::Object(map) => map.get("f")?.as_str()?.parse().ok(),
        _ => None,
    }
}
/// The magnitude of a number; 1 where there is none.
pub fn size_of_number(value: &Value) -> f64 {
    let part = |k: usize| value.get("c").and_then(|parts| real(&parts[k]));
    real(value).unwrap_or_else(|| part(0).zip(part(1)).map_or(1.0, |(re, im)| re.hypot(im))).abs()
}
/// How far the rounding of a number to `T` moves it, as a multiple of the unit in which rounding is judged.
pub fn slack<T: Seen>(value: &Value) -> f64 {
    let x = real(value).unwrap_or(0.0);
    let rounded = match T::from_f64(x).scalar() {
        Scalar::Real(rounded) if size_of::<T>() == 2 => rounded,
        _ => x,
    };
    (x - rounded).abs() / f32::EPSILON as f64 / 4.0
}
/// A number of a case or, where there is none, another.
pub fn real_or(value: &Value, default: f64) -> Result<f64, Stop> {
    if value.is_null() { Ok(default) } else { real(value).map_or_else(|| unrun("not a number"), Ok) }
}
/// Whole numbers, alone or in a list.
pub fn wholes(value: &Value) -> Option<Vec<i64>> {
    match value {
        Value::Array(values) => values.iter().map(Value::as_i64).collect(),
        value => Some(vec![value.as_i64()?]),
    }
}
/// An axis that counts from the end when negative; one that is not there stays as it is for the crate to
/// refuse.
pub fn axis(axis: i64, rank: usize) -> Result<usize, Stop> {
    let from_start = if axis < 0 { axis + rank.max(1) as i64 } else { axis };
    usize::try_from(from_start).map_or_else(|_| unrun("does not compile: an axis below 0"), Ok)
}
/// The axis that an argument names.
pub fn axis_of(value: &Value, rank: usize) -> Result<usize, Stop> {
    axis(value.as_i64().map_or_else(|| unrun("not an axis"), Ok)?, rank)
}

/// A result, as the comparison sees it.
pub struct Out {
    pub dtype: DType,
    pub size: Vec<usize>,
    pub values: Vec<Scalar>,
    /// Strides and offset of a view.
    pub layout: Option<(Vec<isize>, usize)>,
    /// The scale of rounding errors for each value: the sum of the magnitudes that were added.
    pub magnitude: Option<Vec<f64>>,
    /// How often a value was rounded to the element on the way, in units of half a last place of the
    /// magnitude.
    pub roundings: f64,
    /// How many units in the last place the function may be off by its own documentation.
    pub budget: f64,
    /// Its elements, kept by the device.
    pub kept: Option<Box<dyn Any>>,
}

impl Out {
    pub fn of<T: Seen, const R: usize, D: CaseDevice>(x: TensorView<'_, T, R, D>) -> Out {
        let kept = D::keep(x).map(|line| Box::new(line) as Box<dyn Any>);
        let values = x.to_vec().expect("a result can be read").into_iter().map(Seen::scalar).collect();
        Out {
            dtype: T::DTYPE,
            size: x.size().0.to_vec(),
            values,
            layout: None,
            magnitude: None,
            roundings: 0.0,
            budget: 4.0,
            kept,
        }
    }
    /// A view of the storage of an operand.
    pub fn view<T: Seen, const R: usize, D: CaseDevice>(
        x: TensorView<'_, T, R, D>,
        of: &Operand<T, D>,
    ) -> Out {
        let start = of.memory().raw_ptr() as usize;
        let offset = (x.raw_ptr() as usize).wrapping_sub(start) / size_of::<T>();
        Out { layout: Some((x.stride().0.to_vec(), offset)), ..Out::of(x) }
    }
    /// With the scale of rounding errors, where its sizes are those of the result.
    pub fn magnitude<const R: usize>(self, magnitude: &Tensor<f64, R>) -> Out {
        Out { magnitude: Some(magnitude.iter().copied().collect()), ..self }
    }
    pub fn budget(self, budget: f64) -> Out {
        Out { budget, ..self }
    }
    /// A composition that rounds this often on the way.
    pub fn rounded(self, roundings: f64) -> Out {
        Out { roundings, ..self }
    }
    pub fn exact(self) -> Out {
        self.budget(0.0)
    }
    /// With these sizes, for results with moved or kept axes.
    pub fn sized(self, size: Vec<usize>) -> Out {
        assert_eq!(size.iter().product::<usize>(), self.values.len());
        Out { size, ..self }
    }
}
/// One tensor as the result.
pub fn one<T: Seen, const R: usize, D: CaseDevice>(x: Result<Tensor<T, R, D>, rankform::Error>) -> Run {
    Ok(vec![Out::of(x?.view())])
}
/// One tensor with elements that are moved or chosen, never computed.
pub fn moved<T: Seen, const R: usize, D: CaseDevice>(x: Result<Tensor<T, R, D>, rankform::Error>) -> Run {
    Ok(vec![Out::of(x?.view()).exact()])
}
