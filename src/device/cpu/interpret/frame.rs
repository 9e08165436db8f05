//! A program that runs: its places, and the memory of its registers.
//!
//! Imports: `kernel`.

use super::code::Code;
use super::steps::{Place, Step, WIDTH};
use crate::kernel::Numbers;
use std::cell::RefCell;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Line([u8; 64]);

thread_local! {
    /// Memory of frames that are done.
    static SPARE: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Memory that a thread keeps for the next time.
pub(super) struct Memory(Vec<Line>);

impl Memory {
    pub(super) fn new(nbytes: usize) -> Memory {
        let mut lines = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        let wanted = nbytes.div_ceil(64);
        if lines.len() < wanted {
            lines.resize(wanted, Line([0; 64]));
        }
        Memory(lines)
    }
    pub(super) fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.0);
        // What is large is not kept.
        if lines.len() <= 1 << 14 {
            let _ = SPARE.try_with(|spare| spare.borrow_mut().push(lines));
        }
    }
}

/// Room that is taken piece by piece, each from a cache line on.
pub(super) struct Room {
    next: *mut u8,
}
impl Room {
    pub(super) fn new(start: *mut u8) -> Room {
        Room { next: start }
    }
    pub(super) fn take(&mut self, nbytes: usize) -> *mut u8 {
        let at = self.next;
        self.next = at.wrapping_add(nbytes.next_multiple_of(64));
        at
    }
}

/// Writes a value of `width` bytes to every place of a chunk.
///
/// # Safety
/// There is room for a chunk, and a value at `from`.
pub(super) unsafe fn splat(to: *mut u8, from: *const u8, width: usize) {
    macro_rules! of {
        ($t:ty) => {{
            // SAFETY: the caller's promise.
            unsafe {
                let value = from.cast::<$t>().read_unaligned();
                for j in 0..WIDTH {
                    to.cast::<$t>().add(j).write_unaligned(value);
                }
            }
        }};
    }
    match width {
        1 => of!(u8),
        2 => of!(u16),
        4 => of!(u32),
        8 => of!(u64),
        _ => of!([u64; 2]),
    }
}

/// A program with its places.
pub(super) struct Frame<'a> {
    code: &'a Code,
    places: Vec<Place>,
    _memory: Memory,
    /// The chunks that a row of registers has now.
    chunks: usize,
    is_new: bool,
}

impl<'a> Frame<'a> {
    /// Places for blocks of at most `chunks` chunks, all rows together.
    pub(super) fn new(code: &'a Code, numbers: &Numbers, chunks: usize) -> Frame<'a> {
        let one = |width: usize| (width * WIDTH).next_multiple_of(64);
        let fixed = code.constants.iter().chain([]).map(|&(_, _, width)| one(width)).sum::<usize>()
            + code.params.iter().map(|&(_, _, width)| one(width)).sum::<usize>()
            + code.uniform.iter().map(|&(_, width)| one(width)).sum::<usize>();
        // A line between registers: columns that begin at one place of a cache's sets would drive each other out.
        let moving: usize = code.registers.iter().map(|&(_, width)| width * WIDTH * chunks + 64).sum();
        let mut memory = Memory::new(fixed + moving + 64);
        let mut room = Room::new(memory.start());
        let mut places = vec![Place::NONE; code.places];
        for &(place, bytes, width) in &code.constants {
            let at = room.take(one(width));
            // SAFETY: room for a chunk; the bytes are a value.
            unsafe { splat(at, bytes.as_ptr(), width) };
            places[place as usize].at = at;
        }
        for &(place, number, width) in &code.params {
            let at = room.take(one(width));
            // SAFETY: as above.
            unsafe { splat(at, numbers[number].as_ptr(), width) };
            places[place as usize].at = at;
        }
        for &(place, width) in &code.uniform {
            places[place as usize].at = room.take(one(width));
        }
        for &(place, width) in &code.registers {
            let at = room.take(width * WIDTH * chunks + 64);
            places[place as usize] = Place { at, along: (width * WIDTH) as isize, down: 0 };
        }
        Frame { code, places, _memory: memory, chunks: 0, is_new: true }
    }

    /// Runs the program on `rows` rows of `chunks` chunks; `outside` are the places from outside and the outputs. Says whether
    /// a value was in doubt: then outputs are not written, or wrong.
    ///
    /// # Safety
    /// That of the steps, for the places from outside and outputs.
    pub(super) unsafe fn run(&mut self, outside: &[Place], rows: usize, chunks: usize) -> bool {
        self.places[..outside.len()].copy_from_slice(outside);
        if self.chunks != chunks {
            self.chunks = chunks;
            for &(place, width) in &self.code.registers {
                self.places[place as usize].down = (width * WIDTH * chunks) as isize;
            }
        }
        let places = self.places.as_ptr();
        let run = |steps: &[Step], rows, chunks| {
            for step in steps {
                // SAFETY: the caller's promise; registers have room for as many chunks, and none is written that its step reads.
                unsafe { (step.run)(places, step, rows, chunks) };
            }
        };
        if std::mem::take(&mut self.is_new) {
            run(&self.code.once, 1, 1);
        }
        run(&self.code.steps, rows, chunks);
        if let Some(doubt) = self.code.doubt {
            let place = self.places[doubt as usize];
            let count = if place.along == 0 { WIDTH } else { rows * chunks * WIDTH };
            // SAFETY: a register of truths, written just now.
            let marks = unsafe { std::slice::from_raw_parts(place.at.cast::<u8>(), count) };
            if marks.iter().fold(0, |any, mark| any | mark) != 0 {
                return true;
            }
        }
        run(&self.code.copies, rows, chunks);
        false
    }
}
