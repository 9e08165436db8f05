//! The crate's own operators as kernels: every row of the tables of elementwise operators, reductions, matrix products.
//!
//! An operator is a graph, traced when it first runs; loops for it are compiled nowhere (`Device::map_by_name`).
//! Imports: `error`, `dtype`, `scalar`, `element`, `kernel`, `device`, `tensor`, `expr`, `ops`, `quantised`, `dynamic`, `dispatch`.

use super::dispatcher::{Dispatcher, Dispatching};
use super::kernel::{Argument, Class, Kernel, Parameter, Quantized, Sparse, View, Wanted, with_tensors};
use super::keys::DispatchKey;
use crate::device::{Device, Inputs, Slot};
use crate::dtype::DType;
use crate::dynamic::{DynTensor, MAX_RANK};
use crate::element::{Comparable, Compute, Element, Float, Number, QInt8, QInt32, QUInt8};
use crate::element::{bf16, f16};
use crate::error::{Error, Result, text};
use crate::expr::{MapFn, ReduceFn, eval_named, reduce_named};
use crate::kernel::{Call, Input, Op, Program, Reducer, Store};
use crate::ops::{ArgMax, ArgMin, LogSumExp, Max, Mean, Min, Prod, SampleStd, SampleVar, Std, Sum, Var, Visit};
use crate::quantised::Quantised;
use crate::scalar::Prim;
use crate::tensor::{Leaf, Tensor};
use num_complex::Complex;
use std::marker::PhantomData;

/// A kernel of operands with element `T` on `D`.
fn kernel<T: Element, D: Device>(
    classes: &[Class],
    run: Box<dyn for<'a> Fn(&[Argument<'a>]) -> Result<DynTensor> + Send + Sync>,
) -> Kernel {
    let fits: fn(&DynTensor) -> bool = |x| x.dtype() == T::DTYPE && x.is_on::<D>();
    let wanted = |&class: &Class| match class {
        Class::Tensor | Class::Operand => Wanted::new(class, Some(T::DTYPE), text(format_args!("{}", T::DTYPE)), fits),
        Class::Number => Wanted::new(class, None, "number".into(), |_| false),
        Class::Axes => Wanted::new(class, None, "axes".into(), |_| false),
    };
    Kernel { wanted: classes.iter().map(wanted).collect(), run: Box::new(move |_, arguments| run(arguments)) }
}

fn unlike(op: &'static str, arguments: &[Argument<'_>]) -> Error {
    let found: Vec<String> = arguments.iter().map(Argument::in_words).collect();
    Error::Type { op, expected: "tensors of one device".into(), found: found.join(", ") }
}

/// Fills a dispatcher with operators: on all elements, or on those that are used most. A constant, so that no kernel is
/// compiled for the others.
struct Fill<'a, D, const ALL: bool> {
    dispatcher: &'a mut Dispatcher,
    key: DispatchKey,
    result: Result<()>,
    device: PhantomData<D>,
}

