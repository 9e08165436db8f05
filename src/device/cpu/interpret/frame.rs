//! The register machine: bytecode with the addresses and memory of its registers.
// Imports: `error`, `kernel`, `device`.

use super::bytecode::{Bytecode, fixed_nbytes};
use super::compiler::{Compiler, Value};
use super::instructions::{CHUNK_ELEMENTS, Instruction, RegisterRef};
use super::scratch::{List, ScratchArena, splat};
use crate::device::cpu::memory::scratch::CACHE_LINE_BYTES;
use crate::error::Result;
use crate::kernel::RunTimeNumber;

/// Bytecode with its registers.
pub(super) struct Frame<'a> {
    code: &'a Bytecode,
    numbers: &'a [RunTimeNumber],
    /// Empty before the first run.
    registers: List<'a, RegisterRef>,
    /// Memory of the program's own registers.
    memory: *mut u8,
    /// The largest number of chunks in all rows together, and the chunks of each row at present.
    max_chunks: usize,
    chunks: usize,
}

/// Bytes of a register of so many chunks. A cache line separates the registers: registers that start in the
/// same set of a cache would evict each other.
fn moving_nbytes(width: usize, chunks: usize) -> usize {
    (width * CHUNK_ELEMENTS * chunks).next_multiple_of(CACHE_LINE_BYTES) + CACHE_LINE_BYTES
}

impl<'a> Frame<'a> {
    /// Registers for blocks of at most `max_chunks` chunks in all rows together.
    fn new(
        scratch: &'a ScratchArena,
        code: &'a Bytecode,
        numbers: &'a [RunTimeNumber],
        max_chunks: usize,
    ) -> Result<Frame<'a>> {
        // The `moving_nbytes` of all temporary registers, at most.
        let moving = code.temporaries_width * CHUNK_ELEMENTS * max_chunks
            + 2 * CACHE_LINE_BYTES * code.temporaries.len();
        let registers = scratch.list(code.registers)?;
        let memory = scratch.take(code.fixed_nbytes + moving)?;
        Ok(Frame { code, numbers, registers, memory, max_chunks, chunks: 0 })
    }

    /// Gives the program's own registers their memory and their constants.
    fn prepare(&mut self) {
        let Frame { code, numbers, registers, .. } = self;
        registers.extend((0..code.registers).map(|_| RegisterRef::NONE));
        let mut next = self.memory;
        let mut take = |nbytes: usize| {
            let at = next;
            next = at.wrapping_add(nbytes);
            at
        };
        for &(register, bytes, width) in &code.constants {
            let at = take(fixed_nbytes(width));
            // SAFETY: the register has room for a chunk; the constant has `width` bytes.
            unsafe { splat(at, bytes.as_ptr(), width) };
            registers[register as usize].address = at;
        }
        for &(register, number, width) in &code.params {
            let at = take(fixed_nbytes(width));
            // SAFETY: the register has room for a chunk; a parameter has `width` bytes.
            unsafe { splat(at, numbers[number].as_ptr(), width) };
            registers[register as usize].address = at;
        }
        for &(register, width) in &code.uniform {
            registers[register as usize].address = take(fixed_nbytes(width));
        }
        for &(register, width) in &code.temporaries {
            let at = take(moving_nbytes(width, self.max_chunks));
            registers[register as usize] =
                RegisterRef { address: at, chunk_step: (width * CHUNK_ELEMENTS) as isize, row_step: 0 };
        }
    }

    /// Runs the bytecode on `rows` rows of `chunks` chunks. `external` has the addresses of the external
    /// inputs and of the outputs. Returns whether a value was outside the domain of a fast path: then the
    /// outputs are not written, or wrong.
    ///
    /// # Safety
    /// (1) of [`Instruction::run`], for the external inputs and the outputs.
    pub(super) unsafe fn run(&mut self, external: &[RegisterRef], rows: usize, chunks: usize) -> bool {
        let is_new = self.registers.is_empty();
        if is_new {
            self.prepare();
        }
        self.registers[..external.len()].copy_from_slice(external);
        if self.chunks != chunks {
            self.chunks = chunks;
            for &(register, width) in &self.code.temporaries {
                self.registers[register as usize].row_step = (width * CHUNK_ELEMENTS * chunks) as isize;
            }
        }
        let registers = &self.registers[..];
        let run = |steps: &[Instruction], rows, chunks| {
            for step in steps {
                // SAFETY: (1) is the caller's promise, and the program's registers have room for as many
                // chunks; (2) the output register of an instruction is none of its operands; (3) the loops
                // were chosen for this processor.
                unsafe { step.run(registers, rows, chunks) };
            }
        };
        if is_new {
            run(&self.code.prologue, 1, 1);
        }
        run(&self.code.instructions, rows, chunks);
        if let Some(out_of_range) = self.code.out_of_range {
            let register = self.registers[out_of_range as usize];
            let count =
                if register.chunk_step == 0 { CHUNK_ELEMENTS } else { rows * chunks * CHUNK_ELEMENTS };
            // SAFETY: a register of booleans, which the instructions above wrote.
            let marks = unsafe { std::slice::from_raw_parts(register.address.cast::<u8>(), count) };
            if marks.iter().fold(0, |any, mark| any | mark) != 0 {
                return true;
            }
        }
        run(&self.code.epilogue, rows, chunks);
        false
    }
}

