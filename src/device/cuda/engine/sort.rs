//! `sort`: a stable radix sort (`radix.cuh`). Elements move with their bits, and their order keys decide.
//!
//! A block sorts lines that fit in its shared memory, several short ones together. Longer lines take three
//! kernels for each digit of 8 bits: parts of lines count their elements by digit, counts become the places
//! of each part, and parts move their elements there. The first pass reads the operand, and the last one
//! writes the results.
// Imports: `error`, `element`, `kernel`, `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::{ArgBlock, AxesArgs};
use crate::device::cuda::codegen::axes::{Axes, is_wide};
use crate::device::cuda::codegen::source::SourceWriter;
use crate::device::cuda::codegen::types::{c_type, ensure_computable, unsupported};
use crate::device::cuda::driver::kernel_cache::KernelKey;
use crate::device::cuda::engine::copy;
use crate::device::cuda::engine::reduce::BLOCKS_PER_MULTIPROCESSOR;
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::stream::queue::{LaunchShape, Stream, block_count};
use crate::element::Comparable;
use crate::error::{Error, Result};
use crate::kernel::SortPlan;
use std::any::TypeId;
use std::sync::Arc;

/// Threads of a block.
const THREADS: usize = 256;
/// Blocks of a multiprocessor, which limits the registers of a thread: of kernels that count, and of those that
/// hold the elements of a tile in registers.
const COUNTING_BLOCKS: usize = 4;
const TILE_BLOCKS: usize = 2;
/// Values of a digit.
const DIGITS: usize = 256;
/// Elements of a thread, of 8 bytes or with positions of 8 bytes; other ones.
const WIDE_ITEMS: usize = 8;
const ITEMS: usize = 16;
/// The least number of elements of a thread: for fewer, counting takes longer than ranking.
const MIN_ITEMS: usize = 4;
/// Neighboring lines that are read together where they are transposed.
const MIN_TRANSPOSED_LINES: usize = 32;
/// The functions of all kernels.
const RADIX: &str = include_str!("radix.cuh");

/// Queues a sort; `op` names it in errors.
///
/// # Errors
/// [`Error::Value`] for elements that kernels cannot compute with; [`Error::OutOfMemory`]; those of the
/// launches.
///
/// # Safety
/// As [`Device::sort`](crate::device::Device::sort).
pub(in crate::device::cuda) unsafe fn run<T: Comparable>(
    stream: &Arc<Stream>,
    op: &'static str,
    plan: SortPlan<'_>,
    values: Option<OperandRef<'_>>,
    positions: Option<OperandRef<'_>>,
    from: OperandRef<'_>,
) -> Result<()> {
    ensure_computable(op, unsupported::<T>())?;
    if plan.lines.contains(&0) || plan.along == 0 || plan.keep == 0 {
        return Ok(());
    }
    let rows = |slot: OperandRef<'_>, count| Rows::instead_of(stream, op, plan.lines, count, slot);
    let rows_of_results = |slot: Option<OperandRef<'_>>| match slot {
        Some(slot) => rows(slot, plan.keep),
        None => Ok(None),
    };
    let (sources, sorted, places) =
        (rows(from, plan.along)?, rows_of_results(values)?, rows_of_results(positions)?);
    // SAFETY: the caller's promise; rows have the sizes of their operands.
    unsafe {
        if let Some(rows) = &sources {
            copy::run(stream, &rows.sizes, rows.operand(), from)?;
        }
        let results =
            [values.map(|slot| Rows::or(&sorted, slot)), positions.map(|slot| Rows::or(&places, slot))];
        sort_lines::<T>(stream, op, plan, results, Rows::or(&sources, from))?;
        for (rows, slot) in [(&sorted, values), (&places, positions)] {
            if let (Some(rows), Some(slot)) = (rows, slot) {
                copy::run(stream, &rows.sizes, slot, rows.operand())?;
            }
        }
    }
    Ok(())
}

/// Row-major scratch memory in place of an operand whose lines are transposed: a copy by tiles and a sort of
/// rows access memory in order, and a sort of columns does not.
struct Rows {
    memory: CudaBlock,
    sizes: Vec<usize>,
    stride: Vec<isize>,
    element: usize,
}

impl Rows {
    /// The rows for an operand with `count` elements of each line; `None` if its lines are not transposed.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn instead_of(
        stream: &Arc<Stream>,
        op: &'static str,
        lines: &[usize],
        count: usize,
        slot: OperandRef<'_>,
    ) -> Result<Option<Rows>> {
        let along = slot.stride[lines.len()].unsigned_abs();
        let is_neighbor = |(&size, &step): (&usize, &isize)| step == 1 && size >= MIN_TRANSPOSED_LINES;
        if count == 1 || along <= 1 || !lines.iter().zip(slot.stride).any(is_neighbor) {
            return Ok(None);
        }
        let sizes: Vec<usize> = lines.iter().copied().chain([count]).collect();
        let nbytes = nbytes_of(op, sizes.iter().copied().chain([slot.element]))?;
        let stride =
            (0..sizes.len()).map(|axis| sizes[axis + 1..].iter().product::<usize>() as isize).collect();
        Ok(Some(Rows { memory: CudaBlock::scratch(stream, nbytes)?, sizes, stride, element: slot.element }))
    }

    /// The rows as an operand, or the operand itself.
    fn or<'a>(rows: &'a Option<Rows>, slot: OperandRef<'a>) -> OperandRef<'a> {
        rows.as_ref().map_or(slot, Rows::operand)
    }

    fn operand(&self) -> OperandRef<'_> {
        OperandRef { address: self.memory.address(), stride: &self.stride, element: self.element }
    }
}

