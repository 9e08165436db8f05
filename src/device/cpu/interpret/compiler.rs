//! Compiles graphs of the operator language to code over registers: functions are inlined, and equal
//! constants are shared.
// Imports: `error`, `fallible`, `scalar`.

use super::bytecode::{Bytecode, ValueInfo, ValueOrigin, VirtualCode, VirtualInstruction};
use super::instructions::InstructionFn;
use super::operations::{self, CastStep, known};
use crate::error::Result;
use crate::fallible::{collect, push, try_collect};
use crate::scalar::{DType, Definition, Graph, Logic, MinMaxRem, Node};

/// A value of the program that is being compiled: its number and its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    id: u32,
    pub(super) dtype: DType,
}

/// The loop of a step on operands of type `of`.
fn find(node: Node, of: DType) -> Result<InstructionFn> {
    known(operations::find(node, of))
}

/// Compiles one program.
pub(super) struct Compiler {
    code: VirtualCode,
    /// Whether functions are compiled by their fast paths, and the value that marks elements outside their
    /// domain.
    fast: bool,
    out_of_range: Option<Value>,
}

impl Compiler {
    /// A program without instructions.
    pub(super) fn new(fast: bool) -> Self {
        Compiler { code: VirtualCode::default(), fast, out_of_range: None }
    }

    fn value(&mut self, source: ValueOrigin, dtype: DType, uniform: bool) -> Result<Value> {
        push(&mut self.code.values, ValueInfo { source, width: dtype.size(), uniform })?;
        Ok(Value { id: self.code.values.len() as u32 - 1, dtype })
    }

    /// The next external input.
    pub(super) fn external(&mut self, dtype: DType) -> Result<Value> {
        self.code.externals += 1;
        self.value(ValueOrigin::External(self.code.externals - 1), dtype, false)
    }

    /// The next external inputs, of these types.
    pub(super) fn externals(&mut self, types: &[DType]) -> Result<Vec<Value>> {
        try_collect(types.iter().map(|&dtype| self.external(dtype)))
    }

    fn constant(&mut self, bytes: [u8; 16], dtype: DType) -> Result<Value> {
        let known = |of: &ValueInfo| {
            matches!(of.source, ValueOrigin::Constant(its) if its == bytes) && of.width == dtype.size()
        };
        match self.code.values.iter().position(known) {
            Some(id) => Ok(Value { id: id as u32, dtype }),
            None => self.value(ValueOrigin::Constant(bytes), dtype, true),
        }
    }

    fn instruction<const N: usize>(
        &mut self,
        run: InstructionFn,
        args: [Value; N],
        by: u32,
        dtype: DType,
    ) -> Result<Value> {
        let uniform = args.iter().all(|x| self.code.values[x.id as usize].uniform);
        let out = self.value(ValueOrigin::Computed, dtype, uniform)?;
        let mut all = [args[0].id; 3];
        all[..N].copy_from_slice(&args.map(|x| x.id));
        push(&mut self.code.instructions, VirtualInstruction { run, out: out.id, args: all, count: N, by })?;
        Ok(out)
    }

    /// The value, cast to another type.
    pub(super) fn cast(&mut self, from: Value, to: DType) -> Result<Value> {
        match known(operations::cast(from.dtype, to))? {
            CastStep::Nothing => Ok(Value { dtype: to, ..from }),
            CastStep::Loop(run, middle) => {
                let middle = self.instruction(run, [from], 0, middle)?;
                self.cast(middle, to)
            }
            CastStep::BoolElement => {
                let zero = self.constant([0; 16], from.dtype)?;
                let no = self.instruction(find(Node::Equal, from.dtype)?, [from, zero], 0, DType::Bool)?;
                self.not(no)
            }
            CastStep::Clamp([least, most]) => {
                let mut number = self.cast(from, DType::I32)?;
                for (step, end) in [(MinMaxRem::Max, least), (MinMaxRem::Min, most)] {
                    let end = self.constant(padded_to_16(&end.to_ne_bytes()), DType::I32)?;
                    let run = find(Node::Order(step), DType::I32)?;
                    number = self.instruction(run, [number, end], 0, DType::I32)?;
                }
                self.cast(number, to)
            }
            CastStep::WithZero => {
                let zero = self.constant([0; 16], from.dtype)?;
                self.instruction(find(Node::Complex, from.dtype)?, [from, zero], 0, to)
            }
        }
    }

    fn not(&mut self, mask: Value) -> Result<Value> {
        let ones = self.constant(padded_to_16(&[1]), DType::Bool)?;
        self.instruction(find(Node::Logic(Logic::Xor), DType::Bool)?, [mask, ones], 0, DType::Bool)
    }