impl<D: Device, const ALL: bool> Fill<'_, D, ALL> {
    fn add(&mut self, name: &'static str, kernel: Kernel) {
        if self.result.is_ok() {
            self.result = self.dispatcher.register(name, self.key, kernel);
        }
    }

    fn one<F: Op<(T,)>, T: Element>(&mut self, _: F) {
        let named = Named { op: F::NAME, of: T::DTYPE, out: F::Out::DTYPE, run: map_of::<Unary<F, T>, D> as MapFn<D> };
        let run = move |arguments: &[Argument<'_>]| match arguments {
            [Argument::Tensor(x)] => named.call(&[x]),
            _ => Err(unlike(named.op, arguments)),
        };
        self.add(F::NAME, kernel::<T, D>(&[Class::Tensor], Box::new(run)));
    }

    fn two<F: Op<(T, T)>, T: Element>(&mut self, _: F) {
        let named = Named { op: F::NAME, of: T::DTYPE, out: F::Out::DTYPE, run: map_of::<Binary<F, T>, D> as MapFn<D> };
        let number: fn(f64) -> [u8; 16] = number_of::<T>;
        let run = move |arguments: &[Argument<'_>]| match arguments {
            [Argument::Tensor(x), Argument::Tensor(y)] => named.call(&[x, y]),
            [Argument::Tensor(x), Argument::Number(y)] => named.call(&[x, &named.scalar(x, number(*y))?]),
            [Argument::Number(x), Argument::Tensor(y)] => named.call(&[&named.scalar(y, number(*x))?, y]),
            _ => Err(unlike(named.op, arguments)),
        };
        self.add(F::NAME, kernel::<T, D>(&[Class::Operand, Class::Operand], Box::new(run)));
    }

    /// A reduction over axes; none are no axes.
    fn reduction<R: Reducer<T>, T: Element>(&mut self, reducer: R) {
        let reduce: ReduceFn<D> = Box::new(move |device, axes, output, inputs| {
            // SAFETY: whoever calls it promises what the device asks for.
            unsafe { device.reduce_by_name(&Input::<T>(PhantomData), reducer, axes, output, inputs) }
        });
        let named = Named { op: R::NAME, of: T::DTYPE, out: R::Out::DTYPE, run: reduce };
        let needs = R::NEEDS_ELEMENTS;
        let run = move |arguments: &[Argument<'_>]| named.reduce(needs, arguments);
        self.add(R::NAME, kernel::<T, D>(&[Class::Tensor, Class::Axes], Box::new(run)));
    }

    fn others(&mut self) {
        self.floats::<f16>();
        self.floats::<bf16>();
        self.comparables::<i8>();
        self.comparables::<i16>();
        self.comparables::<u8>();
        self.comparables::<u16>();
        self.comparables::<u32>();
        self.comparables::<u64>();
        self.numbers::<Complex<f16>>();
        self.numbers::<Complex<f32>>();
        self.numbers::<Complex<f64>>();
    }

    fn numbers<T: Number>(&mut self) {
        self.reduction::<Sum, T>(Sum);
        self.reduction::<Prod, T>(Prod);
        let run = |arguments: &[Argument<'_>]| match arguments {
            [Argument::Tensor(x), Argument::Tensor(y)] => matmul::<T, D>(x, y),
            _ => Err(unlike("matmul", arguments)),
        };
        self.add("matmul", kernel::<T, D>(&[Class::Tensor, Class::Tensor], Box::new(run)));
    }

    fn comparables<T: Comparable>(&mut self) {
        self.numbers::<T>();
        self.reduction::<Max, T>(Max);
        self.reduction::<Min, T>(Min);
        self.reduction::<ArgMax, T>(ArgMax);
        self.reduction::<ArgMin, T>(ArgMin);
    }

    fn floats<T: Float>(&mut self) {
        self.comparables::<T>();
        self.reduction::<Mean, T>(Mean);
        self.reduction::<Var, T>(Var);
        self.reduction::<SampleVar, T>(SampleVar);
        self.reduction::<Std, T>(Std);
        self.reduction::<SampleStd, T>(SampleStd);
        self.reduction::<LogSumExp, T>(LogSumExp);
    }
}

impl<D: Device, const ALL: bool> Visit for Fill<'_, D, ALL> {
    fn unary<F: Op<(T,)>, T: Element>(&mut self, operator: F) {
        if const { ALL || is_common(T::DTYPE) } {
            self.one::<F, T>(operator);
        }
    }
    fn binary<F: Op<(T, T)>, T: Element>(&mut self, operator: F) {
        if const { ALL || is_common(T::DTYPE) } {
            self.two::<F, T>(operator);
        }
    }
}

/// The program of an operator.
type Unary<F, T> = Store<Call<F, (Input<T>,)>>;
type Binary<F, T> = Store<Call<F, (Input<T>, Input<T>)>>;

/// A program that carries nothing.
trait Plain: Program {
    const PROGRAM: Self;
}
impl<F: Op<(T,)>, T: Element> Plain for Unary<F, T> {
    const PROGRAM: Self = Store(Call::new((Input(PhantomData),)));
}
impl<F: Op<(T, T)>, T: Element> Plain for Binary<F, T> {
    const PROGRAM: Self = Store(Call::new((Input(PhantomData), Input(PhantomData))));
}

/// # Safety
/// As [`Device::map`].
unsafe fn map_of<P: Plain, D: Device>(device: &D, sizes: &[usize], outputs: &[Slot<'_>], inputs: Inputs<'_>) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { device.map_by_name(&P::PROGRAM, sizes, outputs, inputs) }
}

/// A number as an element.
fn number_of<T: Element>(number: f64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&T::narrow(number.cast::<Compute<T>>())));
    bytes
}

/// An operator on elements of one name, without its types: what runs it, and the elements of the result.
#[derive(Clone, Copy)]
struct Named<RUN> {
    op: &'static str,
    of: DType,
    out: DType,
    run: RUN,
}

