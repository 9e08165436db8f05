//! Moves by index and by mask.
//!
//! Indices are looked at before anything moves, and the host waits for what was found: an index outside is an error of the
//! call that has it. Elements are moved as words of their size.
// Imports: `error`, `element`, `kernel`, `device`.

use crate::device::cuda::codegen::source::{Source, c_type, foreign, plain};
use crate::device::cuda::codegen::args::{Axes, Place, Word, Words, is_wide};
use crate::device::cuda::engine::map::arguments;
use crate::device::cuda::memory::block::CudaBlock;
use crate::device::cuda::engine::sort::{Pairs, WORDS};
use crate::device::cuda::stream::queue::{Key, Shape, Stream, count_of};
use crate::device::{Init, Inputs, OperandRef};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::{GatherPlan, Input, Op, Store, trace_op};
use num_complex::Complex;
use std::any::TypeId;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;

const THREADS: usize = 256;
/// Elements of a column that a thread takes one after another without regret, and columns that keep a card busy.
const ROWS: usize = 64;
const COLUMNS: usize = 4096;
/// Positions of a block that picks by mask.
const CHUNK: usize = 1024;

/// The word that an element is moved as, and how many of them it has: 16, 8, 4, 2 or 1 bytes.
fn word(element: usize) -> (usize, usize) {
    let bytes = [16, 8, 4, 2].into_iter().find(|&bytes| element.is_multiple_of(bytes)).unwrap_or(1);
    (bytes, element / bytes)
}

fn c_word(bytes: usize) -> &'static str {
    match bytes {
        16 => "c64",
        8 => "u64",
        4 => "u32",
        2 => "u16",
        _ => "u8",
    }
}

/// Strides in words, with an axis for the words of an element.
fn in_words(stride: &[isize], words: usize, own: isize) -> Vec<isize> {
    stride.iter().map(|step| step.wrapping_mul(words as isize)).chain([own]).collect()
}

fn blocks(threads: usize) -> Shape {
    Shape { blocks: (count_of(threads.div_ceil(THREADS)), 1), threads: THREADS as u32, shared: 0 }
}

/// The head of a kernel with a thread for each of the positions that word `count` says.
fn begin(s: &mut Source, position: &str, count: usize) {
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!(
        "  const idx {position} = (idx)blockIdx.x * {THREADS} + threadIdx.x;\n  if ({position} >= {}) return;",
        Word(count)
    ));
}

impl Stream {
    /// # Safety
    /// As [`Device::copy`](crate::device::Device::copy).
    pub(in crate::device::cuda) unsafe fn copy(
        self: &Arc<Self>,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
    ) -> Result<()> {
        if to.element == 0 || sizes.contains(&0) {
            return Ok(());
        }
        let (bytes, words) = word(to.element);
        let sizes: Vec<usize> = sizes.iter().copied().chain([words]).collect();
        let (to_stride, from_stride) = (in_words(to.stride, words, 1), in_words(from.stride, words, 1));
        let to = [OperandRef { stride: &to_stride, element: bytes, ..to }];
        let from = [OperandRef { stride: &from_stride, element: bytes, ..from }];
        let inputs = Inputs { slots: &from, reads: &[0] };
        // SAFETY: the caller's promise; words are only loaded and stored, which keeps their bits.
        unsafe {
            match bytes {
                16 => self.map(&Store(Input::<Complex<f64>>(PhantomData)), &sizes, &to, inputs),
                8 => self.map(&Store(Input::<u64>(PhantomData)), &sizes, &to, inputs),
                4 => self.map(&Store(Input::<u32>(PhantomData)), &sizes, &to, inputs),
                2 => self.map(&Store(Input::<u16>(PhantomData)), &sizes, &to, inputs),
                _ => self.map(&Store(Input::<u8>(PhantomData)), &sizes, &to, inputs),
            }
        }
    }

