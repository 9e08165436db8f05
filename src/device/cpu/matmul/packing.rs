//! Packing: from strided operands to panels, in the order in which a microkernel reads them, with conversions
//! of elements.
//!
//! `panels.rs` describes the layout.
// Imports: `element`.

use super::super::isa::{self, Loop};
use super::super::strided::transpose::transpose;
use super::axis_group::{has_long_spans, span_end};
use super::panels::{PANEL_PADDING_BYTES, PackFn, UnpackFn};
use crate::element::Element;
use crate::element::{bf16, f16};
use std::mem::MaybeUninit;
use std::ops::Range;

/// A conversion: how an element is stored in a panel.
pub(super) trait Convert: Sized + 'static {
    /// The element in memory, at any address.
    type From: Copy + Default;
    /// The element of a panel.
    type To: Copy + Default;
    /// Elements of one lane in a unit: neighbors along `k`.
    const DEPTH: usize;
    /// Whether the conversion keeps the bits of an element.
    const KEEPS_BITS: bool;
    /// The element of a panel.
    fn convert(value: Self::From) -> Self::To;
    /// The inverse of [`convert`](Convert::convert).
    fn restore(value: Self::To) -> Self::From;
    /// Packs elements into a panel.
    const PACK: PackFn =
        if Self::KEEPS_BITS { bits(size_of::<Self::From>(), Self::DEPTH) } else { pack_converted::<Self> };
    /// Unpacks a panel into elements.
    const UNPACK: UnpackFn = match (Self::KEEPS_BITS, size_of::<Self::To>(), Self::DEPTH) {
        (true, 1, 4) => unpack_panel::<KeptBits<u8, 4>>,
        (true, 2, 2) => unpack_panel::<KeptBits<u16, 2>>,
        (true, 4, 1) => unpack_panel::<KeptBits<u32, 1>>,
        (true, 8, 1) => unpack_panel::<KeptBits<u64, 1>>,
        (true, 16, 1) => unpack_panel::<KeptBits<u128, 1>>,
        _ => unpack_panel::<Self>,
    };
}

/// An element of as many bytes as a `T`, whose bits are kept.
pub(super) struct KeptBits<T, const DEPTH: usize>(std::marker::PhantomData<T>);
impl<T: Copy + Default + 'static, const DEPTH: usize> Convert for KeptBits<T, DEPTH> {
    type From = T;
    type To = T;
    const DEPTH: usize = DEPTH;
    const KEEPS_BITS: bool = true;
    #[inline(always)]
    fn convert(value: T) -> T {
        value
    }
    #[inline(always)]
    fn restore(value: T) -> T {
        value
    }
}

/// Packs elements of `size` bytes without a conversion.
pub(super) const fn bits(size: usize, depth: usize) -> PackFn {
    match (size, depth) {
        (1, 1) => pack::<u8, 1>,
        (1, 2) => pack::<u8, 2>,
        (1, 4) => pack::<u8, 4>,
        (2, 1) => pack::<u16, 1>,
        (2, 2) => pack::<u16, 2>,
        (4, 1) => pack::<u32, 1>,
        (8, 1) => pack::<u64, 1>,
        (16, 1) => pack::<u128, 1>,
        _ => panic!("no panels of such units"),
    }
}

/// Packs elements without a conversion into a buffer, a few units at a time, and converts the packed units.
///
/// # Safety
/// As [`pack`].
unsafe fn pack_converted<C: Convert>(
    from: *const u8,
    lanes: &[isize],
    k: &[isize],
    width: usize,
    to: *mut u8,
) {
    const BUFFER_BYTES: usize = 8 << 10;
    let mut buffer = [MaybeUninit::<u64>::uninit(); (BUFFER_BYTES + PANEL_PADDING_BYTES) / 8];
    let (buffer, unit) = (buffer.as_mut_ptr().cast::<u8>(), width * C::DEPTH);
    let together = BUFFER_BYTES / (unit * size_of::<C::From>());
    assert!(together > 0, "a unit of a panel fits the buffer");
    let raw = const { bits(size_of::<C::From>(), C::DEPTH) };
    let mut to = to.cast::<C::To>();
    for k in k.chunks(together * C::DEPTH) {
        let count = k.len().div_ceil(C::DEPTH) * unit;
        // SAFETY: (1) the caller's promise; the buffer has room for these units. (2) The converted units of
        // the panel.
        unsafe {
            raw(from, lanes, k, width, buffer);
            convert_span::<C>(buffer, count, to.cast());
        }
        to = to.wrapping_add(count);
    }
}