/// A program in two forms: with the fast paths of its functions, if some have one, and with their full forms.
pub(super) struct BytecodePair {
    fast: Option<Bytecode>,
    full: Bytecode,
}

impl BytecodePair {
    /// Compiles both forms. `write` compiles the program and returns its outputs; `in_order` as in
    /// [`Compiler::finalize`].
    pub(super) fn new(
        in_order: bool,
        write: &dyn Fn(&mut Compiler) -> Result<Vec<Value>>,
    ) -> Result<BytecodePair> {
        let code = |fast: bool| {
            let mut compiler = Compiler::new(fast);
            let outputs = write(&mut compiler)?;
            compiler.finalize(outputs, in_order)
        };
        let fast = code(true)?;
        Ok(BytecodePair { fast: fast.out_of_range.is_some().then_some(fast), full: code(false)? })
    }

    /// Whether the program reads the external input of this number.
    pub(super) fn reads(&self, external: usize) -> bool {
        self.full.reads[external]
    }
}

/// A machine that runs a program in two forms.
pub(super) struct Machine<'a> {
    fast: Option<Frame<'a>>,
    full: Frame<'a>,
    /// The largest number of chunks of a block.
    pub(super) chunks: usize,
}

impl<'a> Machine<'a> {
    /// A machine for blocks of at most `most` chunks, or fewer if their registers would not fit into the
    /// cache.
    pub(super) fn new(
        scratch: &'a ScratchArena,
        pair: &'a BytecodePair,
        numbers: &'a [RunTimeNumber],
        most: usize,
    ) -> Result<Self> {
        let chunks =
            pair.fast.as_ref().map_or(pair.full.chunks, |fast| fast.chunks).min(pair.full.chunks).min(most);
        Self::exactly(scratch, pair, numbers, chunks)
    }

    /// A machine for blocks of at most `chunks` chunks.
    pub(super) fn exactly(
        scratch: &'a ScratchArena,
        pair: &'a BytecodePair,
        numbers: &'a [RunTimeNumber],
        chunks: usize,
    ) -> Result<Self> {
        let frame = |code| Frame::new(scratch, code, numbers, chunks);
        Ok(Machine { fast: pair.fast.as_ref().map(frame).transpose()?, full: frame(&pair.full)?, chunks })
    }

    /// Runs the fast form, and the full form if a value is outside the domain of a fast path.
    ///
    /// # Safety
    /// As [`Frame::run`].
    pub(super) unsafe fn run(&mut self, external: &[RegisterRef], rows: usize, chunks: usize) {
        assert!(rows * chunks <= self.chunks, "a block fits into the registers");
        if let Some(fast) = &mut self.fast {
            // SAFETY: the caller's promise.
            if !unsafe { fast.run(external, rows, chunks) } {
                return;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.full.run(external, rows, chunks) };
    }
}