    /// [`Error::Index`] if an index lies outside; where several do, one of them.
    unsafe fn check_indices(self: &Arc<Self>, plan: GatherPlan<'_>, index: OperandRef<'_>) -> Result<()> {
        // An axis along which the index does not change is looked at once.
        let sizes = plan
            .sizes
            .iter()
            .zip(index.stride)
            .map(|(&size, &step)| if step == 0 { size.min(1) } else { size });
        let sizes: Vec<usize> = sizes.collect();
        if sizes.contains(&0) {
            return Ok(());
        }
        let axes = Axes::of(&sizes, &[index], true);
        let found = CudaBlock::fresh(self, 16, Init::Zeroed)?;
        let mut words = Words::new(is_wide(&[&axes], 0));
        let [numel, bound, report] =
            [axes.numel(), plan.bound, found.address().addr()].map(|word| words.push(word));
        let (at, place) = (words.slots(&[index]), words.axes(&axes));
        let key = Key { mechanism: "check", types: [TypeId::of::<()>(); 2], class: words.class.clone() };
        let kernel = self.kernel(key, || {
            let mut s = Source::new();
            words.head(&mut s);
            begin(&mut s, "p", numel);
            s.line(format_args!("  idx o = 0;"));
            place.offsets(&mut s, "p", &[Some("o")]);
            s.line(format_args!("  const i64 index = ((const i64*)a.v[{at}])[o];"));
            // The largest of those outside, as numbers without a sign: the same one in any order.
            s.line(format_args!("  u64* const report = (u64*)a.v[{report}];"));
            s.line(format_args!("  if ((u64)index >= (u64)a.v[{bound}]) {{ report[0] = 1; atomicMax(report + 1, (u64)index); }}\n}}"));
            s.text()
        })?;
        let mut report = [MaybeUninit::new(0u8); 16];
        // SAFETY: the caller's promise; the words stand as the source reads them.
        unsafe {
            self.launch(plan.op, kernel, blocks(axes.numel()), &words.list)?;
            self.read(found.address(), &mut report)?;
        }
        // SAFETY: initialized above, and read since.
        let report = report.map(|byte| unsafe { byte.assume_init() });
        let number = |at: usize| i64::from_ne_bytes(std::array::from_fn(|k| report[at + k]));
        match number(0) {
            0 => Ok(()),
            _ => Err(Error::Index {
                op: plan.op,
                index: [number(8) as isize].into(),
                axis: None,
                sizes: [plan.bound].into(),
            }),
        }
    }

