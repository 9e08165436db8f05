//! Graphs as lists of steps over columns: functions are written out, values that are the same at every position are computed
//! once, and the others share a few registers.
// Imports: `scalar`.

use super::steps::{self, Cast, Step, StepFn, WIDTH};
use crate::scalar::{DType, Definition, Graph, Logic, MinMaxRem, Node};

/// Bytes of a column's values that are kept in the first cache, of all registers together.
const ROOM: usize = 32 << 10;
/// Chunks of a block: at least, so that the call of a step is little beside it, and at most.
const CHUNKS: [usize; 2] = [8, 64];

/// A value of the program that is being written: its number, and its type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    id: u32,
    pub(super) dtype: DType,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// From outside, by the number of its place.
    Outside(u16),
    /// A number of the program, or a run-time number, as they lie in memory.
    Constant([u8; 16]),
    Param(usize),
    /// A step.
    Step,
}

/// A value and what is known of it.
#[derive(Clone, Copy, Debug)]
struct Known {
    source: Source,
    width: usize,
    /// Whether it is the same at every position.
    uniform: bool,
}

struct Written {
    run: StepFn,
    out: u32,
    args: [u32; 3],
    count: usize,
    by: u32,
}

/// Writes programs.
pub(super) struct Writer {
    values: Vec<Known>,
    steps: Vec<Written>,
    outside: u16,
    /// Whether functions are written by their quick forms, and what then says that one does not hold.
    quick: bool,
    doubt: Option<Value>,
}

/// A program: places are numbered, first those that come from outside, then outputs, then its own.
pub(super) struct Code {
    /// Steps of what is the same everywhere; then those of every block; then copies of outputs, when nothing is in doubt.
    pub(super) once: Vec<Step>,
    pub(super) steps: Vec<Step>,
    pub(super) copies: Vec<Step>,
    /// The place that says whether a value is in doubt.
    pub(super) doubt: Option<u16>,
    /// Which places from outside are read.
    pub(super) reads: Vec<bool>,
    /// How many places there are.
    pub(super) places: usize,
    /// Places of constants, with their bytes, and of run-time numbers: their values' width.
    pub(super) constants: Vec<(u16, [u8; 16], usize)>,
    pub(super) params: Vec<(u16, usize, usize)>,
    /// Places with one chunk, and places with a block, and their width.
    pub(super) uniform: Vec<(u16, usize)>,
    pub(super) registers: Vec<(u16, usize)>,
    /// Chunks of a block.
    pub(super) chunks: usize,
}

impl Writer {
    /// A program without steps.
    pub(super) fn new(quick: bool) -> Self {
        Writer { values: Vec::new(), steps: Vec::new(), outside: 0, quick, doubt: None }
    }

    fn value(&mut self, source: Source, dtype: DType, uniform: bool) -> Value {
        self.values.push(Known { source, width: dtype.size(), uniform });
        Value { id: self.values.len() as u32 - 1, dtype }
    }

    /// The next value that comes from outside.
    pub(super) fn outside(&mut self, dtype: DType, uniform: bool) -> Value {
        self.outside += 1;
        self.value(Source::Outside(self.outside - 1), dtype, uniform)
    }

    fn constant(&mut self, bytes: [u8; 16], dtype: DType) -> Value {
        let known = |of: &Known| {
            matches!(of.source, Source::Constant(its) if its == bytes) && of.width == dtype.size()
        };
        match self.values.iter().position(known) {
            Some(id) => Value { id: id as u32, dtype },
            None => self.value(Source::Constant(bytes), dtype, true),
        }
    }

    fn step<const N: usize>(&mut self, run: StepFn, args: [Value; N], by: u32, dtype: DType) -> Value {
        let uniform = args.iter().all(|x| self.values[x.id as usize].uniform);
        let out = self.value(Source::Step, dtype, uniform);
        let mut all = [args[0].id; 3];
        all[..N].copy_from_slice(&args.map(|x| x.id));
        self.steps.push(Written { run, out: out.id, args: all, count: N, by });
        out
    }

