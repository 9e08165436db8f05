//! The gradient of a block, and the parts of it that hold contributions. The first contribution to a part is
//! written to it; later ones are added.
// Imports: `erased_memory`, `error`, `autograd`.

use super::step::BlockView;
use crate::erased_memory::Memory;
use crate::error::{Error, Result};

/// The most axes of a layout. If the smallest stride is not 1, one axis is for the position between elements.
const AXES: usize = 4;
/// The most parts that are told apart.
const PARTS: usize = 8;

/// The gradient of a block.
pub(super) struct Gradient {
    pub(super) memory: Memory,
    /// `None` if any element may hold a contribution.
    written: Option<Parts>,
}

/// Parts of a block, of one layout and without common elements. All other elements are 0.
#[derive(Default)]
struct Parts {
    layout: PartLayout,
    parts: Vec<Part>,
}

/// The layout of all parts of a block: bytes of an element, and strides in elements, the largest first. A
/// block of complex numbers may have parts of real ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct PartLayout {
    element: usize,
    stride: [usize; AXES],
}

/// The first index along each axis of the layout, and the one after the last.
type Part = [[usize; 2]; AXES];

impl Gradient {
    /// A gradient of which any element may hold a contribution.
    pub(super) fn new(memory: Memory) -> Self {
        Gradient { memory, written: None }
    }

    /// A gradient of zeros.
    pub(super) fn of_zeros(memory: Memory) -> Self {
        Gradient { memory, written: Some(Parts::default()) }
    }

    /// States that any element may hold a contribution from now on.
    pub(super) fn set_written(&mut self) {
        self.written = None;
    }

    /// States that an operand holds a contribution from now on. Returns whether it is known that none of its
    /// elements held one.
    pub(super) fn claim(&mut self, view: &BlockView, sizes: &[usize]) -> Result<bool> {
        let Some(parts) = &mut self.written else { return Ok(false) };
        let known = match part_of(view, sizes) {
            Some((layout, part)) => parts.claim(layout, part)?,
            None => None,
        };
        if known.is_none() {
            self.written = None;
        }
        Ok(known == Some(true))
    }
}

impl Parts {
    /// Adds a part. Returns whether none of its elements was in a part; `None` if these parts cannot state
    /// which elements hold a contribution.
    fn claim(&mut self, layout: PartLayout, mut part: Part) -> Result<Option<bool>> {
        if self.parts.is_empty() {
            self.layout = layout;
        }
        if self.layout != layout {
            return Ok(None);
        }
        if self.parts.iter().any(|other| contains(other, &part)) {
            return Ok(Some(false));
        }
        if self.parts.iter().any(|other| overlap(other, &part)) {
            return Ok(None);
        }
        let adjoining = |parts: &[Part], part: &Part| {
            parts.iter().enumerate().find_map(|(at, other)| Some((at, joined(other, part)?)))
        };
        while let Some((at, both)) = adjoining(&self.parts, &part) {
            self.parts.swap_remove(at);
            part = both;
        }
        if self.parts.len() == PARTS {
            return Ok(None);
        }
        let no_room = |_| Error::OutOfMemory { op: "backward", nbytes: size_of::<Part>() };
        self.parts.try_reserve(1).map_err(no_room)?;
        self.parts.push(part);
        Ok(Some(true))
    }
}

fn contains(whole: &Part, part: &Part) -> bool {
    whole.iter().zip(part).all(|(whole, part)| whole[0] <= part[0] && part[1] <= whole[1])
}

fn overlap(a: &Part, b: &Part) -> bool {
    a.iter().zip(b).all(|(a, b)| a[0] < b[1] && b[0] < a[1])
}

/// The part that consists of two parts, if they differ along one axis and adjoin there.
fn joined(a: &Part, b: &Part) -> Option<Part> {
    let mut differing = (0..AXES).filter(|&axis| a[axis] != b[axis]);
    let (axis, None) = (differing.next()?, differing.next()) else { return None };
    let mut both = *a;
    both[axis] = match (a[axis], b[axis]) {
        ([start, middle], [other, end]) | ([other, end], [start, middle]) if middle == other => [start, end],
        _ => return None,
    };
    Some(both)
}

