//! From strided operands to panels: what a kernel reads stands in the order in which it reads it.
//!
//! A panel holds some lanes (rows of the left operand, columns of the right one) for all of `k`. Its *unit* is what one
//! step of a kernel takes of a lane: `DEPTH` neighbours along `k`. Panels are `[unit][lane][depth]`; what is missing is 0.
//! Imports: `element`, `device`.

use super::super::simd::{self, Loop};
use super::axes::{few_runs, is_run, run_end};
#[cfg(target_arch = "x86_64")]
use super::micro;
use crate::element::Element;
use crate::half::{bf16, f16};
use std::ops::Range;

/// How an element goes into a panel.
pub(super) trait Convert: Sized + 'static {
    /// The element in memory, at any address.
    type From: Copy;
    /// The element of a panel.
    type To: Copy + Default;
    /// Elements of one lane in a unit.
    const DEPTH: usize;
    /// Whether an element keeps its bits.
    const KEEPS: bool;
    fn convert(value: Self::From) -> Self::To;
    /// The element that was converted.
    fn restore(value: Self::To) -> Self::From;
    /// Packs and restores such elements.
    const PACK: Pack = match (Self::KEEPS, size_of::<Self::To>(), Self::DEPTH) {
        (true, 1, 4) => pack::<Bits<u8, 4>>,
        (true, 2, 2) => pack::<Bits<u16, 2>>,
        (true, 4, 1) => pack::<Bits<u32, 1>>,
        (true, 8, 1) => pack::<Bits<u64, 1>>,
        (true, 16, 1) => pack::<Bits<u128, 1>>,
        _ => pack::<Self>,
    };
    const RESTORE: Restore = match (Self::KEEPS, size_of::<Self::To>(), Self::DEPTH) {
        (true, 1, 4) => restore::<Bits<u8, 4>>,
        (true, 2, 2) => restore::<Bits<u16, 2>>,
        (true, 4, 1) => restore::<Bits<u32, 1>>,
        (true, 8, 1) => restore::<Bits<u64, 1>>,
        (true, 16, 1) => restore::<Bits<u128, 1>>,
        _ => restore::<Self>,
    };
}

/// An element of that many bits, which goes into units as it is.
pub(super) struct Bits<T, const DEPTH: usize>(std::marker::PhantomData<T>);
impl<T: Copy + Default + 'static, const DEPTH: usize> Convert for Bits<T, DEPTH> {
    type From = T;
    type To = T;
    const DEPTH: usize = DEPTH;
    const KEEPS: bool = true;
    #[inline(always)]
    fn convert(value: T) -> T {
        value
    }
    #[inline(always)]
    fn restore(value: T) -> T {
        value
    }
}

macro_rules! conversions {
    ($($Name:ident: $from:ty => $to:ty, $depth:literal, keeps $keeps:literal, |$x:ident| $convert:expr, $restore:expr;)*) => { $(
        pub(super) struct $Name;
        impl Convert for $Name {
            type From = $from;
            type To = $to;
            const DEPTH: usize = $depth;
            const KEEPS: bool = $keeps;
            #[inline(always)]
            fn convert($x: $from) -> $to { $convert }
            #[inline(always)]
            fn restore($x: $to) -> $from { $restore }
        }
    )* };
}
conversions! {
    Bf16Pair: bf16 => u16, 2, keeps true, |x| x.to_bits(), bf16::from_bits(x);
    Bf16Float: bf16 => f32, 1, keeps false, |x| x.widen(), bf16::from_bits((x.to_bits() >> 16) as u16);
    F16Float: f16 => f32, 1, keeps false, |x| x.widen(), f16::narrow(x);
    FloatDouble: f32 => f64, 1, keeps false, |x| x as f64, x as f32;
    SignedQuad: i8 => u8, 4, keeps true, |x| x as u8, x as i8;
    SignedShifted: i8 => u8, 4, keeps false, |x| x as u8 ^ 0x80, (x ^ 0x80) as i8;
    UnsignedQuad: u8 => u8, 4, keeps true, |x| x, x;
    SignedShort: i8 => i16, 2, keeps false, |x| x as i16, x as i8;
    UnsignedShort: u8 => i16, 2, keeps false, |x| x as i16, x as u8;
    ShortPair: i16 => i16, 2, keeps true, |x| x, x;
    SignedInt: i8 => i32, 1, keeps false, |x| x as i32, x as i8;
    UnsignedInt: u8 => i32, 1, keeps false, |x| x as i32, x as u8;
    ShortInt: i16 => i32, 1, keeps false, |x| x as i32, x as i16;
    UnsignedShortInt: u16 => i32, 1, keeps false, |x| x as i32, x as u16;
    IntLong: i32 => i64, 1, keeps false, |x| x as i64, x as i32;
    UnsignedIntLong: u32 => i64, 1, keeps false, |x| x as i64, x as u32;
}

