//! A program that runs: its places, the memory of its registers, and rows that it goes over.
// Imports: `kernel`.

use super::code::{Code, Value, Writer};
use super::steps::{Place, Step, WIDTH};
use crate::kernel::RunTimeNumbers;
use std::cell::RefCell;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; 64],
}

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
            lines.resize(wanted, Line { _bytes: [0; 64] });
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
    left: usize,
}
impl Room {
    /// All of this memory.
    pub(super) fn new(memory: &mut Memory) -> Room {
        Room { next: memory.start(), left: memory.0.len() * size_of::<Line>() }
    }
    pub(super) fn take(&mut self, nbytes: usize) -> *mut u8 {
        let (at, taken) = (self.next, nbytes.next_multiple_of(size_of::<Line>()));
        assert!(taken <= self.left, "room was counted for every piece");
        (self.next, self.left) = (at.wrapping_add(taken), self.left - taken);
        at
    }
}

/// Writes a value of `width` bytes to every place of a chunk.
///
/// # Safety
/// There is room for a chunk, and a value at `from`.
pub(super) unsafe fn splat(to: *mut u8, from: *const u8, width: usize) {
    macro_rules! of {
        ($t:ty) => {
            // SAFETY: the caller's promise.
            unsafe { to.cast::<[$t; WIDTH]>().write_unaligned([from.cast::<$t>().read_unaligned(); WIDTH]) }
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
    pub(super) fn new(code: &'a Code, numbers: &RunTimeNumbers, chunks: usize) -> Frame<'a> {
        let one = |width: usize| (width * WIDTH).next_multiple_of(64);
        let fixed = code.constants.iter().map(|&(_, _, width)| one(width)).sum::<usize>()
            + code.params.iter().map(|&(_, _, width)| one(width)).sum::<usize>()
            + code.uniform.iter().map(|&(_, width)| one(width)).sum::<usize>();
        // A line between registers: columns that begin at one place of a cache's sets would drive each other out.
        let moving = |width: usize| (width * WIDTH * chunks + 64).next_multiple_of(64);
        let mut memory =
            Memory::new(fixed + code.registers.iter().map(|&(_, width)| moving(width)).sum::<usize>());
        let mut room = Room::new(&mut memory);
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
            let at = room.take(moving(width));
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
        let places = &self.places;
        let run = |steps: &[Step], rows, chunks| {
            for step in steps {
                // SAFETY: the caller's promise; registers have room for as many chunks, and none is written that its step reads.
                unsafe { step.run(places, rows, chunks) };
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

/// A program by quick forms of its functions, if there are any, and in full.
pub(super) struct Both {
    quick: Option<Code>,
    full: Code,
}

impl Both {
    /// What `write` writes, and says to be the outputs; `direct` as [`Writer::finalize`] has it.
    pub(super) fn new(direct: bool, write: &dyn Fn(&mut Writer) -> Option<Vec<Value>>) -> Option<Both> {
        let code = |quick: bool| {
            let mut writer = Writer::new(quick);
            let outputs = write(&mut writer)?;
            writer.finalize(&outputs, direct)
        };
        let quick = code(true)?;
        Some(Both { quick: quick.doubt.is_some().then_some(quick), full: code(false)? })
    }

    /// Whether it reads the place from outside with this number.
    pub(super) fn reads(&self, place: usize) -> bool {
        self.full.reads[place]
    }
}

/// Such a program with its places.
pub(super) struct Running<'a> {
    both: &'a Both,
    numbers: &'a RunTimeNumbers,
    quick: Option<Frame<'a>>,
    full: Option<Frame<'a>>,
    /// Chunks of a block, at most.
    pub(super) chunks: usize,
}

impl<'a> Running<'a> {
    /// For blocks of at most `most` chunks, or fewer if they would fill the cache.
    pub(super) fn new(both: &'a Both, numbers: &'a RunTimeNumbers, most: usize) -> Self {
        let chunks = both
            .quick
            .as_ref()
            .map_or(both.full.chunks, |quick| quick.chunks)
            .min(both.full.chunks)
            .min(most);
        Self::exactly(both, numbers, chunks)
    }

    /// For blocks of at most `chunks` chunks.
    pub(super) fn exactly(both: &'a Both, numbers: &'a RunTimeNumbers, chunks: usize) -> Self {
        let quick = both.quick.as_ref().map(|code| Frame::new(code, numbers, chunks));
        Running { both, numbers, quick, full: None, chunks }
    }

    /// # Safety
    /// That of [`Frame::run`], for at most `chunks` chunks in all.
    pub(super) unsafe fn run(&mut self, outside: &[Place], rows: usize, chunks: usize) {
        assert!(rows * chunks <= self.chunks, "a block has its room");
        if let Some(quick) = &mut self.quick {
            // SAFETY: the caller's promise.
            if !unsafe { quick.run(outside, rows, chunks) } {
                return;
            }
        }
        let full = self.full.get_or_insert_with(|| Frame::new(&self.both.full, self.numbers, self.chunks));
        // SAFETY: the caller's promise.
        unsafe { full.run(outside, rows, chunks) };
    }
}

/// Rows of elements: where the first begins, the bytes from one to the next, bytes of an element, and whether a row has one
/// element for all positions.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) at: *mut u8,
    pub(super) down: isize,
    pub(super) width: usize,
    pub(super) still: bool,
}

impl Operand {
    /// The row with this number.
    pub(super) fn row(&self, row: usize) -> *mut u8 {
        self.at.wrapping_offset((row as isize).wrapping_mul(self.down))
    }

    /// Its rows from this one on.
    pub(super) fn from(&self, row: usize) -> Operand {
        Operand { at: self.row(row), ..*self }
    }

    /// The same rows without their first `n` elements.
    pub(super) fn after(&self, n: usize) -> Operand {
        Operand { at: if self.still { self.at } else { self.at.wrapping_add(n * self.width) }, ..*self }
    }

    /// Brings the first `n` elements of some rows into `chunks` chunks each, from element `from` on; the others are the first
    /// element.
    ///
    /// # Safety
    /// There are as many elements, and room for the chunks at `to`.
    pub(super) unsafe fn gather(&self, to: *mut u8, rows: usize, n: usize, from: usize, chunks: usize) {
        for row in 0..rows {
            let (at, to) = (self.row(row), to.wrapping_add(row * chunks * WIDTH * self.width));
            for chunk in 0..chunks {
                // SAFETY: the caller's promise: a row has an element, and its chunks have room.
                unsafe { splat(to.wrapping_add(chunk * WIDTH * self.width), at, self.width) };
            }
            if !self.still {
                // SAFETY: as above.
                unsafe {
                    std::ptr::copy_nonoverlapping(at, to.wrapping_add(from * self.width), n * self.width)
                };
            }
        }
    }
}

/// Runs a program over rows of `n` elements; `operands` are what comes from outside and then `outputs` outputs.
///
/// # Safety
/// Every operand has its elements, of the types that the program was written for; outputs overlap no other operand, or only those
/// of a program that writes when all is read, exactly.
pub(super) unsafe fn sweep(
    running: &mut Running<'_>,
    operands: &[Operand],
    outputs: usize,
    rows: usize,
    n: usize,
) {
    let (most, inputs, count) = (running.chunks, operands.len() - outputs, operands.len());
    let (full, tail) = (n / WIDTH, n % WIDTH);
    let has_rooms = tail > 0 || operands.iter().any(|operand| operand.still);
    let room_of = |operand: &Operand| if has_rooms { operand.width * WIDTH * most } else { 0 };
    let mut memory = Memory::new(operands.iter().map(|operand| room_of(operand) + 64).sum());
    let mut room = Room::new(&mut memory);
    let rooms: Vec<*mut u8> = operands.iter().map(|operand| room.take(room_of(operand))).collect();
    let mut outside = vec![Place::NONE; count];
    // Whole chunks: of one row, some at a time, or of several rows.
    let side = most.checked_div(full).unwrap_or(0).max(1);
    for row in (0..if full > 0 { rows } else { 0 }).step_by(side) {
        let some = side.min(rows - row);
        for (k, operand) in operands.iter().enumerate() {
            let (here, step) = (operand.from(row), operand.width * WIDTH);
            outside[k] = Place { at: here.at, along: step as isize, down: operand.down };
            if operand.still {
                // SAFETY: the caller's promise; there is room for a chunk of each row.
                unsafe { here.gather(rooms[k], some, 0, 0, 1) };
                outside[k] = Place { at: rooms[k], along: 0, down: step as isize };
            }
        }
        for start in (0..full).step_by(most) {
            // SAFETY: whole chunks of every operand, by the caller's promise.
            unsafe { running.run(&outside, some, most.min(full - start)) };
            for place in &mut outside {
                place.at = place.at.wrapping_offset(place.along * most as isize);
            }
        }
    }
    // What is left of each row, in a chunk of its own.
    for row in (0..if tail > 0 { rows } else { 0 }).step_by(most) {
        let some = most.min(rows - row);
        for (k, operand) in operands.iter().enumerate() {
            outside[k] = Place { at: rooms[k], along: (operand.width * WIDTH) as isize, down: 0 };
            if k < inputs {
                // SAFETY: `tail` elements of each row, and room for a chunk of each.
                unsafe { operand.from(row).after(full * WIDTH).gather(rooms[k], some, tail, 0, 1) };
            }
        }
        // SAFETY: chunks of every operand.
        unsafe { running.run(&outside, 1, some) };
        for (k, operand) in operands.iter().enumerate().skip(inputs) {
            for of in 0..some {
                let (to, from) = (
                    operand.after(full * WIDTH).row(row + of),
                    rooms[k].wrapping_add(of * operand.width * WIDTH),
                );
                // SAFETY: `tail` elements of a row, computed just now.
                unsafe { std::ptr::copy_nonoverlapping(from, to, tail * operand.width) };
            }
        }
    }
}