/// The product of sizes as a number of bytes.
///
/// # Errors
/// [`Error::OutOfMemory`] if no memory has so many.
pub(super) fn nbytes_of(op: &'static str, sizes: impl IntoIterator<Item = usize>) -> Result<usize> {
    let product = sizes.into_iter().try_fold(1usize, usize::checked_mul);
    product
        .filter(|&nbytes| nbytes <= isize::MAX as usize / 8)
        .ok_or(Error::OutOfMemory { op, nbytes: usize::MAX })
}

/// The kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Lines within a tile.
    Tile,
    /// The three steps of a pass over long lines.
    Count,
    Scan,
    Move,
}

impl Kind {
    /// The mechanism of the kernel, and its function in `radix.cuh`.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Tile => ("sort tile", "sort_tile_sync"),
            Kind::Count => ("sort count", "count_part_sync"),
            Kind::Scan => ("sort scan", "scan_parts_sync"),
            Kind::Move => ("sort move", "move_part_sync"),
        }
    }
}

/// Queues a sort of lines whose elements are accessed where they are; `results` are values and positions.
///
/// # Errors
/// As [`run`], without those of elements.
///
/// # Safety
/// As [`run`].
unsafe fn sort_lines<T: Comparable>(
    stream: &Arc<Stream>,
    op: &'static str,
    plan: SortPlan<'_>,
    results: [Option<OperandRef<'_>>; 2],
    from: OperandRef<'_>,
) -> Result<()> {
    let rank = plan.lines.len();
    let zeros = vec![0isize; rank + 1];
    let none = OperandRef { address: std::ptr::null_mut(), stride: &zeros, element: 1 };
    let slots = [from, results[0].unwrap_or(none), results[1].unwrap_or(none)];
    let strides: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..rank]).collect();
    let lines = Axes::coalesced(plan.lines, &strides, false);
    let line =
        Axes { sizes: vec![plan.along], strides: slots.iter().map(|slot| vec![slot.stride[rank]]).collect() };
    let count = lines.numel();
    let total = nbytes_of(op, [count, plan.along])?;
    let all = Axes { sizes: vec![total], strides: vec![vec![0]; slots.len()] };
    let mut words = ArgBlock::new(is_wide(&[&lines, &line, &all], 0));
    for number in [count, plan.along, plan.first, plan.keep] {
        words.push(number);
    }
    words.list.push(-i64::from(plan.descending));
    words.operands(&slots);
    words.list.extend(slots.map(|slot| slot.stride[rank] as i64));
    let most = if words.wide || size_of::<T>() > 4 { WIDE_ITEMS } else { ITEMS };
    let is_short = plan.along <= THREADS * most;
    let items = if is_short { items_of_tile(stream, plan.along, total).min(most) } else { most };
    words.depends(results.map(|slot| usize::from(slot.is_some())).into_iter().chain([items]));
    let mut queue = Queue { stream, op, results: results.map(|slot| slot.is_some()), items, words, lines };
    // SAFETY: the caller's promise.
    unsafe {
        match is_short {
            true => queue.tiles::<T>(count, plan.along),
            false => queue.long_lines::<T>(count, plan.along),
        }
    }
}

/// Elements of a thread for lines within a tile: as many as a line needs, and more if the tiles still occupy
/// the GPU, because a tile counts its digits once. A tile has at most as many lines as a digit has values.
fn items_of_tile(stream: &Stream, along: usize, total: usize) -> usize {
    let blocks = BLOCKS_PER_MULTIPROCESSOR * stream.gpu.context.multiprocessors;
    let each = (total / (THREADS * blocks)).max(1);
    let occupying = (1 << each.ilog2()).min(along.next_power_of_two());
    along.div_ceil(THREADS).next_power_of_two().max(occupying).max(MIN_ITEMS)
}

/// A sort whose operands are among the words.
struct Queue<'a> {
    stream: &'a Arc<Stream>,
    op: &'static str,
    /// Whether values, and positions, are wanted.
    results: [bool; 2],
    /// Elements of a thread.
    items: usize,
    /// The words of all kernels.
    words: ArgBlock,
    lines: Axes,
}

