//! A matrix times a vector: bound by memory, so each element is read once, in the order in which it stands.
//!
//! Imports: `error`, `scalar`, `element`.

use super::super::simd::{self, Loop};
use super::super::threads;
use super::axes::Axes;
use super::block::{PARALLEL, Panels, Product, Room, each};
use super::pack::*;
use crate::error::Result;
use crate::scalar::{Arith, DType, Num};
use half::{bf16, f16};
use num_complex::Complex;

/// A product with a vector on the right.
pub(super) struct Vector {
    product: Product,
    /// Whether its operands changed places: the vector was the left one.
    turned: bool,
    /// Whether the matrix stands in rows (its `k` is a run), or in columns.
    rows: bool,
}

impl Vector {
    /// The product, if one side is a vector and the matrix stands in rows or columns.
    pub(super) fn of(product: &Product) -> Option<Vector> {
        let turned = product.n.total() != 1;
        if turned && product.m.total() != 1 {
            return None;
        }
        let product = if turned { product.turned() } else { *product };
        let ([out_step, row_step], [along, _]) = (product.m.single()?, product.k.single()?);
        let rows = match (along, row_step, product.m.total()) {
            (1, ..) | (_, _, 1) => true,
            (_, 1, _) if out_step == 1 => false,
            _ => return None,
        };
        Some(Vector { product, turned, rows })
    }

    /// Computes it; says whether there is a kernel for its elements.
    ///
    /// # Safety
    /// As [`Device::contract`](crate::device::Device::contract); `k` is not 0.
    pub(super) unsafe fn run(self, types: [DType; 3]) -> Result<bool> {
        let Vector { product, turned, rows } = self;
        let [out, left, right] = types;
        let (left, right) = if turned { (right, left) } else { (left, right) };
        macro_rules! of {
            ($Left:ty, $Right:ty, $T:ty) => {{
                let matrix = MatrixVector::<$Left, $Right, $T> { product, rows, _types: std::marker::PhantomData };
                // SAFETY: the caller's promise, with the elements that the names say.
                unsafe { matrix.run() }
            }};
        }
        use DType::*;
        // Sums of integers wrap, so their lower bits do not depend on the sign of the factors.
        match (left, right, out) {
            (F32, F32, F32) => of!(Same<f32>, Same<f32>, f32),
            (F64, F64, F64) => of!(Same<f64>, Same<f64>, f64),
            (F32, F32, F64) => of!(FloatDouble, FloatDouble, f64),
            (BF16, BF16, BF16) => of!(Bf16Float, Bf16Float, bf16),
            (BF16, BF16, F32) => of!(Bf16Float, Bf16Float, f32),
            (F16, F16, F16) => of!(F16Float, F16Float, f16),
            (F16, F16, F32) => of!(F16Float, F16Float, f32),
            (I8, I8, I8) | (U8, U8, U8) => of!(SignedInt, SignedInt, i8),
            (I8, I8, I32) => of!(SignedInt, SignedInt, i32),
            (U8, I8, I32) => of!(UnsignedInt, SignedInt, i32),
            (I8, U8, I32) => of!(SignedInt, UnsignedInt, i32),
            (U8, U8, I32 | U32) => of!(UnsignedInt, UnsignedInt, i32),
            (I16, I16, I16) | (U16, U16, U16) => of!(ShortInt, ShortInt, i16),
            (I16, I16, I32) => of!(ShortInt, ShortInt, i32),
            (U16, U16, U32) => of!(UnsignedShortInt, UnsignedShortInt, i32),
            (I32, I32, I32) | (U32, U32, U32) => of!(Same<i32>, Same<i32>, i32),
            (I32, I32, I64) => of!(IntLong, IntLong, i64),
            (U32, U32, U64) => of!(UnsignedIntLong, UnsignedIntLong, i64),
            (I64, I64, I64) | (U64, U64, U64) => of!(Same<i64>, Same<i64>, i64),
            (C32, C32, C32) => of!(Same<Complex<f32>>, Same<Complex<f32>>, Complex<f32>),
            (C64, C64, C64) => of!(Same<Complex<f64>>, Same<Complex<f64>>, Complex<f64>),
            _ => return Ok(false),
        }?;
        Ok(true)
    }
}

