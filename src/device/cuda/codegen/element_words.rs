//! Elements as words: kernels that only move elements depend on their size, not on their type.
// Imports: nothing.

/// The size in bytes of the words in which an element is moved (16, 8, 4, 2 or 1), and the number of words of
/// an element.
pub(in crate::device::cuda) fn word_of(element: usize) -> (usize, usize) {
    let bytes = [16, 8, 4, 2].into_iter().find(|&bytes| element.is_multiple_of(bytes)).unwrap_or(1);
    (bytes, element / bytes)
}

/// The type of a word of `bytes` bytes in C++.
pub(in crate::device::cuda) fn word_type(bytes: usize) -> &'static str {
    match bytes {
        16 => "c64",
        8 => "u64",
        4 => "u32",
        2 => "u16",
        _ => "u8",
    }
}

/// Strides in words, with one more axis for the words of an element, whose stride is `last`.
pub(in crate::device::cuda) fn strides_in_words(stride: &[isize], words: usize, last: isize) -> Vec<isize> {
    stride.iter().map(|step| step.wrapping_mul(words as isize)).chain([last]).collect()
}
