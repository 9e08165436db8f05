//! The register machine: bytecode with the addresses and memory of its registers.
// Imports: `kernel`.

use super::bytecode::Bytecode;
use super::compiler::{Compiler, Value};
use super::instructions::{CHUNK_ELEMENTS, Instruction, RegisterRef};
use super::scratch::{ScratchArena, ScratchMemory, splat};
use crate::kernel::RunTimeNumbers;

/// The run-time parameters of a program without any.
pub(super) static NO_NUMBERS: RunTimeNumbers = RunTimeNumbers::new();

/// Bytecode with its registers.
pub(super) struct Frame<'a> {
    code: &'a Bytecode,
    registers: Vec<RegisterRef>,
    _memory: ScratchMemory,
    /// Chunks of each row of the registers at present.
    chunks: usize,
    is_new: bool,
}

impl<'a> Frame<'a> {
    /// Registers for blocks of at most `chunks` chunks in all rows together.
    pub(super) fn new(code: &'a Bytecode, numbers: &RunTimeNumbers, chunks: usize) -> Frame<'a> {
        let one = |width: usize| (width * CHUNK_ELEMENTS).next_multiple_of(64);
        let fixed = code.constants.iter().map(|&(_, _, width)| one(width)).sum::<usize>()
            + code.params.iter().map(|&(_, _, width)| one(width)).sum::<usize>()
            + code.uniform.iter().map(|&(_, width)| one(width)).sum::<usize>();
        // A cache line separates the registers: registers that start in the same set of a cache would evict
        // each other.
        let moving = |width: usize| (width * CHUNK_ELEMENTS * chunks + 64).next_multiple_of(64);
        let mut memory = ScratchMemory::new(
            fixed + code.temporaries.iter().map(|&(_, width)| moving(width)).sum::<usize>(),
        );
        let mut room = ScratchArena::new(&mut memory);
        let mut registers = vec![RegisterRef::NONE; code.registers];
        for &(register, bytes, width) in &code.constants {
            let at = room.take(one(width));
            // SAFETY: the register has room for a chunk; the constant has `width` bytes.
            unsafe { splat(at, bytes.as_ptr(), width) };
            registers[register as usize].address = at;
        }
        for &(register, number, width) in &code.params {
            let at = room.take(one(width));
            // SAFETY: the register has room for a chunk; a parameter has `width` bytes.
            unsafe { splat(at, numbers[number].as_ptr(), width) };
            registers[register as usize].address = at;
        }
        for &(register, width) in &code.uniform {
            registers[register as usize].address = room.take(one(width));
        }
        for &(register, width) in &code.temporaries {
            let at = room.take(moving(width));
            registers[register as usize] =
                RegisterRef { address: at, chunk_step: (width * CHUNK_ELEMENTS) as isize, row_step: 0 };
        }
        Frame { code, registers, _memory: memory, chunks: 0, is_new: true }
    }

    /// Runs the bytecode on `rows` rows of `chunks` chunks. `external` has the addresses of the external
    /// inputs and of the outputs. Returns whether a value was outside the domain of a fast path: then the
    /// outputs are not written, or wrong.
    ///
    /// # Safety
    /// (1) of [`Instruction::run`], for the external inputs and the outputs.
    pub(super) unsafe fn run(&mut self, external: &[RegisterRef], rows: usize, chunks: usize) -> bool {
        self.registers[..external.len()].copy_from_slice(external);
        if self.chunks != chunks {
            self.chunks = chunks;
            for &(register, width) in &self.code.temporaries {
                self.registers[register as usize].row_step = (width * CHUNK_ELEMENTS * chunks) as isize;
            }
        }
        let registers = &self.registers;
        let run = |steps: &[Instruction], rows, chunks| {
            for step in steps {
                // SAFETY: (1) is the caller's promise, and the program's registers have room for as many
                // chunks; (2) the output register of an instruction is none of its operands; (3) the loops
                // were chosen for this processor.
                unsafe { step.run(registers, rows, chunks) };
            }
        };
        if std::mem::take(&mut self.is_new) {
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
        write: &dyn Fn(&mut Compiler) -> Option<Vec<Value>>,
    ) -> Option<BytecodePair> {
        let code = |fast: bool| {
            let mut compiler = Compiler::new(fast);
            let outputs = write(&mut compiler)?;
            compiler.finalize(&outputs, in_order)
        };
        let fast = code(true)?;
        Some(BytecodePair { fast: fast.out_of_range.is_some().then_some(fast), full: code(false)? })
    }

    /// Whether the program reads the external input of this number.
    pub(super) fn reads(&self, external: usize) -> bool {
        self.full.reads[external]
    }
}

/// A machine that runs a program in two forms.
pub(super) struct Machine<'a> {
    pair: &'a BytecodePair,
    numbers: &'a RunTimeNumbers,
    fast: Option<Frame<'a>>,
    full: Option<Frame<'a>>,
    /// The largest number of chunks of a block.
    pub(super) chunks: usize,
}

impl<'a> Machine<'a> {
    /// A machine for blocks of at most `most` chunks, or fewer if their registers would not fit into the
    /// cache.
    pub(super) fn new(pair: &'a BytecodePair, numbers: &'a RunTimeNumbers, most: usize) -> Self {
        let chunks =
            pair.fast.as_ref().map_or(pair.full.chunks, |fast| fast.chunks).min(pair.full.chunks).min(most);
        Self::exactly(pair, numbers, chunks)
    }

    /// A machine for blocks of at most `chunks` chunks.
    pub(super) fn exactly(pair: &'a BytecodePair, numbers: &'a RunTimeNumbers, chunks: usize) -> Self {
        let fast = pair.fast.as_ref().map(|code| Frame::new(code, numbers, chunks));
        Machine { pair, numbers, fast, full: None, chunks }
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
        let full = self.full.get_or_insert_with(|| Frame::new(&self.pair.full, self.numbers, self.chunks));
        // SAFETY: the caller's promise.
        unsafe { full.run(external, rows, chunks) };
    }
}
