//! Vectors: neighbors along the fastest axis that one access takes.
// Imports: `device`.

use crate::device::OperandRef;
use crate::device::cuda::codegen::args::AxesArgs;
use crate::device::cuda::codegen::axes::Axes;
use crate::device::cuda::codegen::source::SourceWriter;
use std::fmt::Display;

/// From this number of elements on, the layout of the operands may select a specialized kernel. For fewer
/// elements the compilation takes longer than the kernel saves.
pub(in crate::device::cuda) const SPECIALIZE_FROM_ELEMENTS: usize = 8192;

/// The stride class of an operand along the fastest axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::device::cuda) enum StrideClass {
    Broadcast,
    Contiguous,
    Strided,
}

impl StrideClass {
    pub(in crate::device::cuda) fn of(stride: isize) -> StrideClass {
        match stride {
            0 => StrideClass::Broadcast,
            1 => StrideClass::Contiguous,
            _ => StrideClass::Strided,
        }
    }

    /// The class of each operand.
    pub(in crate::device::cuda) fn all(axes: &Axes) -> Vec<StrideClass> {
        (0..axes.strides.len()).map(|k| StrideClass::of(axes.inner_stride(k))).collect()
    }

    /// Writes the load of `count` neighbors of type `c` into the array `to` from the address `from`; `step`
    /// is the stride of a strided operand.
    pub(in crate::device::cuda) fn load(
        self,
        s: &mut SourceWriter,
        (c, count): (&str, usize),
        to: &str,
        from: &str,
        step: impl Display,
    ) {
        match self {
            _ if count == 1 => s.line(format_args!("    {to}[0] = *({from});")),
            StrideClass::Contiguous => s.line(format_args!("    load<{c}, {count}>({to}, {from});")),
            StrideClass::Broadcast => s.line(format_args!(
                "    {to}[0] = *({from});\n#pragma unroll\n    \
                 for (int j = 1; j < {count}; j++) {to}[j] = {to}[0];"
            )),
            StrideClass::Strided => s.line(format_args!(
                "#pragma unroll\n    for (int j = 0; j < {count}; j++) {to}[j] = ({from})[j * {step}];"
            )),
        }
    }

    /// Writes the store of the `count` elements of the array `from` at the address `to`, as
    /// [`load`](Self::load).
    pub(in crate::device::cuda) fn store(
        self,
        s: &mut SourceWriter,
        (c, count): (&str, usize),
        to: &str,
        from: &str,
        step: impl Display,
    ) {
        match self {
            _ if count == 1 => s.line(format_args!("    *({to}) = {from}[0];")),
            StrideClass::Contiguous => s.line(format_args!("    store<{c}, {count}>({to}, {from});")),
            _ => s.line(format_args!(
                "#pragma unroll\n    for (int j = 0; j < {count}; j++) ({to})[j * {step}] = {from}[j];"
            )),
        }
    }
}

/// Whether operand `k` is contiguous along the fastest axis of `axes`, and each vector of `count` neighbors
/// begins at a multiple of its bytes. `outer` are the other axes.
fn is_aligned(axes: &Axes, outer: &Axes, slots: &[OperandRef<'_>], k: usize, count: usize) -> bool {
    let inner = axes.strides[k].split_last().map_or(&[][..], |(_, inner)| inner);
    let outer = outer.strides.get(k).map_or(&[][..], |steps| steps);
    axes.inner_stride(k) == 1
        && slots[k].address.addr().is_multiple_of(count * slots[k].element)
        && inner.iter().chain(outer).all(|step| step % count as isize == 0)
}

/// The number of neighbors along the fastest axis of `axes` that one access takes of each operand: up to 16
/// bytes, where the size, the strides, those of the `outer` axes, `step` and the addresses are multiples. The
/// first operand is contiguous there, the others may be broadcast; else, and for few elements, it is 1.
pub(in crate::device::cuda) fn shared_width(
    axes: &Axes,
    outer: &Axes,
    slots: &[OperandRef<'_>],
    step: isize,
) -> usize {
    let is_small = axes.numel().saturating_mul(outer.numel()) < SPECIALIZE_FROM_ELEMENTS;
    let strides: Vec<isize> = (0..slots.len()).map(|k| axes.inner_stride(k)).collect();
    if is_small || strides[0] != 1 || strides.iter().any(|stride| !(0..=1).contains(stride)) {
        return 1;
    }
    let size = axes.sizes.last().copied().unwrap_or(1);
    let fits = |count: usize| {
        size.is_multiple_of(count)
            && step % count as isize == 0
            && (0..slots.len()).all(|k| strides[k] == 0 || is_aligned(axes, outer, slots, k, count))
    };
    let mut count = widest(slots, 0..slots.len());
    while count > 1 && !fits(count) {
        count /= 2;
    }
    count
}

/// The largest power of 2 of elements that takes at most 16 bytes of each operand in `used`.
fn widest(slots: &[OperandRef<'_>], used: std::ops::Range<usize>) -> usize {
    let element = slots[used].iter().map(|slot| slot.element).max().unwrap_or(16);
    1 << (16 / element.clamp(1, 16)).ilog2()
}

/// The number of neighbors along the fastest axis that one access can take: up to 16 bytes, where the size
/// (unless there is one axis only), strides and addresses are multiples; 1 for few elements.
pub(in crate::device::cuda) fn vector_width(axes: &Axes, slots: &[OperandRef<'_>]) -> usize {
    let contiguous: Vec<usize> = (0..slots.len()).filter(|&k| axes.inner_stride(k) == 1).collect();
    if contiguous.is_empty() || axes.numel() < SPECIALIZE_FROM_ELEMENTS {
        return 1;
    }
    let size = axes.sizes.last().copied().unwrap_or(1);
    let none = Axes::default();
    let fits = |most: usize| {
        size >= most
            && (axes.rank() <= 1 || size.is_multiple_of(most))
            && contiguous.iter().all(|&k| is_aligned(axes, &none, slots, k, most))
    };
    let mut most = widest(slots, 0..slots.len());
    while most > 1 && !fits(most) {
        most /= 2;
    }
    most
}

/// Vectors along the fastest axis of `axes` whose number of elements, up to `most`, depends on sizes alone,
/// so that values are combined in one order whatever their strides and addresses; and the class of each
/// operand. One whose vectors are not aligned is strided.
pub(in crate::device::cuda) fn vectors_by_size(
    axes: &Axes,
    outer: &Axes,
    slots: &[OperandRef<'_>],
    used: std::ops::Range<usize>,
    most: usize,
) -> (usize, Vec<StrideClass>) {
    if axes.numel().saturating_mul(outer.numel()) < SPECIALIZE_FROM_ELEMENTS {
        return (1, vec![StrideClass::Strided; slots.len()]);
    }
    let size = axes.sizes.last().copied().unwrap_or(1);
    let mut count = widest(slots, used).min(most);
    while !size.is_multiple_of(count) {
        count /= 2;
    }
    let class = |k: usize| match StrideClass::of(axes.inner_stride(k)) {
        StrideClass::Contiguous if !is_aligned(axes, outer, slots, k, count) => StrideClass::Strided,
        class => class,
    };
    (count, (0..slots.len()).map(class).collect())
}

/// The stride of operand `k` along the fastest axis of `axes`, as a word of the argument block.
pub(in crate::device::cuda) fn step_of(steps: Option<AxesArgs>, k: usize) -> String {
    steps.map_or("1".into(), |steps| steps.stride(k).to_string())
}
