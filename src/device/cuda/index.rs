//! Moves by index and by mask.
//!
//! Indices are looked at before anything moves, and the host waits for what was found: an index outside is an error of the
//! call that has it. Elements are moved as words of their size.
//! Imports: `error`, `element`, `kernel`, `device`.

use super::context::{Context, Key, Shape, count_of};
use super::emit::{Source, c_type};
use super::geometry::{Axes, Place};
use super::map::head;
use super::memory::CudaBlock;
use crate::device::{Fresh, Inputs, Slot};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::kernel::{Addressed, Input, Op, Store, trace_op};
use num_complex::Complex;
use std::any::TypeId;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;

const THREADS: usize = 256;
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

impl Context {
    /// # Safety
    /// As [`Device::copy`](crate::device::Device::copy).
    pub(super) unsafe fn copy(self: &Arc<Self>, sizes: &[usize], to: Slot<'_>, from: Slot<'_>) -> Result<()> {
        if to.element == 0 || sizes.contains(&0) {
            return Ok(());
        }
        let (bytes, words) = word(to.element);
        let sizes: Vec<usize> = sizes.iter().copied().chain([words]).collect();
        let (to_stride, from_stride) = (in_words(to.stride, words, 1), in_words(from.stride, words, 1));
        let to = [Slot { stride: &to_stride, element: bytes, ..to }];
        let from = [Slot { stride: &from_stride, element: bytes, ..from }];
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
    unsafe fn check_indices(self: &Arc<Self>, plan: Addressed<'_>, index: Slot<'_>) -> Result<()> {
        // An axis along which the index does not change is looked at once.
        let sizes = plan.sizes.iter().zip(index.stride).map(|(&size, &step)| if step == 0 { size.min(1) } else { size });
        let sizes: Vec<usize> = sizes.collect();
        if sizes.contains(&0) {
            return Ok(());
        }
        let axes = Axes::of(&sizes, &[index], true);
        let wide = axes.is_wide();
        let place = Place { word: 4, rank: axes.rank(), operands: 1 };
        let class = vec![axes.rank() as u32, u32::from(wide)];
        let key = Key { mechanism: "check", types: [TypeId::of::<()>(); 2], class };
        let kernel = self.kernel(key, || {
            let mut s = Source::new();
            head(&mut s, place.end(), wide);
            s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
            s.line(format_args!(
                "  const idx p = (idx)blockIdx.x * {THREADS} + threadIdx.x;\n  if (p >= (idx)a.v[0]) return;\n  idx o = 0;"
            ));
            place.offsets(&mut s, "p", &["o".to_string()]);
            s.line(format_args!("  const i64 index = ((const i64*)a.v[3])[o];"));
            s.line(format_args!(
                "  if ((u64)index >= (u64)a.v[1] && atomicExch((u64*)a.v[2], (u64)1) == 0) ((i64*)a.v[2])[1] = index;\n}}"
            ));
            s.text()
        })?;
        let found = CudaBlock::fresh(self, 16, Fresh::Zeroed)?;
        let mut words = vec![axes.numel() as i64, plan.bound as i64, found.address().addr() as i64, index.address.addr() as i64];
        words.extend(axes.words());
        let mut report = [MaybeUninit::new(0u8); 16];
        // SAFETY: the caller's promise; the words stand as the source reads them.
        unsafe {
            self.launch(plan.op, kernel, blocks(axes.numel()), &words)?;
            self.read(found.address(), &mut report)?;
        }
        // SAFETY: initialised above, and read since.
        let report = report.map(|byte| unsafe { byte.assume_init() });
        let number = |at: usize| i64::from_ne_bytes(std::array::from_fn(|k| report[at + k]));
        match number(0) {
            0 => Ok(()),
            _ => Err(Error::Index { op: plan.op, index: [number(8) as isize].into(), sizes: [plan.bound].into() }),
        }
    }

    /// # Safety
    /// As [`Device::gather`](crate::device::Device::gather).
    pub(super) unsafe fn gather(self: &Arc<Self>, plan: Addressed<'_>, to: Slot<'_>, cells: Slot<'_>, index: Slot<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.check_indices(plan, index) }?;
        if to.element == 0 || plan.sizes.contains(&0) {
            return Ok(());
        }
        let (bytes, count) = word(to.element);
        let sizes: Vec<usize> = plan.sizes.iter().copied().chain([count]).collect();
        let strides = [in_words(to.stride, count, 1), in_words(cells.stride, count, 1), in_words(index.stride, 1, 0)];
        let strides: Vec<&[isize]> = strides.iter().map(Vec::as_slice).collect();
        let axes = Axes::merged(&sizes, &strides, true);
        // Indexed steps may reach further than strides.
        let wide = axes.is_wide() || plan.step.unsigned_abs().saturating_mul(plan.bound).saturating_mul(count) > (i32::MAX / 2) as usize;
        let place = Place { word: 5, rank: axes.rank(), operands: 3 };
        let class = vec![axes.rank() as u32, u32::from(wide), bytes as u32];
        let key = Key { mechanism: "gather", types: [TypeId::of::<()>(); 2], class };
        let kernel = self.kernel(key, || {
            let (mut s, c) = (Source::new(), c_word(bytes));
            head(&mut s, place.end(), wide);
            s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
            s.line(format_args!("  const idx p = (idx)blockIdx.x * {THREADS} + threadIdx.x;\n  if (p >= (idx)a.v[0]) return;\n  idx to = 0, cell = 0, at = 0;"));
            place.offsets(&mut s, "p", &["to", "cell", "at"].map(String::from));
            s.line(format_args!("  const idx index = (idx)((const i64*)a.v[4])[at];"));
            s.line(format_args!("  (({c}*)a.v[2])[to] = ((const {c}*)a.v[3])[cell + index * (idx)a.v[1]];\n}}"));
            s.text()
        })?;
        let mut words = vec![axes.numel() as i64, plan.step.wrapping_mul(count as isize) as i64];
        words.extend([to, cells, index].map(|slot| slot.address.addr() as i64));
        words.extend(axes.words());
        // SAFETY: the caller's promise; every index is in bounds.
        unsafe { self.launch(plan.op, kernel, blocks(axes.numel()), &words) }
    }

    /// Each thread owns some cells, so those that meet in one come in order: it looks at every element of its columns, and
    /// takes those that go to cells of its own.
    ///
    /// # Safety
    /// As [`Device::scatter`](crate::device::Device::scatter).
    pub(super) unsafe fn scatter<T: Element, F: Op<(T, T), Out = T>>(
        self: &Arc<Self>,
        plan: Addressed<'_>,
        cells: Slot<'_>,
        from: Slot<'_>,
        index: Slot<'_>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.check_indices(plan, index) }?;
        if plan.sizes.contains(&0) {
            return Ok(());
        }
        let slots = [cells, from, index];
        let lead = plan.sizes.len() - plan.own;
        let leading: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[..lead]).collect();
        let own: Vec<&[isize]> = slots.iter().map(|slot| &slot.stride[lead..]).collect();
        // Elements that meet in one cell come in row-major order.
        let leading = Axes::merged(&plan.sizes[..lead], &leading, false);
        let own = Axes::merged(&plan.sizes[lead..], &own, true);
        let (columns, along) = (own.numel(), leading.numel());
        let reach = plan.step.unsigned_abs().saturating_mul(plan.bound);
        let wide = leading.is_wide() || own.is_wide() || reach > (i32::MAX / 2) as usize;
        let groups = ((1 << 16) / columns.max(1)).clamp(1, along);
        let own_place = Place { word: 7, rank: own.rank(), operands: 3 };
        let lead_place = Place { word: own_place.end(), rank: leading.rank(), operands: 3 };
        let class = [own.rank(), leading.rank(), usize::from(wide)].map(|n| n as u32).to_vec();
        let key = Key { mechanism: "scatter", types: [TypeId::of::<F>(), TypeId::of::<T>()], class };
        let kernel = self.kernel(key, || {
            let (mut s, c) = (Source::new(), c_type(T::DTYPE));
            head(&mut s, lead_place.end(), wide);
            let graph = trace_op::<F, (T, T)>();
            let signature = s.function("body", &graph, 0);
            s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
            s.line(format_args!(
                "  const i64 thread = (i64)blockIdx.x * {THREADS} + threadIdx.x;\n  if (thread >= a.v[0] * a.v[1]) return;"
            ));
            s.line(format_args!(
                "  const idx column = (idx)(thread % a.v[0]), group = (idx)(thread / a.v[0]);\n  idx cells = 0, from = 0, at = 0;"
            ));
            own_place.offsets(&mut s, "column", &["cells", "from", "at"].map(String::from));
            s.line(format_args!("  for (idx p = 0; p < (idx)a.v[2]; p++) {{\n    idx o0 = cells, o1 = from, o2 = at;"));
            lead_place.offsets(&mut s, "p", &["o0", "o1", "o2"].map(String::from));
            s.line(format_args!("    const idx cell = o0 + (idx)((const i64*)a.v[6])[o2] * (idx)a.v[3];"));
            s.line(format_args!("    if ((u64)(i64)cell % (u64)a.v[1] != (u64)group) continue;"));
            s.line(format_args!("    {c}* const to = ({c}*)a.v[4] + cell; {c} y0;"));
            let x = |index: usize| ["*to".to_string(), format!("(({c}*)a.v[5])[o1]")][index].clone();
            s.line(format_args!("    body({}); *to = y0;\n  }}\n}}", super::map::arguments(&signature, &x, &|_| "y0".to_string())));
            s.text()
        })?;
        let mut words = vec![columns as i64, groups as i64, along as i64, plan.step as i64];
        words.extend(slots.map(|slot| slot.address.addr() as i64));
        words.extend(own.words());
        words.extend(leading.words());
        // SAFETY: the caller's promise; every index is in bounds.
        unsafe { self.launch(plan.op, kernel, blocks(columns * groups), &words) }
    }