    /// The value in another type.
    pub(super) fn cast(&mut self, from: Value, to: DType) -> Option<Value> {
        Some(match steps::cast(from.dtype, to)? {
            Cast::Nothing => Value { dtype: to, ..from },
            Cast::Loop(run, middle) => {
                let middle = self.step(run, [from], 0, middle);
                self.cast(middle, to)?
            }
            Cast::BoolElement => {
                let zero = self.constant([0; 16], from.dtype);
                let no = self.step(steps::find(Node::Equal, from.dtype)?, [from, zero], 0, DType::Bool);
                self.not(no)?
            }
            Cast::Clamp([least, most]) => {
                let number = self.cast(from, DType::I32)?;
                let [least, most] =
                    [least, most].map(|end| self.constant(bytes_of(&end.to_ne_bytes()), DType::I32));
                let number = self.step(
                    steps::find(Node::Order(MinMaxRem::Max), DType::I32)?,
                    [number, least],
                    0,
                    DType::I32,
                );
                let number = self.step(
                    steps::find(Node::Order(MinMaxRem::Min), DType::I32)?,
                    [number, most],
                    0,
                    DType::I32,
                );
                self.cast(number, to)?
            }
            Cast::WithZero => {
                let zero = self.constant([0; 16], from.dtype);
                self.step(steps::find(Node::Complex, from.dtype)?, [from, zero], 0, to)
            }
        })
    }

    fn not(&mut self, mask: Value) -> Option<Value> {
        let ones = self.constant(bytes_of(&[1]), DType::Bool);
        Some(self.step(steps::find(Node::Logic(Logic::Xor), DType::Bool)?, [mask, ones], 0, DType::Bool))
    }