/// Converts contiguous elements.
///
/// # Safety
/// 1. `from` holds `count` elements.   2. `to` has room for as many.
pub(super) unsafe fn convert_span<C: Convert>(from: *const u8, count: usize, to: *mut u8) {
    isa::dispatch(ConvertSpan::<C> { from: from.cast(), count, to: to.cast() });
}

/// Contiguous elements and their destination.
struct ConvertSpan<C: Convert> {
    from: *const C::From,
    count: usize,
    to: *mut C::To,
}

impl<C: Convert> Loop for ConvertSpan<C> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let ConvertSpan { from, count, to } = self;
        let whole = count / BLOCK * BLOCK;
        for i in (0..whole).step_by(BLOCK) {
            // SAFETY: `BLOCK` of the `count` elements, and room for them.
            unsafe {
                let values = from.add(i).cast::<[C::From; BLOCK]>().read_unaligned();
                let mut block = [C::To::default(); BLOCK];
                for t in 0..BLOCK {
                    block[t] = C::convert(values[t]);
                }
                to.add(i).cast::<[C::To; BLOCK]>().write_unaligned(block);
            }
        }
        for i in whole..count {
            // SAFETY: as above.
            unsafe { to.add(i).write(C::convert(from.add(i).read())) };
        }
    }
}

macro_rules! conversions {
    ($(
        $Name:ident: $from:ty => $to:ty, $depth:literal, keeps $keeps:literal,
            |$x:ident| $convert:expr, $restore:expr;
    )*) => { $(
        pub(super) struct $Name;
        impl Convert for $Name {
            type From = $from;
            type To = $to;
            const DEPTH: usize = $depth;
            const KEEPS_BITS: bool = $keeps;
            #[inline(always)]
            fn convert($x: $from) -> $to { $convert }
            #[inline(always)]
            fn restore($x: $to) -> $from { $restore }
        }
    )* };
}
conversions! {
    Bf16x2: bf16 => u16, 2, keeps true, |x| x.to_bits(), bf16::from_bits(x);
    Bf16AsF32: bf16 => f32, 1, keeps false, |x| x.widen(), bf16::from_bits((x.to_bits() >> 16) as u16);
    F16AsF32: f16 => f32, 1, keeps false, |x| x.widen(), f16::narrow(x);
    F32AsF64: f32 => f64, 1, keeps false, |x| x as f64, x as f32;
    I8x4: i8 => u8, 4, keeps true, |x| x as u8, x as i8;
    I8x4Biased: i8 => u8, 4, keeps false, |x| x as u8 ^ 0x80, (x ^ 0x80) as i8;
    U8x4: u8 => u8, 4, keeps true, |x| x, x;
    I8AsI16: i8 => i16, 2, keeps false, |x| x as i16, x as i8;
    U8AsI16: u8 => i16, 2, keeps false, |x| x as i16, x as u8;
    I16x2: i16 => i16, 2, keeps true, |x| x, x;
    I8AsI32: i8 => i32, 1, keeps false, |x| x as i32, x as i8;
    U8AsI32: u8 => i32, 1, keeps false, |x| x as i32, x as u8;
    I16AsI32: i16 => i32, 1, keeps false, |x| x as i32, x as i16;
    U16AsI32: u16 => i32, 1, keeps false, |x| x as i32, x as u16;
    I32AsI64: i32 => i64, 1, keeps false, |x| x as i64, x as i32;
    U32AsI64: u32 => i64, 1, keeps false, |x| x as i64, x as u32;
}

/// An element that is stored in a panel as it is, one in each unit.
pub(super) struct Same<T>(std::marker::PhantomData<T>);
impl<T: Copy + Default + 'static> Convert for Same<T> {
    type From = T;
    type To = T;
    const DEPTH: usize = 1;
    const KEEPS_BITS: bool = true;
    #[inline(always)]
    fn convert(value: T) -> T {
        value
    }
    #[inline(always)]
    fn restore(value: T) -> T {
        value
    }
}