/// Rows of the output that one task computes; tasks of columns read runs of this length.
const TASK: usize = 4096;
/// Rows that are read together.
const ROWS: usize = 4;
/// Sums of one row that run side by side.
const LANES: usize = 32;
/// Terms that are summed before they are added to the rest.
const LEAF: usize = 4096;
/// Bytes of rows that are fetched while the rows before them are read, at most: the second cache holds both.
const NEXT: usize = 256 << 10;

struct MatrixVector<L, R, T> {
    product: Product,
    /// Whether the matrix stands in rows (its `k` is a run), or in columns.
    rows: bool,
    _types: std::marker::PhantomData<fn(L, R, T)>,
}

impl<L, R, T> MatrixVector<L, R, T>
where
    L: Convert<To: Num>,
    R: Convert<To = L::To>,
    T: crate::element::Element,
{
    /// # Safety
    /// As [`Vector::run`].
    unsafe fn run(&self) -> Result<()> {
        let Product { m, k, right, .. } = self.product;
        let (rows, deep) = (m.total(), k.total());
        // SAFETY: the caller's promise.
        let vector = unsafe { widened::<R>(right, &k, 1)? };
        let vector = Shared(vector.at().cast_const().cast::<L::To>());
        let many = rows.saturating_mul(deep) >= PARALLEL;
        let task = if many { rows.div_ceil(2 * threads::count()).clamp(64, TASK) } else { rows };
        each(rows.div_ceil(task), many, &|index| {
            let (first, vector) = (index * task, vector.get());
            let count = task.min(rows - first);
            simd::dispatch(Part { matrix: self, vector, first, count });
            Ok(())
        })
    }
}

/// A vector, widened, side by side: the elements of an operand along `k`.
///
/// # Safety
/// The operand holds elements `C::From` there.
unsafe fn widened<C: Convert>(from: *const u8, k: &Axes<2>, operand: usize) -> Result<Room> {
    let deep = k.total();
    let vector = Room::new(deep, 1, size_of::<C::To>())?;
    for first in (0..deep).step_by(256) {
        let mut along = [0; 256];
        let along = &mut along[..256.min(deep - first)];
        k.offsets(operand, first, along);
        // SAFETY: the caller's promise, and room for all of `k`.
        unsafe { pack::<Flat<C>>(from, along, &[0], along.len(), vector.at().add(first * size_of::<C::To>())) };
    }
    Ok(vector)
}

/// The vector, on several threads that only read it.
#[derive(Clone, Copy)]
struct Shared<P>(*const P);
// SAFETY: an address that is read only.
unsafe impl<P> Sync for Shared<P> {}
impl<P> Shared<P> {
    fn get(&self) -> *const P {
        self.0
    }
}

/// The elements of `C`, one a unit.
struct Flat<C>(std::marker::PhantomData<C>);
impl<C: Convert> Convert for Flat<C> {
    type From = C::From;
    type To = C::To;
    const DEPTH: usize = 1;
    const KEEPS: bool = C::KEEPS;
    #[inline(always)]
    fn convert(value: C::From) -> C::To {
        C::convert(value)
    }
    #[inline(always)]
    fn restore(value: C::To) -> C::From {
        C::restore(value)
    }
}

/// Some rows of the output.
struct Part<'a, L: Convert, R, T> {
    matrix: &'a MatrixVector<L, R, T>,
    vector: *const L::To,
    first: usize,
    count: usize,
}

