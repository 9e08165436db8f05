//! A matrix times a vector: bound by memory, so each element is read once, in the order in which it stands.
// Imports: `error`, `scalar`, `element`.

use super::super::simd::{self, Level, Loop};
use super::super::threads;
use super::axis_group::AxisGroup;
use super::blocked::{GemmProblem, PARALLEL_MULTIPLY_ADDS, PanelLayout, each};
use super::packing::*;
use crate::element::{bf16, f16};
use crate::error::Result;
use crate::scalar::{Arith, DType, Num};
use num_complex::Complex;

/// A product with a vector on the right.
pub(super) struct Gemv {
    product: GemmProblem,
    /// Whether its operands changed places: the vector was the left one.
    turned: bool,
    /// Whether the matrix stands in rows (its `k` is a run), or in columns.
    rows: bool,
}

impl Gemv {
    /// The product, if one side is a vector and the matrix stands in rows or columns.
    pub(super) fn of(product: &GemmProblem) -> Option<Gemv> {
        let turned = product.n.total() != 1;
        if turned && product.m.total() != 1 {
            return None;
        }
        let product = if turned { product.transposed() } else { *product };
        let ([out_step, row_step], [along, _]) = (product.m.as_single_axis()?, product.k.as_single_axis()?);
        let rows = match (along, row_step, product.m.total()) {
            (1, ..) | (_, _, 1) => true,
            (_, 1, _) if out_step == 1 => false,
            _ => return None,
        };
        Some(Gemv { product, turned, rows })
    }

    /// Computes it; says whether there is a kernel for its elements.
    ///
    /// # Safety
    /// As [`Device::contract`](crate::device::Device::contract); `k` is not 0.
    pub(super) unsafe fn run(self, types: [DType; 3]) -> Result<bool> {
        let Gemv { product, turned, rows } = self;
        let [out, left, right] = types;
        let (left, right) = if turned { (right, left) } else { (left, right) };
        use DType::*;
        /// The loop over a matrix of such elements, and how a vector of them is widened: `three` instruction sets or `two`; `wide` ones
        /// beside the loop over what elements are `converted` to, or that alone.
        macro_rules! of {
            (three $Left:ty, $Right:ty, $T:ty) => { of!(@ three::<$Left, { lanes::<$Left>() }>, None, $Left, $Right, $T) };
            (two $Left:ty, $Right:ty, $T:ty) => { of!(@ two::<$Left, { lanes::<$Left>() }>, None, $Left, $Right, $T) };
            (wide $Left:ty, $Right:ty, $T:ty, $many:ident $Sum:ty) => {
                if cfg!(target_arch = "x86_64") && simd::level() == Level::Baseline {
                    of!(pack_converted $Left, $Right, $T, $many $Sum)
                } else {
                    of!(@ wide::<$Left, { lanes::<$Left>() }>, None, $Left, $Right, $T)
                }
            };
            (pack_converted $Left:ty, $Right:ty, $T:ty, $many:ident $Sum:ty) => {
                of!(@ $many::<Same<$Sum>, { lanes::<$Left>() }>, Some(convert_span::<$Left>), $Left, $Right, $T)
            };
            (@ $part:expr, $convert:expr, $Left:ty, $Right:ty, $T:ty) => {
                Loops {
                    part: $part,
                    convert: $convert,
                    from: size_of::<<$Left as Convert>::From>(),
                    widen: widen::<$Right>,
                    store: store::<<$Left as Convert>::To, $T>,
                    sum: size_of::<<$Left as Convert>::To>(),
                }
            };
        }
        // Sums of integers wrap, so their lower bits do not depend on the sign of the factors.
        let loops = match (left, right, out) {
            (F32, F32, F32) => of!(three Same<f32>, Same<f32>, f32),
            (F64, F64, F64) => of!(three Same<f64>, Same<f64>, f64),
            (F32, F32, F64) => of!(wide F32AsF64, F32AsF64, f64, three f64),
            (BF16, BF16, BF16) => of!(wide Bf16AsF32, Bf16AsF32, bf16, three f32),
            (BF16, BF16, F32) => of!(wide Bf16AsF32, Bf16AsF32, f32, three f32),
            (F16, F16, F16) => of!(wide F16AsF32, F16AsF32, f16, three f32),
            (F16, F16, F32) => of!(wide F16AsF32, F16AsF32, f32, three f32),
            (I8, I8, I8) | (U8, U8, U8) => of!(wide I8AsI32, I8AsI32, i8, two i32),
            (I8, I8, I32) => of!(wide I8AsI32, I8AsI32, i32, two i32),
            (U8, I8, I32) => of!(wide U8AsI32, I8AsI32, i32, two i32),
            (I8, U8, I32) => of!(wide I8AsI32, U8AsI32, i32, two i32),
            (U8, U8, I32 | U32) => of!(wide U8AsI32, U8AsI32, i32, two i32),
            (I16, I16, I16) | (U16, U16, U16) => of!(wide I16AsI32, I16AsI32, i16, two i32),
            (I16, I16, I32) => of!(wide I16AsI32, I16AsI32, i32, two i32),
            (U16, U16, U32) => of!(wide U16AsI32, U16AsI32, i32, two i32),
            (I32, I32, I32) | (U32, U32, U32) => of!(two Same<i32>, Same<i32>, i32),
            (I32, I32, I64) => of!(wide I32AsI64, I32AsI64, i64, two i64),
            (U32, U32, U64) => of!(wide U32AsI64, U32AsI64, i64, two i64),
            (I64, I64, I64) | (U64, U64, U64) => of!(two Same<i64>, Same<i64>, i64),
            (C32, C32, C32) => of!(two Same<Complex<f32>>, Same<Complex<f32>>, Complex<f32>),
            (C64, C64, C64) => of!(two Same<Complex<f64>>, Same<Complex<f64>>, Complex<f64>),
            _ => return Ok(false),
        };
        let (m, deep) = (product.m.total(), product.k.total());
        // SAFETY: the caller's promise.
        let vector = unsafe { widened(product.right, &product.k, 1, loops.widen, loops.sum)? };
        let vector = Shared(vector.at().cast_const());
        let many = m.saturating_mul(deep) >= PARALLEL_MULTIPLY_ADDS;
        let task = if many { m.div_ceil(2 * threads::count()).clamp(64, TASK) } else { m };
        each(m.div_ceil(task), many, &|index| {
            let (first, vector) = (index * task, vector.get());
            let count = task.min(m - first);
            let part = Part { product: &product, rows, vector, first, count, store: loops.store };
            // SAFETY: the caller's promise, with the elements that the names say.
            unsafe {
                match loops.convert {
                    None => (loops.part)(&part),
                    Some(convert) => part.pack_converted(loops, convert)?,
                }
            }
            Ok(())
        })?;
        Ok(true)
    }
}

