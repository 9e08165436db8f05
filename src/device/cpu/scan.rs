//! Running states along an axis: rows (the axis is contiguous) and columns (another axis is).
//!
//! A line is cut into leaves of 256 positions. A leaf is absorbed from the identity, then each of its states is combined
//! with the state of all leaves before: errors of sums grow with the number of leaves, not of elements, and the result
//! is the same for rows and columns and any number of threads. A running state is one chain of dependent steps, so several
//! are taken side by side: columns as they stand, rows turned in squares; a few rows, or leaves of one row, eight at a time.
// Imports: `error`, `scalar`, `kernel`, `device`.

use super::chains::{columns, rows};
use super::memory::non_temporal::pays_off as goes_past_caches;
use super::memory::scratch::{ROUNDING_BYTES as ROUNDING, Scratch, StackScratch as Words};
use super::strided::{self as walk, AxisOrder as Order, IterSpace as Walk, Pointers as Addresses, pack};
use crate::device::{Inputs, MAX_OPERANDS, OperandRef};
use crate::error::Result;
use crate::kernel::{Body, Reducer, ScanPlan};
use crate::scalar::Eval;

/// Positions of a line that are absorbed before they are combined with what came before.
pub(super) const LEAF: usize = 256;
/// Chains of states side by side.
pub(super) const CHAINS: usize = 8;
/// Columns side by side.
pub(super) const WIDTH: usize = 1024;
/// Positions of rows that are turned together.
const TURNED: usize = 128;
/// Such rows: so many streams are fetched ahead.
const TURNED_ROWS: usize = 16;
/// Bytes of packed elements of all operands together, and of them without what begins each at a cache line.
const SCRATCH: usize = 64 * 1024;
const ROOM: usize = SCRATCH - ROUNDING;