/// The sum of all, by halves; arrays of constant lengths stay in registers.
#[inline(always)]
fn halved<P: Num>(sums: [P; LANES]) -> P {
    macro_rules! halves {
        ($sums:ident; $($half:literal)*) => { $(
            let $sums: [P; $half] = std::array::from_fn(|lane| P::arith(Arith::Add, $sums[lane], $sums[lane + $half]));
        )* };
    }
    halves!(sums; 16 8 4 2 1);
    sums[0]
}

#[inline(always)]
fn fused<P: Num>(sum: P, a: P, b: P) -> P {
    P::arith(Arith::Add, sum, P::arith(Arith::Mul, a, b))
}

impl<L, R, T> Loop for Part<'_, L, R, T>
where
    L: Convert<To: Num>,
    T: crate::element::Element,
{
    type Output = ();
    #[inline(always)]
    fn run(self) {
        // Sums of this many rows stay in the first cache, and the longer the run of a column, the better it is read.
        match self.matrix.rows {
            true if self.early() > 0 => self.by_rows::<true>(),
            true => self.by_rows::<false>(),
            false if self.count <= 256 => self.by_columns::<256>(),
            false => self.by_columns::<4096>(),
        }
    }
}

impl<L, R, T> Part<'_, L, R, T>
where
    L: Convert<To: Num>,
    T: crate::element::Element,
{
    /// How far ahead the matrix is fetched, in bytes ([`simd::early`]).
    fn early(&self) -> usize {
        let Product { m, k, .. } = self.matrix.product;
        simd::early(m.total().saturating_mul(k.total()).saturating_mul(size_of::<L::From>()))
    }

    #[inline(always)]
    fn by_rows<const FAR: bool>(&self) {
        let Product { m, k, left, out, .. } = self.matrix.product;
        let (Some([out_step, row_step]), Some([along, _])) = (m.single(), k.single()) else { return };
        let deep = k.total();
        // The next rows, if these are short; else what comes in these.
        let is_short = deep.saturating_mul(ROWS * size_of::<L::From>()) <= NEXT;
        let early = if is_short { (ROWS * size_of::<L::From>()) as isize * row_step } else { self.early() as isize };
        for from in (0..self.count).step_by(ROWS) {
            let rows = ROWS.min(self.count - from);
            // Rows beyond the last are the last again.
            let row =
                |r: usize| left.cast::<L::From>().wrapping_offset(((self.first + from + r.min(rows - 1)) as isize).wrapping_mul(row_step));
            let starts: [*const L::From; ROWS] = std::array::from_fn(row);
            let mut totals = [L::To::default(); ROWS];
            for leaf in (0..deep).step_by(LEAF) {
                let end = deep.min(leaf + LEAF);
                let mut sums = [[L::To::default(); LANES]; ROWS];
                let mut p = leaf;
                while along == 1 && p + LANES <= end {
                    // SAFETY: `LANES` elements of the vector and of each row.
                    let x = unsafe { self.vector.add(p).cast::<[L::To; LANES]>().read_unaligned() };
                    for r in 0..if FAR { ROWS } else { 0 } {
                        let ahead = starts[r].wrapping_add(p).wrapping_byte_offset(early);
                        simd::fetch_early(ahead.cast(), LANES * size_of::<L::From>());
                    }
                    for r in 0..ROWS {
                        // SAFETY: as above.
                        let a = unsafe { starts[r].add(p).cast::<[L::From; LANES]>().read_unaligned() };
                        for lane in 0..LANES {
                            sums[r][lane] = fused(sums[r][lane], L::convert(a[lane]), x[lane]);
                        }
                    }
                    p += LANES;
                }
                while p < end {
                    let here = LANES.min(end - p);
                    let mut x = [L::To::default(); LANES];
                    for lane in 0..here {
                        // SAFETY: an element of the vector.
                        x[lane] = unsafe { self.vector.add(p + lane).read() };
                    }
                    for r in 0..ROWS {
                        let mut a = [L::To::default(); LANES];
                        for lane in 0..here {
                            // SAFETY: an element of a row.
                            a[lane] = L::convert(unsafe { starts[r].offset((p + lane) as isize * along).read() });
                        }
                        for lane in 0..LANES {
                            sums[r][lane] = fused(sums[r][lane], a[lane], x[lane]);
                        }
                    }
                    p += here;
                }
                for (total, sums) in totals.iter_mut().zip(sums) {
                    *total = L::To::arith(Arith::Add, *total, halved(sums));
                }
            }
            for (r, total) in totals.into_iter().enumerate().take(rows) {
                let offset = ((self.first + from + r) as isize).wrapping_mul(out_step);
                // SAFETY: one row of the output.
                unsafe { out.cast::<T>().offset(offset).write(T::narrow(crate::scalar::Prim::cast(total))) };
            }
        }
    }

    #[inline(always)]
    fn by_columns<const NEAR: usize>(&self) {
        /// Columns that are read together.
        const COLUMNS: usize = 8;
        let Product { k, left, out, .. } = self.matrix.product;
        let Some([along, _]) = k.single() else { return };
        let (deep, far) = (k.total(), self.early() > 0);
        for from in (0..self.count).step_by(NEAR) {
            let rows = NEAR.min(self.count - from);
            let first = (self.first + from) as isize;
            let start = left.cast::<L::From>().wrapping_offset(first);
            let mut sums = [L::To::default(); NEAR];
            for p in (0..deep).step_by(COLUMNS) {
                let columns = COLUMNS.min(deep - p);
                // Columns beyond the last are not read.
                let x: [L::To; COLUMNS] = std::array::from_fn(|c| {
                    // SAFETY: an element of the vector.
                    unsafe { self.vector.add(p + c.min(columns - 1)).read() }
                });
                let column: [*const L::From; COLUMNS] = std::array::from_fn(|c| start.wrapping_offset((p + c) as isize * along));
                let mut i = 0;
                while columns == COLUMNS && i + LANES <= rows {
                    let mut sum = [L::To::default(); LANES];
                    sum.copy_from_slice(&sums[i..i + LANES]);
                    for c in 0..if far { COLUMNS } else { 0 } {
                        let next = column[c].wrapping_add(i).wrapping_offset(COLUMNS as isize * along);
                        simd::fetch_early(next.cast(), LANES * size_of::<L::From>());
                    }
                    for c in 0..COLUMNS {
                        // SAFETY: rows from `i` on, of column `p + c`.
                        let a = unsafe { column[c].add(i).cast::<[L::From; LANES]>().read_unaligned() };
                        for lane in 0..LANES {
                            sum[lane] = fused(sum[lane], L::convert(a[lane]), x[c]);
                        }
                    }
                    sums[i..i + LANES].copy_from_slice(&sum);
                    i += LANES;
                }
                for i in i..rows {
                    for c in 0..columns {
                        // SAFETY: row `i` of column `p + c`.
                        sums[i] = fused(sums[i], L::convert(unsafe { column[c].add(i).read() }), x[c]);
                    }
                }
            }
            for (i, &sum) in sums.iter().enumerate().take(rows) {
                // SAFETY: one row of the output, which stand side by side.
                unsafe { out.cast::<T>().offset(first + i as isize).write(T::narrow(crate::scalar::Prim::cast(sum))) };
            }
        }
    }
}