/// What depends on the elements.
#[derive(Clone, Copy)]
struct Loops {
    part: unsafe fn(&Part<'_>),
    /// How elements become those that the loop reads, where it does not read them.
    convert: Option<ConvertRun>,
    /// Bytes of an element.
    from: usize,
    widen: Widen,
    store: Store,
    /// Bytes of a sum.
    sum: usize,
}

/// Converts elements that stand side by side.
type ConvertRun = unsafe fn(from: *const u8, count: usize, to: *mut u8);

/// Writes elements at some offsets, widened, side by side.
type Widen = unsafe fn(from: *const u8, along: &[isize], to: *mut u8);

/// Writes sums, narrowed, `step` elements apart.
type Store = unsafe fn(sums: *const u8, count: usize, to: *mut u8, first: isize, step: isize);

unsafe fn widen<C: Convert>(from: *const u8, along: &[isize], to: *mut u8) {
    for (i, &offset) in along.iter().enumerate() {
        // SAFETY: the caller promises an element at each offset, and room for it.
        unsafe { to.cast::<C::To>().add(i).write(C::convert(from.cast::<C::From>().offset(offset).read())) };
    }
}

unsafe fn store<S: Num, T: crate::element::Element>(
    sums: *const u8,
    count: usize,
    to: *mut u8,
    first: isize,
    step: isize,
) {
    for i in 0..count {
        let offset = (first + i as isize).wrapping_mul(step);
        // SAFETY: the caller promises a sum and a place for it.
        unsafe {
            to.cast::<T>()
                .offset(offset)
                .write(T::narrow(crate::scalar::Prim::cast(sums.cast::<S>().add(i).read())))
        };
    }
}

/// Rows of the output that one task computes; tasks of columns read runs of this length.
const TASK: usize = 4096;
/// Rows that are read together.
const ROWS: usize = 4;
/// Terms that are summed before they are added to the rest.
const LEAF: usize = 4096;
/// Bytes of rows that are fetched while the rows before them are read, at most: the second cache holds both.
const NEXT: usize = 256 << 10;

/// A vector, widened, side by side: the elements of an operand along `k`.
///
/// # Safety
/// The operand holds the elements of `widen` there.
unsafe fn widened(
    from: *const u8,
    k: &AxisGroup<2>,
    operand: usize,
    widen: Widen,
    size: usize,
) -> Result<PanelBuffer> {
    let deep = k.total();
    let vector = PanelBuffer::new(deep, 1, size)?;
    for first in (0..deep).step_by(256) {
        let mut along = [0; 256];
        let along = &mut along[..256.min(deep - first)];
        k.offsets(operand, first, along);
        // SAFETY: the caller's promise, and room for all of `k`.
        unsafe { widen(from, along, vector.at().add(first * size)) };
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

/// Some rows of the output.
struct Part<'a> {
    product: &'a GemmProblem,
    rows: bool,
    vector: *const u8,
    first: usize,
    count: usize,
    store: Store,
}

impl Part<'_> {
    /// Computes it some rows at a time, whose elements are converted first, or those of a single row or column a few at a time, where
    /// they do not stand side by side.
    ///
    /// # Safety
    /// As that of the loop, for elements that are converted so.
    unsafe fn pack_converted(&self, loops: Loops, convert: ConvertRun) -> Result<()> {
        /// Bytes of rows that are converted together, and rows, at least, where they stand as such, or across columns.
        const NEAR: usize = 32 << 10;
        const LEAST: [usize; 2] = [ROWS, 64];
        let GemmProblem { m, k, left, .. } = *self.product;
        let (Some([out_step, row_step]), Some([along, vector_step])) =
            (m.as_single_axis(), k.as_single_axis())
        else {
            return Ok(());
        };
        let (deep, Loops { from: size, sum, .. }) = (k.total(), loops);
        let together = (NEAR / (deep * sum)).max(LEAST[usize::from(!self.rows)]).min(self.count);
        let room = PanelBuffer::new(together, deep, sum)?;
        for first in (self.first..self.first + self.count).step_by(together) {
            let count = together.min(self.first + self.count - first);
            // Lines of elements that stand side by side: rows, or parts of columns.
            let (lines, length, line_step, step) =
                if self.rows { (count, deep, row_step, along) } else { (deep, count, along, 1) };
            let start =
                left.wrapping_offset((first as isize).wrapping_mul(row_step).wrapping_mul(size as isize));
            for line in 0..lines {
                let from = start
                    .wrapping_offset((line as isize).wrapping_mul(line_step).wrapping_mul(size as isize));
                let to = room.at().wrapping_add(line * length * sum);
                let (runs, run) = if step == 1 { (1, length) } else { (length, 1) };
                for at in 0..runs {
                    let from =
                        from.wrapping_offset((at as isize).wrapping_mul(step).wrapping_mul(size as isize));
                    // SAFETY: the caller's promise, and room for every element.
                    unsafe { convert(from, run, to.wrapping_add(at * sum)) };
                }
            }
            let mut product = *self.product;
            (product.m, product.k) = (AxisGroup::new(), AxisGroup::new());
            let (row, term) = if self.rows { (deep, 1) } else { (1, count) };
            product.m.push(m.total(), [out_step, row as isize]);
            product.k.push(deep, [term as isize, vector_step]);
            product.left = room.at().cast_const().wrapping_sub(first * row * sum);
            // SAFETY: the rows from `first` on, converted.
            unsafe { (loops.part)(&Part { product: &product, first, count, ..*self }) };
        }
        Ok(())
    }
}

/// Sums of one row that run side by side: 128 bytes.
const fn lanes<L: Convert>() -> usize {
    128 / size_of::<L::To>()
}

/// Sums of one row, `LANES` of them, run side by side: two vectors of 512 bits, or four of 256.
struct PartOf<'a, L, const LANES: usize>(&'a Part<'a>, std::marker::PhantomData<L>);

unsafe fn three<L: Convert<To: Num>, const LANES: usize>(part: &Part<'_>) {
    simd::dispatch(PartOf::<L, LANES>(part, std::marker::PhantomData));
}

/// Where the processor has AVX2.
unsafe fn wide<L: Convert<To: Num>, const LANES: usize>(part: &Part<'_>) {
    simd::dispatch_wide(PartOf::<L, LANES>(part, std::marker::PhantomData));
}

unsafe fn two<L: Convert<To: Num>, const LANES: usize>(part: &Part<'_>) {
    simd::dispatch_two(PartOf::<L, LANES>(part, std::marker::PhantomData));
}

/// The sum of all, by halves.
#[inline(always)]
fn halved<P: Num, const LANES: usize>(mut sums: [P; LANES]) -> P {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] = P::arith(Arith::Add, sums[lane], sums[lane + half]);
        }
        half /= 2;
    }
    sums[0]
}