/// The layout of an operand and its part of that layout. Each element of a block then has one index: along
/// every axis but the first, indices are smaller than the number of steps in one step of the axis before.
/// `None` for operands with negative, equal or overlapping strides, and for those of many axes.
fn part_of(view: &BlockView, sizes: &[usize]) -> Option<(PartLayout, Part)> {
    if !view.offset.is_multiple_of(view.element) {
        return None;
    }
    let (mut stride, mut count, mut axes) = ([1; AXES], [1; AXES], 0);
    for (axis, &size) in sizes.iter().enumerate().filter(|(_, size)| **size != 1) {
        let step = usize::try_from(view.stride[axis]).ok().filter(|step| *step > 0 && axes < AXES)?;
        let at = (0..axes).find(|&k| stride[k] < step).unwrap_or(axes);
        stride[at..].rotate_right(1);
        count[at..].rotate_right(1);
        (stride[at], count[at]) = (step, size);
        axes += 1;
    }
    let (mut part, mut rest) = ([[0, 1]; AXES], view.offset / view.element);
    for axis in 0..AXES {
        let start = rest / stride[axis];
        rest %= stride[axis];
        part[axis] = [start, start.checked_add(count[axis])?];
        if axis > 0 && part[axis][1] > stride[axis - 1] / stride[axis] {
            return None;
        }
    }
    (rest == 0).then_some((PartLayout { element: view.element, stride }, part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autograd::small_vec::SmallVec;
    use crate::dtype::DType;
    use std::collections::HashSet;

    fn view(element: usize, offset: usize, stride: &[isize]) -> BlockView {
        let stride = SmallVec::new(stride);
        BlockView {
            id: 1,
            nbytes: 64 * element,
            offset: element * offset,
            stride,
            dtype: DType::F32,
            element,
        }
    }

    /// The words of 4 bytes that an operand addresses.
    fn words(view: &BlockView, sizes: &[usize]) -> Vec<usize> {
        let words = |mut at: usize| {
            let mut index = view.offset / view.element;
            for (&size, &stride) in sizes.iter().zip(view.stride.iter()).rev() {
                index = index.strict_add_signed((at % size) as isize * stride);
                at /= size;
            }
            index * view.element / 4..(index + 1) * view.element / 4
        };
        (0..sizes.iter().product()).flat_map(words).collect()
    }

    #[test]
    fn parts_without_common_elements_are_told_from_others() {
        let mut state = 1u64;
        let mut random = move |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let [mut first, mut again, mut unknown] = [0; 3];
        for _ in 0..20_000 {
            // Slices with steps of a block of 4 × 4 × 4 elements, and of its matrices.
            let (mut parts, mut written) = (Parts::default(), HashSet::new());
            let step = [1 + random(2), 1 + random(2), 1 + random(2)];
            let is_mixed = random(3) == 0;
            for _ in 0..6 {
                let element = if is_mixed { 4 << random(2) } else { 4 };
                let (mut offset, mut stride, mut sizes) = (0, Vec::new(), Vec::new());
                for axis in 0..3 {
                    let (start, distance) = (random(4), 4usize.pow(2 - axis as u32));
                    offset += start * distance;
                    if axis > 0 || random(4) > 0 {
                        stride.push((step[axis] * distance) as isize);
                        sizes.push(1 + random((3 - start) / step[axis] + 1));
                    }
                }
                if random(3) == 0 {
                    stride.reverse();
                    sizes.reverse();
                }
                let view = view(element, offset, &stride);
                let Some((layout, part)) = part_of(&view, &sizes) else { break };
                let here = words(&view, &sizes);
                match parts.claim(layout, part).unwrap() {
                    Some(true) => {
                        assert!(here.iter().all(|at| written.insert(*at)), "{view:?} {sizes:?}");
                        first += 1;
                    }
                    Some(false) => {
                        assert!(here.iter().all(|at| written.contains(at)), "{view:?} {sizes:?}");
                        again += 1;
                    }
                    None => {
                        unknown += 1;
                        break;
                    }
                }
            }
        }
        assert!(first > 10_000 && again > 200 && unknown > 5_000, "{first} {again} {unknown}");
    }

    #[test]
    fn parts_that_adjoin_are_one() {
        let mut parts = Parts::default();
        for k in [3, 1, 0, 2] {
            let (layout, part) = part_of(&view(4, 4 * k, &[16, 1]), &[4, 4]).unwrap();
            assert_eq!(parts.claim(layout, part).unwrap(), Some(true));
        }
        assert_eq!((parts.parts.len(), parts.parts[0][1]), (1, [0, 16]));
        let (layout, part) = part_of(&view(4, 8, &[16, 1]), &[4, 4]).unwrap();
        assert_eq!(parts.claim(layout, part).unwrap(), Some(false));
    }

    #[test]
    fn operands_of_other_layouts_have_no_part() {
        for (stride, sizes) in [
            (&[1isize, 1][..], &[4, 4][..]), // windows
            (&[0, 1], &[4, 4]),              // broadcast
            (&[-16, 1], &[2, 4]),            // reversed
            (&[3, 1], &[4, 4]),              // overlapping rows
        ] {
            assert_eq!(part_of(&view(4, 32, stride), sizes), None, "{stride:?}");
        }
        // A row that goes on in the next row of the same layout.
        assert_eq!(part_of(&view(4, 14, &[16, 1]), &[2, 4]), None);
    }
}
