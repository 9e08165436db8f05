//! The argument block of a kernel, and index arithmetic in generated source.
//!
//! A kernel takes one struct of 64-bit words. [`ArgBlock`] collects the words, and the numbers that the
//! source depends on. The source refers to a word by its index.
// Imports: `kernel`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::axes::{Axes, MAX_NARROW};
use crate::device::cuda::codegen::source::SourceWriter;
use crate::kernel::Program;
use std::fmt;

/// The multiplier and the shift that divide by `size`, for dividends below 2³¹ (Granlund and Montgomery
/// 1994): with `p = 31 + ⌈log₂ size⌉`, `⌊rest / size⌋ = ⌊rest · ⌈2ᵖ / size⌉ / 2ᵖ⌋`. The multiplier has 32
/// bits and is the lower half.
fn divisor(size: usize) -> i64 {
    let size = size.max(1);
    let bits = 31 + size.next_power_of_two().trailing_zeros();
    match size <= MAX_NARROW {
        true => (1u64 << bits).div_ceil(size as u64) as i64 | i64::from(bits) << 32,
        // Positions along such an axis have 64 bits, and are divided directly.
        false => 0,
    }
}

/// The words of a kernel's argument block.
#[derive(Clone, Debug)]
pub(in crate::device::cuda) struct ArgBlock {
    pub(in crate::device::cuda) list: Vec<i64>,
    /// The numbers that the source depends on, in addition to the types of its key.
    pub(in crate::device::cuda) key_numbers: Vec<u32>,
    pub(in crate::device::cuda) wide: bool,
}

impl ArgBlock {
    /// A block without words; positions have 64 bits if `wide`.
    pub(in crate::device::cuda) fn new(wide: bool) -> ArgBlock {
        ArgBlock { list: Vec::new(), key_numbers: vec![u32::from(wide)], wide }
    }

    /// Adds a word, and returns its index.
    pub(in crate::device::cuda) fn push(&mut self, word: usize) -> usize {
        self.list.push(word as i64);
        self.list.len() - 1
    }

    /// Adds words, and returns the index of the first.
    pub(in crate::device::cuda) fn extend(&mut self, words: &[i64]) -> usize {
        self.list.extend_from_slice(words);
        self.list.len() - words.len()
    }

    /// Adds the addresses of operands, and returns the index of the first.
    pub(in crate::device::cuda) fn operands(&mut self, operands: &[OperandRef<'_>]) -> usize {
        self.list.extend(operands.iter().map(|operand| operand.address.addr() as i64));
        self.list.len() - operands.len()
    }

    /// Adds numbers that the source depends on.
    pub(in crate::device::cuda) fn depends(&mut self, on: impl IntoIterator<Item = usize>) {
        self.key_numbers.extend(on.into_iter().map(|n| n as u32));
    }

    /// Adds axes. Their number is rounded up, so that one source serves two to four axes, another five to
    /// eight, and so on.
    pub(in crate::device::cuda) fn axes(&mut self, axes: &Axes) -> AxesArgs {
        let capacity = if axes.rank() < 2 { axes.rank() } else { axes.rank().next_power_of_two().max(4) };
        let args = AxesArgs { word: self.list.len(), capacity, operands: axes.strides.len() };
        self.depends([capacity]);
        if capacity > 1 {
            self.push(axes.rank());
        }
        // The slowest axis first: its index remains when the others, from the fastest on, have been divided
        // off.
        let order = (0..axes.rank().min(1)).chain((1..axes.rank()).rev());
        for axis in order {
            self.list.extend([axes.sizes[axis] as i64, divisor(axes.sizes[axis])]);
            self.list.extend(axes.strides.iter().map(|steps| steps[axis] as i64));
        }
        self.list.resize(args.end(), 0);
        args
    }

    /// Adds the run-time parameters of a program, and returns the index of the first.
    pub(in crate::device::cuda) fn params<P: Program>(&mut self, program: &P) -> usize {
        let first = self.list.len();
        crate::kernel::numbers(program, &mut |bytes| {
            self.list.extend([0, 8].map(|at| i64::from_ne_bytes(std::array::from_fn(|k| bytes[at + k]))));
        });
        first
    }

    /// Writes the type of positions, and the argument block: the two words of every launch, then these.
    pub(in crate::device::cuda) fn declare(&self, source: &mut SourceWriter) {
        let idx = if self.wide { "i64" } else { "i32" };
        source.line(format_args!(
            "typedef {idx} idx;\nstruct Args {{ i64 begun, operation, v[{}]; }};",
            self.list.len().max(1)
        ));
    }
}

/// Axes in an argument block.
#[derive(Clone, Copy, Debug)]
pub(in crate::device::cuda) struct AxesArgs {
    /// The index of the first word.
    word: usize,
    /// The number of axes for which words are reserved.
    capacity: usize,
    pub(in crate::device::cuda) operands: usize,
}

impl AxesArgs {
    /// The index after the last word.
    fn end(&self) -> usize {
        self.word + usize::from(self.capacity > 1) + self.capacity * (2 + self.operands)
    }