#[inline(always)]
fn multiply_add<P: Num>(sum: P, a: P, b: P) -> P {
    P::arith(Arith::Add, sum, P::arith(Arith::Mul, a, b))
}

impl<L: Convert<To: Num>, const LANES: usize> Loop for PartOf<'_, L, LANES> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if self.0.rows { self.by_rows() } else { self.by_columns() }
    }
}

impl<L: Convert<To: Num>, const LANES: usize> PartOf<'_, L, LANES> {
    /// How far ahead the matrix is fetched, in bytes ([`simd::early`]).
    fn early(&self) -> usize {
        let GemmProblem { m, k, .. } = self.0.product;
        simd::early(m.total().saturating_mul(k.total()).saturating_mul(size_of::<L::From>()))
    }

    #[inline(always)]
    fn by_rows(&self) {
        let &Part { product: &GemmProblem { m, k, left, out, .. }, vector, first, count, store, .. } = self.0;
        let (Some([out_step, row_step]), Some([along, _])) = (m.as_single_axis(), k.as_single_axis()) else {
            return;
        };
        let (deep, vector, far) = (k.total(), vector.cast::<L::To>(), self.early());
        // The next rows, if these are short; else what comes in these.
        let is_short = deep.saturating_mul(ROWS * size_of::<L::From>()) <= NEXT;
        let early = if is_short { (ROWS * size_of::<L::From>()) as isize * row_step } else { far as isize };
        for from in (0..count).step_by(ROWS) {
            let rows = ROWS.min(count - from);
            // Rows beyond the last are the last again.
            let row = |r: usize| {
                left.cast::<L::From>()
                    .wrapping_offset(((first + from + r.min(rows - 1)) as isize).wrapping_mul(row_step))
            };
            let starts: [*const L::From; ROWS] = [row(0), row(1), row(2), row(3)];
            let mut totals = [L::To::default(); ROWS];
            for leaf in (0..deep).step_by(LEAF) {
                let end = deep.min(leaf + LEAF);
                let mut sums = [[L::To::default(); LANES]; ROWS];
                let mut p = leaf;
                let (mut x, mut a);
                while p < end {
                    // Elements that are missing, or do not stand side by side, are copied first, one block of them.
                    let whole = if along == 1 { (end - p) / LANES } else { 0 };
                    let (mut from_x, mut from_a) = (vector.wrapping_add(p), starts.map_rows(p));
                    if whole == 0 {
                        (x, a) = ([L::To::default(); LANES], [[L::restore(L::To::default()); LANES]; ROWS]);
                        for lane in 0..LANES.min(end - p) {
                            // SAFETY: elements of the vector and of each row.
                            unsafe {
                                x[lane] = vector.add(p + lane).read();
                                for r in 0..ROWS {
                                    a[r][lane] = starts[r].offset((p + lane) as isize * along).read();
                                }
                            }
                        }
                        from_x = x.as_ptr();
                        from_a = [a[0].as_ptr(), a[1].as_ptr(), a[2].as_ptr(), a[3].as_ptr()];
                    }
                    for _ in 0..whole.max(1) {
                        if far > 0 {
                            for r in 0..ROWS {
                                simd::fetch_early(
                                    from_a[r].wrapping_byte_offset(early).cast(),
                                    LANES * size_of::<L::From>(),
                                );
                            }
                        }
                        // SAFETY: `LANES` elements of the vector and of each row, or of their copies.
                        let x = unsafe { from_x.cast::<[L::To; LANES]>().read_unaligned() };
                        for r in 0..ROWS {
                            // SAFETY: as above.
                            let a = unsafe { from_a[r].cast::<[L::From; LANES]>().read_unaligned() };
                            for lane in 0..LANES {
                                sums[r][lane] = multiply_add(sums[r][lane], L::convert(a[lane]), x[lane]);
                            }
                        }
                        (from_x, from_a) = (from_x.wrapping_add(LANES), from_a.map_rows(LANES));
                    }
                    p += (whole.max(1) * LANES).min(end - p);
                }
                for r in 0..ROWS {
                    totals[r] = L::To::arith(Arith::Add, totals[r], halved(sums[r]));
                }
            }
            // SAFETY: rows of the output.
            unsafe { store(totals.as_ptr().cast(), rows, out, (first + from) as isize, out_step) };
        }
    }

    #[inline(always)]
    fn by_columns(&self) {
        /// Columns that are read together.
        const COLUMNS: usize = 8;
        /// Sums that stay in the first cache, and more of them, so that longer runs of a column are read.
        const MOST: usize = 4096;
        let &Part { product: &GemmProblem { k, left, out, .. }, vector, first: task, count, store, .. } =
            self.0;
        let Some([along, _]) = k.as_single_axis() else { return };
        let (deep, far, vector) = (k.total(), self.early() > 0, vector.cast::<L::To>());
        let near = if count <= 256 { 256 } else { MOST };
        let mut room = [const { std::mem::MaybeUninit::<L::To>::uninit() }; MOST];
        let sums = room.as_mut_ptr().cast::<L::To>();
        for from in (0..count).step_by(near) {
            let rows = near.min(count - from);
            let first = (task + from) as isize;
            let start = left.cast::<L::From>().wrapping_offset(first);
            for i in 0..rows.next_multiple_of(LANES) {
                // SAFETY: there is room for `MOST`.
                unsafe { sums.add(i).write(L::To::default()) };
            }
            let mut p = 0;
            while p < deep {
                // SAFETY: columns `p` and on, rows from `start` on.
                unsafe {
                    if p + COLUMNS <= deep {
                        Self::columns::<COLUMNS>(start, along, vector, p, rows, sums, far);
                        p += COLUMNS;
                    } else {
                        Self::columns::<1>(start, along, vector, p, rows, sums, false);
                        p += 1;
                    }
                }
            }
            // SAFETY: rows of the output, which stand side by side.
            unsafe { store(sums.cast(), rows, out, first, 1) };
        }
    }

    /// Adds some columns to the sums.
    ///
    /// # Safety
    /// `N` columns of `rows` elements, as many elements of the vector; room for whole `LANES` of sums.
    #[inline(always)]
    unsafe fn columns<const N: usize>(
        start: *const L::From,
        along: isize,
        vector: *const L::To,
        p: usize,
        rows: usize,
        sums: *mut L::To,
        far: bool,
    ) {
        let mut x = [L::To::default(); N];
        let mut column = [start; N];
        for c in 0..N {
            // SAFETY: an element of the vector.
            x[c] = unsafe { vector.add(p + c).read() };
            column[c] = start.wrapping_offset((p + c) as isize * along);
        }
        let mut copy = [[L::restore(L::To::default()); LANES]; N];
        let mut i = 0;
        while i < rows {
            // Rows that are missing are copied first, one block of them.
            let whole = (rows - i) / LANES;
            let mut from = [start; N];
            for c in 0..N {
                from[c] = column[c].wrapping_add(i);
                if whole == 0 {
                    // SAFETY: rows from `i` on.
                    unsafe { from[c].copy_to_nonoverlapping(copy[c].as_mut_ptr(), rows - i) };
                    from[c] = copy[c].as_ptr();
                }
            }
            for _ in 0..whole.max(1) {
                // SAFETY: rows from `i` on, or copies of those that are there; room for the sums.
                unsafe {
                    let mut sum = sums.add(i).cast::<[L::To; LANES]>().read();
                    for c in 0..N {
                        if far {
                            simd::fetch_early(
                                from[c].wrapping_offset(N as isize * along).cast(),
                                LANES * size_of::<L::From>(),
                            );
                        }
                        let a = from[c].cast::<[L::From; LANES]>().read_unaligned();
                        for lane in 0..LANES {
                            sum[lane] = multiply_add(sum[lane], L::convert(a[lane]), x[c]);
                        }
                        from[c] = from[c].wrapping_add(LANES);
                    }
                    sums.add(i).cast::<[L::To; LANES]>().write(sum);
                }
                i += LANES;
            }
        }
    }
}