/// The loops of one body and reducer, with their types erased.
#[derive(Clone, Copy)]
pub(super) struct ScanKernel {
    pub(super) rows: unsafe fn(body: *const (), strips: &mut Strips<'_>),
    pub(super) columns: unsafe fn(body: *const (), tiles: &mut Tiles<'_>),
}

impl ScanKernel {
    /// The kernel of reducer `R` over body `B`.
    const fn of<B: Body, R: Reducer<B::Out>>() -> Self {
        ScanKernel { rows: rows::<B, R>, columns: columns::<B, R> }
    }
}

pub(super) type State<B, R> = <R as Reducer<<B as Body>::Out>>::State<Eval>;

/// # Safety
/// As [`Device::scan`](crate::device::Device::scan).
pub(super) unsafe fn run<B: Body, R: Reducer<B::Out>>(
    body: &B,
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) -> Result<()> {
    let kernel = const { &ScanKernel::of::<B, R>() };
    // SAFETY: the caller's promise; the kernel is that of the types of body and reducer.
    unsafe { run_job(kernel, std::ptr::from_ref(body).cast(), plan, output, inputs) };
    Ok(())
}

/// Scans by a kernel.
///
/// # Safety
/// As [`Device::scan`](crate::device::Device::scan); the kernel is that of what is at `body`.
pub(super) unsafe fn run_job(
    kernel: &ScanKernel,
    body: *const (),
    plan: ScanPlan<'_>,
    output: OperandRef<'_>,
    inputs: Inputs<'_>,
) {
    let axis = plan.lines.len();
    let mut job = Job {
        kernel,
        body,
        reads: inputs.reads,
        operands: inputs.slots.len() + 1,
        along: [0; MAX_OPERANDS],
        element: [0; MAX_OPERANDS],
        count: plan.along,
        exclusive: plan.exclusive,
        streams: goes_past_caches(
            plan.lines,
            &OperandRef { element: output.element.saturating_mul(plan.along), ..output },
        ),
    };
    let mut slots = [output; MAX_OPERANDS];
    slots[1..job.operands].copy_from_slice(inputs.slots);
    for (k, slot) in slots[..job.operands].iter_mut().enumerate() {
        job.along[k] = slot.stride[axis].wrapping_mul(slot.element as isize);
        job.element[k] = slot.element;
        slot.stride = &slot.stride[..axis];
    }
    if plan.along == 0 {
        return;
    }
    let job = &job;
    walk::each(plan.lines, &slots[..job.operands], Order::OfOutput, &mut |lines| {
        walk::parallel(lines, plan.along, &|part| {
            // SAFETY: the parts of the walk reach only what the caller promised, and each output once.
            unsafe { job.part(part) }
            pack::fence();
        });
    });
}

/// A kernel, its body and the axis that is scanned, without their types. Operand 0 is the output.
pub(super) struct Job<'a> {
    kernel: &'a ScanKernel,
    body: *const (),
    reads: &'a [u8],
    operands: usize,
    /// Steps along the scanned axis, in bytes.
    along: [isize; MAX_OPERANDS],
    element: [usize; MAX_OPERANDS],
    count: usize,
    pub(super) exclusive: bool,
    /// Whether the output goes past the caches.
    streams: bool,
}
// SAFETY: bodies are `Send + Sync` by their trait's bounds and outlive the job; addresses are only followed as promised.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    /// # Safety
    /// The lines reach only what the caller of [`run`] promised, and each output once.
    unsafe fn part(&self, lines: &Walk) {
        let (across, along) = (lines.inner_step(0).unsigned_abs(), self.along[0].unsigned_abs());
        let narrow = self.count < 32 && lines.inner() >= 32;
        let widths = self.widths();
        // Room for what is turned, and for the output turned back.
        let fits = TURNED * TURNED_ROWS * (widths + self.element[0]) <= ROOM;
        let long = self.count >= TURNED / 2 && self.along[0] == self.element[0] as isize;
        if lines.inner() >= CHAINS && (across < along || narrow) {
            let most = WIDTH.min(ROOM / widths);
            // SAFETY: the caller's promise.
            unsafe { self.columns(lines, most, (ROOM / widths / most).min(LEAF), false) }
        } else if fits && long && lines.inner() >= TURNED_ROWS {
            let (turned, rest) = lines.cut_inner(lines.inner() / TURNED_ROWS * TURNED_ROWS);
            // SAFETY: the caller's promise; parts of the lines are lines.
            unsafe {
                self.columns(&turned, TURNED_ROWS, TURNED, true);
                if rest.inner() > 0 {
                    self.rows(&rest);
                }
            }
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.rows(lines) }
        }
    }

    /// Bytes of an element of all operands together.
    fn widths(&self) -> usize {
        self.element[..self.operands].iter().sum()
    }

    /// Lines side by side, at most so many, and at most so many positions of what is packed of them; `turned` says that the
    /// output's lines are contiguous.
    ///
    /// # Safety
    /// That of `part`.
    unsafe fn columns(&self, lines: &Walk, most: usize, rows: usize, turned: bool) {
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut scratch = [None; MAX_OPERANDS];
        for (k, scratch) in scratch[..self.operands].iter_mut().enumerate() {
            if lines.inner_step(k) != self.element[k] as isize || (k == 0 && self.streams) {
                *scratch = Some(room.take(rows * most * self.element[k]));
            }
        }
        let back = (turned && self.streams).then(|| room.take(rows * most * self.element[0]));
        let rows = if scratch.iter().any(Option::is_some) { rows } else { LEAF };
        let mut tiles = Tiles { job: self, lines, done: 0, width: 0, most, rows, at: 0, scratch, back };
        // SAFETY: the caller's promise; the scratch has room for `rows` rows of every packed operand.
        unsafe { (self.kernel.columns)(self.body, &mut tiles) };
    }

    /// Lines one after the other, or eight at a time.
    ///
    /// # Safety
    /// That of `part`.
    unsafe fn rows(&self, lines: &Walk) {
        let mut words = Words::<{ SCRATCH / 8 }>::uninit();
        let room = Scratch::over(&mut words);
        let mut scratch = [None; MAX_OPERANDS];
        let leaf = LEAF.min(ROOM / self.widths() / CHAINS);
        for (k, scratch) in scratch[..self.operands].iter_mut().enumerate() {
            let direct = self.along[k] == self.element[k] as isize;
            if if k == 0 { direct && self.streams } else { !direct } {
                *scratch = Some(room.take(CHAINS * leaf * self.element[k]));
            }
        }
        let piece = if scratch.iter().any(Option::is_some) { leaf } else { LEAF };
        let mut strips = Strips {
            job: self,
            lines,
            done: 0,
            rows: 0,
            at: 0,
            piece,
            chains: 0,
            n: 0,
            linked: false,
            scratch,
        };
        // SAFETY: the caller's promise; the scratch has room for a piece of every packed operand.
        unsafe { (self.kernel.rows)(self.body, &mut strips) };
    }

    /// One entry for each load of the body, from one for each operand.
    fn spread<T: Copy, const N: usize>(&self, of: &[T; N], none: T) -> [T; N] {
        let mut each = [none; N];
        for (each, &read) in each.iter_mut().zip(self.reads) {
            *each = of[read as usize + 1];
        }
        each
    }
}

