//! The crate's own operators as kernels: every row of the tables of elementwise operators, the reductions,
//! and the matrix products.
//!
//! An operator is a graph, traced when it first runs. No loops are compiled for it (`Device::map_by_name`).
// Imports: `error`, `dtype`, `scalar`, `element`, `kernel`, `device`, `ops`, `quantized`, `dynamic`,
// `dispatch`.

use super::context::{Argument, Dispatching, with_tensors};
use super::dispatcher::Dispatcher;
use super::kernel::{Class, Kernel, Quantized, Wanted};
use super::keys::DispatchKey;
use crate::device::{Cpu, Device};
use crate::dtype::DType;
use crate::dynamic::{DynTensor, MAX_RANK, NamedElementwise, Product, Reducing, by_dtype};
use crate::element::{Compute, Element, QInt8, QInt32, QUInt8};
use crate::element::{bf16, f16};
use crate::error::{Error, Result, text};
use crate::kernel::{Op, Reducer};
use crate::ops::{Visit, VisitReductions};
use crate::quantized::{Dequantize, Quantization, QuantizedElement, QuantizedTensor};
use crate::scalar::Prim;
use num_complex::Complex;
use std::marker::PhantomData;

/// A kernel of operands with elements `of` on `D`.
fn kernel<D: Device>(
    (of, place): (DType, &str),
    classes: &[Class],
    run: Box<dyn for<'a> Fn(&[Argument<'a>]) -> Result<DynTensor> + Send + Sync>,
) -> Kernel {
    let wanted = |&class: &Class| match class {
        Class::Tensor | Class::Operand => {
            Wanted::new(class, Some(of), text(format_args!("{of}{place}")), DynTensor::is_on::<D>)
        }
        Class::Number => Wanted::new(class, None, "number".into(), |_| false),
        Class::Axes => Wanted::new(class, None, "axes".into(), |_| false),
    };
    Kernel { wanted: classes.iter().map(wanted).collect(), run: Box::new(move |_, arguments| run(arguments)) }
}

fn unlike(op: &'static str, arguments: &[Argument<'_>]) -> Error {
    let found: Vec<String> = arguments.iter().map(Argument::in_words).collect();
    Error::Type { op, expected: "tensors of one device".into(), found: found.join(", ") }
}

/// Fills a dispatcher with operators: for all elements, or for the most common ones. `ALL` is a constant, so
/// that no kernel is compiled for the other elements.
pub(super) struct Fill<'a, D, const ALL: bool> {
    dispatcher: &'a mut Dispatcher,
    key: DispatchKey,
    /// Follows the elements in the description of a kernel: its device, if the key does not tell.
    place: &'a str,
    pub(super) result: Result<()>,
    device: PhantomData<D>,
}

impl<'a, D: Device, const ALL: bool> Fill<'a, D, ALL> {
    pub(super) fn new(dispatcher: &'a mut Dispatcher, key: DispatchKey, place: &'a str) -> Self {
        Fill { dispatcher, key, place, result: Ok(()), device: PhantomData }
    }

    fn add(&mut self, name: &'static str, kernel: Kernel) {
        if self.result.is_ok() {
            self.result = self.dispatcher.register(name, self.key, kernel);
        }
    }

    fn elementwise(&mut self, f: NamedElementwise<D>) {
        let (op, of) = (f.op, f.operands[0]);
        if f.operands.len() == 1 {
            let run = move |arguments: &[Argument<'_>]| match arguments {
                [Argument::Tensor(x)] => f.call(op, &[x]),
                _ => Err(unlike(op, arguments)),
            };
            return self.add(op, kernel::<D>((of, self.place), &[Class::Tensor], Box::new(run)));
        }
        let run = move |arguments: &[Argument<'_>]| match arguments {
            [Argument::Tensor(x), Argument::Tensor(y)] => f.call(op, &[x, y]),
            [Argument::Tensor(x), Argument::Number(y)] => f.call(op, &[x, &scalar::<D>(op, of, *y, x)?]),
            [Argument::Number(x), Argument::Tensor(y)] => f.call(op, &[&scalar::<D>(op, of, *x, y)?, y]),
            _ => Err(unlike(op, arguments)),
        };
        self.add(op, kernel::<D>((of, self.place), &[Class::Operand, Class::Operand], Box::new(run)));
    }