trait MapRows {
    fn map_rows(self, by: usize) -> Self;
}
impl<T> MapRows for [*const T; ROWS] {
    #[inline(always)]
    fn map_rows(self, by: usize) -> Self {
        [
            self[0].wrapping_add(by),
            self[1].wrapping_add(by),
            self[2].wrapping_add(by),
            self[3].wrapping_add(by),
        ]
    }
}

// ------------------------------------------------------------ a row by panels

/// A product with one row by panels of the right operand, in the sums of a vector by a matrix that stands in rows.
pub(super) type RowByPanelsFn =
    unsafe fn(product: &GemmProblem, panels: *const u8, layout: PanelLayout) -> Result<()>;

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
pub(super) unsafe fn row_by_panels<L, P, T>(
    product: &GemmProblem,
    panels: *const u8,
    layout: PanelLayout,
) -> Result<()>
where
    L: Convert<To = P::Element>,
    P: Lies,
    T: crate::element::Element,
{
    // SAFETY: the caller's promise.
    let vector = unsafe { widened(product.left, &product.k, 0, widen::<L>, size_of::<P::Element>())? };
    let (vector, panels) = (Shared(vector.at().cast_const().cast::<P::Element>()), Shared(panels));
    let tasks = if product.work() >= PARALLEL_MULTIPLY_ADDS { 2 * threads::count() } else { 1 };
    let share = layout.count.div_ceil(tasks);
    each(layout.count.div_ceil(share), true, &|task| {
        for panel in task * share..layout.count.min((task + 1) * share) {
            let at = panels.get().wrapping_add(panel * layout.nbytes);
            simd::dispatch(RowByPanel::<P> {
                product,
                vector: vector.get(),
                panel: at.cast(),
                width: layout.width,
                first: panel * layout.width,
                store: store::<P::Element, T>,
            });
        }
        Ok(())
    })
}

