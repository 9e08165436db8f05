//! The typed loops of scans: running accumulators of parallel chains, and of columns.
//!
//! `scan/mod.rs` finds the chains and columns, and is compiled once.
// Imports: `scalar`, `element`, `kernel`.

use super::super::cursor::{By, Mode, value};
use super::super::isa::{self, Loop};
use super::super::reduce::accumulators::AccumulatorOf;
use super::call::{BLOCK_ELEMENTS, CHAINS, ChainGroup, ChainGroups, ColumnTile, ColumnTiles, MAX_COLUMNS};
use crate::element::{Compute, Element};
use crate::kernel::{Body, Reducer};
use crate::scalar::{Eval, Lane};
use std::mem::MaybeUninit;

/// The values and running accumulators of some chains within one piece.
struct Chains<B: Body, R: Reducer<B::Out>> {
    values: [[MaybeUninit<Compute<B::Out>>; BLOCK_ELEMENTS]; CHAINS],
    accumulators: [[MaybeUninit<AccumulatorOf<B, R>>; BLOCK_ELEMENTS]; CHAINS],
    /// Of each chain's earlier blocks.
    carry: [AccumulatorOf<B, R>; CHAINS],
    /// Of each chain's current block, up to this piece.
    local: [AccumulatorOf<B, R>; CHAINS],
}

impl<B: Body, R: Reducer<B::Out>> Chains<B, R> {
    /// Accumulates value `i` of a chain, whose piece starts at position `first`, and keeps the accumulator of
    /// that position.
    ///
    /// # Safety
    /// The value was written.
    #[inline(always)]
    unsafe fn accumulate(
        &mut self,
        local: &mut [AccumulatorOf<B, R>; CHAINS],
        chain: usize,
        i: usize,
        first: usize,
        exclusive: bool,
    ) {
        // SAFETY: the caller's promise.
        let value = Lane(unsafe { self.values[chain][i].assume_init() });
        let next = R::accumulate::<Eval>(local[chain], value, Lane(first.wrapping_add(i) as i64));
        self.accumulators[chain][i].write(if exclusive { local[chain] } else { next });
        local[chain] = next;
    }
}

/// Scans groups of chains.
///
/// # Safety
/// 1. `body` points to a `B`.
/// 2. The groups give elements of its operands, and outputs with room for `R::Out`.
pub(super) unsafe fn rows<B: Body, R: Reducer<B::Out>>(body: *const (), groups: &mut ChainGroups<'_>) {
    // SAFETY: (1); bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    let identity = R::identity::<Eval>();
    let mut chains = Chains::<B, R> {
        values: [[MaybeUninit::uninit(); BLOCK_ELEMENTS]; CHAINS],
        accumulators: [[MaybeUninit::uninit(); BLOCK_ELEMENTS]; CHAINS],
        carry: [identity; CHAINS],
        local: [identity; CHAINS],
    };
    // SAFETY: (2).
    while let Some(group) = unsafe { groups.next() } {
        let exclusive = groups.call.exclusive;
        isa::dispatch(ScanRows::<B, R> { body, group, exclusive, chains: &mut chains });
        // SAFETY: (2); the group was computed.
        unsafe { groups.store() };
    }
}

struct ScanRows<'a, B: Body, R: Reducer<B::Out>> {
    body: B,
    group: ChainGroup,
    exclusive: bool,
    chains: &'a mut Chains<B, R>,
}

impl<B: Body, R: Reducer<B::Out>> Loop for ScanRows<'_, B, R> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.each::<By<false, false>>();
    }
    #[inline(always)]
    fn run_scalar(self) {
        self.each::<By<false, true>>();
    }
}

impl<B: Body, R: Reducer<B::Out>> ScanRows<'_, B, R> {
    #[inline(always)]
    fn each<M: Mode>(self) {
        let ScanRows { body, group, exclusive, chains } = self;
        let ChainGroup { mut pointers, steps, chains: count, is_one_row, n, at, out, out_chain, out_step } =
            group;
        for values in &mut chains.values[..count] {
            let here = pointers;
            for (i, to) in values[..n].iter_mut().enumerate() {
                to.write(value::<B, M>(&body, &here, 0, i).0);
            }
            for (pointer, step) in pointers.iter_mut().zip(steps) {
                *pointer = pointer.wrapping_offset(step);
            }
        }
        if at % BLOCK_ELEMENTS == 0 {
            chains.local = [R::identity::<Eval>(); CHAINS];
        }
        let first = |chain: usize| if is_one_row { at.wrapping_add(chain * BLOCK_ELEMENTS) } else { at };
        let mut local = chains.local;
        if count == CHAINS {
            for i in 0..n {
                for chain in 0..CHAINS {
                    // SAFETY: the first `n` values of the first `count` chains were written above.
                    unsafe { chains.accumulate(&mut local, chain, i, first(chain), exclusive) };
                }
            }
        } else {
            for chain in 0..count {
                for i in 0..n {
                    // SAFETY: the first `n` values of the first `count` chains were written above.
                    unsafe { chains.accumulate(&mut local, chain, i, first(chain), exclusive) };
                }
            }
        }
        for chain in 0..count {
            let first = first(chain);
            let before = chains.carry[if is_one_row { 0 } else { chain }];
            let accumulators = &chains.accumulators[chain][..n];
            let out = out.wrapping_offset((chain as isize).wrapping_mul(out_chain));
            let count_at =
                |i: usize| Lane(first.wrapping_add(i).wrapping_add(usize::from(!exclusive)) as i64);
            let place = |i: usize| match out_step == size_of::<R::Out>() as isize {
                true => out.cast::<R::Out>().wrapping_add(i),
                false => out.wrapping_offset((i as isize).wrapping_mul(out_step)).cast::<R::Out>(),
            };
            if first < BLOCK_ELEMENTS {
                for (i, accumulator) in accumulators.iter().enumerate() {
                    // SAFETY: the accumulator was written above; the output has room by (2) of `rows`.
                    unsafe {
                        *place(i) =
                            R::Out::narrow(R::finalize::<Eval>(accumulator.assume_init(), count_at(i)).0)
                    };
                }
            } else {
                for (i, accumulator) in accumulators.iter().enumerate() {
                    // SAFETY: the accumulator was written above; the output has room by (2) of `rows`.
                    unsafe {
                        *place(i) = R::Out::narrow(
                            R::finalize::<Eval>(
                                R::combine::<Eval>(before, accumulator.assume_init()),
                                count_at(i),
                            )
                            .0,
                        )
                    };
                }
            }
            if (first.wrapping_add(n)) % BLOCK_ELEMENTS == 0 {
                let after = if first < BLOCK_ELEMENTS {
                    local[chain]
                } else {
                    R::combine::<Eval>(before, local[chain])
                };
                chains.carry[if is_one_row { 0 } else { chain }] = after;
            }
        }
        chains.local = local;
    }
}