/// A tensor of words as wide as elements of a name, as a tensor of these.
macro_rules! by_width {
    ($dtype:expr, $W:ident => $tensor:expr) => {{
        macro_rules! of {
            ($word:ty) => {{
                type $W = $word;
                DynTensor::from($tensor)
            }};
        }
        let words = match $dtype.size() {
            1 => of!(u8),
            2 => of!(u16),
            4 => of!(u32),
            8 => of!(u64),
            _ => of!(Complex<f64>),
        };
        // SAFETY: the kernel wrote elements of this name, which are as wide.
        unsafe { words.renamed($dtype) }
    }};
}

impl<RUN> Named<RUN> {
    fn unlike<D: Device>(&self, x: &DynTensor) -> Error {
        let expected = text(format_args!("{} of at most 8 axes on {}", self.of, std::any::type_name::<D>()));
        Error::Type { op: self.op, expected, found: x.kind_in_words() }
    }

    /// An operand at rank 8 or 16, its axes in these places.
    fn leaf<'a, const N: usize, D: Device>(&self, x: &'a DynTensor, places: [Option<usize>; N]) -> Result<Leaf<'a, N, D>> {
        let fits = x.rank() <= 8 && x.dtype() == self.of;
        x.leaf::<N, D>(if fits { places } else { [None; N] }).filter(|_| fits).ok_or_else(|| self.unlike::<D>(x))
    }
}

impl<D: Device> Named<MapFn<D>> {
    fn call(&self, operands: &[&DynTensor]) -> Result<DynTensor> {
        let (op, mut leaves) = (self.op, Vec::with_capacity(operands.len()));
        for x in operands {
            x.accessible(op)?;
            let new = 8usize.saturating_sub(x.rank());
            leaves.push(self.leaf::<8, D>(x, std::array::from_fn(|axis| axis.checked_sub(new)))?);
        }
        let device = leaves[0].device();
        // SAFETY: the operands have elements of the name that the operator is for.
        let out = by_width!(self.out, W => unsafe { eval_named::<W, D>(op, &leaves, device, self.run)? });
        Ok(out.with_rank(operands.iter().map(|x| x.rank()).max().unwrap_or(0)))
    }

    /// A number on the device of a tensor.
    fn scalar(&self, beside: &DynTensor, bytes: [u8; 16]) -> Result<DynTensor> {
        let scalar = DynTensor::from_bytes(self.of, &[], &bytes[..self.of.size()])?;
        scalar.to(beside.device::<D>().ok_or_else(|| self.unlike::<D>(beside))?)
    }
}

impl<D: Device> Named<ReduceFn<D>> {
    fn reduce(&self, needs: bool, arguments: &[Argument<'_>]) -> Result<DynTensor> {
        let op = self.op;
        let [Argument::Tensor(x), Argument::Axes(axes)] = arguments else { return Err(unlike(op, arguments)) };
        let wrong = axes.iter().enumerate().find(|&(at, axis)| *axis >= x.rank() || axes[..at].contains(axis));
        if let Some((_, &axis)) = wrong {
            return Err(Error::Axis { op, axis, sizes: x.size().into() });
        }
        if x.rank() > 8 {
            return Err(unlike(op, arguments));
        }
        // The axes that stay in places 0 to 7, those that go in 8 to 15.
        let (mut places, kept) = ([None; 16], x.rank() - axes.len());
        let (mut stay, mut go) = (8 - kept, 16 - axes.len());
        for axis in 0..x.rank() {
            let place = if axes.contains(&axis) { &mut go } else { &mut stay };
            places[*place] = Some(axis);
            *place += 1;
        }
        x.ready(op)?;
        let leaf = self.leaf::<16, D>(x, places).map_err(|_| unlike(op, arguments))?;
        let gone = std::array::from_fn(|axis| axis >= 8);
        // SAFETY: the operand has elements of the name that the reducer is for.
        let out = by_width!(self.out, W => unsafe { reduce_named::<W, D>((op, needs), leaf, gone, &self.run)? });
        Ok(out.with_rank(kept))
    }
}

/// The product of vectors, matrices or stacks of them, whose ranks stretch.
fn matmul<T: Number, D: Device>(x: &DynTensor, y: &DynTensor) -> Result<DynTensor> {
    let op = "matmul";
    if (x.rank(), y.rank()) == (2, 2) {
        return Ok(x.downcast_ref::<T, 2, D>()?.matmul(y.downcast_ref::<T, 2, D>()?)?.into());
    }
    let (m, n) = (x.rank() == 1, y.rank() == 1);
    if x.rank() == 0 || y.rank() == 0 || x.rank() > 4 || y.rank() > 4 {
        return Err(Error::Type { op, expected: "tensors of 1 to 4 axes".into(), found: text(format_args!("{x:?} and {y:?}")) });
    }
    let (left, right) = (if m { x.inserted(0)? } else { x.share_data() }, if n { y.inserted(1)? } else { y.share_data() });
    let at_4 = |tensor: &DynTensor| -> Result<DynTensor> {
        let mut tensor = tensor.share_data();
        while tensor.rank() < 4 {
            tensor = tensor.inserted(0)?;
        }
        Ok(tensor)
    };
    let (left4, right4) = (at_4(&left)?, at_4(&right)?);
    let product: DynTensor = left4.downcast_ref::<T, 4, D>()?.matmul(right4.downcast_ref::<T, 4, D>()?)?.into();
    let mut product = product.with_rank(left.rank().max(right.rank()));
    if n {
        product = product.removed(product.rank() - 1)?;
    }
    if m { product.removed(product.rank() - 1 - usize::from(!n)) } else { Ok(product) }
}

/// Whether an element is one of those that are used most.
const fn is_common(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)
}

