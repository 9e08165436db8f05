//! Compiles graphs of the operator language to code over registers: functions are inlined, and equal
//! constants are shared.
// Imports: `scalar`.

use super::bytecode::{Bytecode, Source, ValueInfo, VirtualCode, VirtualInstruction};
use super::instructions::InstructionFn;
use super::operations::{self, Cast};
use crate::scalar::{DType, Definition, Graph, Logic, MinMaxRem, Node};

/// A value of the program that is being compiled: its number and its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    id: u32,
    pub(super) dtype: DType,
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

    fn value(&mut self, source: Source, dtype: DType, uniform: bool) -> Value {
        self.code.values.push(ValueInfo { source, width: dtype.size(), uniform });
        Value { id: self.code.values.len() as u32 - 1, dtype }
    }

    /// The next external input.
    pub(super) fn external(&mut self, dtype: DType, uniform: bool) -> Value {
        self.code.externals += 1;
        self.value(Source::External(self.code.externals - 1), dtype, uniform)
    }

    fn constant(&mut self, bytes: [u8; 16], dtype: DType) -> Value {
        let known = |of: &ValueInfo| {
            matches!(of.source, Source::Constant(its) if its == bytes) && of.width == dtype.size()
        };
        match self.code.values.iter().position(known) {
            Some(id) => Value { id: id as u32, dtype },
            None => self.value(Source::Constant(bytes), dtype, true),
        }
    }

    fn instruction<const N: usize>(
        &mut self,
        run: InstructionFn,
        args: [Value; N],
        by: u32,
        dtype: DType,
    ) -> Value {
        let uniform = args.iter().all(|x| self.code.values[x.id as usize].uniform);
        let out = self.value(Source::Computed, dtype, uniform);
        let mut all = [args[0].id; 3];
        all[..N].copy_from_slice(&args.map(|x| x.id));
        self.code.instructions.push(VirtualInstruction { run, out: out.id, args: all, count: N, by });
        out
    }

    /// The value, cast to another type.
    pub(super) fn cast(&mut self, from: Value, to: DType) -> Option<Value> {
        Some(match operations::cast(from.dtype, to)? {
            Cast::Nothing => Value { dtype: to, ..from },
            Cast::Loop(run, middle) => {
                let middle = self.instruction(run, [from], 0, middle);
                self.cast(middle, to)?
            }
            Cast::BoolElement => {
                let zero = self.constant([0; 16], from.dtype);
                let no = self.instruction(
                    operations::find(Node::Equal, from.dtype)?,
                    [from, zero],
                    0,
                    DType::Bool,
                );
                self.not(no)?
            }
            Cast::Clamp([least, most]) => {
                let number = self.cast(from, DType::I32)?;
                let [least, most] =
                    [least, most].map(|end| self.constant(padded_to_16(&end.to_ne_bytes()), DType::I32));
                let number = self.instruction(
                    operations::find(Node::Order(MinMaxRem::Max), DType::I32)?,
                    [number, least],
                    0,
                    DType::I32,
                );
                let number = self.instruction(
                    operations::find(Node::Order(MinMaxRem::Min), DType::I32)?,
                    [number, most],
                    0,
                    DType::I32,
                );
                self.cast(number, to)?
            }
            Cast::WithZero => {
                let zero = self.constant([0; 16], from.dtype);
                self.instruction(operations::find(Node::Complex, from.dtype)?, [from, zero], 0, to)
            }
        })
    }

    fn not(&mut self, mask: Value) -> Option<Value> {
        let ones = self.constant(padded_to_16(&[1]), DType::Bool);
        Some(self.instruction(
            operations::find(Node::Logic(Logic::Xor), DType::Bool)?,
            [mask, ones],
            0,
            DType::Bool,
        ))
    }

    /// Compiles a graph and returns its outputs. `inputs` are its operands, as stored in memory; its run-time
    /// parameters are numbered from `param` on.
    pub(super) fn graph(
        &mut self,
        graph: &Graph,
        inputs: &[Value],
        given: &[Value],
        param: usize,
    ) -> Option<Vec<Value>> {
        self.part(graph, graph.definitions(), inputs, given, param)
    }

    fn part(
        &mut self,
        graph: &Graph,
        all: &[Definition],
        inputs: &[Value],
        given: &[Value],
        param: usize,
    ) -> Option<Vec<Value>> {
        let mut values: Vec<Value> = Vec::with_capacity(graph.len());
        let mut outputs = Vec::new();
        for (node, args, dtype) in graph.nodes() {
            let arg = |k: usize| args.get(k).map(|&id| values[id as usize]);
            let of = arg(0).map_or(dtype, |first| first.dtype);
            let value = match node {
                Node::Input { index } => Value { dtype, ..*inputs.get(index)? },
                Node::Given { index } => Value { dtype, ..*given.get(index)? },
                Node::Param { index } => self.value(Source::Param(param + index), dtype, true),
                Node::Literal(bytes) => self.constant(bytes, dtype),
                Node::Cast => self.cast(arg(0)?, dtype)?,
                Node::ToBits | Node::FromBits => Value { dtype, ..arg(0)? },
                Node::Select => {
                    self.instruction(operations::select(dtype.size())?, [arg(0)?, arg(1)?, arg(2)?], 0, dtype)
                }
                Node::MulAdd => {
                    self.instruction(operations::find(node, of)?, [arg(0)?, arg(1)?, arg(2)?], 0, dtype)
                }
                Node::Shift(_, by) => self.instruction(operations::find(node, of)?, [arg(0)?], by, dtype),
                Node::Negate | Node::Unary(_) | Node::Part(_) => {
                    self.instruction(operations::find(node, of)?, [arg(0)?], 0, dtype)
                }
                Node::Arith(_)
                | Node::Order(_)
                | Node::Compare(_)
                | Node::Equal
                | Node::Logic(_)
                | Node::Complex => {
                    self.instruction(operations::find(node, of)?, [arg(0)?, arg(1)?], 0, dtype)
                }
                Node::Function(_, number) => {
                    let definition = all.get(number)?;
                    let given: Vec<Value> = args.iter().map(|&id| values[id as usize]).collect();
                    match definition.fast.as_ref().filter(|_| self.fast) {
                        Some(fast) => {
                            let [value, out_of_range] =
                                self.part(fast, all, &[], &given, 0)?.try_into().ok()?;
                            self.mark_out_of_range(out_of_range)?;
                            value
                        }
                        None => *self.part(&definition.value, all, &[], &given, 0)?.first()?,
                    }
                }
                Node::Output { .. } => {
                    let value = self.cast(arg(0)?, dtype)?;
                    outputs.push(value);
                    value
                }
            };
            values.push(value);
        }
        Some(outputs)
    }

    fn mark_out_of_range(&mut self, out_of_range: Value) -> Option<()> {
        let all = match self.out_of_range {
            None => out_of_range,
            Some(before) => self.instruction(
                operations::find(Node::Logic(Logic::Or), DType::Bool)?,
                [before, out_of_range],
                0,
                DType::Bool,
            ),
        };
        self.out_of_range = Some(all);
        Some(())
    }

    /// The bytecode of the program with these outputs. With `in_order` an output may be written before all
    /// operands are read.
    pub(super) fn finalize(mut self, outputs: &[Value], in_order: bool) -> Option<Bytecode> {
        let mut outputs = outputs.to_vec();
        for output in outputs.iter_mut().filter(|_| !in_order) {
            // The operand is copied: an output with a different index may overlap it and be written first.
            if matches!(self.code.values[output.id as usize].source, Source::External(_)) {
                *output =
                    self.instruction(operations::copy(output.dtype.size())?, [*output], 0, output.dtype);
            }
        }
        let is_constant =
            |value: &Value| matches!(self.code.values[value.id as usize].source, Source::Constant(_));
        let out_of_range = self.out_of_range.filter(|value| !is_constant(value)).map(|value| value.id);
        let outputs: Vec<u32> = outputs.iter().map(|output| output.id).collect();
        self.code.allocate(&outputs, out_of_range, in_order)
    }
}

/// The bytes, padded with zeros to 16.
pub(super) fn padded_to_16(bytes: &[u8]) -> [u8; 16] {
    let mut all = [0; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}