    pub(super) fn nothing(&mut self) {}
    pub(super) fn one<F: Op<(T,)>, T: Element>(&mut self) {
        self.elementwise(NamedElementwise::of_one::<F, T>());
    }
    pub(super) fn two<F: Op<(T, T)>, T: Element>(&mut self) {
        self.elementwise(NamedElementwise::of_two::<F, T, T>());
    }

    fn reducing(&mut self, f: Reducing<D>) {
        let run = move |arguments: &[Argument<'_>]| match arguments {
            [Argument::Tensor(x), Argument::Axes(axes)] => f.call(x, axes),
            _ => Err(unlike(f.op, arguments)),
        };
        self.add(f.op, kernel::<D>((f.of, self.place), &[Class::Tensor, Class::Axes], Box::new(run)));
    }

    /// A reduction over axes. An empty list reduces no axis.
    pub(super) fn reduced<R: Reducer<T> + Default, T: Element>(&mut self) {
        self.reducing(Reducing::of::<R, T>());
    }

    pub(super) fn product(&mut self, f: Product<D>) {
        let run = move |arguments: &[Argument<'_>]| match arguments {
            [Argument::Tensor(x), Argument::Tensor(y)] => matmul(f, x, y),
            _ => Err(unlike("matmul", arguments)),
        };
        self.add("matmul", kernel::<D>((f.of, self.place), &[Class::Tensor, Class::Tensor], Box::new(run)));
    }

    /// The matrix products.
    fn products(&mut self) {
        macro_rules! products {
            ($($t:ty)*) => { $(self.product(Product::of::<$t>());)* };
        }
        products!(f32 f64 i32 i64);
        if const { ALL } {
            products!(f16 bf16 i8 i16 u8 u16 u32 u64 Complex<f16> Complex<f32> Complex<f64>);
        }
    }
}

impl<D: Device, const ALL: bool> Visit for Fill<'_, D, ALL> {
    fn unary<F: Op<(T,)>, T: Element>(&mut self, _: F) {
        let add: fn(&mut Self) =
            const { if ALL || is_common(T::DTYPE) { Self::one::<F, T> } else { Self::nothing } };
        add(self);
    }
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, _: F) {
        let add: fn(&mut Self) =
            const { if ALL || is_common(T::DTYPE) { Self::two::<F, T> } else { Self::nothing } };
        add(self);
    }
}

impl<D: Device, const ALL: bool> VisitReductions for Fill<'_, D, ALL> {
    fn reduction<R: Reducer<T> + Default, T: Element>(&mut self) {
        let add: fn(&mut Self) = const {
            // Booleans have no kernels here.
            let is_wanted = if ALL { T::DTYPE as u8 != DType::Bool as u8 } else { is_common(T::DTYPE) };
            if is_wanted { Self::reduced::<R, T> } else { Self::nothing }
        };
        add(self);
    }
}

/// A number as an element of a dtype.
fn bytes_of(number: f64, of: DType) -> [u8; 16] {
    fn as_element<T: Element>(number: f64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&T::narrow(number.cast::<Compute<T>>())));
        bytes
    }
    by_dtype!(
        of, T in [Bool I8 I16 I32 I64 U8 U16 U32 U64 F16 BF16 F32 F64 C16 C32 C64] => as_element::<T>(number),
        else [0; 16]
    )
}

/// A number as an element on the device of a tensor.
fn scalar<D: Device>(op: &'static str, of: DType, number: f64, beside: &DynTensor) -> Result<DynTensor> {
    let scalar = DynTensor::from_bytes(of, &[], &bytes_of(number, of)[..of.size()])?;
    scalar.to(beside.device::<D>().ok_or_else(|| unlike(op, &[Argument::Tensor(beside)]))?)
}