/// An element that goes into a panel as it is.
pub(super) struct Same<T>(std::marker::PhantomData<T>);
impl<T: Copy + Default + 'static> Convert for Same<T> {
    type From = T;
    type To = T;
    const DEPTH: usize = 1;
    const KEEPS: bool = true;
    #[inline(always)]
    fn convert(value: T) -> T {
        value
    }
    #[inline(always)]
    fn restore(value: T) -> T {
        value
    }
}

/// Packs the lanes at `lanes`, for the `k` offsets given, into a panel of `width` lanes.
pub(super) type Pack = unsafe fn(from: *const u8, lanes: &[isize], k: &[isize], width: usize, to: *mut u8);

/// # Safety
/// Every lane plus every `k` offset is an element `C::From`; `to` has room for a panel and [`BEYOND`] bytes.
pub(super) unsafe fn pack<C: Convert>(from: *const u8, lanes: &[isize], k: &[isize], width: usize, to: *mut u8) {
    simd::dispatch_two(Panel::<C> { from: from.cast(), lanes, k, width, to: to.cast() });
}

struct Panel<'a, C: Convert> {
    from: *const C::From,
    lanes: &'a [isize],
    k: &'a [isize],
    width: usize,
    to: *mut C::To,
}

/// What is written beyond a panel: a vector, whose first lane is in it.
pub(super) const BEYOND: usize = 64;

/// Lanes of the widest panel.
pub(super) const WIDEST: usize = 64;

/// Units and lanes that are turned together.
pub(super) const BLOCK: usize = 16;

impl<C: Convert> Loop for Panel<'_, C> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if !few_runs(self.lanes) {
            return self.along_k();
        }
        let mut first = 0;
        while first < self.lanes.len() {
            let end = run_end(self.lanes, first);
            self.along_lanes(first..end);
            first = end;
        }
    }
}

