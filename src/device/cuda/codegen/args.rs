//! From many axes to few, the words of a kernel, and index arithmetic in generated source.
//!
//! A kernel takes one struct of 64-bit words. [`Words`] puts them there one after another, says where each stands, and
//! collects what the source depends on; the source names a word by its place.
//! Axes are merged here as in `cpu/walk.rs`, which works on arrays of a fixed length because a call there costs a
//! hundred instructions.
// Imports: `kernel`, `device`.

use crate::device::cuda::codegen::source::Source;
use crate::device::OperandRef;
use crate::kernel::Program;
use std::fmt;
use std::sync::LazyLock;

/// Positions and steps up to here are counted in 32 bits; some room is left for the last block.
const NARROW: usize = (i32::MAX / 2) as usize;

/// Axes that several operands are walked along together, from the slowest to the fastest; strides in elements.
#[derive(Clone, Debug, Default)]
pub(in crate::device::cuda) struct Axes {
    pub(in crate::device::cuda) sizes: Vec<usize>,
    /// `strides[operand][axis]`.
    pub(in crate::device::cuda) strides: Vec<Vec<isize>>,
}

impl Axes {
    /// The axes of `sizes` that are not 1, merged where every operand is one run over both; `strides[k]` says those of
    /// operand `k`, none that it does not move. They stay in order, or are sorted by falling strides of operand 0.
    pub(in crate::device::cuda) fn merged(sizes: &[usize], strides: &[&[isize]], by_first: bool) -> Axes {
        let step = |own: &[isize], axis: usize| own.get(axis).copied().unwrap_or(0);
        let mut order: Vec<usize> = (0..sizes.len()).filter(|&axis| sizes[axis] != 1).collect();
        if by_first && let Some(first) = strides.first() {
            order.sort_by_key(|&axis| std::cmp::Reverse(step(first, axis).unsigned_abs()));
        }
        let mut axes = Axes { sizes: Vec::new(), strides: vec![Vec::new(); strides.len()] };
        for axis in order {
            let size = sizes[axis];
            let continues =
                !axes.sizes.is_empty()
                    && axes.strides.iter().zip(strides).all(|(merged, own)| {
                        merged.last() == Some(&step(own, axis).wrapping_mul(size as isize))
                    });
            if continues && let Some(last) = axes.sizes.last_mut() {
                *last *= size;
                axes.strides.iter_mut().for_each(|merged| merged.truncate(merged.len() - 1));
            } else {
                axes.sizes.push(size);
            }
            for (merged, own) in axes.strides.iter_mut().zip(strides) {
                merged.push(step(own, axis));
            }
        }
        axes
    }

