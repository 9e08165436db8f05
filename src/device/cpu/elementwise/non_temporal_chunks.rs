//! Outputs that bypass the caches: non-temporal stores overlap memory traffic with computation. The kernel
//! computes a chunk of elements into an L1-resident tile, and stores the tile before it computes the next
//! chunk.
//!
//! The loop is that of all other layouts, `RowLoop` in `kernel.rs`: for each row it tests whether there is a
//! non-temporal target. The code around it is compiled once.
// Imports: `device`.

use super::call::{KernelCall, NOT_PACKED, PackedOperands, RowAdvance};
use super::non_temporal_target::{NON_TEMPORAL_OUTPUTS, NonTemporalTarget};
use crate::device::OperandRef;
use crate::device::cpu::isa::Level;
use crate::device::cpu::memory::non_temporal;
use crate::device::cpu::memory::scratch::{CACHE_LINE_BYTES, ROUNDING_BYTES, Scratch};
use crate::device::cpu::strided::{ByteStrides, IterSpace, Pointers, ZERO_STRIDES, pack};
use crate::device::cpu::tuning::{
    self, CACHED_ROW_BYTES, L1_SCRATCH_BYTES, NON_TEMPORAL_CHUNK_ELEMENTS, NON_TEMPORAL_ROW_ELEMENTS,
    NON_TEMPORAL_ROW_WITH_ENDS_ELEMENTS, PREFETCHED_OPERANDS,
};
use std::ops::Range;

