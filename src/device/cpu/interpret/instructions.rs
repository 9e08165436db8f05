//! The instructions of the register machine: loops over registers, compiled once for each operation, compute
//! type and instruction set.
//!
//! A register consists of chunks of 32 values. An instruction processes some rows of some chunks. An operand
//! with the same value everywhere has one chunk, whose step is 0. Loops process whole chunks only: the ends
//! of rows are copied into chunks first.
// Imports: nothing.

use super::super::isa::{self, Level};
use std::mem::MaybeUninit;

/// Values of a chunk.
pub(super) const CHUNK_ELEMENTS: usize = 32;

/// The address of a register: its first chunk, the bytes from chunk to chunk (a chunk's size, or 0), and from
/// row to row.
#[derive(Clone, Copy)]
pub(super) struct RegisterRef {
    pub(super) address: *mut u8,
    pub(super) chunk_step: isize,
    pub(super) row_step: isize,
}

impl RegisterRef {
    pub(super) const NONE: RegisterRef =
        RegisterRef { address: std::ptr::null_mut(), chunk_step: 0, row_step: 0 };
}

/// An operand of a loop: the first chunk, and the bytes from chunk to chunk.
#[derive(Clone, Copy)]
pub(super) struct Arg {
    at: *const u8,
    chunk_step: isize,
}

/// The loop of an instruction over one row, compiled for an instruction set of this processor. The output is
/// an argument of its own, which tells the compiler that it does not alias the operands.
///
/// # Safety
/// 1. `out` and each operand consist of whole chunks of the loop's types.
/// 2. The processor has the loop's instruction set.
pub(super) type InstructionFn = unsafe fn(out: &mut [MaybeUninit<u8>], args: &[Arg; 3], by: u32);

/// An instruction: its loop, the registers of its output and operands, the number of operands, the bytes of
/// one output value, and the distance of a shift.
#[derive(Clone, Copy)]
pub(super) struct Instruction {
    pub(super) run: InstructionFn,
    pub(super) out: u16,
    pub(super) args: [u16; 3],
    pub(super) count: u8,
    pub(super) width: u8,
    pub(super) by: u32,
}

impl Instruction {
    /// Runs the instruction over `rows` rows of `chunks` chunks.
    ///
    /// # Safety
    /// 1. The registers have so many rows and chunks, of the types of the loop.
    /// 2. The output is none of the operands.
    /// 3. The processor has the loop's instruction set.
    pub(super) unsafe fn run(&self, registers: &[RegisterRef], mut rows: usize, mut chunks: usize) {
        // The output, then the operands.
        let mut all = [registers[self.out as usize]; 4];
        for (register, &arg) in all[1..].iter_mut().zip(&self.args[..self.count as usize]) {
            *register = registers[arg as usize];
        }
        let all = &mut all[..=self.count as usize];
        if rows > 1 && all.iter().all(|register| register.row_step == register.chunk_step * chunks as isize) {
            // In every register the step from row to row continues the step from chunk to chunk.
            (rows, chunks) = (1, rows * chunks);
        } else if rows > 1 && chunks == 1 && all[0].row_step == all[0].chunk_step {
            // Each row is one chunk.
            all.iter_mut().for_each(|register| register.chunk_step = register.row_step);
            (rows, chunks) = (1, rows);
        }
        let nbytes = chunks * CHUNK_ELEMENTS * self.width as usize;
        for row in 0..rows as isize {
            let at = |register: &RegisterRef| {
                register.address.wrapping_offset(row.wrapping_mul(register.row_step))
            };
            let mut args = [Arg { at: std::ptr::null(), chunk_step: 0 }; 3];
            for (arg, register) in args.iter_mut().zip(&all[1..]) {
                *arg = Arg { at: at(register), chunk_step: register.chunk_step };
            }
            // SAFETY: (1) of the loop by (1); (2) by (3); the slice of the output is exclusive by (2).
            unsafe { (self.run)(std::slice::from_raw_parts_mut(at(&all[0]).cast(), nbytes), &args, self.by) };
        }
    }
}

/// An operation on one value.
pub(super) trait UnaryLoop {
    type A: Copy;
    type Out: Copy;
    fn of(a: Self::A, by: u32) -> Self::Out;
}
/// An operation on two values.
pub(super) trait BinaryLoop {
    type A: Copy;
    type Out: Copy;
    fn of(a: Self::A, b: Self::A) -> Self::Out;
}
/// An operation on three values.
pub(super) trait TernaryLoop {
    type A: Copy;
    type B: Copy;
    fn of(a: Self::A, b: Self::B, c: Self::B) -> Self::B;
}

/// A chunk of values.
type Chunk<T> = [T; CHUNK_ELEMENTS];
/// A chunk that is written.
type Uninit<T> = [MaybeUninit<T>; CHUNK_ELEMENTS];