    /// # Safety
    /// As [`Device::gather`](crate::device::Device::gather).
    pub(in crate::device::cuda) unsafe fn gather(
        self: &Arc<Self>,
        plan: GatherPlan<'_>,
        to: OperandRef<'_>,
        cells: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.check_indices(plan, index) }?;
        if to.element == 0 || plan.sizes.contains(&0) {
            return Ok(());
        }
        let (bytes, count) = word(to.element);
        let sizes: Vec<usize> = plan.sizes.iter().copied().chain([count]).collect();
        let strides =
            [in_words(to.stride, count, 1), in_words(cells.stride, count, 1), in_words(index.stride, 1, 0)];
        let strides: Vec<&[isize]> = strides.iter().map(Vec::as_slice).collect();
        let axes = Axes::merged(&sizes, &strides, true);
        // Indexed steps may reach further than strides.
        let beyond = plan.step.unsigned_abs().saturating_mul(plan.bound).saturating_mul(count);
        let mut words = Words::new(is_wide(&[&axes], beyond));
        words.depends([bytes]);
        let (numel, step) =
            (words.push(axes.numel()), words.push(plan.step.wrapping_mul(count as isize) as usize));
        let (operands, place) = (words.slots(&[to, cells, index]), words.axes(&axes));
        let key = Key { mechanism: "gather", types: [TypeId::of::<()>(); 2], class: words.class.clone() };
        let kernel = self.kernel(key, || {
            let (mut s, c) = (Source::new(), c_word(bytes));
            words.head(&mut s);
            begin(&mut s, "p", numel);
            s.line(format_args!("  idx to = 0, cell = 0, at = 0;"));
            place.offsets(&mut s, "p", &[Some("to"), Some("cell"), Some("at")]);
            s.line(format_args!("  const idx index = (idx)((const i64*)a.v[{}])[at];", operands + 2));
            s.line(format_args!(
                "  (({c}*)a.v[{operands}])[to] = ((const {c}*)a.v[{}])[cell + index * {}];\n}}",
                operands + 1,
                Word(step)
            ));
            s.text()
        })?;
        // SAFETY: the caller's promise; every index is in bounds.
        unsafe { self.launch(plan.op, kernel, blocks(axes.numel()), &words.list) }
    }

    /// Elements that meet in one cell come in row-major order, on one thread. A thread takes a column, which is what no other
    /// meets; where columns are few and long, elements are sorted by their cells, and a thread takes those of one cell.
    ///
    /// # Safety
    /// As [`Device::scatter`](crate::device::Device::scatter).
    pub(in crate::device::cuda) unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        self: &Arc<Self>,
        plan: GatherPlan<'_>,
        cells: OperandRef<'_>,
        from: OperandRef<'_>,
        index: OperandRef<'_>,
    ) -> Result<()> {
        plain(plan.op, foreign::<T>())?;
        // SAFETY: the caller's promise.
        unsafe { self.check_indices(plan, index) }?;
        if plan.sizes.contains(&0) {
            return Ok(());
        }
        let slots = [cells, from, index];
        let lead = plan.sizes.len() - plan.own;
        let split = |at: usize| {
            let (lead, own): (Vec<&[isize]>, Vec<&[isize]>) =
                slots.iter().map(|slot| slot.stride.split_at(at)).unzip();
            (Axes::merged(&plan.sizes[..at], &lead, false), Axes::merged(&plan.sizes[at..], &own, true))
        };
        let (mut leading, mut own) = split(lead);
        let sorted = leading.numel() > ROWS && own.numel() < COLUMNS;
        // Elements of one row have one cell, and are sorted as one, if they have one index.
        if sorted && own.strides[2].iter().any(|&step| step != 0) {
            (leading, own) = split(plan.sizes.len());
        }
        let (columns, along) = (own.numel(), leading.numel());
        let threads = if sorted { along.saturating_mul(columns) } else { columns };
        let reach = plan.step.unsigned_abs().saturating_mul(plan.bound);
        let mut words = Words::new(is_wide(&[&leading, &own], reach.max(threads)));
        let mut pairs = if sorted { Some(Pairs::new(self, plan.op, 1, along)?) } else { None };
        if let Some(pairs) = &pairs {
            pairs.words(&mut words);
        }
        let [threads_at, columns_at, along_at, step] =
            [threads, columns, along, plan.step as usize].map(|word| words.push(word));
        let operands = words.slots(&slots);
        let (own_place, lead_place) = (words.axes(&own), words.axes(&leading));
        let c = c_type(T::DTYPE);
        let run =
            |part: &'static str, threads: usize, count: usize, text: &dyn Fn(&mut Source, &str, &str)| {
                let key = Key {
                    mechanism: part,
                    types: [TypeId::of::<F>(), TypeId::of::<T>()],
                    class: words.class.clone(),
                };
                let kernel = self.kernel(key, || {
                    let mut s = Source::new();
                    words.head(&mut s);
                    let signature = s.function("body", &trace_op::<F, (T, T)>(), 0);
                    let x = |index: usize| {
                        ["*to".to_string(), format!("(({c}*)a.v[{}])[o1]", operands + 1)][index].clone()
                    };
                    // The cell of a position, and what becomes of it.
                    let cell = format!("o0 + (idx)((const i64*)a.v[{}])[o2] * {}", operands + 2, Word(step));
                    let apply = format!(
                        "{c}* const to = ({c}*)a.v[{operands}] + cell; {c} y0; body({}); *to = y0;",
                        arguments(&signature, &x, &|_| "y0".to_string())
                    );
                    begin(&mut s, "thread", count);
                    text(&mut s, &cell, &apply);
                    s.text()
                })?;
                // SAFETY: the caller's promise; every index is in bounds.
                unsafe { self.launch(plan.op, kernel, blocks(threads), &words.list) }
            };
        let bases = |s: &mut Source, column: &str| {
            s.line(format_args!("  idx b0 = 0, b1 = 0, b2 = 0;"));
            own_place.offsets(s, column, &[Some("b0"), Some("b1"), Some("b2")]);
        };
        let element = |s: &mut Source, position: &str| {
            s.line(format_args!("    idx o0 = b0, o1 = b1, o2 = b2;"));
            lead_place.offsets(s, position, &[Some("o0"), Some("o1"), Some("o2")]);
        };
        let Some(pairs) = &mut pairs else {
            return run("scatter", threads, threads_at, &|s, cell, apply| {
                bases(s, "thread");
                s.line(format_args!("  for (idx p = 0; p < {}; p++) {{", Word(along_at)));
                element(s, "p");
                s.line(format_args!("    const idx cell = {cell};\n    {apply}\n  }}\n}}"));
            });
        };
        run("scatter keys", pairs.total, 0, &|s, cell, _| {
            s.line(format_args!(
                "{WORDS}\n  u64 key = 0xffffffffffffffffull; (void)padded;\n  if (thread < along) {{\n    idx b0 = 0, b1 = 0, b2 = 0;"
            ));
            element(s, "thread");
            s.line(format_args!("    key = (u64)(i64)({cell}) ^ 0x8000000000000000ull; (void)o1;\n  }}\n  keys[thread] = key; places[thread] = thread; (void)total;\n}}"));
        })?;
        pairs.order(self, plan.op)?;
        run("scatter cells", threads, threads_at, &|s, _, apply| {
            let columns = Word(columns_at);
            s.line(format_args!(
                "{WORDS}\n  const i64 first = thread / {columns}; (void)total; (void)padded;"
            ));
            s.line(format_args!("  if (first > 0 && keys[first - 1] == keys[first]) return;"));
            bases(s, &format!("(idx)(thread % {columns})"));
            s.line(format_args!("  for (i64 k = first; k < along && keys[k] == keys[first]; k++) {{"));
            element(s, "(idx)places[k]");
            s.line(format_args!(
                "    const idx cell = b0 + (idx)(i64)(keys[first] ^ 0x8000000000000000ull); (void)o0; (void)o2;\n    {apply}\n  }}\n}}"
            ));
        })
    }

    /// # Safety
    /// As [`Device::compact`](crate::device::Device::compact).
    pub(in crate::device::cuda) unsafe fn compact(
        self: &Arc<Self>,
        sizes: &[usize],
        to: OperandRef<'_>,
        from: OperandRef<'_>,
        mask: OperandRef<'_>,
    ) -> Result<()> {
        if sizes.contains(&0) || to.element == 0 {
            return Ok(());
        }
        let axes = Axes::of(sizes, &[from, mask], false);
        let (bytes, count) = word(to.element);
        let chunks = axes.numel().div_ceil(CHUNK);
        let counts = self.room(chunks * 8)?;
        let mut words = Words::new(is_wide(&[&axes], 0));
        words.depends([bytes]);
        for word in [axes.numel(), chunks, counts.address().addr(), to.stride[0] as usize, count] {
            words.push(word);
        }
        words.slots(&[to, from, mask]);
        let place = words.axes(&axes);
        let step = |pass: u32| {
            let class = words.class.iter().copied().chain([pass]).collect();
            let key = Key { mechanism: "compact", types: [TypeId::of::<()>(); 2], class };
            self.kernel(key, || compaction(pass, place, &words, c_word(bytes)))
        };
        let shape =
            |blocks: usize| Shape { blocks: (count_of(blocks), 1), threads: THREADS as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as `compaction` reads them.
        unsafe {
            self.launch("compact", step(0)?, shape(chunks), &words.list)?;
            self.launch("compact", step(1)?, shape(1), &words.list)?;
            self.launch("compact", step(2)?, shape(chunks), &words.list)
        }
    }
}

