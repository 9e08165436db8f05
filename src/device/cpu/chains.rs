//! The loops of scans: running states of chains side by side, and of columns.
//!
//! What feeds them stands in `scan.rs`, and is compiled once.
// Imports: `scalar`, `element`, `kernel`, `device`.

use super::cursor::{By, Mode, value};
use super::isa::{self as simd, Loop};
use super::scan::{CHAINS, LEAF, State, Strip, Strips, Tile, Tiles, WIDTH};
use crate::element::{Compute, Element};
use crate::kernel::{Body, Reducer};
use crate::scalar::{Eval, Lane};
use std::mem::MaybeUninit;

/// The states of some chains within one piece, and what their leaves began with.
struct Chains<B: Body, R: Reducer<B::Out>> {
    values: [[MaybeUninit<Compute<B::Out>>; LEAF]; CHAINS],
    states: [[MaybeUninit<State<B, R>>; LEAF]; CHAINS],
    /// Of the leaves before.
    carry: [State<B, R>; CHAINS],
    /// Of this leaf, up to the piece.
    local: [State<B, R>; CHAINS],
}

impl<B: Body, R: Reducer<B::Out>> Chains<B, R> {
    /// Takes value `i` of a chain, whose piece begins with number `first`, into its state, and keeps what stands there.
    ///
    /// # Safety
    /// The value was written.
    #[inline(always)]
    unsafe fn accumulate(
        &mut self,
        local: &mut [State<B, R>; CHAINS],
        chain: usize,
        i: usize,
        first: usize,
        exclusive: bool,
    ) {
        // SAFETY: the caller's promise.
        let value = Lane(unsafe { self.values[chain][i].assume_init() });
        let next = R::accumulate::<Eval>(local[chain], value, Lane(first.wrapping_add(i) as i64));
        self.states[chain][i].write(if exclusive { local[chain] } else { next });
        local[chain] = next;
    }
}

/// # Safety
/// `body` points to a `B`; the strips give its operands' elements and room for `R::Out`.
pub(super) unsafe fn rows<B: Body, R: Reducer<B::Out>>(body: *const (), strips: &mut Strips<'_>) {
    // SAFETY: the caller's promise; bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    let identity = R::identity::<Eval>();
    let mut chains = Chains::<B, R> {
        values: [[MaybeUninit::uninit(); LEAF]; CHAINS],
        states: [[MaybeUninit::uninit(); LEAF]; CHAINS],
        carry: [identity; CHAINS],
        local: [identity; CHAINS],
    };
    // SAFETY: the caller's promise.
    while let Some(strip) = unsafe { strips.next() } {
        let exclusive = strips.job.exclusive;
        simd::dispatch(ScanRows::<B, R> { body, strip, exclusive, chains: &mut chains });
        // SAFETY: the caller's promise; the strip is computed.
        unsafe { strips.finalize() };
    }
}

struct ScanRows<'a, B: Body, R: Reducer<B::Out>> {
    body: B,
    strip: Strip,
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
    fn run_plain(self) {
        self.each::<By<false, true>>();
    }
}

impl<B: Body, R: Reducer<B::Out>> ScanRows<'_, B, R> {
    #[inline(always)]
    fn each<M: Mode>(self) {
        let ScanRows { body, strip, exclusive, chains } = self;
        let Strip { mut pointers, steps, chains: count, linked, n, at, out, out_chain, out_step } = strip;
        for values in &mut chains.values[..count] {
            let here = pointers;
            for (i, to) in values[..n].iter_mut().enumerate() {
                to.write(value::<B, M>(&body, &here, 0, i).0);
            }
            for (pointer, step) in pointers.iter_mut().zip(steps) {
                *pointer = pointer.wrapping_offset(step);
            }
        }
        if at % LEAF == 0 {
            chains.local = [R::identity::<Eval>(); CHAINS];
        }
        let first = |chain: usize| if linked { at.wrapping_add(chain * LEAF) } else { at };
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
                    // SAFETY: as above.
                    unsafe { chains.accumulate(&mut local, chain, i, first(chain), exclusive) };
                }
            }
        }
        for chain in 0..count {
            let first = first(chain);
            let before = chains.carry[if linked { 0 } else { chain }];
            let states = &chains.states[chain][..n];
            let out = out.wrapping_offset((chain as isize).wrapping_mul(out_chain));
            let seen = |i: usize| Lane(first.wrapping_add(i).wrapping_add(usize::from(!exclusive)) as i64);
            let place = |i: usize| match out_step == size_of::<R::Out>() as isize {
                true => out.cast::<R::Out>().wrapping_add(i),
                false => out.wrapping_offset((i as isize).wrapping_mul(out_step)).cast::<R::Out>(),
            };
            if first < LEAF {
                for (i, state) in states.iter().enumerate() {
                    // SAFETY: written just now; whoever made the strip promised room for each output (`rows`).
                    unsafe {
                        *place(i) = R::Out::narrow(R::finalize::<Eval>(state.assume_init(), seen(i)).0)
                    };
                }
            } else {
                for (i, state) in states.iter().enumerate() {
                    // SAFETY: as above.
                    unsafe {
                        *place(i) = R::Out::narrow(
                            R::finalize::<Eval>(R::combine::<Eval>(before, state.assume_init()), seen(i)).0,
                        )
                    };
                }
            }
            if (first.wrapping_add(n)) % LEAF == 0 {
                let after =
                    if first < LEAF { local[chain] } else { R::combine::<Eval>(before, local[chain]) };
                chains.carry[if linked { 0 } else { chain }] = after;
            }
        }
        chains.local = local;
    }
}

