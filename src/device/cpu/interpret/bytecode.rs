//! The code of the register machine, and the allocation of its registers.
//!
//! The compiler writes instructions over any number of values. Here unused instructions are dropped, values
//! that are the same at every position move to the prologue, and the other values share a few registers.
// Imports: `error`, `fallible`, `device`.

use super::instructions::{CHUNK_ELEMENTS, Instruction, InstructionFn};
use super::operations::{self, known};
use crate::device::cpu::memory::scratch::CACHE_LINE_BYTES;
use crate::error::Result;
use crate::fallible::{collect, push};

/// Bytes of all registers of a block together, which are to stay in the L1 cache.
const REGISTER_BYTES: usize = 32 << 10;
/// Bytes of one register or operand of a block, at most: two operands stay in the L1 cache beside a register.
const OPERAND_BYTES: usize = 8 << 10;
/// The smallest number of chunks of a block, which amortizes the calls of loops.
const MIN_BLOCK_CHUNKS: usize = 8;
/// The register of a value that has none yet.
const NO_REGISTER: u16 = u16::MAX;

/// Bytes of a register of one chunk.
pub(super) fn fixed_nbytes(width: usize) -> usize {
    (width * CHUNK_ELEMENTS).next_multiple_of(CACHE_LINE_BYTES)
}

/// The origin of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueOrigin {
    /// An external input, by its number.
    External(u16),
    /// A constant, as its bytes in memory.
    Constant([u8; 16]),
    /// A run-time parameter, by its number.
    Param(usize),
    /// The result of an instruction.
    Computed,
}

/// The origin of a value, its width in bytes, and whether it is the same at every position.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueInfo {
    pub(super) source: ValueOrigin,
    pub(super) width: usize,
    pub(super) uniform: bool,
}

/// An instruction over values, before registers are allocated.
pub(super) struct VirtualInstruction {
    pub(super) run: InstructionFn,
    pub(super) out: u32,
    pub(super) args: [u32; 3],
    pub(super) count: usize,
    pub(super) by: u32,
}

/// Code over values, before registers are allocated.
#[derive(Default)]
pub(super) struct VirtualCode {
    pub(super) values: Vec<ValueInfo>,
    pub(super) instructions: Vec<VirtualInstruction>,
    /// The number of external inputs.
    pub(super) externals: u16,
}

/// The code of a program. Registers are numbered: external inputs first, then outputs, then the program's
/// own.
pub(super) struct Bytecode {
    /// Instructions on values that are the same at every position, which run once.
    pub(super) prologue: Vec<Instruction>,
    /// Instructions that run for every block.
    pub(super) instructions: Vec<Instruction>,
    /// Copies into outputs, which run if no value is outside the domain of a fast path.
    pub(super) epilogue: Vec<Instruction>,
    /// The register with the marks of values outside the domain of a fast path.
    pub(super) out_of_range: Option<u16>,
    /// Whether each external input is read.
    pub(super) reads: Vec<bool>,
    /// The number of registers.
    pub(super) registers: usize,
    /// Registers of constants: the number, the bytes, and the width of a value.
    pub(super) constants: Vec<(u16, [u8; 16], usize)>,
    /// Registers of run-time parameters: the number, the parameter, and the width of a value.
    pub(super) params: Vec<(u16, usize, usize)>,
    /// Registers of one chunk, with the width of a value.
    pub(super) uniform: Vec<(u16, usize)>,
    /// Registers of a block, with the width of a value.
    pub(super) temporaries: Vec<(u16, usize)>,
    /// Bytes of the registers of one chunk together, and of one value of every register of a block.
    pub(super) fixed_nbytes: usize,
    pub(super) temporaries_width: usize,
    /// Chunks of a block.
    pub(super) chunks: usize,
}

impl Bytecode {
    /// Code without instructions.
    fn empty(externals: u16, outputs: usize) -> Result<Self> {
        Ok(Bytecode {
            prologue: Vec::new(),
            instructions: Vec::new(),
            epilogue: Vec::new(),
            out_of_range: None,
            reads: collect((0..externals).map(|_| false))?,
            registers: usize::from(externals + outputs as u16),
            constants: Vec::new(),
            params: Vec::new(),
            uniform: Vec::new(),
            temporaries: Vec::new(),
            fixed_nbytes: 0,
            temporaries_width: 0,
            chunks: 0,
        })
    }

    /// The next register.
    fn register(&mut self) -> u16 {
        self.registers += 1;
        self.registers as u16 - 1
    }
}

impl VirtualCode {
    fn of(&self, value: u32) -> ValueInfo {
        self.values[value as usize]
    }