/// The product of vectors, matrices or stacks of matrices, whose ranks broadcast.
fn matmul<D: Device>(product: Product<D>, x: &DynTensor, y: &DynTensor) -> Result<DynTensor> {
    let op = "matmul";
    if (x.rank(), y.rank()) == (2, 2) {
        return product.call(op, x, y);
    }
    let (m, n) = (x.rank() == 1, y.rank() == 1);
    if x.rank() == 0 || y.rank() == 0 || x.rank() > 4 || y.rank() > 4 {
        return Err(Error::Type {
            op,
            expected: "tensors of 1 to 4 axes".into(),
            found: text(format_args!("{x:?} and {y:?}")),
        });
    }
    let (left, right) =
        (if m { x.inserted(0)? } else { x.share_data() }, if n { y.inserted(1)? } else { y.share_data() });
    let at_4 = |tensor: &DynTensor| -> Result<DynTensor> {
        let mut tensor = tensor.share_data();
        while tensor.rank() < 4 {
            tensor = tensor.inserted(0)?;
        }
        Ok(tensor)
    };
    let (left4, right4) = (at_4(&left)?, at_4(&right)?);
    let of_operands = |error| match error {
        Error::Inner { op, inner, .. } => {
            Error::Inner { op, inner, left: x.size().into(), right: y.size().into() }
        }
        Error::Sizes { op, .. } => Error::Sizes { op, left: x.size().into(), right: y.size().into() },
        other => other,
    };
    let mut product =
        product.call(op, &left4, &right4).map_err(of_operands)?.with_rank(left.rank().max(right.rank()));
    if n {
        product = product.removed(product.rank() - 1)?;
    }
    if m { product.removed(product.rank() - 1 - usize::from(!n)) } else { Ok(product) }
}

/// Whether an element type is one of the most common ones.
const fn is_common(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)
}

/// The key of dense tensors on a device, found through a tensor there.
pub(super) fn key_of<D: Device>(device: &D) -> Result<DispatchKey> {
    let keys = DynTensor::empty(DType::F32, &[0], device)?.key_set();
    keys.highest().ok_or_else(|| Error::Value { op: "dispatch", what: "a device without a key".into() })
}

impl Dispatcher {
    /// The crate's elementwise operators, reductions and matrix products, for f32, f64, i32 and i64.
    ///
    /// # Cost
    /// On the CPU the operators are interpreted, and they are compiled with rankform: a program that calls
    /// this compiles none of them. For other devices the graphs of all operators are compiled in the crate
    /// that calls this.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_arithmetic<D: Device + Default>() -> Result<Dispatcher> {
        // A function pointer, because the compiler would follow both sides of a branch with all that they
        // call.
        let fill: fn(&D) -> Result<Dispatcher> =
            const { if D::IS_CPU { |_| Self::on_cpu() } else { Self::filled::<D, false> } };
        fill(&D::default())
    }

    /// Compiled with this crate, once for all programs.
    fn on_cpu() -> Result<Dispatcher> {
        Self::filled::<Cpu, false>(&Cpu)
    }

    /// Every elementwise operator of the crate, for every element that it takes, with the reductions and
    /// matrix products.
    ///
    /// # Cost
    /// The graphs of all operators are compiled in the crate that calls this, for the CPU too.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_all_operators<D: Device>(device: &D) -> Result<Dispatcher> {
        Self::filled::<D, true>(device)
    }

    fn filled<D: Device, const ALL: bool>(device: &D) -> Result<Dispatcher> {
        let mut dispatcher = Dispatcher::new();
        let key = key_of(device)?;
        let mut fill = Fill::<D, ALL>::new(&mut dispatcher, key, "");
        crate::ops::each_operator(&mut fill);
        crate::ops::each_reduction(&mut fill);
        fill.products();
        fill.result?;
        let [quantized, sparse] = key.beside();
        dispatcher.sparse_of::<f32, D>(sparse)?;
        dispatcher.sparse_of::<f64, D>(sparse)?;
        dispatcher.sparse_of::<i32, D>(sparse)?;
        dispatcher.sparse_of::<i64, D>(sparse)?;
        dispatcher.quantized_of::<QInt8, D>(quantized)?;
        dispatcher.quantized_of::<QUInt8, D>(quantized)?;
        dispatcher.quantized_of::<QInt32, D>(quantized)?;
        dispatcher.resolve_by(DynTensor::is_on::<D>, DynTensor::resolved::<D>);
        dispatcher.fallback(DispatchKey::Named, named);
        dispatcher.register(
            "matmul",
            DispatchKey::Named,
            Kernel::boxed(&[Class::Tensor, Class::Tensor], named_matmul),
        )?;
        Ok(dispatcher)
    }
}