    /// # Safety
    /// As [`Device::compact`](crate::device::Device::compact).
    pub(super) unsafe fn compact(self: &Arc<Self>, sizes: &[usize], to: Slot<'_>, from: Slot<'_>, mask: Slot<'_>) -> Result<()> {
        if sizes.contains(&0) || to.element == 0 {
            return Ok(());
        }
        let axes = Axes::of(sizes, &[from, mask], false);
        let wide = axes.is_wide();
        let (bytes, count) = word(to.element);
        let chunks = axes.numel().div_ceil(CHUNK);
        let place = Place { word: 6, rank: axes.rank(), operands: 2 };
        let counts = self.room(chunks * 8)?;
        let mut words = vec![axes.numel() as i64, chunks as i64, counts.address().addr() as i64];
        words.extend([to, from, mask].map(|slot| slot.address.addr() as i64));
        words.extend(axes.words());
        words.extend([to.stride[0] as i64, count as i64]);
        let class = |pass: u32| vec![pass, axes.rank() as u32, u32::from(wide), bytes as u32];
        let step = |pass: u32| {
            let key = Key { mechanism: "compact", types: [TypeId::of::<()>(); 2], class: class(pass) };
            self.kernel(key, || compaction(pass, place, wide, c_word(bytes)))
        };
        let shape = |blocks: usize| Shape { blocks: (count_of(blocks), 1), threads: THREADS as u32, shared: 0 };
        // SAFETY: the caller's promise; the words stand as `compaction` reads them.
        unsafe {
            self.launch("compact", step(0)?, shape(chunks), &words)?;
            self.launch("compact", step(1)?, shape(1), &words)?;
            self.launch("compact", step(2)?, shape(chunks), &words)
        }
    }
}