impl<C: Convert> Panel<'_, C> {
    /// Some lanes stand side by side in memory; after the last of all come zeros.
    #[inline(always)]
    fn along_lanes(&self, range: Range<usize>) {
        let Panel { k, width, .. } = *self;
        let (lanes, depth) = (&self.lanes[range.clone()], C::DEPTH);
        let (n, all) = (lanes.len(), if range.end == self.lanes.len() { width - range.start } else { 0 });
        for (unit, k) in k.chunks(depth).enumerate() {
            // SAFETY: lane 0 plus an offset of `k` (`each` of them below); a unit of the panel.
            let (rows, to) = unsafe {
                let row = |d: usize| self.from.offset(lanes[0].wrapping_add(k[if d < k.len() { d } else { 0 }]));
                ([row(0), row(1), row(2), row(3)], self.to.add((unit * width + range.start) * depth))
            };
            if k.len() == depth {
                let mut lane = 0;
                if C::KEEPS && depth == 1 {
                    #[cfg(target_arch = "x86_64")]
                    simd::fetch(rows[0].wrapping_add(4 * width.min(WIDEST)).cast(), n * size_of::<C::From>()); // the next panels' lanes of this row
                    // SAFETY: lanes side by side, and room for them.
                    unsafe { copy(rows[0].cast(), to.cast(), n * size_of::<C::From>()) };
                    lane = n;
                }
                while lane + BLOCK <= n {
                    // SAFETY: `BLOCK` elements side by side in each row, and room for them.
                    unsafe {
                        let mut block = [C::To::default(); BLOCK * 4];
                        for d in 0..depth {
                            let values = rows[d].add(lane).cast::<[C::From; BLOCK]>().read_unaligned();
                            #[cfg(target_arch = "x86_64")]
                            simd::fetch(rows[d].wrapping_add(lane + 4 * width.min(WIDEST)).cast(), 64); // the next panels' lanes of this row
                            for t in 0..BLOCK {
                                block[t * depth + d] = C::convert(values[t]);
                            }
                        }
                        let to = to.add(lane * depth);
                        match depth {
                            1 => to.cast::<[C::To; BLOCK]>().write_unaligned(block.as_ptr().cast::<[C::To; BLOCK]>().read()),
                            2 => to.cast::<[C::To; BLOCK * 2]>().write_unaligned(block.as_ptr().cast::<[C::To; BLOCK * 2]>().read()),
                            _ => to.cast::<[C::To; BLOCK * 4]>().write_unaligned(block),
                        }
                    }
                    lane += BLOCK;
                }
                for lane in lane..n {
                    for d in 0..depth {
                        // SAFETY: element `lane` of each row, and room for `width` lanes.
                        unsafe { to.add(lane * depth + d).write(C::convert(rows[d].add(lane).read_unaligned())) };
                    }
                }
            } else {
                for lane in 0..n {
                    for d in 0..depth {
                        // SAFETY: as above.
                        let value = if d < k.len() { unsafe { C::convert(rows[d].add(lane).read_unaligned()) } } else { C::To::default() };
                        // SAFETY: as above.
                        unsafe { to.add(lane * depth + d).write(value) };
                    }
                }
            }
            for rest in n * depth..all * depth {
                // SAFETY: inside the unit.
                unsafe { to.add(rest).write(C::To::default()) };
            }
        }
    }

    /// Where `k` is a run in memory, blocks of lanes are read as they stand and turned.
    #[inline(always)]
    fn along_k(&self) {
        let Panel { lanes, k, width, .. } = *self;
        let whole = k.len() / (BLOCK * C::DEPTH);
        let nothing = [C::To::default(); BLOCK * 4];
        for block in 0..whole {
            let units = block * BLOCK..(block + 1) * BLOCK;
            let along = &k[units.start * C::DEPTH..units.end * C::DEPTH];
            if !is_run(along) {
                self.each(units);
                continue;
            }
            let start = along[0];
            for first in (0..width).step_by(BLOCK) {
                let count = BLOCK.min(width - first);
                #[cfg(target_arch = "x86_64")]
                if C::KEEPS && matches!(size_of::<C::To>() * C::DEPTH, 4 | 8) && micro::turns() {
                    let mut starts = [nothing.as_ptr().cast::<u8>(); BLOCK];
                    for (lane, start_of) in starts.iter_mut().enumerate() {
                        *start_of = match lanes.get(first + lane) {
                            Some(&offset) if lane < count => self.from.wrapping_offset(offset.wrapping_add(start)).cast(),
                            _ => nothing.as_ptr().cast(),
                        };
                    }
                    let to = self.to.wrapping_add((block * BLOCK * width + first) * C::DEPTH);
                    // SAFETY: lanes plus an offset of `k`, which is a run, or zeros; the processor has the instructions.
                    unsafe { turn_runs(&starts, count, to.cast(), width, size_of::<C::To>() * C::DEPTH) };
                    continue;
                }
                // A block of at most 16 × 16 units of 4 elements, or of 16 bytes.
                let mut rows = [[C::To::default(); BLOCK * 4]; BLOCK];
                for lane in 0..count {
                    let row = &mut rows[lane];
                    if let Some(&offset) = lanes.get(first + lane) {
                        for (depth, row) in row.chunks_exact_mut(BLOCK).take(C::DEPTH).enumerate() {
                            // SAFETY: a lane plus an offset of `k`, which is a run.
                            let values = unsafe {
                                self.from.offset(offset.wrapping_add(start)).add(depth * BLOCK).cast::<[C::From; BLOCK]>().read_unaligned()
                            };
                            for t in 0..BLOCK {
                                row[t] = C::convert(values[t]);
                            }
                        }
                    } else {
                        row.fill(C::To::default());
                    }
                }
                // SAFETY: `BLOCK` units from this block's first, their lanes from `first` on.
                unsafe { turn::<C>(&rows, count, self.to.add((block * BLOCK * width + first) * C::DEPTH), width) };
            }
        }
        self.each(whole * BLOCK..k.len().div_ceil(C::DEPTH));
    }

    /// One element after the other.
    #[inline(always)]
    fn each(&self, units: Range<usize>) {
        let Panel { lanes, k, width, .. } = *self;
        for unit in units {
            for d in 0..C::DEPTH {
                let along = k.get(unit * C::DEPTH + d);
                for lane in 0..width {
                    let value = match (along, lanes.get(lane)) {
                        // SAFETY: a lane plus an offset of `k`.
                        (Some(&along), Some(&lane)) => C::convert(unsafe { self.from.offset(lane.wrapping_add(along)).read_unaligned() }),
                        _ => C::To::default(),
                    };
                    // SAFETY: inside the panel.
                    unsafe { self.to.add((unit * width + lane) * C::DEPTH + d).write(value) };
                }
            }
        }
    }
}