    /// The outputs of a graph. `inputs` are its operands, as stored in memory; its run-time numbers count from `param` on.
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
                    self.step(steps::select(dtype.size())?, [arg(0)?, arg(1)?, arg(2)?], 0, dtype)
                }
                Node::MulAdd => self.step(steps::find(node, of)?, [arg(0)?, arg(1)?, arg(2)?], 0, dtype),
                Node::Shift(_, by) => self.step(steps::find(node, of)?, [arg(0)?], by, dtype),
                Node::Negate | Node::Unary(_) | Node::Part(_) => {
                    self.step(steps::find(node, of)?, [arg(0)?], 0, dtype)
                }
                Node::Arith(_)
                | Node::Order(_)
                | Node::Compare(_)
                | Node::Equal
                | Node::Logic(_)
                | Node::Complex => self.step(steps::find(node, of)?, [arg(0)?, arg(1)?], 0, dtype),
                Node::Function(_, number) => {
                    let definition = all.get(number)?;
                    let given: Vec<Value> = args.iter().map(|&id| values[id as usize]).collect();
                    match definition.fast.as_ref().filter(|_| self.quick) {
                        Some(quick) => {
                            let [value, doubt] = self.part(quick, all, &[], &given, 0)?.try_into().ok()?;
                            self.doubts(doubt)?;
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

    fn doubts(&mut self, doubt: Value) -> Option<()> {
        let all = match self.doubt {
            None => doubt,
            Some(before) => {
                self.step(steps::find(Node::Logic(Logic::Or), DType::Bool)?, [before, doubt], 0, DType::Bool)
            }
        };
        self.doubt = Some(all);
        Some(())
    }

    /// The program that writes these values; `direct` says that it may write outputs before all is read.
    pub(super) fn finalize(mut self, outputs: &[Value], direct: bool) -> Option<Code> {
        let mut outputs = outputs.to_vec();
        for output in outputs.iter_mut().filter(|_| !direct) {
            // An operand may stand where another output is written first.
            if matches!(self.values[output.id as usize].source, Source::Outside(_)) {
                *output = self.step(steps::copy(output.dtype.size())?, [*output], 0, output.dtype);
            }
        }
        let doubt =
            self.doubt.filter(|doubt| !matches!(self.values[doubt.id as usize].source, Source::Constant(_)));
        // What is used, and by which step last.
        let end = self.steps.len();
        let mut last: Vec<Option<usize>> = vec![None; self.values.len()];
        outputs.iter().chain(&doubt).for_each(|root| last[root.id as usize] = Some(end));
        for (at, step) in self.steps.iter().enumerate().rev() {
            if last[step.out as usize].is_some() {
                for &arg in &step.args[..step.count] {
                    last[arg as usize] = last[arg as usize].max(Some(at));
                }
            }
        }
        let (outside, first) = (self.outside, self.outside + outputs.len() as u16);
        let mut code = Code {
            once: Vec::new(),
            steps: Vec::new(),
            copies: Vec::new(),
            doubt: None,
            reads: vec![false; self.outside.into()],
            places: first.into(),
            constants: Vec::new(),
            params: Vec::new(),
            uniform: Vec::new(),
            registers: Vec::new(),
            chunks: 0,
        };
        let next = |code: &mut Code| {
            code.places += 1;
            code.places as u16 - 1
        };
        let mut places = vec![u16::MAX; self.values.len()];
        for (id, known) in self.values.iter().enumerate().filter(|&(id, _)| last[id].is_some()) {
            match known.source {
                Source::Outside(place) => {
                    places[id] = place;
                    code.reads[place as usize] = true;
                }
                Source::Constant(bytes) => {
                    places[id] = next(&mut code);
                    code.constants.push((places[id], bytes, known.width));
                }
                Source::Param(number) => {
                    places[id] = next(&mut code);
                    code.params.push((places[id], number, known.width));
                }
                Source::Step if known.uniform => {
                    places[id] = next(&mut code);
                    code.uniform.push((places[id], known.width));
                }
                Source::Step => {}
            }
        }
        // A value that is stored is computed where it is stored, if it is stored once.
        let of = |id: u32| self.values[id as usize];
        for (k, output) in outputs.iter().enumerate() {
            let computed = matches!(of(output.id).source, Source::Step) && !of(output.id).uniform;
            if direct && computed && places[output.id as usize] == u16::MAX {
                places[output.id as usize] = outside + k as u16;
            }
        }
        let mut free: Vec<(u16, usize)> = Vec::new();
        for (at, step) in self.steps.iter().enumerate().filter(|(_, step)| last[step.out as usize].is_some())
        {
            let known = of(step.out);
            if places[step.out as usize] == u16::MAX {
                let spare = free
                    .iter()
                    .rposition(|&(_, width)| width == known.width)
                    .map(|at| free.swap_remove(at).0);
                places[step.out as usize] = spare.unwrap_or_else(|| {
                    let place = next(&mut code);
                    code.registers.push((place, known.width));
                    place
                });
            }
            let mut args = step.args.map(|arg| places[arg as usize]);
            args[step.count..].fill(0);
            let made = Step {
                run: step.run,
                out: places[step.out as usize],
                args,
                count: step.count as u8,
                width: known.width as u8,
                by: step.by,
            };
            if known.uniform {
                code.once.push(made)
            } else {
                code.steps.push(made)
            }
            for (k, &arg) in step.args[..step.count].iter().enumerate() {
                let place = places[arg as usize];
                let register = code.registers.iter().find(|&&(register, _)| register == place);
                if let (Some(&register), true, false) =
                    (register, last[arg as usize] == Some(at), step.args[..k].contains(&arg))
                {
                    free.push(register);
                }
            }
        }
        for (k, output) in outputs.iter().enumerate() {
            let (from, to) = (places[output.id as usize], outside + k as u16);
            if from != to {
                let width = of(output.id).width;
                code.copies.push(Step {
                    run: steps::copy(width)?,
                    out: to,
                    args: [from, 0, 0],
                    count: 1,
                    width: width as u8,
                    by: 0,
                });
            }
        }
        code.doubt = doubt.map(|doubt| places[doubt.id as usize]);
        let bytes: usize = code.registers.iter().map(|&(_, width)| width * WIDTH).sum();
        code.chunks = (ROOM / bytes.max(1)).clamp(CHUNKS[0], CHUNKS[1]);
        Some(code)
    }
}

/// Bytes in the first of 16.
pub(super) fn bytes_of(bytes: &[u8]) -> [u8; 16] {
    let mut all = [0; 16];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}