struct RowByPanel<'a, P: Lies> {
    product: &'a GemmProblem,
    vector: *const P::Element,
    panel: *const P::Unit,
    width: usize,
    first: usize,
    store: Store,
}

impl<P: Lies> Loop for RowByPanel<'_, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match self.width {
            32 => self.lanes::<32>(),
            16 => self.lanes::<16>(),
            8 => self.lanes::<8>(),
            _ => self.lanes::<4>(),
        }
    }
}

impl<P: Lies> RowByPanel<'_, P> {
    #[inline(always)]
    fn lanes<const WIDTH: usize>(&self) {
        debug_assert_eq!(self.width, WIDTH);
        let GemmProblem { k, n, out, .. } = self.product;
        let mut sums = [P::Element::default(); WIDTH];
        let deep = k.total();
        for unit in 0..deep.div_ceil(P::DEPTH) {
            // SAFETY: a unit of each lane of the panel.
            let values = unsafe { self.panel.add(unit * WIDTH).cast::<[P::Unit; WIDTH]>().read_unaligned() };
            for depth in 0..P::DEPTH.min(deep - unit * P::DEPTH) {
                // SAFETY: an element of the vector.
                let x = unsafe { self.vector.add(unit * P::DEPTH + depth).read() };
                for lane in 0..WIDTH {
                    sums[lane] = multiply_add(sums[lane], P::of(values[lane], depth), x);
                }
            }
        }
        let (mut across, here) = ([0; WIDTH], WIDTH.min(n.total() - self.first));
        n.offsets(0, self.first, &mut across[..here]);
        for (i, &offset) in across.iter().enumerate().take(here) {
            // SAFETY: a column of the output.
            unsafe { (self.store)(sums.as_ptr().add(i).cast(), 1, *out, offset, 1) };
        }
    }
}