impl Queue<'_> {
    /// Sorts lines that fit in a tile, by one kernel.
    ///
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn tiles<T: Comparable>(&mut self, count: usize, along: usize) -> Result<()> {
        // Lines of a tile are numbered by one digit.
        let group = (THREADS * self.items / along).clamp(1, DIGITS);
        self.words.push(group);
        // ⌊slot / along⌋ = ⌊slot · inverse / 2³²⌋ for the slots of a tile.
        self.words.push((1usize << 32).div_ceil(along));
        let place = self.words.axes(&self.lines);
        // SAFETY: the caller's promise.
        unsafe { self.launch::<T>(Kind::Tile, place, count.div_ceil(group)) }
    }

    /// Sorts long lines, by three kernels for each digit.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; those of the launches.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn long_lines<T: Comparable>(&mut self, count: usize, along: usize) -> Result<()> {
        let (tile, passes) = (THREADS * self.items, size_of::<T>());
        let tiles = along.div_ceil(tile);
        let blocks = BLOCKS_PER_MULTIPROCESSOR * self.stream.gpu.context.multiprocessors;
        let share = tiles.div_ceil(blocks.div_ceil(count).clamp(1, tiles)) * tile;
        let parts = along.div_ceil(share);
        // Lanes of the scan of a digit's counts.
        let width = parts.next_power_of_two().min(32);
        let position = if self.words.wide { 8 } else { 4 };
        // Elements between two passes: none after a single pass, one copy after two.
        let kept = |copy: usize| if copy + 1 < passes { [count, along] } else { [0, 0] };
        let kept_positions = |copy| kept(copy).into_iter().chain([position, usize::from(self.results[1])]);
        let mut end = 0;
        let mut part = |nbytes: Result<usize>| {
            let begin = end;
            end += nbytes?.next_multiple_of(256);
            Ok(begin)
        };
        let (op, counted) = (self.op, [count, DIGITS, position]);
        let offsets = [
            part(nbytes_of(op, counted.into_iter().chain([parts])))?,
            part(nbytes_of(op, counted))?,
            part(nbytes_of(op, [count, parts, 8]))?,
            part(nbytes_of(op, [count, 8]))?,
            part(nbytes_of(op, kept(0).into_iter().chain([size_of::<T>()])))?,
            part(nbytes_of(op, kept(1).into_iter().chain([size_of::<T>()])))?,
            part(nbytes_of(op, kept_positions(0)))?,
            part(nbytes_of(op, kept_positions(1)))?,
        ];
        let scratch = CudaBlock::scratch(self.stream, end)?;
        let pass_at = self.words.push(0);
        for number in [parts, share, width] {
            self.words.push(number);
        }
        self.words.list.extend(offsets.map(|offset| (scratch.address().addr() + offset) as i64));
        let place = self.words.axes(&self.lines);
        for pass in 0..passes {
            self.words.list[pass_at] = pass as i64;
            // SAFETY: the caller's promise, and the scratch memory is allocated until the kernels are queued.
            unsafe {
                self.launch::<T>(Kind::Count, place, count * parts)?;
                self.launch::<T>(Kind::Scan, place, count * width)?;
                self.launch::<T>(Kind::Move, place, count * parts)?;
            }
        }
        Ok(())
    }

    /// Queues a kernel.
    ///
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// As [`run`], with words for this kernel.
    unsafe fn launch<T: Comparable>(&self, kind: Kind, place: AxesArgs, blocks: usize) -> Result<()> {
        let (mechanism, _) = kind.names();
        let key = KernelKey {
            mechanism,
            types: [TypeId::of::<T>(); 2],
            key_numbers: self.words.key_numbers.clone(),
        };
        let kernel = self.stream.kernel(key, || Ok(self.source(c_type(T::DTYPE), kind, place)))?;
        let shape = LaunchShape { blocks: (block_count(blocks), 1), threads: THREADS as u32, shared: 0 };
        // SAFETY: (1) the words are those of `radix.cuh`; (2) is the caller's promise.
        unsafe { self.stream.launch(self.op, kernel, shape, &self.words.list) }
    }

    /// The source of a kernel, which calls its function of `radix.cuh`.
    fn source(&self, c: &str, kind: Kind, place: AxesArgs) -> String {
        let (_, function) = kind.names();
        let mut s = SourceWriter::new();
        self.words.declare(&mut s);
        let [values, positions] = self.results;
        s.line(format_args!("typedef {c} Element;\nconstexpr int ITEMS = {};", self.items));
        s.line(format_args!("constexpr bool VALUES = {values}, POSITIONS = {positions};"));
        s.line(format_args!(
            "DI void line_offsets(const Args& a, const idx line, idx& from, idx& values, idx& positions) {{"
        ));
        place.offsets(&mut s, "line", &[Some("from"), Some("values"), Some("positions")]);
        s.line(format_args!("}}\n{RADIX}"));
        let holds_elements = matches!(kind, Kind::Tile | Kind::Move);
        let blocks = if holds_elements { TILE_BLOCKS } else { COUNTING_BLOCKS };
        s.line(format_args!(
            "extern \"C\" __global__ void __launch_bounds__({THREADS}, {blocks}) kernel(const Args a) {{\n  \
             {function}(a);\n}}"
        ));
        s.text()
    }
}