impl KernelCall<'_> {
    /// Whether rows are computed in chunks: outputs use non-temporal stores, and every operand is contiguous
    /// along rows or is a broadcast input.
    pub(crate) fn can_store_non_temporal(&self, space: &IterSpace, slots: &[OperandRef<'_>]) -> bool {
        if !self.loops.non_temporal || !self.non_temporal || self.level == Level::Baseline {
            return false;
        }
        let contiguous = |k: usize| space.inner_step(k) == slots[k].element as isize;
        let fits = |k: usize| contiguous(k) || (k >= self.outputs && space.inner_step(k) == 0);
        // If outputs reach a cache line at the same element of one row, they do so in every row, provided
        // that their strides in elements agree.
        let alike = |k: usize| space.same_element_steps(k, slots[k].element, 0, slots[0].element);
        let n = space.inner();
        let ends = !n.is_multiple_of(NON_TEMPORAL_CHUNK_ELEMENTS)
            || (0..self.outputs).any(|k| !space.is_aligned(k, CACHE_LINE_BYTES));
        let worth = n >= if ends { NON_TEMPORAL_ROW_WITH_ENDS_ELEMENTS } else { NON_TEMPORAL_ROW_ELEMENTS }
            && (0..slots.len()).all(fits)
            && (0..self.outputs).all(alike);
        let tiled = (0..slots.len()).filter(|&k| k < self.outputs || space.inner_step(k) == 0);
        let room = tiled.map(|k| NON_TEMPORAL_CHUNK_ELEMENTS * slots[k].element).sum::<usize>()
            <= L1_SCRATCH_BYTES - ROUNDING_BYTES;
        worth && room && self.elements_before_line(&space.address, slots).is_some()
    }

    /// The number of elements of a row before all outputs reach a cache line, if they do so at the same
    /// element.
    fn elements_before_line(&self, base: &Pointers, slots: &[OperandRef<'_>]) -> Option<usize> {
        let narrowest = (0..self.outputs).min_by_key(|&k| slots[k].element)?;
        let elements_before_line = base[narrowest].align_offset(CACHE_LINE_BYTES) / slots[narrowest].element;
        (0..self.outputs)
            .all(|k| {
                base[k]
                    .wrapping_add(elements_before_line * slots[k].element)
                    .addr()
                    .is_multiple_of(CACHE_LINE_BYTES)
            })
            .then_some(elements_before_line)
    }

    /// The pointers of the loads that are prefetched, and the bytes of a chunk of each.
    ///
    /// A single load from memory is prefetched earlier than the processor would do it, also next to a
    /// broadcast column or row. Two loads are prefetched if the program is expensive; hints for two loads
    /// slow a cheap program down.
    fn prefetched_loads(
        &self,
        space: &IterSpace,
        slots: &[OperandRef<'_>],
        steps: &ByteStrides,
    ) -> ([Option<usize>; PREFETCHED_OPERANDS], usize) {
        let nbytes = |k: usize| space.inner() * slots[k].element;
        let is_cached = |k: usize| {
            space.inner_step(k) == 0 || (space.is_broadcast_row(k) && nbytes(k) <= CACHED_ROW_BYTES)
        };
        let most = if self.cheap || self.outputs > 1 { 1 } else { PREFETCHED_OPERANDS };
        let (mut loads, mut count, mut prefetch_nbytes) = ([None; PREFETCHED_OPERANDS], 0, 0);
        for k in (self.outputs..slots.len()).filter(|&k| !is_cached(k)) {
            let load = self.reads.iter().position(|&read| self.outputs + read as usize == k);
            let Some(load) = load.map(|load| self.outputs + load) else { continue };
            let of_chunk = steps[load].unsigned_abs();
            let alike = prefetch_nbytes == 0 || prefetch_nbytes == of_chunk;
            if count == most || !alike || !tuning::is_worth_prefetching(nbytes(k), space.row_stride(k)) {
                return ([None; PREFETCHED_OPERANDS], 0);
            }
            (loads[count], prefetch_nbytes) = (Some(load), of_chunk);
            count += 1;
        }
        (loads, prefetch_nbytes)
    }

    /// Computes rows in chunks. The elements before the first cache line and after the last chunk are
    /// computed separately.
    ///
    /// # Safety
    /// 1. [`can_store_non_temporal`](KernelCall::can_store_non_temporal) returned `true`.
    /// 2. The obligations of the kernel, for every index of the space.
    pub(crate) unsafe fn non_temporal_chunks(
        &self,
        space: &IterSpace,
        slots: &[OperandRef<'_>],
        room: &Scratch<'_>,
    ) {
        let is_broadcast = |k: usize| space.inner_step(k) == 0;
        // Outputs have a tile of one chunk. A broadcast input has one too, so that every operand is
        // contiguous for the kernel.
        let has_tile = |k: usize| k < self.outputs || is_broadcast(k);
        let mut tiles = NOT_PACKED;
        for k in (0..slots.len()).filter(|&k| has_tile(k)) {
            tiles[k] = Some(room.take(NON_TEMPORAL_CHUNK_ELEMENTS * slots[k].element));
        }
        // From chunk to chunk the loads advance; outputs stay in their tiles.
        let mut steps = ZERO_STRIDES;
        for (k, slot) in slots.iter().enumerate().skip(self.outputs).filter(|&(k, _)| !is_broadcast(k)) {
            steps[k] = (NON_TEMPORAL_CHUNK_ELEMENTS * slot.element) as isize;
        }
        let (steps, n) = (self.expand_loads(&steps), space.inner());
        let mut nbytes = [0; NON_TEMPORAL_OUTPUTS];
        for k in 0..self.outputs {
            nbytes[k] = NON_TEMPORAL_CHUNK_ELEMENTS * slots[k].element;
        }
        let (loads, prefetch_nbytes) = self.prefetched_loads(space, slots, &steps);
        let outer = space.outer_space(None);
        let mut index = outer.index_of(0);
        for _ in 0..outer.numel() {
            let mut base = outer.addresses_at(&index);
            for (k, slot) in slots.iter().enumerate() {
                if let (Some(tile), true) = (tiles[k], is_broadcast(k)) {
                    // SAFETY: (2) one element, and the tile has room for a chunk of it.
                    unsafe {
                        pack::strided(
                            tile,
                            slot.element as isize,
                            base[k],
                            0,
                            NON_TEMPORAL_CHUNK_ELEMENTS,
                            slot.element,
                        )
                    };
                    base[k] = tile;
                }
            }
            // SAFETY: (1), (2) by the caller's promise.
            let edge = |range| unsafe { self.compute_edge(space, slots, &base, &tiles, range) };
            let elements_before_line = self.elements_before_line(&base, slots).unwrap_or(n).min(n);
            let chunks = (n - elements_before_line) / NON_TEMPORAL_CHUNK_ELEMENTS;
            edge(0..elements_before_line);
            let mut to = [std::ptr::null_mut(); NON_TEMPORAL_OUTPUTS];
            let mut first = advanced(space, slots, &base, elements_before_line);
            for k in 0..self.outputs {
                (to[k], first[k]) = (first[k], tiles[k].unwrap_or(std::ptr::null_mut()));
            }
            let pointers = self.expand_loads(&first);
            let ahead = loads.map(|load| {
                load.map_or(std::ptr::null_mut(), |load| {
                    pointers[load].wrapping_add(tuning::L1_PREFETCH_BYTES)
                })
            });
            let target = NonTemporalTarget { to, nbytes, ahead, prefetch_nbytes };
            let advance = RowAdvance { steps, target: &target };
            // SAFETY: (1), (2) `chunks` chunks of every load or a tile of a broadcast one; outputs have
            // tiles, and their destinations begin at cache lines.
            unsafe {
                (self.loops.rows)(
                    self.level,
                    self.program,
                    chunks,
                    NON_TEMPORAL_CHUNK_ELEMENTS,
                    pointers.as_ptr(),
                    &advance,
                )
            };
            edge(elements_before_line + chunks * NON_TEMPORAL_CHUNK_ELEMENTS..n);
            outer.advance(&mut index, 1);
        }
    }

    /// Computes the elements of `range` in whole chunks of a row.
    ///
    /// # Safety
    /// As for [`non_temporal_chunks`](KernelCall::non_temporal_chunks); `base` is a row, and `tiles` those of
    /// a chunk.
    unsafe fn compute_edge(
        &self,
        space: &IterSpace,
        slots: &[OperandRef<'_>],
        base: &Pointers,
        tiles: &PackedOperands,
        range: Range<usize>,
    ) {
        for start in range.clone().step_by(NON_TEMPORAL_CHUNK_ELEMENTS) {
            // A whole chunk, which has no remainder; only the wanted part of it is stored.
            let chunk = start.min(space.inner() - NON_TEMPORAL_CHUNK_ELEMENTS);
            let wanted = NON_TEMPORAL_CHUNK_ELEMENTS.min(range.end - start);
            let mut here = advanced(space, slots, base, chunk);
            for k in 0..self.outputs {
                here[k] = tiles[k].unwrap_or(std::ptr::null_mut());
            }
            let at = advanced(space, slots, base, start);
            // SAFETY: (1), (2) a chunk of every operand inside the row, and the outputs from their tiles.
            unsafe {
                self.run_rows(&here, &ZERO_STRIDES, 1, NON_TEMPORAL_CHUNK_ELEMENTS);
                for k in 0..self.outputs {
                    let element = slots[k].element;
                    non_temporal::copy(at[k], here[k].add((start - chunk) * element), wanted * element);
                }
            }
        }
    }
}

/// The addresses `n` elements further along a row; broadcast operands keep theirs.
fn advanced(space: &IterSpace, slots: &[OperandRef<'_>], base: &Pointers, n: usize) -> Pointers {
    let mut base = *base;
    for (k, slot) in slots.iter().enumerate().filter(|&(k, _)| space.inner_step(k) != 0) {
        base[k] = base[k].wrapping_add(n * slot.element);
    }
    base
}