/// The key of dense tensors on a device, found as those of tensors are.
fn key_of<D: Device>(device: &D) -> Result<DispatchKey> {
    let keys = DynTensor::empty(DType::F32, &[0], device)?.key_set();
    keys.highest().ok_or_else(|| Error::Value { op: "dispatch", what: "a device without a key".into() })
}

impl Dispatcher {
    /// The crate's elementwise operators, reductions and matrix products, for f32, f64, i32 and i64.
    ///
    /// # Cost
    /// The graphs of all of them are compiled in the crate that calls this, which takes
    /// half a minute; on the CPU they are interpreted.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_arithmetic<D: Device + Default>() -> Result<Dispatcher> {
        Self::filled::<D, false>(&D::default())
    }

    /// Every elementwise operator of the crate, for every element that it takes, and reductions and matrix products.
    ///
    /// # Cost
    /// As there, for more elements.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn with_all_operators<D: Device>(device: &D) -> Result<Dispatcher> {
        Self::filled::<D, true>(device)
    }

    fn filled<D: Device, const ALL: bool>(device: &D) -> Result<Dispatcher> {
        let mut dispatcher = Dispatcher::new();
        let key = key_of(device)?;
        let mut fill = Fill::<D, ALL> { dispatcher: &mut dispatcher, key, result: Ok(()), device: PhantomData };
        crate::ops::each_operator(&mut fill);
        fill.floats::<f32>();
        fill.floats::<f64>();
        fill.comparables::<i32>();
        fill.comparables::<i64>();
        if const { ALL } {
            fill.others();
        }
        fill.result?;
        let [quantised, sparse] = key.beside();
        dispatcher.sparse_of::<f32, D>(sparse)?;
        dispatcher.sparse_of::<f64, D>(sparse)?;
        dispatcher.sparse_of::<i32, D>(sparse)?;
        dispatcher.sparse_of::<i64, D>(sparse)?;
        dispatcher.quantised_of::<QInt8, D>(quantised)?;
        dispatcher.quantised_of::<QUInt8, D>(quantised)?;
        dispatcher.quantised_of::<QInt32, D>(quantised)?;
        dispatcher.fallback(DispatchKey::Conjugate, |call, arguments| with_tensors(arguments, DynTensor::resolved::<D>, |x| call.below(x)));
        dispatcher.fallback(DispatchKey::Negative, |call, arguments| with_tensors(arguments, DynTensor::resolved::<D>, |x| call.below(x)));
        dispatcher.fallback(DispatchKey::Named, named);
        dispatcher.register("matmul", DispatchKey::Named, Kernel::boxed(&[Class::Tensor, Class::Tensor], named_matmul))?;
        Ok(dispatcher)
    }
}

/// A matrix as [`View`] takes it: the function gets a handle on the same memory, for those that take a [`Tensor`].
struct Dense<T, D>(PhantomData<fn() -> (T, D)>);

impl<T: Element, D: Device> Parameter for Dense<T, D> {
    type Value<'a> = Tensor<T, 2, D>;
    fn wanted() -> (Class, Option<DType>, String, fn(&DynTensor) -> bool) {
        View::<T, 2, D>::wanted()
    }
    fn take<'a>(argument: Argument<'a>) -> Result<Tensor<T, 2, D>> {
        argument.tensor().ok_or_else(|| unlike("kernel", &[argument]))?.share_data().downcast()
    }
}