/// Pieces of several rows, or of one, in order.
pub(super) struct Strips<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) lines: &'a Walk,
    /// Lines that are done.
    pub(super) done: usize,
    /// Lines of the current group; 0 before the first.
    pub(super) rows: usize,
    /// Positions of them that are done.
    pub(super) at: usize,
    /// Positions of a chain at a time, at most: a leaf, or less where operands are packed in little room.
    pub(super) piece: usize,
    /// The strip that is being computed.
    pub(super) chains: usize,
    pub(super) n: usize,
    pub(super) linked: bool,
    pub(super) scratch: [Option<*mut u8>; MAX_OPERANDS],
}

/// Some chains of values: rows at the same positions, or `linked` leaves of one row.
pub(super) struct Strip {
    pub(super) pointers: Addresses,
    /// From chain to chain, in bytes.
    pub(super) steps: [isize; MAX_OPERANDS],
    pub(super) chains: usize,
    pub(super) linked: bool,
    pub(super) n: usize,
    pub(super) at: usize,
    pub(super) out: *mut u8,
    pub(super) out_chain: isize,
    pub(super) out_step: isize,
}

impl Strips<'_> {
    /// # Safety
    /// That of `Job::part`.
    pub(super) unsafe fn next(&mut self) -> Option<Strip> {
        let job = self.job;
        if self.rows == 0 || self.at == job.count {
            self.done += self.rows;
            if self.done == self.lines.numel() {
                return None;
            }
            self.rows = self.lines.left_in_row(&self.lines.index_of(self.done)).min(CHAINS);
            self.at = 0;
        }
        let index = self.lines.index_of(self.done);
        let left = job.count - self.at;
        // A piece ends where its leaf does; few rows are taken by several leaves at once.
        let linked = self.rows < CHAINS && left >= 2 * LEAF && self.piece == LEAF;
        if linked {
            self.rows = 1;
        }
        let chains = if linked { (left / LEAF).min(CHAINS) } else { self.rows };
        let n = left.min(self.piece).min(LEAF - self.at % LEAF);
        let (mut base, mut step) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], [0; MAX_OPERANDS]);
        for k in 0..job.operands {
            base[k] = self
                .lines
                .address_at(k, &index)
                .wrapping_offset((self.at as isize).wrapping_mul(job.along[k]));
            step[k] =
                if linked { job.along[k].wrapping_mul(LEAF as isize) } else { self.lines.inner_step(k) };
            if let Some(room) = self.scratch[k] {
                let width = job.element[k] as isize;
                for chain in (0..chains as isize).take_while(|_| k > 0) {
                    let to = room.wrapping_offset(chain * n as isize * width);
                    let from = base[k].wrapping_offset(chain.wrapping_mul(step[k]));
                    // SAFETY: `n` elements of a line, promised by the caller, into their place among `chains · n`.
                    unsafe { pack::strided(to, width, from, job.along[k], n, job.element[k]) };
                }
                (base[k], step[k]) = (room, n as isize * width);
            }
        }
        let strip = Strip {
            pointers: job.spread(&base, std::ptr::null_mut()),
            steps: job.spread(&step, 0),
            chains,
            linked,
            n,
            at: self.at,
            out: base[0],
            out_chain: step[0],
            out_step: job.along[0],
        };
        (self.chains, self.n, self.linked) = (chains, n, linked);
        Some(strip)
    }

    /// Puts the computed strip where it belongs.
    ///
    /// # Safety
    /// That of `Job::part`.
    pub(super) unsafe fn finalize(&mut self) {
        let (job, n) = (self.job, self.n);
        if let Some(room) = self.scratch[0] {
            let index = self.lines.index_of(self.done);
            let first = self
                .lines
                .address_at(0, &index)
                .wrapping_offset((self.at as isize).wrapping_mul(job.along[0]));
            let step =
                if self.linked { job.along[0].wrapping_mul(LEAF as isize) } else { self.lines.inner_step(0) };
            for chain in 0..self.chains {
                let nbytes = n * job.element[0];
                let to = first.wrapping_offset((chain as isize).wrapping_mul(step));
                // SAFETY: `n` computed elements, to the contiguous places that the caller promised.
                unsafe { pack::stream(to, room.wrapping_add(chain * nbytes), nbytes) };
            }
        }
        self.at += if self.linked { self.chains * n } else { n };
    }
}