/// The states of some columns: of the leaves before, written at the end of the first, and of this one, from its beginning.
struct Columns<B: Body, R: Reducer<B::Out>> {
    carry: [MaybeUninit<State<B, R>>; WIDTH],
    local: [MaybeUninit<State<B, R>>; WIDTH],
}

/// # Safety
/// `body` points to a `B`; the tiles give its operands' elements and room for `R::Out`.
pub(super) unsafe fn columns<B: Body, R: Reducer<B::Out>>(body: *const (), tiles: &mut Tiles<'_>) {
    // SAFETY: the caller's promise; bodies are `Copy`.
    let body = unsafe { body.cast::<B>().read() };
    let mut columns =
        Columns::<B, R> { carry: [MaybeUninit::uninit(); WIDTH], local: [MaybeUninit::uninit(); WIDTH] };
    let exclusive = tiles.job.exclusive;
    // SAFETY: the caller's promise.
    while let Some(tile) = unsafe { tiles.next() } {
        let n = tile.n;
        if tile.at < LEAF {
            simd::dispatch(ScanColumns::<B, R, true> { body, tile, exclusive, columns: &mut columns });
        } else {
            simd::dispatch(ScanColumns::<B, R, false> { body, tile, exclusive, columns: &mut columns });
        }
        // SAFETY: the caller's promise; the rows are computed.
        unsafe { tiles.finalize(n) };
    }
}

struct ScanColumns<'a, B: Body, R: Reducer<B::Out>, const FIRST: bool> {
    body: B,
    tile: Tile,
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
    fn run_plain(self) {
        self.each::<By<false, true>>();
    }
}

impl<B: Body, R: Reducer<B::Out>, const FIRST: bool> ScanColumns<'_, B, R, FIRST> {
    #[inline(always)]
    fn each<M: Mode>(self) {
        let ScanColumns { body, tile, exclusive, columns } = self;
        let Tile { mut pointers, steps, width, n, at, mut out, out_step } = tile;
        let (carry, local) = (&mut columns.carry[..width], &mut columns.local[..width]);
        if at % LEAF == 0 {
            local.fill(MaybeUninit::new(R::identity::<Eval>()));
        }
        for row in 0..n {
            let place = Lane(at.wrapping_add(row) as i64);
            let seen = Lane(at.wrapping_add(row).wrapping_add(usize::from(!exclusive)) as i64);
            let (here, to) = (pointers, out.cast::<R::Out>());
            for j in 0..width {
                let value = value::<B, M>(&body, &here, 0, j);
                // SAFETY: the leaf began with an identity in each; the leaf before wrote what is carried.
                let (before, carried) =
                    unsafe { (local[j].assume_init(), (!FIRST).then(|| carry[j].assume_init())) };
                let next = R::accumulate::<Eval>(before, value, place);
                let state = if exclusive { before } else { next };
                let state = carried.map_or(state, |carried| R::combine::<Eval>(carried, state));
                local[j].write(next);
                // SAFETY: whoever made the tile promised room for each output (`columns`).
                unsafe { *to.wrapping_add(j) = R::Out::narrow(R::finalize::<Eval>(state, seen).0) };
            }
            out = out.wrapping_offset(out_step);
            for (pointer, step) in pointers.iter_mut().zip(steps) {
                *pointer = pointer.wrapping_offset(step);
            }
        }
        if (at.wrapping_add(n)) % LEAF == 0 {
            for (carry, local) in carry.iter_mut().zip(local) {
                // SAFETY: as above.
                let (local, carried) =
                    unsafe { (local.assume_init(), (!FIRST).then(|| carry.assume_init())) };
                carry.write(carried.map_or(local, |carried| R::combine::<Eval>(carried, local)));
            }
        }
    }
}
