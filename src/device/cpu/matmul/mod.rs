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

// Panels have more forms than other processors have kernels for.
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
use axis_group::Axes;
use blocked::{Product, Transfer};
use gemv::{RowTimesPanels, Vector};
use kernels::complex::Pairs;
use kernels::portable::Plain;
use kernels::{Form, Kernel};
#[cfg(target_arch = "x86_64")]
use kernels::{amx, amx::Tiles, x86_64::*};
use num_complex::Complex;
use packing::*;
pub(super) use prepacked::{pack, packed_nbytes, run_packed, unpack};
use std::any::TypeId;
use std::marker::PhantomData;
use tiny::Small;

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
        && let Some(small) = Small::planned([T::DTYPE, L::DTYPE, R::DTYPE], &plan, &output, &left, &right)
    {
        // SAFETY: the caller's promise, with elements that the names say.
        unsafe { small.run() };
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { batches(plan, output, left, right, one::<T, L, R>, one::<T, R, L>) }
}

/// Computes one product of a batch.
type One = unsafe fn(&Product) -> Result<()>;

/// By the best kernel that there is for elements of this crate, one sum after the other for those of others.
unsafe fn one<T: Number, L: Number, R: Number>(product: &Product) -> Result<()> {
    let own = is_own::<T>() && is_own::<L>() && is_own::<R>();
    // SAFETY: the caller's promise, with elements that the names say.
    if own && unsafe { by_name(product, [T::DTYPE, L::DTYPE, R::DTYPE]) }? {
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
    one: One,
    turned_one: One,
) -> Result<()> {
    if [plan.batch, plan.m, plan.n].iter().any(|sizes| sizes.contains(&0)) {
        return Ok(()); // nothing to write, whatever the other sizes are
    }
    let (b, m, k) = (plan.batch.len(), plan.m.len(), plan.k.len());
    let mut batch = Axes::new();
    for (axis, &size) in plan.batch.iter().enumerate() {
        batch.push(size, [output.stride[axis], left.stride[axis], right.stride[axis]]);
    }
    let group = |sizes: &[usize], x: &OperandRef<'_>, x_at: usize, y: &OperandRef<'_>, y_at: usize| {
        let mut axes = Axes::new();
        for (axis, &size) in sizes.iter().enumerate() {
            axes.push(size, [x.stride[x_at + axis], y.stride[y_at + axis]]);
        }
        axes
    };
    let (mut rows, mut columns) =
        (group(plan.m, &output, b, &left, b), group(plan.n, &output, b + m, &right, b + k));
    let along = group(plan.k, &left, b + m, &right, b).settle(0);
    // An axis that one operand does not have is an axis of the other alone.
    batch.drain(|step| step[2] == 0, |size, step| rows.push(size, [step[0], step[1]]));
    batch.drain(|step| step[1] == 0, |size, step| columns.push(size, [step[0], step[2]]));
    let batch = batch.settle(0);
    let product = Product {
        m: rows.settle(0),
        n: columns.settle(0),
        k: along,
        out: output.address,
        left: left.address.cast_const(),
        right: right.address.cast_const(),
    };
    let elements = [output.element, left.element, right.element];
    // Columns of the output that stand side by side are written as vectors; rows are by the transposed product.
    let side_by_side = |axes: &Axes<2>| axes.fastest().1[0] == 1;
    // But many rows that stand as they are read, as those of windows do, are better left than packed.
    let stays = product.k.fastest().1[0] == 1 && product.m.total() / 8 > product.n.total();
    if !side_by_side(&product.n) && side_by_side(&product.m) && !stays {
        let turned = |[a, b, c]: [usize; 3]| [a, c, b];
        // SAFETY: the caller's promise, with the operands' names exchanged.
        return unsafe {
            each_of_batch(batch.reordered(turned([0, 1, 2])), product.turned(), turned(elements), turned_one)
        };
    }
    // SAFETY: the caller's promise.
    unsafe { each_of_batch(batch, product, elements, one) }
}

unsafe fn each_of_batch(batch: Axes<3>, product: Product, elements: [usize; 3], one: One) -> Result<()> {
    let count = batch.total();
    if count == 1 {
        // SAFETY: the caller's promise.
        return unsafe { one(&product) };
    }
    const TOGETHER: usize = 16;
    let many = product.work().saturating_mul(count) >= blocked::PARALLEL;
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
enum Way {
    Small(Small),
    Vector(Vector),
    Panels,
}

impl Way {
    fn of(product: &Product, types: [DType; 3]) -> Way {
        if let Some(small) = Small::of(product, types) {
            return Way::Small(small);
        }
        if let Some(vector) = Vector::of(product) {
            return Way::Vector(vector);
        }
        Way::Panels
    }
}

/// A product of elements of this crate, by the best kernel that the processor has; says whether there is one.
unsafe fn by_name(product: &Product, types: [DType; 3]) -> Result<bool> {
    if product.k.total() == 0 {
        return Ok(false); // zeros
    }
    // SAFETY: the caller's promise.
    unsafe {
        match Way::of(product, types) {
            Way::Small(small) => small.run(),
            Way::Vector(vector) => return vector.run(types),
            Way::Panels => return by_panels(types, product),
        }
    }
    Ok(true)
}

/// # Safety
/// As [`by_name`].
unsafe fn by_panels(types: [DType; 3], product: &Product) -> Result<bool> {
    let Some((form, transfer)) = kernel(types) else { return Ok(false) };
    // SAFETY: the caller's promise.
    unsafe { blocked::run(form, product, transfer, None)? };
    Ok(true)
}

/// The best kernel that the processor has for these elements, if there is one.
fn kernel(types: [DType; 3]) -> Option<(Form, Transfer)> {
    use DType::*;
    let [out, left, right] = types;
    /// Takes the first kernel of those named that is there.
    macro_rules! first {
        ($($kernel:expr, $left:ty, $right:ty, $sum:ty => $out:ty;)*) => { first! { None; $($kernel, $left, $right, $sum => $out;)* } };
        ($row:expr; $($kernel:expr, $left:ty, $right:ty, $sum:ty => $out:ty;)*) => { {
            let row: Option<RowTimesPanels> = $row;
            $(if let Some(form) = $kernel.map(form) {
                let same = TypeId::of::<(Same<$sum>, Same<$sum>)>() == TypeId::of::<($left, $right)>();
                let plain = TypeId::of::<$sum>() == TypeId::of::<$out>();
                let (left, back) = (<$left>::PACK, <$right>::RESTORE);
                let transfer =
                    Transfer { left, right: <$right>::PACK, back, row, unload: unload::<$sum, $out>, element: size_of::<$out>(), same, plain };
                return Some((form, transfer));
            })*
        } };
    }
    fn form<K: Kernel>(_: K) -> Form {
        K::FORM
    }
    fn plain<P>() -> Option<Plain<P>> {
        Some(Plain(PhantomData))
    }
    /// Kernels of floats, with `plain` where there is nothing better.
    macro_rules! floats {
        ($left:ty, $right:ty, $out:ty) => {{
            let row: Option<RowTimesPanels> = Some(gemv::row_times_panels::<$left, gemv::Alone<f32>, $out>);
            #[cfg(target_arch = "x86_64")]
            first! { row; Float512::here(), $left, $right, f32 => $out; Float256::here(), $left, $right, f32 => $out; }
            first! { row; plain::<f32>(), $left, $right, f32 => $out; }
        }};
    }
    macro_rules! doubles {
        ($left:ty, $right:ty) => {{
            let row: Option<RowTimesPanels> = Some(gemv::row_times_panels::<$left, gemv::Alone<f64>, f64>);
            #[cfg(target_arch = "x86_64")]
            first! { row; Double512::here(), $left, $right, f64 => f64; Double256::here(), $left, $right, f64 => f64; }
            first! { row; plain::<f64>(), $left, $right, f64 => f64; }
        }};
    }
    macro_rules! pairs {
        ($part:ty, $wide:ident, $narrow:ident) => {{
            #[cfg(target_arch = "x86_64")]
            first! {
                $wide::here().map(Pairs::of), Same<Complex<$part>>, Same<Complex<$part>>, Complex<$part> => Complex<$part>;
                $narrow::here().map(Pairs::of), Same<Complex<$part>>, Same<Complex<$part>>, Complex<$part> => Complex<$part>;
            }
            first! { plain::<$part>().map(Pairs::of), Same<Complex<$part>>, Same<Complex<$part>>, Complex<$part> => Complex<$part>; }
        }};
    }
    macro_rules! brains {
        ($out:ty) => {{
            #[cfg(target_arch = "x86_64")]
            {
                let row: Option<RowTimesPanels> = Some(gemv::row_times_panels::<Bf16Float, gemv::Brains, $out>);
                first! { row; Tiles::<amx::Brains>::here(), Bf16Pair, Bf16Pair, f32 => $out; }
                first! { row; Brain512::here().filter(|_| simd::multiplies_pairs()), Bf16Pair, Bf16Pair, f32 => $out; }
            }
            floats!(Bf16Float, Bf16Float, $out)
        }};
    }
    macro_rules! shorts {
        ($left:ty, $right:ty, $out:ty; $wide_left:ty, $wide_right:ty) => {{
            #[cfg(target_arch = "x86_64")]
            first! { Short512::here(), $left, $right, i32 => $out; Short256::here(), $left, $right, i32 => $out; }
            first! { plain::<i32>(), $wide_left, $wide_right, i32 => $out; }
        }};
    }
    macro_rules! bytes {
        ($tiles:ident, $left:ty, $right:ty; $kernel:ident, $shifted:ty; $out:ty, $($rest:tt)*) => { {
            #[cfg(target_arch = "x86_64")]
            first! { Tiles::<amx::$tiles>::here(), $left, $right, i32 => $out; $kernel::here(), $left, $shifted, i32 => $out; }
            shorts!($($rest)*)
        } };
    }
    macro_rules! ints {
        ($factor:ty) => {{
            #[cfg(target_arch = "x86_64")]
            first! { Int512::here(), $factor, $factor, i32 => i32; Int256::here(), $factor, $factor, i32 => i32; }
            first! { plain::<i32>(), $factor, $factor, i32 => i32; }
        }};
    }
    macro_rules! longs {
        ($factor:ty) => {{
            #[cfg(target_arch = "x86_64")]
            first! { Long512::here(), $factor, $factor, i64 => i64; }
            first! { plain::<i64>(), $factor, $factor, i64 => i64; }
        }};
    }
    // Sums of integers wrap, so their lower bits do not depend on the sign of the factors.
    match (left, right, out) {
        (F32, F32, F32) => floats!(Same<f32>, Same<f32>, f32),
        (F64, F64, F64) => doubles!(Same<f64>, Same<f64>),
        (F32, F32, F64) => doubles!(FloatDouble, FloatDouble),
        (BF16, BF16, BF16) => brains!(bf16),
        (BF16, BF16, F32) => brains!(f32),
        (F16, F16, F16) => floats!(F16Float, F16Float, f16),
        (F16, F16, F32) => floats!(F16Float, F16Float, f32),
        (I8, I8, I8) | (U8, U8, U8) => {
            bytes!(Signed, SignedQuad, SignedQuad; Signed512, SignedShifted; i8, SignedShort, SignedShort, i8; SignedInt, SignedInt)
        }
        (I8, I8, I32) => {
            bytes!(Signed, SignedQuad, SignedQuad; Signed512, SignedShifted; i32, SignedShort, SignedShort, i32; SignedInt, SignedInt)
        }
        (U8, I8, I32) => {
            bytes!(LeftUnsigned, UnsignedQuad, SignedQuad; LeftUnsigned512, SignedQuad; i32, UnsignedShort, SignedShort, i32; UnsignedInt, SignedInt)
        }
        (I8, U8, I32) => {
            bytes!(RightUnsigned, SignedQuad, UnsignedQuad; RightUnsigned512, UnsignedQuad; i32, SignedShort, UnsignedShort, i32; SignedInt, UnsignedInt)
        }
        (U8, U8, I32 | U32) => {
            #[cfg(target_arch = "x86_64")]
            first! { Tiles::<amx::Unsigned>::here(), UnsignedQuad, UnsignedQuad, i32 => i32; }
            shorts!(UnsignedShort, UnsignedShort, i32; UnsignedInt, UnsignedInt)
        }
        (I16, I16, I16) | (U16, U16, U16) => shorts!(ShortPair, ShortPair, i16; ShortInt, ShortInt),
        (I16, I16, I32) => shorts!(ShortPair, ShortPair, i32; ShortInt, ShortInt),
        (U16, U16, U32) => ints!(UnsignedShortInt),
        (I32, I32, I32) | (U32, U32, U32) => ints!(Same<i32>),
        (I32, I32, I64) => longs!(IntLong),
        (U32, U32, U64) => longs!(UnsignedIntLong),
        (I64, I64, I64) | (U64, U64, U64) => longs!(Same<i64>),
        (C32, C32, C32) => pairs!(f32, Float512, Float256),
        (C64, C64, C64) => pairs!(f64, Double512, Double256),
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
unsafe fn loops<T: Number, L: Number, R: Number>(product: &Product) {
    const CHUNK: usize = 64;
    let (rows, columns, deep) = (product.m.total(), product.n.total(), product.k.total());
    let offset = |axes: &Axes<2>, operand: usize, index: usize| {
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