// ------------------------------------------------------------ a row by panels

/// A product with one row by panels of the right operand, in the sums of a vector by a matrix that stands in rows.
pub(super) type RowTimesPanels = unsafe fn(product: &Product, panels: *const u8, layout: Panels) -> Result<()>;

/// How an element lies in the units of a panel.
pub(super) trait Lies: 'static {
    type Unit: Copy;
    type Element: Num;
    const DEPTH: usize;
    /// Element `depth` of a unit.
    fn of(unit: Self::Unit, depth: usize) -> Self::Element;
}

/// One element a unit.
pub(super) struct Alone<P>(std::marker::PhantomData<P>);
impl<P: Num> Lies for Alone<P> {
    type Unit = P;
    type Element = P;
    const DEPTH: usize = 1;
    #[inline(always)]
    fn of(unit: P, _: usize) -> P {
        unit
    }
}

/// Two bf16 a unit, the first in the lower half.
pub(super) struct Brains;
impl Lies for Brains {
    type Unit = u32;
    type Element = f32;
    const DEPTH: usize = 2;
    #[inline(always)]
    fn of(unit: u32, depth: usize) -> f32 {
        f32::from_bits(if depth == 0 { unit << 16 } else { unit & 0xffff_0000 })
    }
}

/// # Safety
/// As [`run`], with one row, and panels that lie as `P` says for the right operand.
pub(super) unsafe fn row_times_panels<L, P, T>(product: &Product, panels: *const u8, layout: Panels) -> Result<()>
where
    L: Convert<To = P::Element>,
    P: Lies,
    T: crate::element::Element,
{
    // SAFETY: the caller's promise.
    let vector = unsafe { widened::<L>(product.left, &product.k, 0)? };
    let (vector, panels) = (Shared(vector.at().cast_const().cast::<P::Element>()), Shared(panels));
    let tasks = if product.work() >= PARALLEL { 2 * threads::count() } else { 1 };
    let share = layout.count.div_ceil(tasks);
    each(layout.count.div_ceil(share), true, &|task| {
        for panel in task * share..layout.count.min((task + 1) * share) {
            let at = panels.get().wrapping_add(panel * layout.nbytes);
            simd::dispatch(RowTimesPanel::<P, T> {
                product,
                vector: vector.get(),
                panel: at.cast(),
                width: layout.width,
                first: panel * layout.width,
                _element: std::marker::PhantomData,
            });
        }
        Ok(())
    })
}