    /// A word of an axis: part 0 is its size, 1 its divisor, `2 + k` the stride of operand `k`.
    fn axis(&self, axis: usize, part: usize) -> Word {
        Word(self.word + usize::from(self.capacity > 1) + axis * (2 + self.operands) + part)
    }

    /// Whether there is at most one axis.
    pub(in crate::device::cuda) fn has_one_axis(&self) -> bool {
        self.capacity <= 1
    }

    /// The size of the only axis.
    pub(in crate::device::cuda) fn size(&self) -> Word {
        self.axis(0, 0)
    }

    /// The stride of an operand along the only axis.
    pub(in crate::device::cuda) fn stride(&self, operand: usize) -> Word {
        self.axis(0, 2 + operand)
    }

    /// Writes code that adds the offsets of `position` to variables: `into[k]` is the variable of operand
    /// `k`, if it is wanted.
    pub(in crate::device::cuda) fn offsets(
        &self,
        source: &mut SourceWriter,
        position: &str,
        into: &[Option<&str>],
    ) {
        if self.capacity == 0 {
            return;
        }
        let wanted = || into.iter().enumerate().filter_map(|(operand, name)| Some((operand, (*name)?)));
        let add = |source: &mut SourceWriter, axis: usize, position: &str| {
            for (operand, name) in wanted() {
                source.line(format_args!("    {name} += {position} * {};", self.axis(axis, 2 + operand)));
            }
        };
        source.line(format_args!("  {{ idx rest = {position};"));
        for axis in 1..self.capacity {
            if axis > 1 {
                source.line(format_args!("    if (a.v[{}] > {axis}) {{", self.word));
            }
            let (size, Word(divisor)) = (self.axis(axis, 0), self.axis(axis, 1));
            source.line(format_args!(
                "    const idx q{axis} = quotient(rest, {size}, a.v[{divisor}]), \
                 c{axis} = rest - q{axis} * {size}; rest = q{axis};"
            ));
            add(source, axis, &format!("c{axis}"));
        }
        source.line(format_args!("    {}", "}".repeat(self.capacity.saturating_sub(2))));
        add(source, 0, "rest");
        source.line(format_args!("    (void)rest; }}"));
    }
}

/// The index of a word, which prints as an expression of a position.
#[derive(Clone, Copy)]
pub(in crate::device::cuda) struct Word(pub(in crate::device::cuda) usize);

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(idx)a.v[{}]", self.0)
    }
}

/// The names of `count` variables: `letter0`, `letter1`, …
pub(in crate::device::cuda) fn names(letter: &str, count: usize) -> Vec<String> {
    (0..count).map(|k| format!("{letter}{k}")).collect()
}

/// All names, as [`AxesArgs::offsets`] takes them.
pub(in crate::device::cuda) fn all(names: &[String]) -> Vec<Option<&str>> {
    names.iter().map(|name| Some(name.as_str())).collect()
}
