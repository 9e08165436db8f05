//! States of an interpreted reducer as those of compiled ones stand, their lanes one behind the other: what combines them, and
//! what they come to.
// Imports: `kernel`, `device`.

use super::fold::Folded;
use super::frame::{Memory, Room, Running, splat};
use super::steps::{Place, WIDTH};
use crate::device::cpu::states::States;
use crate::kernel::RunTimeNumbers;

pub(super) static NONE: RunTimeNumbers = RunTimeNumbers::new();

impl Folded {
    /// What is done with states.
    pub(super) fn states(&self) -> States {
        States { size: self.size, reducer: std::ptr::from_ref(self).cast(), identity, combine, finalize }
    }

    /// Where each lane stands in a state, and its bytes.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.widths.iter().scan(0, |next, &width| {
            *next += width;
            Some((*next - width, width))
        })
    }

    /// Brings the lanes of `n` states to columns; what is left of their last chunks is filled with the first.
    ///
    /// # Safety
    /// There are so many states, and room in the columns.
    pub(super) unsafe fn spread(&self, states: *const u8, n: usize, columns: &[*mut u8]) {
        for ((at, width), &to) in self.places().zip(columns) {
            // SAFETY: the caller's promise.
            unsafe {
                if !n.is_multiple_of(WIDTH) {
                    splat(to.wrapping_add(n / WIDTH * WIDTH * width), states.wrapping_add(at), width);
                }
                strided(to, width, states.wrapping_add(at), self.size, n, width);
            }
        }
    }

    /// The other way round; states stand `apart` places from each other in the columns.
    ///
    /// # Safety
    /// As [`spread`](Self::spread).
    pub(super) unsafe fn collect(&self, columns: &[*mut u8], apart: usize, n: usize, states: *mut u8) {
        for ((at, width), &from) in self.places().zip(columns) {
            // SAFETY: the caller's promise.
            unsafe { strided(states.wrapping_add(at), self.size, from, apart * width, n, width) };
        }
    }
}

/// Copies `n` values of `width` bytes that stand at equal distances.
///
/// # Safety
/// They are there, and there is room for them.
unsafe fn strided(to: *mut u8, to_step: usize, from: *const u8, from_step: usize, n: usize, width: usize) {
    if to_step == width && from_step == width {
        // SAFETY: the caller's promise; so below.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, n * width) };
    }
    macro_rules! of {
        ($t:ty) => {
            for k in 0..n {
                // SAFETY: as above.
                unsafe {
                    let value = from.wrapping_add(k * from_step).cast::<$t>().read_unaligned();
                    to.wrapping_add(k * to_step).cast::<$t>().write_unaligned(value);
                }
            }
        };
    }
    match width {
        1 => of!(u8),
        2 => of!(u16),
        4 => of!(u32),
        8 => of!(u64),
        _ => of!([u64; 2]),
    }
}

/// # Safety
/// `reducer` points to a [`Folded`]; see [`States::identity`].
unsafe fn identity(reducer: *const (), to: *mut u8, n: usize) {
    // SAFETY: the caller's promise; so below.
    let of = unsafe { &*reducer.cast::<Folded>() };
    if n == 0 {
        return;
    }
    for ((at, width), bytes) in of.places().zip(&of.identity) {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.wrapping_add(at), width) };
    }
    let mut done = 1;
    while done < n {
        let more = done.min(n - done);
        // SAFETY: as above; those that are there are copied behind them.
        unsafe { std::ptr::copy_nonoverlapping(to, to.wrapping_add(done * of.size), more * of.size) };
        done += more;
    }
}

/// # Safety
/// `reducer` points to a [`Folded`]; see [`States::combine`].
unsafe fn combine(reducer: *const (), earlier: *const u8, later: *mut u8, n: usize) {
    // SAFETY: the caller's promise; so below.
    let of = unsafe { &*reducer.cast::<Folded>() };
    // SAFETY: as above.
    unsafe { Joining::new(of).join(earlier, later, n) };
}

