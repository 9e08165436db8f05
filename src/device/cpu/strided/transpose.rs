//! Transposition of words of 1, 2, 4 and 8 bytes, by squares that are transposed in registers.
//!
//! A square of `SIDE` vectors of `SIDE` words takes log₂ `SIDE` rounds. A round interleaves vector `i` with
//! vector `i + SIDE/2`. If the number of a word is written as the bits of its row followed by those of its
//! column, a round moves the first bit to the end. After all rounds row and column have changed places.
//! 16 vectors of 16 words have instructions of their own. Dense lines of 2 to 8 words, as points of few
//! coordinates are, have them too: 16 lines are as many vectors as a line has words. Quarters of a vector
//! from 4 of 16 short lines are one vector, so that half of the rounds are loads.
// Imports: nothing.

#[cfg(target_arch = "x86_64")]
use crate::device::cpu::isa::{self, Level};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Computes `to[i][j] = from[j][i]` for lines of words. The pitches are the bytes from line to line; `to` has
/// `rows` lines of `columns` words.
///
/// # Safety
/// 1. Both ends are valid, `from` for reads and `to` for writes. Words may hold any bytes, at any address.
/// 2. They do not overlap.
pub(crate) unsafe fn transpose<WORD: Copy>(
    to: *mut u8,
    to_pitch: isize,
    from: *const u8,
    from_pitch: isize,
    [rows, columns]: [usize; 2],
) {
    let part = Transpose { to, to_pitch, from, from_pitch };
    // SAFETY: (1), (2) by the caller's promise.
    unsafe { part.part::<WORD>(0..rows, 0..columns, VectorWidth::Widest) }
}

/// The shortest side of an edge that is transposed as a square whose other words are masked.
#[cfg(target_arch = "x86_64")]
const LEAST_EDGE: usize = 4;

/// Bytes from line to line, at most, of short lines: the cache keeps 16 of them until they are read.
const MAX_SHORT_PITCH: isize = 256;

/// The vectors in use, the widest first. Narrower ones transpose the edges.
#[derive(Clone, Copy)]
enum VectorWidth {
    Widest,
    Narrow,
    Words,
}

struct Transpose {
    to: *mut u8,
    to_pitch: isize,
    from: *const u8,
    from_pitch: isize,
}

impl Transpose {
    /// Transposes a part by vectors of one width, and its edges by narrower ones.
    ///
    /// # Safety
    /// As for [`transpose`], for these rows and columns.
    unsafe fn part<WORD: Copy>(&self, rows: Range<usize>, columns: Range<usize>, width: VectorWidth) {
        let (side, next) = match width {
            VectorWidth::Widest => (widest(size_of::<WORD>()), VectorWidth::Narrow),
            VectorWidth::Narrow => (narrow(size_of::<WORD>()), VectorWidth::Words),
            // SAFETY: (1), (2) by the caller's promise.
            VectorWidth::Words => return unsafe { self.words::<WORD>(rows, columns) },
        };
        #[cfg(target_arch = "x86_64")]
        if side == 16
            && size_of::<WORD>() == 4
            && (2..=8).contains(&rows.len())
            && self.from_pitch == 4 * rows.len() as isize
        {
            let right = columns.start + columns.len() / 16 * 16;
            // SAFETY: (1), (2) by the caller's promise; the lines follow each other, and `widest` says that
            // the processor has AVX-512F.
            unsafe {
                match rows.len() {
                    2 => self.dense_lines::<2>(rows.start, columns.start..right),
                    3 => self.dense_lines::<3>(rows.start, columns.start..right),
                    4 => self.dense_lines::<4>(rows.start, columns.start..right),
                    5 => self.dense_lines::<5>(rows.start, columns.start..right),
                    6 => self.dense_lines::<6>(rows.start, columns.start..right),
                    7 => self.dense_lines::<7>(rows.start, columns.start..right),
                    _ => self.dense_lines::<8>(rows.start, columns.start..right),
                }
                return self.part::<WORD>(rows, right..columns.end, next);
            }
        }
        let whole = |range: &Range<usize>| range.start + (range.end - range.start) / side.max(1) * side;
        let is_short = side == 16
            && size_of::<WORD>() == 4
            && rows.len() >= 4
            && (0..=MAX_SHORT_PITCH).contains(&self.from_pitch);
        let (bottom, right) = (if is_short { rows.end } else { whole(&rows) }, whole(&columns));
        #[cfg(target_arch = "x86_64")]
        // SAFETY: (1), (2) by the caller's promise. `widest` returns 0 where the processor lacks the
        // instructions, and every x86-64 processor has the narrow vectors.
        unsafe {
            let (rows, columns) = (rows.start..bottom, columns.start..right);
            match (width, size_of::<WORD>()) {
                _ if rows.is_empty() || columns.is_empty() => {}
                (VectorWidth::Widest, 4) if is_short => self.short_lines(rows, columns),
                (VectorWidth::Widest, 4) => self.squares_of_16(rows, columns),
                (VectorWidth::Widest, _) => self.squares_of_8(rows, columns),
                (_, 1) => self.narrow_squares::<16>(rows, columns),
                (_, 2) => self.narrow_squares::<8>(rows, columns),
                (_, 4) => self.narrow_squares::<4>(rows, columns),
                _ => self.narrow_squares::<2>(rows, columns),
            }
        }
        // The part below the squares, and the part to their right.
        for (rows, columns) in
            [(bottom..rows.end, columns.start..columns.end), (rows.start..bottom, right..columns.end)]
        {
            #[cfg(target_arch = "x86_64")]
            if side == 16 && size_of::<WORD>() == 4 && rows.len().min(columns.len()) >= LEAST_EDGE {
                // SAFETY: (1), (2) by the caller's promise; squares have this side if there is AVX-512F.
                unsafe { self.edges_of_16(rows, columns) };
                continue;
            }
            // SAFETY: (1), (2) by the caller's promise.
            unsafe { self.part::<WORD>(rows, columns, next) };
        }
    }