/// The [`PackFn`] of elements with as many bytes as a `T`.
///
/// # Safety
/// 1. Every lane plus every `k` offset is an element.   2. `to` has room for a panel and
///    [`PANEL_PADDING_BYTES`] bytes.
unsafe fn pack<T: Copy + Default, const DEPTH: usize>(
    from: *const u8,
    lanes: &[isize],
    k: &[isize],
    width: usize,
    to: *mut u8,
) {
    isa::dispatch_up_to_avx2(Panel::<T, DEPTH> { from: from.cast(), lanes, k, width, to: to.cast() });
}

/// One panel and the elements that it is packed from.
struct Panel<'a, T, const DEPTH: usize> {
    from: *const T,
    lanes: &'a [isize],
    k: &'a [isize],
    width: usize,
    to: *mut T,
}

/// Elements that are interleaved or converted together.
const BLOCK: usize = 16;

impl<T: Copy + Default, const DEPTH: usize> Loop for Panel<'_, T, DEPTH> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        if !has_long_spans(self.lanes) {
            return self.along_k();
        }
        let mut first = 0;
        while first < self.lanes.len() {
            let end = span_end(self.lanes, first);
            self.along_lanes(first..end);
            first = end;
        }
    }
    /// Element by element.
    fn run_scalar(self) {
        (0..self.k.len().div_ceil(DEPTH)).for_each(|unit| self.by_elements(unit));
    }
}

impl<T: Copy + Default, const DEPTH: usize> Panel<'_, T, DEPTH> {
    /// Packs lanes that are contiguous in memory. After the last lane of the panel come zeros.
    #[inline(always)]
    fn along_lanes(&self, range: Range<usize>) {
        let Panel { k, width, .. } = *self;
        let lanes = &self.lanes[range.clone()];
        let (n, all) = (lanes.len(), if range.end == self.lanes.len() { width - range.start } else { 0 });
        for (unit, k) in k.chunks(DEPTH).enumerate() {
            let mut rows = [self.from; DEPTH];
            for (row, &k) in rows.iter_mut().zip(k) {
                *row = self.from.wrapping_offset(lanes[0].wrapping_add(k));
            }
            let to = self.to.wrapping_add((unit * width + range.start) * DEPTH);
            let mut lane = 0;
            if DEPTH == 1 {
                // SAFETY: (1) `n` contiguous lanes; (2) room for them.
                unsafe { copy(rows[0].cast(), to.cast(), n * size_of::<T>()) };
                lane = n;
            }
            while k.len() == DEPTH && lane + BLOCK <= n {
                let mut block = [T::default(); BLOCK * 4];
                for d in 0..DEPTH {
                    // SAFETY: (1) `BLOCK` contiguous elements of each row.
                    let values = unsafe { rows[d].add(lane).cast::<[T; BLOCK]>().read_unaligned() };
                    for t in 0..BLOCK {
                        block[t * DEPTH + d] = values[t];
                    }
                }
                // SAFETY: (2) room for `BLOCK` units.
                unsafe {
                    to.add(lane * DEPTH)
                        .cast::<[[T; DEPTH]; BLOCK]>()
                        .write_unaligned(block.as_ptr().cast::<[[T; DEPTH]; BLOCK]>().read())
                };
                lane += BLOCK;
            }
            for lane in lane..n {
                for d in 0..DEPTH {
                    // SAFETY: (1) element `lane` of each row; rows that are missing are not read. (2) Room
                    // for `width` lanes.
                    unsafe {
                        to.add(lane * DEPTH + d).write(if d < k.len() {
                            rows[d].add(lane).read_unaligned()
                        } else {
                            T::default()
                        })
                    };
                }
            }
            for missing in n * DEPTH..all * DEPTH {
                // SAFETY: (2) inside the unit.
                unsafe { to.add(missing).write(T::default()) };
            }
        }
    }

    /// Packs by transposes of whole units where the elements along `k` are contiguous in memory, and element
    /// by element elsewhere.
    #[inline(always)]
    fn along_k(&self) {
        let Panel { lanes, k, width, .. } = *self;
        let mut unit = 0;
        while unit * DEPTH < k.len() {
            let from = unit * DEPTH;
            let units = (span_end(k, from) - from) / DEPTH;
            let to = self.to.wrapping_add(from * width);
            if units < 4 {
                self.by_elements(unit);
                unit += 1;
                continue;
            }
            // Lanes at equal distances.
            let (mut first, size) = (0, size_of::<[T; DEPTH]>());
            while first < lanes.len() {
                let step = lanes.get(first + 1).map_or(0, |next| next.wrapping_sub(lanes[first]));
                let mut end = first + 1;
                while end < lanes.len() && lanes[end].wrapping_sub(lanes[end - 1]) == step {
                    end += 1;
                }
                let start = self.from.wrapping_offset(lanes[first].wrapping_add(k[from]));
                let (step, pitch) = (step.wrapping_mul(size_of::<T>() as isize), (width * size) as isize);
                // SAFETY: (1) contiguous units of each lane; (2) their part of the panel.
                unsafe {
                    transpose_units(
                        to.wrapping_add(first * DEPTH).cast(),
                        pitch,
                        start.cast(),
                        step,
                        [units, end - first],
                        size,
                    )
                };
                first = end;
            }
            for unit in 0..units {
                for missing in lanes.len() * DEPTH..width * DEPTH {
                    // SAFETY: (2) inside the unit.
                    unsafe { to.add(unit * width * DEPTH + missing).write(T::default()) };
                }
            }
            unit += units;
        }
    }

    /// Packs one unit of each lane, element by element.
    #[inline(always)]
    fn by_elements(&self, unit: usize) {
        let Panel { lanes, k, width, .. } = *self;
        for lane in 0..width {
            for d in 0..DEPTH {
                let value = match (k.get(unit * DEPTH + d), lanes.get(lane)) {
                    // SAFETY: (1) a lane plus an offset of `k`.
                    (Some(&along), Some(&lane)) => unsafe {
                        self.from.offset(lane.wrapping_add(along)).read_unaligned()
                    },
                    _ => T::default(),
                };
                // SAFETY: (2) inside the panel.
                unsafe { self.to.add((unit * width + lane) * DEPTH + d).write(value) };
            }
        }
    }
}

