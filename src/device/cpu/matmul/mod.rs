//! Products that sum over axes, of any layout, without a copy of the operands.
//!
//! | file | |
//! |---|---|
//! | `axes.rs` | groups of axes: merged, ordered, walked |
//! | `small.rs` | matrices of a few elements |
//! | `vector.rs` | a matrix times a vector |
//! | `complex.rs` | complex numbers, by their parts |
//! | `block.rs` | everything else: panels packed from any layout, tiles over them |
//! | `packed.rs` | the same, with panels that were packed before |
//! | `pack.rs` `tile.rs` `micro.rs` `amx.rs` `plain.rs` | panels; what a kernel is; kernels |
//!
//! Which kernel runs follows from the three elements; code is compiled once, here, not in the calling crate.
// Imports: `error`, `scalar`, `element`, `kernel`, `device`.

// PanelLayout have more forms than other processors have kernels for.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod axis_group;
mod blocked;
mod gemv;
mod kernels;
mod packing;
mod prepacked;
mod tiny;

use super::simd::{self, Loop};
use crate::device::OperandRef;
use crate::element::{Compute, Element, Number};
use crate::element::{bf16, f16};
use crate::error::Result;
use crate::kernel::ContractPlan;
use crate::scalar::{Arith, DType, Num, Prim};
use axis_group::AxisGroup;
use blocked::{GemmProblem, PackFns};
use gemv::{Gemv, RowByPanelsFn};
use kernels::complex::ComplexOf;
use kernels::portable::Portable;
use kernels::{Kernel, KernelInfo};
#[cfg(target_arch = "x86_64")]
use kernels::{amx, amx::Tiles, x86_64::*};
use num_complex::Complex;
use packing::*;
pub(super) use prepacked::{pack, packed_nbytes, run_packed, unpack};
use std::any::TypeId;
use std::marker::PhantomData;
use tiny::TinyProduct;