    /// The address in `to` of the word at `row` and `column`.
    fn place(&self, row: usize, column: usize, word: usize) -> *mut u8 {
        self.to.wrapping_offset((row as isize).wrapping_mul(self.to_pitch)).wrapping_add(column * word)
    }

    /// The address in `from` of that word.
    fn source(&self, row: usize, column: usize, word: usize) -> *const u8 {
        self.from.wrapping_offset((column as isize).wrapping_mul(self.from_pitch)).wrapping_add(row * word)
    }

    /// Transposes a part word by word.
    ///
    /// # Safety
    /// As for [`transpose`], for these rows and columns.
    unsafe fn words<WORD: Copy>(&self, rows: Range<usize>, columns: Range<usize>) {
        let size = size_of::<WORD>();
        for row in rows {
            for column in columns.clone() {
                let (to, from) = (self.place(row, column, size), self.source(row, column, size));
                // SAFETY: (1), (2) by the caller's promise.
                unsafe {
                    to.cast::<MaybeUninit<WORD>>()
                        .write_unaligned(from.cast::<MaybeUninit<WORD>>().read_unaligned())
                };
            }
        }
    }
}

/// The side of the widest squares, or 0 without them.
fn widest(word: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if isa::level() == Level::Avx512 && (word == 4 || word == 8) {
        return 64 / word;
    }
    let _ = word;
    0
}