/// Three passes: how many each chunk has, how many come before it, and the move.
fn compaction(pass: u32, place: Place, wide: bool, c: &str) -> String {
    let mut s = Source::new();
    head(&mut s, place.end() + 2, wide);
    s.line(format_args!("extern \"C\" __global__ void __launch_bounds__({THREADS}) kernel(const Args a) {{"));
    s.line(format_args!("  __shared__ i64 shared[{THREADS}];\n  i64* const counts = (i64*)a.v[2];\n  const int t = threadIdx.x;"));
    let scan = format!(
        "    for (int far = 1; far < {THREADS}; far *= 2) {{\n      __syncthreads();\n      const i64 sum = shared[t] + (t >= far ? shared[t - far] : 0);\n      __syncthreads();\n      shared[t] = sum;\n    }}\n    __syncthreads();"
    );
    if pass == 1 {
        s.line(format_args!("  i64 before = 0;\n  for (i64 tile = 0; tile < a.v[1]; tile += {THREADS}) {{"));
        s.line(format_args!("    const i64 own = tile + t < a.v[1] ? counts[tile + t] : 0;\n    shared[t] = own;\n{scan}"));
        s.line(format_args!("    if (tile + t < a.v[1]) counts[tile + t] = before + shared[t] - own;"));
        s.line(format_args!("    before += shared[{THREADS} - 1];\n    __syncthreads();\n  }}\n}}"));
        return s.text();
    }
    let each = CHUNK / THREADS;
    s.line(format_args!(
        "  const idx first = (idx)blockIdx.x * {CHUNK} + t * {each};\n  i64 own = 0; bool picked[{each}]; idx at[{each}];"
    ));
    s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) {{\n    picked[u] = false; at[u] = 0;\n    if (first + u < (idx)a.v[0]) {{\n      idx from = 0, mask = 0;"));
    place.offsets(&mut s, "first + u", &["from", "mask"].map(String::from));
    s.line(format_args!(
        "      picked[u] = ((const bool*)a.v[5])[mask]; at[u] = from; own += picked[u];\n    }}\n  }}\n  shared[t] = own;\n{scan}"
    ));
    if pass == 0 {
        s.line(format_args!("  if (t == 0) counts[blockIdx.x] = shared[{THREADS} - 1];\n}}"));
        return s.text();
    }
    s.line(format_args!(
        "  i64 to = counts[blockIdx.x] + shared[t] - own;\n  const i64 step = a.v[{}], words = a.v[{}];",
        place.end(),
        place.end() + 1
    ));
    s.line(format_args!("#pragma unroll\n  for (int u = 0; u < {each}; u++) if (picked[u]) {{"));
    s.line(format_args!(
        "    for (i64 w = 0; w < words; w++) (({c}*)a.v[3])[to * step * words + w] = ((const {c}*)a.v[4])[(i64)at[u] * words + w];"
    ));
    s.line(format_args!("    to++;\n  }}\n}}"));
    s.text()
}