/// Copies bytes, of which most often there are as many as in a line or two.
///
/// # Safety
/// As `copy_nonoverlapping`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, nbytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match nbytes {
            128 => to.cast::<[u8; 128]>().write_unaligned(from.cast::<[u8; 128]>().read_unaligned()),
            64 => to.cast::<[u8; 64]>().write_unaligned(from.cast::<[u8; 64]>().read_unaligned()),
            _ => to.copy_from_nonoverlapping(from, nbytes),
        }
    }
}

/// Writes runs of `BLOCK` units of 4 bytes or of 8 as columns of a panel.
///
/// # Safety
/// As [`turn`], and [`micro::turns`].
#[cfg(target_arch = "x86_64")]
unsafe fn turn_runs(starts: &[*const u8; BLOCK], count: usize, to: *mut u8, width: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if size == 4 {
            let mut rows = [std::ptr::null(); BLOCK];
            for lane in 0..BLOCK {
                rows[lane] = starts[lane].cast();
            }
            return micro::turn(rows, to.cast(), width);
        }
        for half in [0, 8] {
            let mut rows = [std::ptr::null::<u64>(); BLOCK];
            for lane in 0..BLOCK {
                rows[lane] = starts[lane].cast::<u64>().wrapping_add(half);
            }
            micro::turn_doubles(rows, count, to.cast::<u64>().wrapping_add(half * width), width);
        }
    }
}

/// Writes row `lane` of `rows`, a run of units, as column `lane` of a panel.
///
/// # Safety
/// Room for `BLOCK` units at `to`, `width` lanes apart, and for [`BEYOND`] bytes.
#[inline(always)]
unsafe fn turn<C: Convert>(rows: &[[C::To; BLOCK * 4]; BLOCK], count: usize, to: *mut C::To, width: usize) {
    #[cfg(target_arch = "x86_64")]
    if size_of::<C::To>() * C::DEPTH == 4 && micro::turns() {
        // SAFETY: units of 4 bytes, in rows of a fixed length; the processor has the instructions.
        let mut starts = [std::ptr::null(); BLOCK];
        for lane in 0..BLOCK {
            starts[lane] = rows[lane].as_ptr().cast();
        }
        return unsafe { micro::turn(starts, to.cast(), width) };
    }
    for unit in 0..BLOCK {
        for lane in 0..count {
            for d in 0..C::DEPTH {
                // SAFETY: inside the block.
                unsafe { to.add((unit * width + lane) * C::DEPTH + d).write(rows[lane][unit * C::DEPTH + d]) };
            }
        }
    }
}

/// Writes what a panel of `width` lanes holds, `lanes` of them, as rows that stand `step` apart, one for each of `k` indices.
pub(super) type Restore = unsafe fn(panel: *const u8, lanes: usize, k: usize, width: usize, to: *mut u8, step: usize);

/// # Safety
/// A panel of [`pack`] with that many lanes, and room for its rows.
pub(super) unsafe fn restore<C: Convert>(panel: *const u8, lanes: usize, k: usize, width: usize, to: *mut u8, step: usize) {
    let (panel, to) = (panel.cast::<C::To>(), to.cast::<C::From>());
    for index in 0..k {
        let unit = (index / C::DEPTH * width) * C::DEPTH + index % C::DEPTH;
        for lane in 0..lanes {
            // SAFETY: the caller's promise.
            unsafe { to.add(index * step + lane).write_unaligned(C::restore(panel.add(unit + lane * C::DEPTH).read())) };
        }
    }
}
