//! Kernels of the backward pass, made from those of the forward pass: vector-Jacobian products. Each is a
//! program again, so every device runs it, and it can be differentiated again.
// Imports: `dtype`, `scalar`, `element`, `kernel`, `device`.

use super::sums::RealSum;
use crate::device::MAX_OPERANDS;
use crate::dtype::DType;
use crate::element::{Compute, Element};
use crate::kernel::{Body, Io, Program, Reducer, Row, Slope};
use crate::scalar::{CollectParams, Dual, Lane, Lanes, Prim};
use num_complex::Complex;
use std::marker::PhantomData;

/// The variable of a kernel whose loads are chosen by a mask at run time.
pub(super) const MASKED: usize = usize::MAX;

/// The loads that are one variable, and for complex numbers the direction of the derivative: along 1 or along
/// the imaginary unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variable {
    /// Bit `k`: load `k`.
    pub(super) mask: u64,
    pub(super) is_imaginary: bool,
}

impl Variable {
    /// The tangent of load `k`, as a run-time number.
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn seed<T: Element>(self, k: usize) -> T {
        let direction = if self.is_imaginary { Complex::new(0.0, 1.0) } else { Complex::new(1.0, 0.0) };
        T::narrow(if self.mask >> k & 1 == 1 { Prim::from_complex(direction) } else { Default::default() })
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn first(self) -> usize {
        self.mask.trailing_zeros() as usize
    }
}

/// The variant of a kernel that differentiates a program of this variant by load `k`, whose element it
/// stores.
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn variant_of(program: u64, k: usize) -> u64 {
    program * MAX_OPERANDS as u64 + k as u64
}

/// Runs a program with tangents. The loads of the variable have the tangent 1, and each store adds the
/// product of the tangent and the next gradient, which is loaded there.
struct Tangents<'a, L: Lanes, IO, const K: usize> {
    io: &'a mut IO,
    variable: Variable,
    next: usize,
    sum: RealSum<L>,
}

impl<'a, L: Lanes, IO: Io<L>, const K: usize> Tangents<'a, L, IO, K> {
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn new(io: &'a mut IO, variable: Variable) -> Self {
        Tangents { io, variable, next: 0, sum: RealSum::new() }
    }
}