/// The side of the squares of 16-byte vectors.
fn narrow(word: usize) -> usize {
    if cfg!(target_arch = "x86_64") { 16 / word } else { 0 }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use vectors::transpose_16x16;

#[cfg(target_arch = "x86_64")]
mod vectors {
    use super::Transpose;
    use crate::device::cpu::memory::prefetch;
    use std::arch::x86_64::*;
    use std::ops::Range;

    /// Transposes the squares of a range of rows and columns: `$side` vectors are loaded, transposed, and
    /// stored.
    macro_rules! squares {
        ($of:ident, $rows:ident, $columns:ident, $side:expr, $vector:ty, |$lines:ident| $transposed:expr) => {
            let word = size_of::<$vector>() / $side;
            for row in $rows.step_by($side) {
                for column in $columns.clone().step_by($side) {
                    let $lines: [$vector; $side] = std::array::from_fn(|i| {
                        if size_of::<$vector>() == 64 {
                            prefetch::into_l1($of.source(row + $side, column + i, word), 1);
                        }
                        // SAFETY: (1), (2) by the caller's promise: a line of the square.
                        unsafe { $of.source(row, column + i, word).cast::<$vector>().read_unaligned() }
                    });
                    for (i, line) in $transposed.into_iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { $of.place(row + i, column, word).cast::<$vector>().write_unaligned(line) };
                    }
                }
            }
        };
    }

    /// The vectors of a square after all rounds.
    macro_rules! interleaved {
        ($lines:ident, $side:expr, |$a:ident, $b:ident| $low:expr, $high:expr) => {{
            let (mut lines, mut done) = ($lines, 1);
            while done < $side {
                let before = lines;
                for i in 0..$side / 2 {
                    let ($a, $b) = (before[i], before[i + $side / 2]);
                    (lines[2 * i], lines[2 * i + 1]) = ($low, $high);
                }
                done *= 2;
            }
            lines
        }};
    }

    impl Transpose {
        /// Transposes squares of 4-byte words.
        ///
        /// # Safety
        /// As for [`transpose`](super::transpose), for these rows and columns; the processor has AVX-512F.
        #[target_feature(enable = "avx512f")]
        pub(crate) unsafe fn squares_of_16(&self, rows: Range<usize>, columns: Range<usize>) {
            squares!(self, rows, columns, 16, __m512i, |lines| transpose_16x16(lines));
        }

        /// Transposes squares of 4-byte words, and the incomplete ones at the ends: words outside are neither
        /// read nor written.
        ///
        /// # Safety
        /// As for [`transpose`](super::transpose), for these rows and columns; the processor has AVX-512F.
        #[target_feature(enable = "avx512f")]
        pub(crate) unsafe fn edges_of_16(&self, rows: Range<usize>, columns: Range<usize>) {
            let mask = |words: usize| u16::MAX >> (16 - words.min(16));
            // Lines that are missing take an address that exists and no word of it. All 16 are constant, so
            // they stay in registers.
            let part = |i: usize, count: usize, words: u16| if i < count { (i, words) } else { (0, 0) };
            for row in rows.clone().step_by(16) {
                let height = (rows.end - row).min(16);
                for column in columns.clone().step_by(16) {
                    let width = (columns.end - column).min(16);
                    let lines = std::array::from_fn(|i| {
                        let (i, words) = part(i, width, mask(height));
                        // SAFETY: (1), (2) by the caller's promise: a line of the square.
                        unsafe { _mm512_maskz_loadu_epi32(words, self.source(row, column + i, 4).cast()) }
                    });
                    for (i, line) in transpose_16x16(lines).into_iter().enumerate() {
                        let (i, words) = part(i, height, mask(width));
                        // SAFETY: as above.
                        unsafe {
                            _mm512_mask_storeu_epi32(self.place(row + i, column, 4).cast(), words, line)
                        };
                    }
                }
            }
        }

        /// Transposes squares of 8-byte words.
        ///
        /// # Safety
        /// As for [`transpose`](super::transpose), for these rows and columns; the processor has AVX-512F.
        #[target_feature(enable = "avx512f")]
        pub(crate) unsafe fn squares_of_8(&self, rows: Range<usize>, columns: Range<usize>) {
            let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
            let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
            squares!(self, rows, columns, 8, __m512i, |lines| interleaved!(
                lines,
                8,
                |a, b| _mm512_permutex2var_epi64(a, low, b),
                _mm512_permutex2var_epi64(a, high, b)
            ));
        }

        /// Transposes lines of `WORDS` 4-byte words that follow each other, 16 lines at a time.
        ///
        /// # Safety
        /// As for [`transpose`](super::transpose), for these columns and `WORDS` rows from `row` on; the
        /// processor has AVX-512F.
        #[target_feature(enable = "avx512f")]
        pub(crate) unsafe fn dense_lines<const WORDS: usize>(&self, row: usize, columns: Range<usize>) {
            for column in columns.step_by(16) {
                let from = self.source(row, column, 4).cast::<__m512i>();
                // SAFETY: (1), (2) by the caller's promise: 16 lines.
                let lines: [__m512i; WORDS] =
                    std::array::from_fn(|k| unsafe { from.wrapping_add(k).read_unaligned() });
                for (r, line) in deinterleaved(lines).into_iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { self.place(row + r, column, 4).cast::<__m512i>().write_unaligned(line) };
                }
            }
        }

        /// Transposes short lines of at least 4 words of 4 bytes, 16 lines and 4 words at a time.
        ///
        /// # Safety
        /// As for [`transpose`](super::transpose), for these rows and columns, a multiple of 16; the
        /// processor has AVX-512F.
        #[target_feature(enable = "avx512f")]
        pub(crate) unsafe fn short_lines(&self, rows: Range<usize>, columns: Range<usize>) {
            for column in columns.step_by(16) {
                let mut row = rows.start;
                loop {
                    // Quarter `k` of vector `i` has words of line `4 k + i`.
                    let [a, b, c, d] = std::array::from_fn(|i| {
                        let words = |k: usize| {
                            let from = self.source(row, column + 4 * k + i, 4).cast::<__m128i>();
                            // SAFETY: (1), (2) by the caller's promise: 4 words of a line.
                            unsafe { from.read_unaligned() }
                        };
                        let mut line = _mm512_castsi128_si512(words(0));
                        line = _mm512_mask_broadcast_i32x4(line, 0x00f0, words(1));
                        line = _mm512_mask_broadcast_i32x4(line, 0x0f00, words(2));
                        _mm512_mask_broadcast_i32x4(line, 0xf000, words(3))
                    });
                    let low = [_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d)];
                    let high = [_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d)];
                    let lines = [
                        _mm512_unpacklo_epi64(low[0], low[1]),
                        _mm512_unpackhi_epi64(low[0], low[1]),
                        _mm512_unpacklo_epi64(high[0], high[1]),
                        _mm512_unpackhi_epi64(high[0], high[1]),
                    ];
                    for (i, line) in lines.into_iter().enumerate() {
                        // SAFETY: as above.
                        unsafe { self.place(row + i, column, 4).cast::<__m512i>().write_unaligned(line) };
                    }
                    if row + 4 == rows.end {
                        break;
                    }
                    // The last words overlap those before them.
                    row = (row + 4).min(rows.end - 4);
                }
            }
        }

        /// Transposes squares of words of 16 / `SIDE` bytes.
        ///
        /// # Safety
        /// As for [`transpose`](super::transpose), for these rows and columns.
        pub(crate) unsafe fn narrow_squares<const SIDE: usize>(
            &self,
            rows: Range<usize>,
            columns: Range<usize>,
        ) {
            squares!(self, rows, columns, SIDE, __m128i, |lines| interleaved!(
                lines,
                SIDE,
                |a, b| low_of::<SIDE>(a, b),
                high_of::<SIDE>(a, b)
            ));
        }
    }

    /// Vector `r` of the result has the words `r`, `WORDS + r`, `2 · WORDS + r` and so on of the vectors.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn deinterleaved<const WORDS: usize>(mut vectors: [__m512i; WORDS]) -> [__m512i; WORDS] {
        let load = |lanes: [u32; 16]| {
            // SAFETY: the vector is as wide as the array.
            unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
        };
        if WORDS.is_power_of_two() {
            // A round moves the last bit of a word's number to the front, as all even words come first.
            let even = load([0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]);
            let odd = load([1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31]);
            for _ in 0..WORDS.ilog2() {
                let before = vectors;
                for i in 0..WORDS / 2 {
                    let (a, b) = (before[2 * i], before[2 * i + 1]);
                    vectors[i] = _mm512_permutex2var_epi32(a, even, b);
                    vectors[i + WORDS / 2] = _mm512_permutex2var_epi32(a, odd, b);
                }
            }
            return vectors;
        }
        let before = vectors;
        // The compiler does not compute the tables by itself for more than 3 words.
        let (lanes, masks) = const { (lanes_of::<WORDS>(), masks_of::<WORDS>()) };
        for (r, words) in vectors.iter_mut().enumerate() {
            let lanes = load(lanes[r]);
            for (&vector, &from_here) in before.iter().zip(&masks[r]) {
                *words = _mm512_mask_permutexvar_epi32(*words, from_here, lanes, vector);
            }
        }
        vectors
    }

    /// For each vector of [`deinterleaved`], the places of its words in the vectors that they come from.
    const fn lanes_of<const WORDS: usize>() -> [[u32; 16]; WORDS] {
        let mut lanes = [[0; 16]; WORDS];
        let mut number = 0;
        while number < 16 * WORDS {
            lanes[number % WORDS][number / WORDS] = number as u32 % 16;
            number += 1;
        }
        lanes
    }

    /// For each vector of [`deinterleaved`], the words of it that come from each vector.
    const fn masks_of<const WORDS: usize>() -> [[u16; WORDS]; WORDS] {
        let mut masks = [[0; WORDS]; WORDS];
        let mut number = 0;
        while number < 16 * WORDS {
            masks[number % WORDS][number / 16] |= 1 << (number / WORDS);
            number += 1;
        }
        masks
    }

    /// Transposes 16 vectors of 16 words.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn transpose_16x16(mut a: [__m512i; 16]) -> [__m512i; 16] {
        let mut b = a;
        for i in 0..8 {
            b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
            b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
        }
        for i in 0..4 {
            a[4 * i] = _mm512_unpacklo_epi64(b[4 * i], b[4 * i + 2]);
            a[4 * i + 1] = _mm512_unpackhi_epi64(b[4 * i], b[4 * i + 2]);
            a[4 * i + 2] = _mm512_unpacklo_epi64(b[4 * i + 1], b[4 * i + 3]);
            a[4 * i + 3] = _mm512_unpackhi_epi64(b[4 * i + 1], b[4 * i + 3]);
        }
        // a[4 i + c] holds columns c, c + 4, c + 8 and c + 12 of rows 4 i … 4 i + 3, one in each quarter.
        for c in 0..4 {
            b[c] = _mm512_shuffle_i32x4::<0x88>(a[c], a[c + 4]);
            b[c + 4] = _mm512_shuffle_i32x4::<0xdd>(a[c], a[c + 4]);
            b[c + 8] = _mm512_shuffle_i32x4::<0x88>(a[c + 8], a[c + 12]);
            b[c + 12] = _mm512_shuffle_i32x4::<0xdd>(a[c + 8], a[c + 12]);
        }
        for c in 0..4 {
            a[c] = _mm512_shuffle_i32x4::<0x88>(b[c], b[c + 8]);
            a[4 + c] = _mm512_shuffle_i32x4::<0x88>(b[c + 4], b[c + 12]);
            a[8 + c] = _mm512_shuffle_i32x4::<0xdd>(b[c], b[c + 8]);
            a[12 + c] = _mm512_shuffle_i32x4::<0xdd>(b[c + 4], b[c + 12]);
        }
        a
    }

    /// Interleaves the first halves of two vectors of `SIDE` words.
    #[inline(always)]
    fn low_of<const SIDE: usize>(a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: every x86-64 processor has these instructions.
        unsafe {
            match SIDE {
                16 => _mm_unpacklo_epi8(a, b),
                8 => _mm_unpacklo_epi16(a, b),
                4 => _mm_unpacklo_epi32(a, b),
                _ => _mm_unpacklo_epi64(a, b),
            }
        }
    }

    /// Interleaves the second halves.
    #[inline(always)]
    fn high_of<const SIDE: usize>(a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: as above.
        unsafe {
            match SIDE {
                16 => _mm_unpackhi_epi8(a, b),
                8 => _mm_unpackhi_epi16(a, b),
                4 => _mm_unpackhi_epi32(a, b),
                _ => _mm_unpackhi_epi64(a, b),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transposes all kinds of squares and edges. The gaps between the lines of the destination stay
    /// unchanged.
    fn turns<WORD: Copy + PartialEq + std::fmt::Debug>(word: impl Fn(usize) -> WORD) {
        let size = size_of::<WORD>() as isize;
        let sizes = [(0, 3), (1, 1), (1, 40), (16, 16), (17, 33), (31, 15), (35, 50), (64, 8), (100, 7)];
        let short = (2..10).flat_map(|rows| [(rows, 16), (rows, 40), (rows, 7)]);
        // The last gap makes lines of bytes as far apart as dense lines of words of 4 bytes.
        let gaps = |size: (usize, usize)| [(size, 0), (size, 3), (size, 3 * size.0)];
        for ((rows, columns), gap) in sizes.into_iter().chain(short).flat_map(gaps) {
            let from: Vec<WORD> = (0..columns * (rows + gap)).map(&word).collect();
            let mut to = vec![word(0); rows * (columns + 5) + 1];
            let there = to.as_mut_ptr().cast::<u8>();
            let (to_pitch, from_pitch) = ((columns as isize + 5) * size, (rows + gap) as isize * size);
            // SAFETY: (1), (2): the lines are inside two different vectors.
            unsafe { transpose::<WORD>(there, to_pitch, from.as_ptr().cast(), from_pitch, [rows, columns]) };
            for row in 0..rows {
                for column in 0..columns + 5 {
                    let expected = if column < columns { from[column * (rows + gap) + row] } else { word(0) };
                    assert_eq!(
                        to[row * (columns + 5) + column],
                        expected,
                        "{rows} × {columns}, at {row}, {column}"
                    );
                }
            }
        }
    }

    #[test]
    fn words_of_every_width_are_transposed() {
        turns(|i| (i * 7 + 1) as u8);
        turns(|i| (i * 7 + 1) as u16);
        turns(|i| (i * 7 + 1) as u32);
        turns(|i| (i * 7 + 1) as u64);
    }
}