/// Copies bytes. The most frequent sizes, one and two cache lines and the rows of a tile, have copies of
/// constant size.
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
            48 => to.cast::<[u8; 48]>().write_unaligned(from.cast::<[u8; 48]>().read_unaligned()),
            _ => to.copy_from_nonoverlapping(from, nbytes),
        }
    }
}

/// Transposes units of `size` bytes: the units of a lane are contiguous at `from`, and `to_pitch` bytes apart
/// at `to`.
///
/// # Safety
/// As [`transpose`].
pub(super) unsafe fn transpose_units(
    to: *mut u8,
    to_pitch: isize,
    from: *const u8,
    from_pitch: isize,
    [units, lanes]: [usize; 2],
    size: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => transpose::<u8>(to, to_pitch, from, from_pitch, [units, lanes]),
            2 => transpose::<u16>(to, to_pitch, from, from_pitch, [units, lanes]),
            4 => transpose::<u32>(to, to_pitch, from, from_pitch, [units, lanes]),
            8 => transpose::<u64>(to, to_pitch, from, from_pitch, [units, lanes]),
            _ => {
                for lane in 0..lanes {
                    for unit in 0..units {
                        let from = from.wrapping_offset(lane as isize * from_pitch).wrapping_add(unit * size);
                        to.wrapping_offset(unit as isize * to_pitch)
                            .add(lane * size)
                            .copy_from_nonoverlapping(from, size);
                    }
                }
            }
        }
    }
}

/// The [`UnpackFn`] of a conversion.
///
/// # Safety
/// 1. `panel` is a panel of [`pack`] with `width` lanes and `k` indices.   2. `to` has room for its rows.
pub(super) unsafe fn unpack_panel<C: Convert>(
    panel: *const u8,
    lanes: usize,
    k: usize,
    width: usize,
    to: *mut u8,
    stride: usize,
) {
    let (panel, to) = (panel.cast::<C::To>(), to.cast::<C::From>());
    for index in 0..k {
        let unit = (index / C::DEPTH * width) * C::DEPTH + index % C::DEPTH;
        for lane in 0..lanes {
            // SAFETY: (1) an element of the panel; (2) its place in a row.
            unsafe {
                to.add(index * stride + lane)
                    .write_unaligned(C::restore(panel.add(unit + lane * C::DEPTH).read()))
            };
        }
    }
}