/// Some rows of several columns, in order: a row is a position of each line, a column a line.
pub(super) struct Tiles<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) lines: &'a Walk,
    pub(super) done: usize,
    /// Columns of the current group; 0 before the first.
    pub(super) width: usize,
    pub(super) most: usize,
    pub(super) rows: usize,
    /// Rows of it that are done.
    pub(super) at: usize,
    pub(super) scratch: [Option<*mut u8>; MAX_OPERANDS],
    /// Where the output is turned back, if it goes past the caches along the columns.
    pub(super) back: Option<*mut u8>,
}

/// Rows of a tile: where each load's first row stands, and the steps from row to row, in bytes.
pub(super) struct Tile {
    pub(super) pointers: Addresses,
    pub(super) steps: [isize; MAX_OPERANDS],
    pub(super) width: usize,
    pub(super) n: usize,
    pub(super) at: usize,
    pub(super) out: *mut u8,
    pub(super) out_step: isize,
}

impl Tiles<'_> {
    /// # Safety
    /// That of `Job::part`; what `next` gave before has been computed, and goes to its place.
    pub(super) unsafe fn next(&mut self) -> Option<Tile> {
        let job = self.job;
        if self.width == 0 || self.at == job.count {
            self.done += self.width;
            if self.done == self.lines.numel() {
                return None;
            }
            self.width = self.lines.left_in_row(&self.lines.index_of(self.done)).min(self.most);
            self.at = 0;
        }
        let n = (job.count - self.at).min(self.rows).min(LEAF - self.at % LEAF);
        let (mut base, mut step) = ([std::ptr::null_mut(); MAX_OPERANDS + 1], job.along);
        for k in 0..job.operands {
            base[k] = self.place(k);
            let Some(room) = self.scratch[k] else { continue };
            let element = job.element[k];
            let steps = [(self.width * element) as isize, element as isize];
            if k > 0 {
                let from = [job.along[k], self.lines.inner_step(k)];
                // SAFETY: `n` positions of `width` lines, promised by the caller, into the tile.
                unsafe { pack::rectangle(room, steps, base[k], from, [n, self.width], element) };
            }
            (base[k], step[k]) = (room, steps[0]);
        }
        let tile = Tile {
            pointers: job.spread(&base, std::ptr::null_mut()),
            steps: job.spread(&step, 0),
            width: self.width,
            n,
            at: self.at,
            out: base[0],
            out_step: step[0],
        };
        Some(tile)
    }

    /// Where the current row of operand `k` stands.
    fn place(&self, k: usize) -> *mut u8 {
        let index = self.lines.index_of(self.done);
        self.lines.address_at(k, &index).wrapping_offset((self.at as isize).wrapping_mul(self.job.along[k]))
    }

    /// Puts `n` computed rows where they belong.
    ///
    /// # Safety
    /// That of `Job::part`.
    pub(super) unsafe fn finalize(&mut self, n: usize) {
        if let Some(room) = self.scratch[0] {
            let (element, along, across) = (self.job.element[0], self.job.along[0], self.lines.inner_step(0));
            let (to, steps) = (self.place(0), [(self.width * element) as isize, element as isize]);
            // SAFETY: a computed tile, to the places that the caller promised; there is room to turn it.
            unsafe {
                if let Some(back) = self.back {
                    let nbytes = n * element;
                    pack::rectangle(
                        back,
                        [element as isize, nbytes as isize],
                        room,
                        steps,
                        [n, self.width],
                        element,
                    );
                    for line in 0..self.width {
                        let to = to.wrapping_offset((line as isize).wrapping_mul(across));
                        pack::stream(to, back.wrapping_add(line * nbytes), nbytes);
                    }
                } else if self.job.streams && across == element as isize {
                    for row in 0..n {
                        let to = to.wrapping_offset((row as isize).wrapping_mul(along));
                        pack::stream(to, room.wrapping_add(row * self.width * element), self.width * element);
                    }
                } else {
                    pack::rectangle(to, [along, across], room, steps, [n, self.width], element);
                }
            }
        }
        self.at += n;
    }
}