    /// Allocates registers for the values that `outputs` and `out_of_range` need. With `in_order` an output
    /// may be written before all operands are read.
    pub(super) fn allocate(
        &self,
        outputs: &[u32],
        out_of_range: Option<u32>,
        in_order: bool,
    ) -> Result<Bytecode> {
        let last = self.last_uses(outputs.iter().copied().chain(out_of_range))?;
        let mut code = Bytecode::empty(self.externals, outputs.len())?;
        let mut registers = self.fixed_registers(&last, &mut code)?;
        // A value that is one output is computed in the output's register.
        for (k, &output) in outputs.iter().enumerate() {
            let computed =
                matches!(self.of(output).source, ValueOrigin::Computed) && !self.of(output).uniform;
            if in_order && computed && registers[output as usize] == NO_REGISTER {
                registers[output as usize] = self.externals + k as u16;
            }
        }
        self.emit(&last, &mut registers, &mut code)?;
        for (k, &output) in outputs.iter().enumerate() {
            let (from, to) = (registers[output as usize], self.externals + k as u16);
            if from != to {
                let width = self.of(output).width;
                let run = known(operations::copy(width))?;
                let copy =
                    Instruction { run, out: to, args: [from, 0, 0], count: 1, width: width as u8, by: 0 };
                push(&mut code.epilogue, copy)?;
            }
        }
        code.out_of_range = out_of_range.map(|value| registers[value as usize]);
        let fixed = code.constants.iter().map(|&(_, _, width)| width);
        let fixed = fixed.chain(code.params.iter().map(|&(_, _, width)| width));
        let fixed = fixed.chain(code.uniform.iter().map(|&(_, width)| width));
        code.fixed_nbytes = fixed.map(fixed_nbytes).sum();
        code.temporaries_width = code.temporaries.iter().map(|&(_, width)| width).sum();
        let bytes = code.temporaries_width * CHUNK_ELEMENTS;
        let widest = self.values.iter().map(|value| value.width).max().unwrap_or(1);
        let most = OPERAND_BYTES / (widest * CHUNK_ELEMENTS);
        code.chunks = (REGISTER_BYTES / bytes.max(1)).min(most).max(MIN_BLOCK_CHUNKS);
        Ok(code)
    }

    /// For each value the last instruction that reads it: none if it is unused, the number of instructions if
    /// it is a root.
    fn last_uses(&self, roots: impl Iterator<Item = u32>) -> Result<Vec<Option<usize>>> {
        let mut last: Vec<Option<usize>> = collect(self.values.iter().map(|_| None))?;
        roots.for_each(|root| last[root as usize] = Some(self.instructions.len()));
        for (at, instruction) in self.instructions.iter().enumerate().rev() {
            if last[instruction.out as usize].is_some() {
                for &arg in &instruction.args[..instruction.count] {
                    last[arg as usize] = last[arg as usize].max(Some(at));
                }
            }
        }
        Ok(last)
    }

    /// The register of each value that keeps one for the whole program: inputs, constants, parameters and
    /// uniform values.
    fn fixed_registers(&self, last: &[Option<usize>], code: &mut Bytecode) -> Result<Vec<u16>> {
        let mut registers = collect(self.values.iter().map(|_| NO_REGISTER))?;
        for (id, value) in self.values.iter().enumerate().filter(|&(id, _)| last[id].is_some()) {
            match value.source {
                ValueOrigin::External(register) => {
                    registers[id] = register;
                    code.reads[register as usize] = true;
                }
                ValueOrigin::Constant(bytes) => {
                    registers[id] = code.register();
                    push(&mut code.constants, (registers[id], bytes, value.width))?;
                }
                ValueOrigin::Param(number) => {
                    registers[id] = code.register();
                    push(&mut code.params, (registers[id], number, value.width))?;
                }
                ValueOrigin::Computed if value.uniform => {
                    registers[id] = code.register();
                    push(&mut code.uniform, (registers[id], value.width))?;
                }
                ValueOrigin::Computed => {}
            }
        }
        Ok(registers)
    }

    /// Writes the instructions. A temporary register is free again after the last use of its value.
    fn emit(&self, last: &[Option<usize>], registers: &mut [u16], code: &mut Bytecode) -> Result<()> {
        let mut free: Vec<(u16, usize)> = Vec::new();
        let used = |(_, instruction): &(usize, &VirtualInstruction)| last[instruction.out as usize].is_some();
        for (at, instruction) in self.instructions.iter().enumerate().filter(used) {
            let value = self.of(instruction.out);
            if registers[instruction.out as usize] == NO_REGISTER {
                let spare = free.iter().rposition(|&(_, width)| width == value.width);
                registers[instruction.out as usize] = match spare {
                    Some(at) => free.swap_remove(at).0,
                    None => {
                        let register = code.register();
                        push(&mut code.temporaries, (register, value.width))?;
                        register
                    }
                };
            }
            let mut args = instruction.args.map(|arg| registers[arg as usize]);
            args[instruction.count..].fill(0);
            let emitted = Instruction {
                run: instruction.run,
                out: registers[instruction.out as usize],
                args,
                count: instruction.count as u8,
                width: value.width as u8,
                by: instruction.by,
            };
            let list = if value.uniform { &mut code.prologue } else { &mut code.instructions };
            push(list, emitted)?;
            for (k, &arg) in instruction.args[..instruction.count].iter().enumerate() {
                let register = registers[arg as usize];
                let temporary = code.temporaries.iter().find(|&&(number, _)| number == register);
                let is_last = last[arg as usize] == Some(at);
                if let (Some(&temporary), true, false) =
                    (temporary, is_last, instruction.args[..k].contains(&arg))
                {
                    push(&mut free, temporary)?;
                }
            }
        }
        Ok(())
    }
}