/// The real numbers of quantized integers, by the operator `step` for their elements.
fn dequantized<D: Device>(
    step: NamedElementwise<D>,
    values: &DynTensor,
    quantization: &Quantization,
) -> Result<DynTensor> {
    let op = "dequantize";
    let device = values.device::<D>().ok_or_else(|| unlike(op, &[Argument::Tensor(values)]))?;
    let mut size = vec![1; values.rank()];
    if let Some(axis) = quantization.axis() {
        size[axis] = quantization.scales().len();
    }
    let scale =
        DynTensor::from_bytes(DType::F32, &size, bytemuck::cast_slice(quantization.scales()))?.to(device)?;
    let zero = DynTensor::from_bytes(DType::F64, &size, bytemuck::cast_slice(quantization.zero_points()))?
        .to(device)?;
    step.call(op, &[values, &scale, &zero])
}

impl Dispatcher {
    /// Kernels of quantized tensors: `dequantize`, for 1 to 4 axes. Sums and products need their own scale,
    /// so a user registers these.
    fn quantized_of<Q: QuantizedElement, D: Device>(&mut self, key: DispatchKey) -> Result<()> {
        self.dequantize::<Q, 1, D>(key)?;
        self.dequantize::<Q, 2, D>(key)?;
        self.dequantize::<Q, 3, D>(key)?;
        self.dequantize::<Q, 4, D>(key)
    }

    fn dequantize<Q: QuantizedElement, const RANK: usize, D: Device>(
        &mut self,
        key: DispatchKey,
    ) -> Result<()> {
        let run = |x: &QuantizedTensor<Q, RANK, D>| {
            let values = DynTensor::from_tensor(x.int_repr().share_data())?;
            dequantized(
                NamedElementwise::<D>::of_three::<Dequantize<Q>, Q::Int, f32, f64>(),
                &values,
                x.quantization(),
            )
        };
        self.register("dequantize", key, Kernel::of_one::<Quantized<Q, RANK, D>, _>(run))
    }
}

fn without_names(x: &DynTensor) -> Result<DynTensor> {
    x.share_data().with_names(&[])
}

/// The axes' names of a result: for one operand its names without those of the reduced axes, for two operands
/// the names of both, which must agree.
fn named(call: &Dispatching<'_>, arguments: &[Argument<'_>]) -> Result<DynTensor> {
    let gone = arguments
        .iter()
        .find_map(|x| if let Argument::Axes(axes) = x { Some(*axes) } else { None })
        .unwrap_or_default();
    let tensors: Vec<&DynTensor> = arguments.iter().filter_map(Argument::tensor).collect();
    let names: Vec<String> = match tensors[..] {
        [x] => x
            .names()
            .iter()
            .enumerate()
            .filter(|(axis, _)| !gone.contains(axis))
            .map(|(_, name)| name.clone())
            .collect(),
        [x, y] => DynTensor::joint_names("names", x, y)?,
        _ => Vec::new(),
    };
    let result = with_tensors(arguments, without_names, |x| call.below(x))?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.len() == result.rank() { result.with_names(&names) } else { Ok(result) }
}

/// The name of the left matrix's rows and of the right matrix's columns. The names of the summed axes must
/// agree, as must those of a stack.
fn named_matmul(call: &Dispatching<'_>, arguments: &[Argument<'_>]) -> Result<DynTensor> {
    let [Some(x), Some(y)] = [0, 1].map(|at: usize| arguments.get(at).and_then(Argument::tensor)) else {
        return Err(unlike("matmul", arguments));
    };
    let name = |x: &DynTensor, axis: usize| x.names().get(axis).cloned().unwrap_or_default();
    let (inner, other) = (name(x, x.rank().saturating_sub(1)), name(y, y.rank().saturating_sub(2)));
    if !inner.is_empty() && !other.is_empty() && inner != other {
        return Err(Error::Value {
            op: "matmul",
            what: text(format_args!(
                "axis {inner:?} of {:?} meets axis {other:?} of {:?}",
                x.names(),
                y.names()
            )),
        });
    }
    let result = with_tensors(arguments, without_names, |x| call.below(x))?;
    let stack =
        result.rank().saturating_sub(usize::from(x.rank() > 1) + usize::from(y.rank() > 1)).min(MAX_RANK);
    let mut names: Vec<String> =
        (0..stack).map(|axis| if x.rank() >= y.rank() { name(x, axis) } else { name(y, axis) }).collect();
    names.extend((x.rank() > 1).then(|| name(x, x.rank() - 2)));
    names.extend((y.rank() > 1).then(|| name(y, y.rank() - 1)));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    result.with_names(&names)
}