/// # Safety
/// As [`Device::contract`](crate::device::Device::contract).
pub(super) unsafe fn run<T: Number, L: Number, R: Number>(
    plan: ContractPlan<'_>,
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    right: OperandRef<'_>,
) -> Result<()> {
    if is_own::<T>()
        && is_own::<L>()
        && is_own::<R>()
        && let Some(small) =
            TinyProduct::planned([T::DTYPE, L::DTYPE, R::DTYPE], &plan, &output, &left, &right)
    {
        // SAFETY: the caller's promise, with elements that the names say.
        unsafe { small.run() };
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { batches(plan, output, left, right, one::<T, L, R>, one::<T, R, L>) }
}

/// Computes one product of a batch.
type ProductFn = unsafe fn(&GemmProblem) -> Result<()>;

/// By the best kernel that there is for elements of this crate, one sum after the other for those of others.
unsafe fn one<T: Number, L: Number, R: Number>(product: &GemmProblem) -> Result<()> {
    let own = is_own::<T>() && is_own::<L>() && is_own::<R>();
    // SAFETY: the caller's promise, with elements that the names say.
    if own && unsafe { by_own_kernel(product, [T::DTYPE, L::DTYPE, R::DTYPE]) }? {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { loops::<T, L, R>(product) };
    Ok(())
}

/// Whether `T` is the element that its `DTYPE` names, and not another with the same bytes.
fn is_own<T: Element>() -> bool {
    let t = TypeId::of::<T>();
    macro_rules! any {
        ($($own:ty)*) => { $(t == TypeId::of::<$own>())||* };
    }
    any!(bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 Complex<f32> Complex<f64>)
}

unsafe fn batches(
    plan: ContractPlan<'_>,
    output: OperandRef<'_>,
    left: OperandRef<'_>,
    right: OperandRef<'_>,
    one: ProductFn,
    turned_one: ProductFn,
) -> Result<()> {
    if [plan.batch, plan.m, plan.n].iter().any(|sizes| sizes.contains(&0)) {
        return Ok(()); // nothing to write, whatever the other sizes are
    }
    let (b, m, k) = (plan.batch.len(), plan.m.len(), plan.k.len());
    let mut batch = AxisGroup::new();
    for (axis, &size) in plan.batch.iter().enumerate() {
        batch.push(size, [output.stride[axis], left.stride[axis], right.stride[axis]]);
    }
    let group = |sizes: &[usize], x: &OperandRef<'_>, x_at: usize, y: &OperandRef<'_>, y_at: usize| {
        let mut axes = AxisGroup::new();
        for (axis, &size) in sizes.iter().enumerate() {
            axes.push(size, [x.stride[x_at + axis], y.stride[y_at + axis]]);
        }
        axes
    };
    let (mut rows, mut columns) =
        (group(plan.m, &output, b, &left, b), group(plan.n, &output, b + m, &right, b + k));
    let along = group(plan.k, &left, b + m, &right, b).coalesced(0);
    // An axis that one operand does not have is an axis of the other alone.
    batch.drain(|step| step[2] == 0, |size, step| rows.push(size, [step[0], step[1]]));
    batch.drain(|step| step[1] == 0, |size, step| columns.push(size, [step[0], step[2]]));
    let batch = batch.coalesced(0);
    let product = GemmProblem {
        m: rows.coalesced(0),
        n: columns.coalesced(0),
        k: along,
        out: output.address,
        left: left.address.cast_const(),
        right: right.address.cast_const(),
    };
    let elements = [output.element, left.element, right.element];
    // Columns of the output that stand side by side are written as vectors; rows are by the transposed product.
    let side_by_side = |axes: &AxisGroup<2>| axes.innermost().1[0] == 1;
    // But many rows that stand as they are read, as those of windows do, are better left than packed.
    let stays = product.k.innermost().1[0] == 1 && product.m.total() / 8 > product.n.total();
    if !side_by_side(&product.n) && side_by_side(&product.m) && !stays {
        let turned = |[a, b, c]: [usize; 3]| [a, c, b];
        // SAFETY: the caller's promise, with the operands' names exchanged.
        return unsafe {
            each_of_batch(
                batch.reordered(turned([0, 1, 2])),
                product.transposed(),
                turned(elements),
                turned_one,
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe { each_of_batch(batch, product, elements, one) }
}

unsafe fn each_of_batch(
    batch: AxisGroup<3>,
    product: GemmProblem,
    elements: [usize; 3],
    one: ProductFn,
) -> Result<()> {
    let count = batch.total();
    if count == 1 {
        // SAFETY: the caller's promise.
        return unsafe { one(&product) };
    }
    const TOGETHER: usize = 16;
    let many = product.work().saturating_mul(count) >= blocked::PARALLEL_MULTIPLY_ADDS;
    blocked::each(count.div_ceil(TOGETHER), many, &|chunk| {
        let first = chunk * TOGETHER;
        let here = TOGETHER.min(count - first);
        let mut offsets = [[0; TOGETHER]; 3];
        for (operand, offsets) in offsets.iter_mut().enumerate() {
            batch.offsets(operand, first, &mut offsets[..here]);
        }
        for i in 0..here {
            let at = |operand: usize| offsets[operand][i].wrapping_mul(elements[operand] as isize);
            let mut product = product;
            product.out = product.out.wrapping_offset(at(0));
            product.left = product.left.wrapping_offset(at(1));
            product.right = product.right.wrapping_offset(at(2));
            // SAFETY: one product of the batch, within what the caller promised.
            unsafe { one(&product)? };
        }
        Ok(())
    })
}

/// How a product of elements of this crate is computed.
#[allow(clippy::large_enum_variant)] // it is matched where it is made
enum Algorithm {
    TinyProduct(TinyProduct),
    Gemv(Gemv),
    PanelLayout,
}

impl Algorithm {
    fn of(product: &GemmProblem, types: [DType; 3]) -> Algorithm {
        if let Some(small) = TinyProduct::of(product, types) {
            return Algorithm::TinyProduct(small);
        }
        if let Some(vector) = Gemv::of(product) {
            return Algorithm::Gemv(vector);
        }
        Algorithm::PanelLayout
    }
}

/// A product of elements of this crate, by the best kernel that the processor has; says whether there is one.
unsafe fn by_own_kernel(product: &GemmProblem, types: [DType; 3]) -> Result<bool> {
    if product.k.total() == 0 {
        return Ok(false); // zeros
    }
    // SAFETY: the caller's promise.
    unsafe {
        match Algorithm::of(product, types) {
            Algorithm::TinyProduct(small) => small.run(),
            Algorithm::Gemv(vector) => return vector.run(types),
            Algorithm::PanelLayout => return by_blocks(types, product),
        }
    }
    Ok(true)
}

/// # Safety
/// As [`by_own_kernel`].
unsafe fn by_blocks(types: [DType; 3], product: &GemmProblem) -> Result<bool> {
    let Some((form, transfer)) = kernel(types) else { return Ok(false) };
    // SAFETY: the caller's promise.
    unsafe { blocked::run(form, product, transfer, None)? };
    Ok(true)
}

/// The best kernel that the processor has for these elements, if there is one.
fn kernel(types: [DType; 3]) -> Option<(KernelInfo, PackFns)> {
    use DType::*;
    let [out, left, right] = types;
    /// Takes the first kernel of those named that is there.
    macro_rules! first {
        ($($kernel:expr, $left:ty, $right:ty, $sum:ty => $out:ty;)*) => { first! { None; $($kernel, $left, $right, $sum => $out;)* } };
        ($row:expr; $($kernel:expr, $left:ty, $right:ty, $sum:ty => $out:ty;)*) => { {
            let row: Option<RowByPanelsFn> = $row;
            $(if let Some(form) = $kernel.map(form) {
                let same = TypeId::of::<(Same<$sum>, Same<$sum>)>() == TypeId::of::<($left, $right)>();
                let plain = TypeId::of::<$sum>() == TypeId::of::<$out>();
                let (left, back) = (<$left>::PACK, <$right>::UNPACK);
                let transfer =
                    PackFns { left, right: <$right>::PACK, back, row, unload: unload::<$sum, $out>, element: size_of::<$out>(), same, plain };
                return Some((form, transfer));
            })*
        } };
    }
    fn form<K: Kernel>(_: K) -> KernelInfo {
        K::INFO
    }
    fn plain<P>() -> Option<Portable<P>> {
        Some(Portable(PhantomData))
    }
    /// Kernels of floats, with `plain` where there is nothing better.
    macro_rules! floats {
        ($left:ty, $right:ty, $out:ty) => {{
            let row: Option<RowByPanelsFn> = Some(gemv::row_by_panels::<$left, gemv::Alone<f32>, $out>);
            #[cfg(target_arch = "x86_64")]
            first! { row; Avx512F32::available(), $left, $right, f32 => $out; Avx2F32::available(), $left, $right, f32 => $out; }
            first! { row; plain::<f32>(), $left, $right, f32 => $out; }
        }};
    }
    macro_rules! doubles {
        ($left:ty, $right:ty) => {{
            let row: Option<RowByPanelsFn> = Some(gemv::row_by_panels::<$left, gemv::Alone<f64>, f64>);
            #[cfg(target_arch = "x86_64")]
            first! { row; Avx512F64::available(), $left, $right, f64 => f64; Avx2F64::available(), $left, $right, f64 => f64; }
            first! { row; plain::<f64>(), $left, $right, f64 => f64; }
        }};
    }
    macro_rules! pairs {
        ($part:ty, $wide:ident, $narrow:ident) => {{
            #[cfg(target_arch = "x86_64")]
            first! {
                $wide::available().map(ComplexOf::of), Same<Complex<$part>>, Same<Complex<$part>>, Complex<$part> => Complex<$part>;
                $narrow::available().map(ComplexOf::of), Same<Complex<$part>>, Same<Complex<$part>>, Complex<$part> => Complex<$part>;
            }
            first! { plain::<$part>().map(ComplexOf::of), Same<Complex<$part>>, Same<Complex<$part>>, Complex<$part> => Complex<$part>; }
        }};
    }
    macro_rules! brains {
        ($out:ty) => {{
            #[cfg(target_arch = "x86_64")]
            {
                let row: Option<RowByPanelsFn> = Some(gemv::row_by_panels::<Bf16AsF32, gemv::Brains, $out>);
                first! { row; Tiles::<amx::Brains>::available(), Bf16x2, Bf16x2, f32 => $out; }
                first! { row; Avx512Bf16::available().filter(|_| simd::multiplies_pairs()), Bf16x2, Bf16x2, f32 => $out; }
            }
            floats!(Bf16AsF32, Bf16AsF32, $out)
        }};
    }
    macro_rules! shorts {
        ($left:ty, $right:ty, $out:ty; $wide_left:ty, $wide_right:ty) => {{
            #[cfg(target_arch = "x86_64")]
            first! { Avx512I16::available(), $left, $right, i32 => $out; Avx2I16::available(), $left, $right, i32 => $out; }
            first! { plain::<i32>(), $wide_left, $wide_right, i32 => $out; }
        }};
    }
    macro_rules! bytes {
        ($tiles:ident, $left:ty, $right:ty; $kernel:ident, $shifted:ty; $out:ty, $($rest:tt)*) => { {
            #[cfg(target_arch = "x86_64")]
            first! { Tiles::<amx::$tiles>::available(), $left, $right, i32 => $out; $kernel::available(), $left, $shifted, i32 => $out; }
            shorts!($($rest)*)
        } };
    }
    macro_rules! ints {
        ($factor:ty) => {{
            #[cfg(target_arch = "x86_64")]
            first! { Avx512I32::available(), $factor, $factor, i32 => i32; Avx2I32::available(), $factor, $factor, i32 => i32; }
            first! { plain::<i32>(), $factor, $factor, i32 => i32; }
        }};
    }
    macro_rules! longs {
        ($factor:ty) => {{
            #[cfg(target_arch = "x86_64")]
            first! { Avx512I64::available(), $factor, $factor, i64 => i64; }
            first! { plain::<i64>(), $factor, $factor, i64 => i64; }
        }};
    }
    // Sums of integers wrap, so their lower bits do not depend on the sign of the factors.
    match (left, right, out) {
        (F32, F32, F32) => floats!(Same<f32>, Same<f32>, f32),
        (F64, F64, F64) => doubles!(Same<f64>, Same<f64>),
        (F32, F32, F64) => doubles!(F32AsF64, F32AsF64),
        (BF16, BF16, BF16) => brains!(bf16),
        (BF16, BF16, F32) => brains!(f32),
        (F16, F16, F16) => floats!(F16AsF32, F16AsF32, f16),
        (F16, F16, F32) => floats!(F16AsF32, F16AsF32, f32),
        (I8, I8, I8) | (U8, U8, U8) => {
            bytes!(Signed, I8x4, I8x4; Avx512I8I8, I8x4Biased; i8, I8AsI16, I8AsI16, i8; I8AsI32, I8AsI32)
        }
        (I8, I8, I32) => {
            bytes!(Signed, I8x4, I8x4; Avx512I8I8, I8x4Biased; i32, I8AsI16, I8AsI16, i32; I8AsI32, I8AsI32)
        }
        (U8, I8, I32) => {
            bytes!(LeftUnsigned, U8x4, I8x4; Avx512U8I8, I8x4; i32, U8AsI16, I8AsI16, i32; U8AsI32, I8AsI32)
        }
        (I8, U8, I32) => {
            bytes!(RightUnsigned, I8x4, U8x4; Avx512I8U8, U8x4; i32, I8AsI16, U8AsI16, i32; I8AsI32, U8AsI32)
        }
        (U8, U8, I32 | U32) => {
            #[cfg(target_arch = "x86_64")]
            first! { Tiles::<amx::Unsigned>::available(), U8x4, U8x4, i32 => i32; }
            shorts!(U8AsI16, U8AsI16, i32; U8AsI32, U8AsI32)
        }
        (I16, I16, I16) | (U16, U16, U16) => shorts!(I16x2, I16x2, i16; I16AsI32, I16AsI32),
        (I16, I16, I32) => shorts!(I16x2, I16x2, i32; I16AsI32, I16AsI32),
        (U16, U16, U32) => ints!(U16AsI32),
        (I32, I32, I32) | (U32, U32, U32) => ints!(Same<i32>),
        (I32, I32, I64) => longs!(I32AsI64),
        (U32, U32, U64) => longs!(U32AsI64),
        (I64, I64, I64) | (U64, U64, U64) => longs!(Same<i64>),
        (C32, C32, C32) => pairs!(f32, Avx512F32, Avx2F32),
        (C64, C64, C64) => pairs!(f64, Avx512F64, Avx2F64),
        _ => {}
    }
    None
}

/// Writes sums that stand `step` apart, narrowed to elements `T`, at some offsets, which may be a `run`.
unsafe fn unload<S: Prim, T: Element>(
    sums: *const u8,
    step: usize,
    to: *mut u8,
    offsets: &[isize],
    run: bool,
) {
    simd::dispatch_two(Unload::<S, T> { sums: sums.cast(), step, to: to.cast(), offsets, run });
}

struct Unload<'a, S, T> {
    sums: *const S,
    step: usize,
    to: *mut T,
    offsets: &'a [isize],
    run: bool,
}

impl<S: Prim, T: Element> Loop for Unload<'_, S, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Unload { sums, step, to, offsets, run } = self;
        if step == 1 && run {
            // SAFETY: the caller of `unload` promises a place in the output at each offset.
            let to = unsafe { to.offset(offsets[0]) };
            let (many, few) = (offsets.len() / 16 * 16, offsets.len() / 4 * 4);
            // Closures given to an adapter here, and `map` of an array below, would be calls of code without this processor's
            // instructions.
            // SAFETY: and as many sums.
            unsafe {
                for at in (0..many).step_by(16) {
                    narrow::<S, T, 16>(sums.add(at), to.add(at));
                }
                for at in (many..few).step_by(4) {
                    narrow::<S, T, 4>(sums.add(at), to.add(at));
                }
                for at in few..offsets.len() {
                    narrow::<S, T, 1>(sums.add(at), to.add(at));
                }
            }
            return;
        }
        for (i, &offset) in offsets.iter().enumerate() {
            // SAFETY: as above.
            unsafe { narrow::<S, T, 1>(sums.add(i * step), to.offset(offset)) };
        }
    }
}

/// Writes neighbors, narrowed.
///
/// # Safety
/// `N` sums, and aligned places for them.
#[inline(always)]
unsafe fn narrow<S: Prim, T: Element, const N: usize>(sums: *const S, to: *mut T) {
    // SAFETY: the caller's promise.
    unsafe {
        // All are read before any is written, so that the loop is vectors.
        let sums = sums.cast::<[S; N]>().read_unaligned();
        for (i, sum) in sums.into_iter().enumerate() {
            to.add(i).write(T::narrow(sum.cast()));
        }
    }
}

/// A product of any elements, one sum after the other.
unsafe fn loops<T: Number, L: Number, R: Number>(product: &GemmProblem) {
    const CHUNK: usize = 64;
    let (rows, columns, deep) = (product.m.total(), product.n.total(), product.k.total());
    let offset = |axes: &AxisGroup<2>, operand: usize, index: usize| {
        let mut at = [0];
        axes.offsets(operand, index, &mut at);
        at[0]
    };
    for i in 0..rows {
        let (out, left) = (offset(&product.m, 0, i), offset(&product.m, 1, i));
        for j in 0..columns {
            let (to, right) = (offset(&product.n, 0, j), offset(&product.n, 1, j));
            let mut sum = Compute::<T>::from_i64(0);
            for first in (0..deep).step_by(CHUNK) {
                let (mut a, mut b) = ([0; CHUNK], [0; CHUNK]);
                let here = CHUNK.min(deep - first);
                product.k.offsets(0, first, &mut a[..here]);
                product.k.offsets(1, first, &mut b[..here]);
                for (&a, &b) in a.iter().zip(&b).take(here) {
                    // SAFETY: index (i, k) of the left operand and (k, j) of the right one.
                    let (a, b) = unsafe {
                        (
                            product.left.cast::<L>().offset(left.wrapping_add(a)).read(),
                            product.right.cast::<R>().offset(right.wrapping_add(b)).read(),
                        )
                    };
                    sum = Num::arith(
                        Arith::Add,
                        sum,
                        Num::arith(Arith::Mul, a.widen().cast(), b.widen().cast()),
                    );
                }
            }
            // SAFETY: index (i, j) of the output.
            unsafe { product.out.cast::<T>().offset(out.wrapping_add(to)).write(T::narrow(sum)) };
        }
    }
}