    pub(in crate::device::cuda) fn of(sizes: &[usize], slots: &[OperandRef<'_>], by_first: bool) -> Axes {
        let strides: Vec<_> = slots.iter().map(|slot| slot.stride).collect();
        Axes::merged(sizes, &strides, by_first)
    }

    pub(in crate::device::cuda) fn rank(&self) -> usize {
        self.sizes.len()
    }

    pub(in crate::device::cuda) fn numel(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The step of an operand along the fastest axis; 0 when there is none.
    pub(in crate::device::cuda) fn inner_step(&self, operand: usize) -> isize {
        self.strides[operand].last().copied().unwrap_or(0)
    }

    /// The last axis by itself; one of a single position where there is none.
    pub(in crate::device::cuda) fn pop(&mut self) -> Axes {
        let size = self.sizes.pop().unwrap_or(1);
        Axes {
            sizes: vec![size],
            strides: self.strides.iter_mut().map(|steps| vec![steps.pop().unwrap_or(0)]).collect(),
        }
    }

    /// How far an operand's elements lie from the first, at most.
    pub(in crate::device::cuda) fn reach(&self, operand: usize) -> usize {
        let reach =
            |(&step, &size): (&isize, &usize)| step.unsigned_abs().saturating_mul(size.saturating_sub(1));
        self.strides[operand].iter().zip(&self.sizes).map(reach).fold(0usize, usize::saturating_add)
    }
}

/// Whether all positions have 64 bits, so that tests reach such kernels without tensors of gigabytes.
fn always_wide() -> bool {
    static WIDE: LazyLock<bool> = LazyLock::new(|| std::env::var_os("RANKFORM_CUDA_WIDE").is_some());
    *WIDE
}

/// Whether positions in one of `groups`, or steps of an operand along all of them and `beyond`, need more than 31 bits.
/// Every group has the same operands.
pub(in crate::device::cuda) fn is_wide(groups: &[&Axes], beyond: usize) -> bool {
    let operands = groups.first().map_or(0, |axes| axes.strides.len());
    let reach = |operand| groups.iter().map(|axes| axes.reach(operand)).fold(beyond, usize::saturating_add);
    always_wide()
        || groups.iter().any(|axes| axes.numel() > NARROW)
        || (0..operands).any(|operand| reach(operand) > NARROW)
}

/// What `rest / size` is multiplied by and shifted by, for `rest` below 2³¹ (Granlund and Montgomery 1994): with
/// `p = 31 + ⌈log₂ size⌉`, `⌊rest · ⌈2ᵖ / size⌉ / 2ᵖ⌋`. The factor has 32 bits and stands in the lower half.
fn divisor(size: usize) -> i64 {
    let size = size.max(1);
    let bits = 31 + size.next_power_of_two().trailing_zeros();
    match size <= NARROW {
        true => (1u64 << bits).div_ceil(size as u64) as i64 | i64::from(bits) << 32,
        // Such axes are walked in 64 bits, which divide.
        false => 0,
    }
}

/// The words of a kernel, as they are put together.
#[derive(Clone, Debug)]
pub(in crate::device::cuda) struct Words {
    pub(in crate::device::cuda) list: Vec<i64>,
    /// What the source depends on beside the types of its key.
    pub(in crate::device::cuda) class: Vec<u32>,
    pub(in crate::device::cuda) wide: bool,
}

impl Words {
    /// No words; positions have 64 bits if `wide`.
    pub(in crate::device::cuda) fn new(wide: bool) -> Words {
        Words { list: Vec::new(), class: vec![u32::from(wide)], wide }
    }

    /// Adds a word; its place.
    pub(in crate::device::cuda) fn push(&mut self, word: usize) -> usize {
        self.list.push(word as i64);
        self.list.len() - 1
    }

    /// Adds the addresses of operands; the place of the first.
    pub(in crate::device::cuda) fn slots(&mut self, slots: &[OperandRef<'_>]) -> usize {
        self.list.extend(slots.iter().map(|slot| slot.address.addr() as i64));
        self.list.len() - slots.len()
    }

    /// Says what the source depends on.
    pub(in crate::device::cuda) fn depends(&mut self, on: impl IntoIterator<Item = usize>) {
        self.class.extend(on.into_iter().map(|n| n as u32));
    }

    /// Adds axes. One source serves two to four of them, another five to eight, and so on.
    pub(in crate::device::cuda) fn axes(&mut self, axes: &Axes) -> Place {
        let room = if axes.rank() < 2 { axes.rank() } else { axes.rank().next_power_of_two().max(4) };
        let place = Place { word: self.list.len(), room, operands: axes.strides.len() };
        self.depends([room]);
        if room > 1 {
            self.push(axes.rank());
        }
        // The slowest first, which is what is left when the others were taken off, from the fastest on.
        let order = (0..axes.rank().min(1)).chain((1..axes.rank()).rev());
        for axis in order {
            self.list.extend([axes.sizes[axis] as i64, divisor(axes.sizes[axis])]);
            self.list.extend(axes.strides.iter().map(|steps| steps[axis] as i64));
        }
        self.list.resize(place.end(), 0);
        place
    }

    /// Adds the run-time numbers of a program; the place of the first.
    pub(in crate::device::cuda) fn numbers<P: Program>(&mut self, program: &P) -> usize {
        let first = self.list.len();
        if !P::FIXED {
            let halves = |bytes: &[u8; 16]| {
                [0, 8].map(|at| i64::from_ne_bytes(std::array::from_fn(|k| bytes[at + k])))
            };
            self.list.extend(crate::kernel::numbers(program).iter().flat_map(halves));
        }
        first
    }

    /// The head of the kernel's source: its words, behind those of the launch, and the type of positions.
    pub(in crate::device::cuda) fn head(&self, source: &mut Source) {
        let idx = if self.wide { "i64" } else { "i32" };
        source.line(format_args!(
            "typedef {idx} idx;\nstruct Args {{ i64 begun, operation, v[{}]; }};",
            self.list.len().max(1)
        ));
    }
}

/// Where axes stand among a kernel's words.
#[derive(Clone, Copy, Debug)]
pub(in crate::device::cuda) struct Place {
    word: usize,
    /// How many axes there is room for.
    room: usize,
    pub(in crate::device::cuda) operands: usize,
}

impl Place {
    fn end(&self) -> usize {
        self.word + usize::from(self.room > 1) + self.room * (2 + self.operands)
    }

    fn axis(&self, axis: usize, part: usize) -> Word {
        Word(self.word + usize::from(self.room > 1) + axis * (2 + self.operands) + part)
    }

    /// The size of the only axis.
    pub(in crate::device::cuda) fn size(&self) -> Word {
        self.axis(0, 0)
    }

    /// The step of an operand along the only axis.
    pub(in crate::device::cuda) fn step(&self, operand: usize) -> Word {
        self.axis(0, 2 + operand)
    }

    /// Adds the steps of position `position` to variables: `into[k]` names that of operand `k`, if it is wanted.
    pub(in crate::device::cuda) fn offsets(&self, source: &mut Source, position: &str, into: &[Option<&str>]) {
        if self.room == 0 {
            return;
        }
        let wanted = || into.iter().enumerate().filter_map(|(operand, name)| Some((operand, (*name)?)));
        let take = |source: &mut Source, axis: usize, position: &str| {
            for (operand, name) in wanted() {
                source.line(format_args!("    {name} += {position} * {};", self.axis(axis, 2 + operand)));
            }
        };
        source.line(format_args!("  {{ idx rest = {position};"));
        for axis in 1..self.room {
            if axis > 1 {
                source.line(format_args!("    if (a.v[{}] > {axis}) {{", self.word));
            }
            let (size, Word(divisor)) = (self.axis(axis, 0), self.axis(axis, 1));
            source.line(format_args!(
                "    const idx q{axis} = quotient(rest, {size}, a.v[{divisor}]), c{axis} = rest - q{axis} * {size}; rest = q{axis};"
            ));
            take(source, axis, &format!("c{axis}"));
        }
        source.line(format_args!("    {}", "}".repeat(self.room.saturating_sub(2))));
        take(source, 0, "rest");
        source.line(format_args!("    (void)rest; }}"));
    }
}

/// A word, as a position.
#[derive(Clone, Copy)]
pub(in crate::device::cuda) struct Word(pub(in crate::device::cuda) usize);

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(idx)a.v[{}]", self.0)
    }
}

/// The names of so many variables.
pub(in crate::device::cuda) fn names(letter: &str, count: usize) -> Vec<String> {
    (0..count).map(|k| format!("{letter}{k}")).collect()
}

/// All of them, as [`Place::offsets`] takes them.
pub(in crate::device::cuda) fn all(names: &[String]) -> Vec<Option<&str>> {
    names.iter().map(|name| Some(name.as_str())).collect()
}
