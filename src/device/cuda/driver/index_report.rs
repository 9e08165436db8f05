//! The report of an index that is out of bounds. A kernel that takes indices writes it to page-locked memory,
//! and the host makes an error of it.
//!
//! The argument block of such a kernel describes the axes that the indices address ([`describe`]). The first
//! thread that finds an index out of bounds writes the report, unless one is there already; the report of an
//! earlier operation therefore stays until the host takes it.
// Imports: `error`, `kernel`, `device`.

use crate::device::MAX_AXES;
use crate::device::cuda::driver::op_names;
use crate::error::Error;
use crate::kernel::{IndexKind, IndexedAxes};

/// Words that describe the addressed axes: their kind, the number of sizes, the sizes.
const DESCRIPTION_WORDS: usize = 2 + MAX_AXES;
/// Words of a report: its state, the number of the operation, the index, the description.
pub(in crate::device::cuda) const REPORT_WORDS: usize = 3 + DESCRIPTION_WORDS;
/// The state of a report that is complete. One that is being written has state 1, and 0 means that there is
/// none.
pub(in crate::device::cuda) const COMPLETE: i64 = 2;

/// The words that describe the addressed axes to a kernel.
pub(in crate::device::cuda) fn describe(of: IndexedAxes<'_>, bound: usize) -> [i64; DESCRIPTION_WORDS] {
    let kind = match of.kind {
        IndexKind::Axis(axis) => axis as i64,
        IndexKind::Element => -1,
        IndexKind::Joint => -2,
    };
    // A view may have more axes than a kernel: the error then has the number of positions only.
    let bound = [bound];
    let sizes = if of.sizes.len() <= MAX_AXES { of.sizes } else { &bound };
    let mut words = [0; DESCRIPTION_WORDS];
    (words[0], words[1]) = (kind, sizes.len() as i64);
    words[2..].iter_mut().zip(sizes).for_each(|(word, &size)| *word = size as i64);
    words
}

/// The error of a complete report.
pub(in crate::device::cuda) fn error_of(report: [i64; REPORT_WORDS]) -> Error {
    let [_, operation, index, kind, rank, ..] = report;
    let sizes = report[5..].iter().take(rank as usize).map(|&size| size as usize);
    let kind = match kind {
        -1 => IndexKind::Element,
        -2 => IndexKind::Joint,
        axis => IndexKind::Axis(axis as usize),
    };
    let of = IndexedAxes { kind, sizes: &sizes.collect::<Vec<_>>() };
    of.outside(op_names::constant(operation).unwrap_or("index"), index)
}

/// The function `report_index` of a source whose argument block has the description from word `first` on. The
/// report follows the word `begun`.
pub(in crate::device::cuda) fn source(first: usize) -> String {
    format!(
        "DI void report_index(const Args& a, const i64 index) {{
  i64* const report = (i64*)a.begun + 1;
  if (*(volatile i64*)report != 0 || atomicCAS((u64*)report, 0ull, 1ull) != 0) return;
  report[1] = a.operation; report[2] = index;
#pragma unroll
  for (int k = 0; k < {DESCRIPTION_WORDS}; k++) report[3 + k] = a.v[{first} + k];
  __threadfence_system();
  *(volatile i64*)report = {COMPLETE};
}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_words_of_its_error() {
        let operation = op_names::number("index_select");
        for (kind, sizes, bound, index) in [
            (IndexKind::Axis(1), &[2, 3][..], 3, 7),
            (IndexKind::Element, &[2, 3][..], 6, -1),
            (IndexKind::Joint, &[2, 3, 4][..], 6, !(1 + 4 * (5 + IndexKind::MAX_JOINT))),
        ] {
            let of = IndexedAxes { kind, sizes };
            let mut report = [COMPLETE, operation, index].to_vec();
            report.extend(describe(of, bound));
            let report: [i64; REPORT_WORDS] = report.try_into().expect("as many words");
            assert_eq!(error_of(report), of.outside("index_select", index));
        }
        let many = [1; MAX_AXES + 1];
        let of = IndexedAxes { kind: IndexKind::Axis(12), sizes: &many };
        assert_eq!(describe(of, 9)[..4], [12, 1, 9, 0]);
    }
}