/// The accumulators of some columns: of the earlier blocks, initialized at the end of the first block, and of
/// the current block, initialized at its start.
struct Columns<B: Body, R: Reducer<B::Out>> {
    carry: [MaybeUninit<AccumulatorOf<B, R>>; MAX_COLUMNS],
    local: [MaybeUninit<AccumulatorOf<B, R>>; MAX_COLUMNS],
}

/// Scans tiles of columns.
///
/// # Safety
/// 1. `body` points to a `B`.
/// 2. The tiles give elements of its operands, and outputs with room for `R::Out`.
pub(super) unsafe fn columns<B: Body, R: Reducer<B::Out>>(body: *const (), tiles: &mut ColumnTiles<'_>) {
    // SAFETY: (1); bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    let mut columns = Columns::<B, R> {
        carry: [MaybeUninit::uninit(); MAX_COLUMNS],
        local: [MaybeUninit::uninit(); MAX_COLUMNS],
    };
    let exclusive = tiles.call.exclusive;
    // SAFETY: (2).
    while let Some(tile) = unsafe { tiles.next() } {
        let n = tile.n;
        if tile.at < BLOCK_ELEMENTS {
            isa::dispatch(ScanColumns::<B, R, true> { body, tile, exclusive, columns: &mut columns });
        } else {
            isa::dispatch(ScanColumns::<B, R, false> { body, tile, exclusive, columns: &mut columns });
        }
        // SAFETY: (2); the rows were computed.
        unsafe { tiles.store(n) };
    }
}

struct ScanColumns<'a, B: Body, R: Reducer<B::Out>, const FIRST: bool> {
    body: B,
    tile: ColumnTile,
    exclusive: bool,
    columns: &'a mut Columns<B, R>,
}

impl<B: Body, R: Reducer<B::Out>, const FIRST: bool> Loop for ScanColumns<'_, B, R, FIRST> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.each::<By<false, false>>();
    }
    #[inline(always)]
    fn run_scalar(self) {
        self.each::<By<false, true>>();
    }
}

impl<B: Body, R: Reducer<B::Out>, const FIRST: bool> ScanColumns<'_, B, R, FIRST> {
    #[inline(always)]
    fn each<M: Mode>(self) {
        let ScanColumns { body, tile, exclusive, columns } = self;
        let ColumnTile { mut pointers, steps, width, n, at, mut out, out_step } = tile;
        let (carry, local) = (&mut columns.carry[..width], &mut columns.local[..width]);
        if at % BLOCK_ELEMENTS == 0 {
            local.fill(MaybeUninit::new(R::identity::<Eval>()));
        }
        for row in 0..n {
            let place = Lane(at.wrapping_add(row) as i64);
            let count = Lane(at.wrapping_add(row).wrapping_add(usize::from(!exclusive)) as i64);
            let (here, to) = (pointers, out.cast::<R::Out>());
            for j in 0..width {
                let value = value::<B, M>(&body, &here, 0, j);
                // SAFETY: `local` was initialized at the start of the block, `carry` at the end of the first
                // block, and `FIRST` is false after it.
                let (before, carried) =
                    unsafe { (local[j].assume_init(), (!FIRST).then(|| carry[j].assume_init())) };
                let next = R::accumulate::<Eval>(before, value, place);
                let accumulator = if exclusive { before } else { next };
                let accumulator =
                    carried.map_or(accumulator, |carried| R::combine::<Eval>(carried, accumulator));
                local[j].write(next);
                // SAFETY: the output has room by (2) of `columns`.
                unsafe { *to.wrapping_add(j) = R::Out::narrow(R::finalize::<Eval>(accumulator, count).0) };
            }
            out = out.wrapping_offset(out_step);
            for (pointer, step) in pointers.iter_mut().zip(steps) {
                *pointer = pointer.wrapping_offset(step);
            }
        }
        if (at.wrapping_add(n)) % BLOCK_ELEMENTS == 0 {
            for (carry, local) in carry.iter_mut().zip(local) {
                // SAFETY: `local` was initialized at the start of the block, `carry` at the end of the first.
                let (local, carried) =
                    unsafe { (local.assume_init(), (!FIRST).then(|| carry.assume_init())) };
                carry.write(carried.map_or(local, |carried| R::combine::<Eval>(carried, local)));
            }
        }
    }
}