impl Dispatcher {
    /// Kernels of sparse matrices: `add` of two, `mul` and `matmul` by a dense one, `to_dense`.
    fn sparse_of<T: Number, D: Device>(&mut self, key: DispatchKey) -> Result<()> {
        type Matrix<T, D> = Sparse<T, 2, D>;
        self.register("add", key, Kernel::of_two::<Matrix<T, D>, Matrix<T, D>, _>(|x, y| DynTensor::from_sparse(x.add(y)?)))?;
        self.register("mul", key, Kernel::of_two::<Matrix<T, D>, Dense<T, D>, _>(|x, y| DynTensor::from_sparse(x.mul(&y)?)))?;
        self.register("matmul", key, Kernel::of_two::<Matrix<T, D>, Dense<T, D>, _>(|x, y| x.matmul(&y)))?;
        self.register("to_dense", key, Kernel::of_one::<Matrix<T, D>, _>(|x| x.to_dense()))
    }

    /// Kernels of quantised tensors: `dequantise`, for 1 to 4 axes. Sums and products need a scale of their own: these are a
    /// user's to register.
    fn quantised_of<Q: Quantised, D: Device>(&mut self, key: DispatchKey) -> Result<()> {
        self.register("dequantise", key, Kernel::of_one::<Quantized<Q, 1, D>, _>(|x| x.dequantise()))?;
        self.register("dequantise", key, Kernel::of_one::<Quantized<Q, 2, D>, _>(|x| x.dequantise()))?;
        self.register("dequantise", key, Kernel::of_one::<Quantized<Q, 3, D>, _>(|x| x.dequantise()))?;
        self.register("dequantise", key, Kernel::of_one::<Quantized<Q, 4, D>, _>(|x| x.dequantise()))
    }
}

fn without_names(x: &DynTensor) -> Result<DynTensor> {
    x.share_data().with_names(&[])
}

/// Names of results: those of one operand, without the axes that go; of two operands those of both, which must agree.
fn named(call: &Dispatching<'_>, arguments: &[Argument<'_>]) -> Result<DynTensor> {
    let gone = arguments.iter().find_map(|x| if let Argument::Axes(axes) = x { Some(*axes) } else { None }).unwrap_or_default();
    let tensors: Vec<&DynTensor> = arguments.iter().filter_map(Argument::tensor).collect();
    let names: Vec<String> = match tensors[..] {
        [x] => x.names().iter().enumerate().filter(|(axis, _)| !gone.contains(axis)).map(|(_, name)| name.clone()).collect(),
        [x, y] => DynTensor::joint_names("names", x, y)?,
        _ => Vec::new(),
    };
    let result = with_tensors(arguments, without_names, |x| call.below(x))?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.len() == result.rank() { result.with_names(&names) } else { Ok(result) }
}

/// The rows' name of the left matrix, the columns' of the right; the axes summed over must agree, as a stack's must.
fn named_matmul(call: &Dispatching<'_>, arguments: &[Argument<'_>]) -> Result<DynTensor> {
    let [Some(x), Some(y)] = [0, 1].map(|at: usize| arguments.get(at).and_then(Argument::tensor)) else {
        return Err(unlike("matmul", arguments));
    };
    let name = |x: &DynTensor, axis: usize| x.names().get(axis).cloned().unwrap_or_default();
    let (inner, other) = (name(x, x.rank().saturating_sub(1)), name(y, y.rank().saturating_sub(2)));
    if !inner.is_empty() && !other.is_empty() && inner != other {
        return Err(Error::Value {
            op: "matmul",
            what: text(format_args!("axis {inner:?} of {:?} meets axis {other:?} of {:?}", x.names(), y.names())),
        });
    }
    let result = with_tensors(arguments, without_names, |x| call.below(x))?;
    let stack = result.rank().saturating_sub(usize::from(x.rank() > 1) + usize::from(y.rank() > 1)).min(MAX_RANK);
    let mut names: Vec<String> = (0..stack).map(|axis| if x.rank() >= y.rank() { name(x, axis) } else { name(y, axis) }).collect();
    names.extend((x.rank() > 1).then(|| name(x, x.rank() - 2)));
    names.extend((y.rank() > 1).then(|| name(y, y.rank() - 1)));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    result.with_names(&names)
}