impl<L: Lanes, IO: Io<L>, const K: usize> Io<Dual<L>> for Tangents<'_, L, IO, K> {
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn load<T: Element>(&mut self) -> Lane<Dual<L>, Compute<T>> {
        let value = self.io.load::<T>();
        let k = self.next;
        self.next += 1;
        if const { <Compute<T> as Prim>::DTYPE.is_discrete() } {
            return Lane::constant(value);
        }
        if K == MASKED {
            let seed = self.io.param::<T>(self.variable.seed::<T>(k));
            return Lane::new(value, seed);
        }
        if k == K { Lane::new(value, Lane::literal(Prim::from_f64(1.0))) } else { Lane::constant(value) }
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn param<T: Element>(&mut self, value: T) -> Lane<Dual<L>, Compute<T>> {
        Lane::constant(self.io.param(value))
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn store<T: Element>(&mut self, value: Lane<Dual<L>, Compute<T>>) {
        let gradient = self.io.load::<T>();
        if let Some(tangent) = value.raw().1 {
            self.sum.add_product::<Compute<T>>(gradient, Lane::from_raw(tangent));
        }
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn row_constant<T: Element>(&mut self, value: Compute<T>, loads: usize) -> Lane<Dual<L>, Compute<T>> {
        Lane::constant(self.io.row_constant::<T>(value, loads))
    }
}

/// Finds whether all loads that can have gradients have one element type. The compiler evaluates it.
struct LoadTypes {
    first: Option<DType>,
    is_one: bool,
}

impl LoadTypes {
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn new() -> Self {
        LoadTypes { first: None, is_one: true }
    }
}

impl Io<CollectParams> for LoadTypes {
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn load<T: Element>(&mut self) -> Lane<CollectParams, Compute<T>> {
        if const { !<Compute<T> as Prim>::DTYPE.is_discrete() } {
            let dtype = const { T::DTYPE };
            self.is_one &= self.first.is_none_or(|first| first as u8 == dtype as u8);
            self.first = Some(dtype);
        }
        Lane::from_raw(())
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn param<T: Element>(&mut self, _: T) -> Lane<CollectParams, Compute<T>> {
        Lane::from_raw(())
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn store<T: Element>(&mut self, _: Lane<CollectParams, Compute<T>>) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn row_constant<T: Element>(&mut self, _: Compute<T>, _: usize) -> Lane<CollectParams, Compute<T>> {
        Lane::from_raw(())
    }
}

/// Visits the loads of a program without computing, and stores a sum in the element type of load `k`.
struct StoreAsLoad<'a, L: Lanes, IO> {
    io: &'a mut IO,
    variable: Variable,
    k: usize,
    next: usize,
    sum: RealSum<L>,
    /// Whether all loads that can have gradients have one element type. A branch on `k`, which is known at
    /// run time only, would keep the loop from being vectorized.
    is_one_type: bool,
    is_stored: bool,
}

impl<'a, L: Lanes, IO> StoreAsLoad<'a, L, IO> {
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn new(io: &'a mut IO, variable: Variable, k: usize, sum: RealSum<L>, types: LoadTypes) -> Self {
        let is_one_type = types.is_one;
        StoreAsLoad { io, variable, k, next: 0, sum, is_one_type, is_stored: false }
    }
}

impl<L: Lanes, IO: Io<L>> Io<CollectParams> for StoreAsLoad<'_, L, IO> {
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn load<T: Element>(&mut self) -> Lane<CollectParams, Compute<T>> {
        let is_real = const { !<Compute<T> as Prim>::DTYPE.is_discrete() };
        if is_real && if self.is_one_type { !self.is_stored } else { self.next == self.k } {
            self.is_stored = true;
            // A derivative along the imaginary unit is the imaginary part of the gradient.
            let value = match <Compute<T> as Prim>::DTYPE {
                DType::C32 | DType::C64 => {
                    let seed = self.io.param::<T>(self.variable.seed::<T>(self.k));
                    self.sum.along(seed)
                }
                _ => self.sum.get(),
            };
            self.io.store::<T>(value);
        }
        self.next += 1;
        Lane::from_raw(())
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn param<T: Element>(&mut self, _: T) -> Lane<CollectParams, Compute<T>> {
        Lane::from_raw(())
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn store<T: Element>(&mut self, _: Lane<CollectParams, Compute<T>>) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn row_constant<T: Element>(&mut self, _: Compute<T>, _: usize) -> Lane<CollectParams, Compute<T>> {
        Lane::from_raw(())
    }
}

/// Whether the kernels of a program's backward pass load its result: it has [`Program::BY_RESULT`], and there
/// is room for one more load beside the gradient of its output, and for an output.
pub(super) const fn loads_result<P: Program>() -> bool {
    P::BY_RESULT && !P::BY_ROWS && P::LOADS + 1 + P::OUTPUTS < MAX_OPERANDS
}

/// Runs a program with derivatives, by its result if that is [loaded](loads_result).
#[cfg_attr(not(rankform_unoptimized), inline(always))]
fn run_dual<P: Program, L: Lanes>(program: &P, io: &mut impl Io<Dual<L>>) {
    if const { loads_result::<P>() } { program.run_dual::<L>(io) } else { program.run::<Dual<L>>(io) }
}

/// The gradient of a program by one variable: load `K`, or with [`MASKED`] the loads of a mask. Its loads are
/// those of the program with derivatives, then the gradients of the program's outputs. Its output has the
/// element type of the variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct VjpMap<P, const K: usize> {
    pub(super) program: P,
    pub(super) variable: Variable,
}

impl<P: Program, const K: usize> Program for VjpMap<P, K> {
    const OUTPUTS: usize = 1;
    const LOADS: usize = P::LOADS + loads_result::<P>() as usize + P::OUTPUTS;
    const BY_ROWS: bool = false;
    const FIXED: bool = P::FIXED && K != MASKED;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = P::PLAIN;
    const COMPLEX: bool = P::COMPLEX;
    const CHEAP: bool = P::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn variant(&self) -> u64 {
        variant_of(self.program.variant(), if K == MASKED { self.variable.first() } else { 0 })
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
        let mut tangents = Tangents::<L, _, K>::new(io, self.variable);
        run_dual::<P, L>(&self.program, &mut tangents);
        let Tangents { io, sum, .. } = tangents;
        let k = if K == MASKED { self.variable.first() } else { K };
        let mut types = LoadTypes::new();
        self.program.run::<CollectParams>(&mut types);
        let mut output = StoreAsLoad::new(io, self.variable, k, sum, types);
        self.program.run::<CollectParams>(&mut output);
    }
}

/// The gradient of a reduction by the loads of a mask. Its loads are those of the reduced body, then three
/// numbers for each result: the result, the extra number of the reducer's slope, and the gradient.
#[derive(Debug)]
pub(super) struct VjpReduce<B, R> {
    pub(super) body: B,
    pub(super) variable: Variable,
    /// The number of reduced values.
    pub(super) count: f64,
    pub(super) reducer: PhantomData<R>,
}

impl<B: Clone, R> Clone for VjpReduce<B, R> {
    fn clone(&self) -> Self {
        VjpReduce { body: self.body.clone(), ..*self }
    }
}
impl<B: Copy, R> Copy for VjpReduce<B, R> {}

impl<B: Body, R: Reducer<B::Out>> Program for VjpReduce<B, R> {
    const OUTPUTS: usize = 1;
    const LOADS: usize = B::LOADS + 3;
    const BY_ROWS: bool = false;
    const FIXED: bool = false;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = B::PLAIN && R::Out::PLAIN && B::Out::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = B::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn variant(&self) -> u64 {
        variant_of(0, self.variable.first())
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
        let mut tangents = Tangents::<L, _, MASKED>::new(io, self.variable);
        let (value, tangent) = self.body.eval::<Dual<L>>(&mut tangents).raw();
        let Tangents { io, mut sum, .. } = tangents;
        let result = io.load::<R::Out>();
        let extra = io.load::<B::Out>();
        let gradient = io.load::<R::Out>();
        let count = io.param::<f64>(self.count);
        if let Some(tangent) = tangent {
            let (value, tangent) = (Lane::from_raw(value), Lane::from_raw(tangent));
            let slope = R::slope::<L>(value, result, extra, count);
            let share = if matches!(R::SLOPE, Slope::Shared) { Some(extra) } else { None };
            sum.add_product_with(gradient.cast(), slope, tangent, share);
            if matches!(R::SLOPE, Slope::Parts) {
                let slope = R::imaginary_slope::<L>(value, result, extra, count);
                let gradient = gradient.cast::<Complex<f64>>().im();
                sum.add_product_with(gradient.cast(), slope, tangent, None);
            }
        }
        let k = self.variable.first();
        let mut types = LoadTypes::new();
        self.body.eval::<CollectParams>(&mut types);
        let mut output = StoreAsLoad::new(io, self.variable, k, sum, types);
        self.body.eval::<CollectParams>(&mut output);
    }
}

/// The slope of a reducer at each value: loads of the reduced body, then the result.
#[derive(Debug)]
pub(super) struct SlopeOf<B, R>(pub(super) B, pub(super) PhantomData<R>);

impl<B: Clone, R> Clone for SlopeOf<B, R> {
    fn clone(&self) -> Self {
        SlopeOf(self.0.clone(), PhantomData)
    }
}
impl<B: Copy, R> Copy for SlopeOf<B, R> {}

impl<B: Body, R: Reducer<B::Out>> Body for SlopeOf<B, R> {
    type Out = B::Out;
    const LOADS: usize = B::LOADS + 1;
    const BY_ROWS: bool = false;
    const FIXED: bool = B::FIXED;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = B::PLAIN && R::Out::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = B::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<B::Out>> {
        let value = self.0.eval::<L>(io);
        let result = io.load::<R::Out>();
        R::slope::<L>(value, result, Lane::literal(Default::default()), Lane::literal(0.0))
    }
}

/// `Σ x` of elements of any type, in f64: the number of values that share a gradient.
#[derive(Clone, Copy, Debug)]
pub(super) struct Total;

impl<T: Element> Reducer<T> for Total {
    const NAME: &'static str = "total";
    const CHEAP: bool = true;
    type Out = T;
    type State<L: Lanes> = Lane<L, f64>;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn identity<L: Lanes>() -> Self::State<L> {
        Lane::zero()
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn accumulate<L: Lanes>(
        state: Self::State<L>,
        x: Lane<L, Compute<T>>,
        _: Lane<L, i64>,
    ) -> Self::State<L> {
        state + x.cast::<f64>()
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn combine<L: Lanes>(a: Self::State<L>, b: Self::State<L>) -> Self::State<L> {
        a + b
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn finalize<L: Lanes>(state: Self::State<L>, _: Lane<L, i64>) -> Lane<L, Compute<T>> {
        state.cast()
    }
}

/// A program or body whose row constants are operands: each is loaded where the first load of its part was,
/// one value for each row.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConstantsAsLoads<B>(pub(super) B);

struct LoadConstants<'a, IO>(&'a mut IO);

impl<L: Lanes, IO: Io<L>> Io<L> for LoadConstants<'_, IO> {
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn load<T: Element>(&mut self) -> Lane<L, Compute<T>> {
        self.0.load::<T>()
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn param<T: Element>(&mut self, value: T) -> Lane<L, Compute<T>> {
        self.0.param(value)
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn store<T: Element>(&mut self, value: Lane<L, Compute<T>>) {
        self.0.store::<T>(value);
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn row_constant<T: Element>(&mut self, _: Compute<T>, loads: usize) -> Lane<L, Compute<T>> {
        let value = self.0.load::<T>();
        // Its other loads, which nothing reads.
        for _ in 1..loads {
            self.0.load::<u8>();
        }
        value
    }
}

impl<P: Program> Program for ConstantsAsLoads<P> {
    const OUTPUTS: usize = P::OUTPUTS;
    const LOADS: usize = P::LOADS;
    const BY_ROWS: bool = false;
    const FIXED: bool = P::FIXED;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = P::PLAIN;
    const COMPLEX: bool = P::COMPLEX;
    const CHEAP: bool = P::CHEAP;
    const BY_RESULT: bool = loads_result::<P>();
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn variant(&self) -> u64 {
        self.0.variant()
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run<L: Lanes>(&self, io: &mut impl Io<L>) {
        self.0.run::<L>(&mut LoadConstants(io));
    }
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn run_dual<L: Lanes>(&self, io: &mut impl Io<Dual<L>>) {
        if const { Self::BY_RESULT } { self.0.run_dual::<L>(io) } else { self.run::<Dual<L>>(io) }
    }
}

impl<B: Body> Body for ConstantsAsLoads<B> {
    type Out = B::Out;
    const LOADS: usize = B::LOADS;
    const BY_ROWS: bool = false;
    const FIXED: bool = B::FIXED;
    const CACHED_BYTES: usize = 0;
    const PLAIN: bool = B::PLAIN;
    const COMPLEX: bool = B::COMPLEX;
    const CHEAP: bool = B::CHEAP;
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn prepare_row(&mut self, _: &mut impl Row) {}
    #[cfg_attr(not(rankform_unoptimized), inline(always))]
    fn eval<L: Lanes>(&self, io: &mut impl Io<L>) -> Lane<L, Compute<B::Out>> {
        self.0.eval::<L>(&mut LoadConstants(io))
    }
}