struct RowTimesPanel<'a, P: Lies, T> {
    product: &'a Product,
    vector: *const P::Element,
    panel: *const P::Unit,
    width: usize,
    first: usize,
    _element: std::marker::PhantomData<fn() -> T>,
}

impl<P: Lies, T: crate::element::Element> Loop for RowTimesPanel<'_, P, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.width {
            64 => self.lanes::<64>(),
            32 => self.lanes::<32>(),
            16 => self.lanes::<16>(),
            8 => self.lanes::<8>(),
            _ => self.lanes::<4>(),
        }
    }
}

impl<P: Lies, T: crate::element::Element> RowTimesPanel<'_, P, T> {
    #[inline(always)]
    fn lanes<const WIDTH: usize>(&self) {
        debug_assert_eq!(self.width, WIDTH);
        let Product { k, n, out, .. } = self.product;
        let mut sums = [P::Element::default(); WIDTH];
        let deep = k.total();
        for unit in 0..deep.div_ceil(P::DEPTH) {
            // SAFETY: a unit of each lane of the panel.
            let values = unsafe { self.panel.add(unit * WIDTH).cast::<[P::Unit; WIDTH]>().read_unaligned() };
            for depth in 0..P::DEPTH.min(deep - unit * P::DEPTH) {
                // SAFETY: an element of the vector.
                let x = unsafe { self.vector.add(unit * P::DEPTH + depth).read() };
                for lane in 0..WIDTH {
                    sums[lane] = fused(sums[lane], P::of(values[lane], depth), x);
                }
            }
        }
        let (mut across, here) = ([0; WIDTH], WIDTH.min(n.total() - self.first));
        n.offsets(0, self.first, &mut across[..here]);
        for (&offset, &sum) in across.iter().zip(&sums).take(here) {
            // SAFETY: a column of the output.
            unsafe { out.cast::<T>().offset(offset).write(T::narrow(crate::scalar::Prim::cast(sum))) };
        }
    }
}