/// The bytes of an output as chunks of values.
///
/// # Safety
/// The bytes are whole chunks of `T`.
#[inline(always)]
unsafe fn chunks<T>(out: &mut [MaybeUninit<u8>]) -> &mut [Uninit<T>] {
    let count = out.len() / (CHUNK_ELEMENTS * size_of::<T>());
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), count) }
}

// One loop for each instruction set and number of operands. Each chunk is processed by a function of its own,
// whose arguments cannot alias. Without it a build with debug assertions would not vectorize the loops.

macro_rules! unary_loop {
    ($(#[$feature:meta])* $name:ident) => {
        /// # Safety
        /// As [`InstructionFn`].
        $(#[$feature])*
        unsafe fn $name<K: UnaryLoop>(out: &mut [MaybeUninit<u8>], args: &[Arg; 3], by: u32) {
            #[inline(always)]
            fn chunk<K: UnaryLoop>(out: &mut Uninit<K::Out>, a: &Chunk<K::A>, by: u32) {
                for j in 0..CHUNK_ELEMENTS {
                    out[j].write(K::of(a[j], by));
                }
            }
            let [mut a, ..] = *args;
            // SAFETY: (1) of the loop.
            for out in unsafe { chunks::<K::Out>(out) } {
                // SAFETY: (1) of the loop.
                unsafe { chunk::<K>(out, &*a.at.cast(), by) };
                a.at = a.at.wrapping_offset(a.chunk_step);
            }
        }
    };
}
macro_rules! binary_loop {
    ($(#[$feature:meta])* $name:ident) => {
        /// # Safety
        /// As [`InstructionFn`].
        $(#[$feature])*
        unsafe fn $name<K: BinaryLoop>(out: &mut [MaybeUninit<u8>], args: &[Arg; 3], _: u32) {
            #[inline(always)]
            fn chunk<K: BinaryLoop>(out: &mut Uninit<K::Out>, a: &Chunk<K::A>, b: &Chunk<K::A>) {
                for j in 0..CHUNK_ELEMENTS {
                    out[j].write(K::of(a[j], b[j]));
                }
            }
            let [mut a, mut b, _] = *args;
            // SAFETY: (1) of the loop.
            for out in unsafe { chunks::<K::Out>(out) } {
                // SAFETY: (1) of the loop.
                unsafe { chunk::<K>(out, &*a.at.cast(), &*b.at.cast()) };
                (a.at, b.at) = (a.at.wrapping_offset(a.chunk_step), b.at.wrapping_offset(b.chunk_step));
            }
        }
    };
}
macro_rules! ternary_loop {
    ($(#[$feature:meta])* $name:ident) => {
        /// # Safety
        /// As [`InstructionFn`].
        $(#[$feature])*
        unsafe fn $name<K: TernaryLoop>(out: &mut [MaybeUninit<u8>], args: &[Arg; 3], _: u32) {
            #[inline(always)]
            fn chunk<K: TernaryLoop>(
                out: &mut Uninit<K::B>,
                a: &Chunk<K::A>,
                b: &Chunk<K::B>,
                c: &Chunk<K::B>,
            ) {
                for j in 0..CHUNK_ELEMENTS {
                    out[j].write(K::of(a[j], b[j], c[j]));
                }
            }
            let [mut a, mut b, mut c] = *args;
            // SAFETY: (1) of the loop.
            for out in unsafe { chunks::<K::B>(out) } {
                // SAFETY: (1) of the loop.
                unsafe { chunk::<K>(out, &*a.at.cast(), &*b.at.cast(), &*c.at.cast()) };
                (a.at, b.at) = (a.at.wrapping_offset(a.chunk_step), b.at.wrapping_offset(b.chunk_step));
                c.at = c.at.wrapping_offset(c.chunk_step);
            }
        }
    };
}
macro_rules! loops {
    ($(#[$feature:meta])* $unary:ident $binary:ident $ternary:ident) => {
        unary_loop!($(#[$feature])* $unary);
        binary_loop!($(#[$feature])* $binary);
        ternary_loop!($(#[$feature])* $ternary);
    };
}
loops!(unary_baseline binary_baseline ternary_baseline);
#[cfg(target_arch = "x86_64")]
loops!(
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    unary_avx2 binary_avx2 ternary_avx2
);
#[cfg(target_arch = "x86_64")]
loops!(
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c")]
    unary_avx512 binary_avx512 ternary_avx512
);

/// The copy of a loop for this processor.
macro_rules! pick {
    ($name:ident $kind:ident $plain:ident $avx2:ident $avx512:ident) => {
        pub(super) fn $name<K: $kind>() -> InstructionFn {
            match isa::level() {
                Level::Baseline => $plain::<K>,
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => $avx2::<K>,
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => $avx512::<K>,
            }
        }
    };
}
pick!(unary UnaryLoop unary_baseline unary_avx2 unary_avx512);
pick!(binary BinaryLoop binary_baseline binary_avx2 binary_avx512);
pick!(ternary TernaryLoop ternary_baseline ternary_avx2 ternary_avx512);