/// Three passes: how many each chunk has, how many come before it, and the move. Words: 0 positions, 1 chunks, 2 their counts,
/// 3 the step of the output, 4 the words of an element, 5 to 7 output, input and mask.
fn compaction(pass: u32, place: Place, words: &Words, c: &str) -> String {
    let mut s = Source::new();
    words.head(&mut s);
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!("  __shared__ i64 shared[{THREADS}];\n  i64* const counts = (i64*)a.v[2];\n  const int t = threadIdx.x;"));
    let scan = format!(
        "    for (int far = 1; far < {THREADS}; far *= 2) {{\n      __syncthreads();\n      const i64 sum = shared[t] + (t >= far ? shared[t - far] : 0);\n      __syncthreads();\n      shared[t] = sum;\n    }}\n    __syncthreads();"
    );
    if pass == 1 {
        s.line(format_args!("  i64 before = 0;\n  for (i64 tile = 0; tile < a.v[1]; tile += {THREADS}) {{"));
        s.line(format_args!(
            "    const i64 own = tile + t < a.v[1] ? counts[tile + t] : 0;\n    shared[t] = own;\n{scan}"
        ));
        s.line(format_args!("    if (tile + t < a.v[1]) counts[tile + t] = before + shared[t] - own;"));
        s.line(format_args!("    before += shared[{THREADS} - 1];\n    __syncthreads();\n  }}\n}}"));
        return s.text();
    }
    let each = CHUNK / THREADS;
    s.line(format_args!(
        "  const idx first = (idx)blockIdx.x * {CHUNK} + t * {each};\n  i64 own = 0; bool picked[{each}]; idx at[{each}];"
    ));
    s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) {{\n    picked[u] = false; at[u] = 0;\n    if (first + u < (idx)a.v[0]) {{\n      idx from = 0, mask = 0;"));
    place.offsets(&mut s, "first + u", &[Some("from"), Some("mask")]);
    s.line(format_args!(
        "      picked[u] = ((const bool*)a.v[7])[mask]; at[u] = from; own += picked[u];\n    }}\n  }}\n  shared[t] = own;\n{scan}"
    ));
    if pass == 0 {
        s.line(format_args!("  if (t == 0) counts[blockIdx.x] = shared[{THREADS} - 1];\n}}"));
        return s.text();
    }
    s.line(format_args!(
        "  i64 to = counts[blockIdx.x] + shared[t] - own;\n  const i64 step = a.v[3], words = a.v[4];"
    ));
    s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) if (picked[u]) {{"));
    s.line(format_args!(
        "    for (i64 w = 0; w < words; w++) (({c}*)a.v[5])[to * step * words + w] = ((const {c}*)a.v[6])[(i64)at[u] * words + w];"
    ));
    s.line(format_args!("    to++;\n  }}\n}}"));
    s.text()
}