/// # Safety
/// `reducer` points to a [`Folded`]; see [`States::finalize`].
unsafe fn finalize(reducer: *const (), states: *const u8, n: usize, count: usize, out: *mut u8, step: isize) {
    // SAFETY: the caller's promise; so below.
    let of = unsafe { &*reducer.cast::<Folded>() };
    // SAFETY: as above.
    unsafe { Finishing::new(of).write(states, n, count, out, step) };
}

/// What combines states.
pub(super) struct Joining<'a> {
    of: &'a Folded,
    combine: Running<'a>,
    /// A chunk of each lane of both and of the result.
    chunks: Vec<*mut u8>,
    places: Vec<Place>,
    _memory: Memory,
}

impl<'a> Joining<'a> {
    pub(super) fn new(of: &'a Folded) -> Joining<'a> {
        let mut memory = Memory::new(3 * of.widths.len() * 16 * WIDTH);
        let mut room = Room::new(&mut memory);
        let chunks: Vec<*mut u8> = (0..3 * of.widths.len()).map(|_| room.take(16 * WIDTH)).collect();
        let places = chunks.iter().map(|&at| Place { at, along: 0, down: 0 }).collect();
        Joining { of, combine: Running::exactly(&of.combine, &NONE, 1), chunks, places, _memory: memory }
    }

    /// Combines each of `n` states with a later one, which takes the result.
    ///
    /// # Safety
    /// So many states stand at both.
    pub(super) unsafe fn join(&mut self, earlier: *const u8, later: *mut u8, n: usize) {
        let lanes = self.of.widths.len();
        for start in (0..n).step_by(WIDTH) {
            let (some, at) = (WIDTH.min(n - start), start * self.of.size);
            // SAFETY: the caller's promise, and chunks of each lane.
            unsafe {
                self.of.spread(earlier.wrapping_add(at), some, &self.chunks[..lanes]);
                self.of.spread(later.wrapping_add(at), some, &self.chunks[lanes..2 * lanes]);
                self.combine.run(&self.places, 1, 1);
                self.of.collect(&self.chunks[2 * lanes..], 1, some, later.wrapping_add(at));
            }
        }
    }
}

/// What writes what states come to.
pub(super) struct Finishing<'a> {
    of: &'a Folded,
    finalize: Running<'a>,
    /// A chunk of each lane, of the number of values, and of results.
    chunks: Vec<*mut u8>,
    places: Vec<Place>,
    _memory: Memory,
}

impl<'a> Finishing<'a> {
    pub(super) fn new(of: &'a Folded) -> Finishing<'a> {
        let mut memory = Memory::new((of.widths.len() + 2) * 16 * WIDTH);
        let mut room = Room::new(&mut memory);
        let chunks: Vec<*mut u8> = (0..of.widths.len() + 2).map(|_| room.take(16 * WIDTH)).collect();
        let places = chunks.iter().map(|&at| Place { at, along: 0, down: 0 }).collect();
        Finishing { of, finalize: Running::exactly(&of.finalize, &NONE, 1), chunks, places, _memory: memory }
    }

    /// Writes what `n` states that have absorbed `count` values each come to, `step` bytes apart.
    ///
    /// # Safety
    /// So many states stand there; the outputs have room for a result each.
    pub(super) unsafe fn write(
        &mut self,
        states: *const u8,
        n: usize,
        count: usize,
        out: *mut u8,
        step: isize,
    ) {
        let lanes = self.of.widths.len();
        let [number, results] = [self.chunks[lanes], self.chunks[lanes + 1]];
        // SAFETY: room for a chunk of numbers.
        unsafe { splat(number, (count as i64).to_ne_bytes().as_ptr(), 8) };
        for start in (0..n).step_by(WIDTH) {
            let some = WIDTH.min(n - start);
            // SAFETY: the caller's promise, and chunks of each lane.
            unsafe {
                self.of.spread(states.wrapping_add(start * self.of.size), some, &self.chunks[..lanes]);
                self.finalize.run(&self.places, 1, 1);
                for k in 0..some {
                    let to = out.wrapping_offset(((start + k) as isize).wrapping_mul(step));
                    std::ptr::copy_nonoverlapping(results.wrapping_add(k * self.of.out), to, self.of.out);
                }
            }
        }
    }
}