    /// Compiles a graph and returns its outputs. `inputs` are its operands, as stored in memory; its run-time
    /// parameters are numbered from `param` on.
    pub(super) fn graph(
        &mut self,
        graph: &Graph,
        inputs: &[Value],
        given: &[Value],
        param: usize,
    ) -> Result<Vec<Value>> {
        self.part(graph, graph.definitions(), inputs, given, param)
    }

    fn part(
        &mut self,
        graph: &Graph,
        all: &[Definition],
        inputs: &[Value],
        given: &[Value],
        param: usize,
    ) -> Result<Vec<Value>> {
        let mut values: Vec<Value> = Vec::new();
        let mut outputs = Vec::new();
        for (node, args, dtype) in graph.nodes() {
            let arg = |k: usize| known(args.get(k).map(|&id| values[id as usize]));
            let of = args.first().map_or(dtype, |&id| values[id as usize].dtype);
            let value = match node {
                Node::Input { index } => Value { dtype, ..*known(inputs.get(index))? },
                Node::Given { index } => Value { dtype, ..*known(given.get(index))? },
                Node::Param { index } => self.value(ValueOrigin::Param(param + index), dtype, true)?,
                Node::Literal(bytes) => self.constant(bytes, dtype)?,
                Node::Cast => self.cast(arg(0)?, dtype)?,
                Node::ToBits | Node::FromBits => Value { dtype, ..arg(0)? },
                Node::Select => {
                    let run = known(operations::select(dtype.size()))?;
                    self.instruction(run, [arg(0)?, arg(1)?, arg(2)?], 0, dtype)?
                }
                Node::MulAdd => self.instruction(find(node, of)?, [arg(0)?, arg(1)?, arg(2)?], 0, dtype)?,
                Node::Shift(_, by) => self.instruction(find(node, of)?, [arg(0)?], by, dtype)?,
                Node::Negate | Node::Unary(_) | Node::Part(_) => {
                    self.instruction(find(node, of)?, [arg(0)?], 0, dtype)?
                }
                Node::Arith(_)
                | Node::Order(_)
                | Node::Compare(_)
                | Node::Equal
                | Node::Logic(_)
                | Node::Complex => self.instruction(find(node, of)?, [arg(0)?, arg(1)?], 0, dtype)?,
                Node::Function(_, number) => {
                    let definition = known(all.get(number))?;
                    let given = collect(args.iter().map(|&id| values[id as usize]))?;
                    let fast = definition.fast.as_ref().filter(|_| self.fast);
                    let results = self.part(fast.unwrap_or(&definition.value), all, &[], &given, 0)?;
                    if fast.is_some() {
                        self.mark_out_of_range(*known(results.get(1))?)?;
                    }
                    *known(results.first())?
                }
                Node::Output { .. } => {
                    let value = self.cast(arg(0)?, dtype)?;
                    push(&mut outputs, value)?;
                    value
                }
            };
            push(&mut values, value)?;
        }
        Ok(outputs)
    }

    fn mark_out_of_range(&mut self, out_of_range: Value) -> Result<()> {
        let or = Node::Logic(Logic::Or);
        self.out_of_range = Some(match self.out_of_range {
            None => out_of_range,
            Some(before) => {
                self.instruction(find(or, DType::Bool)?, [before, out_of_range], 0, DType::Bool)?
            }
        });
        Ok(())
    }

    /// The bytecode of the program with these outputs. With `in_order` an output may be written before all
    /// operands are read.
    pub(super) fn finalize(mut self, mut outputs: Vec<Value>, in_order: bool) -> Result<Bytecode> {
        for output in outputs.iter_mut().filter(|_| !in_order) {
            // The operand is copied: an output with a different index may overlap it and be written first.
            if matches!(self.code.values[output.id as usize].source, ValueOrigin::External(_)) {
                let run = known(operations::copy(output.dtype.size()))?;
                *output = self.instruction(run, [*output], 0, output.dtype)?;
            }
        }
        let is_constant =
            |value: &Value| matches!(self.code.values[value.id as usize].source, ValueOrigin::Constant(_));
        let out_of_range = self.out_of_range.filter(|value| !is_constant(value)).map(|value| value.id);
        let outputs = collect(outputs.iter().map(|output| output.id))?;
        self.code.allocate(&outputs, out_of_range, in_order)
    }
}

/// The bytes, padded with zeros to 16.
pub(super) fn padded_to_16(bytes: &[u8]) -> [u8; 16] {
    let mut all = [0; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}
