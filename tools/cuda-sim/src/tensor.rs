//! Functions of tensor cores, which the lanes of a warp call together. The PTX ISA distributes the elements
//! of a matrix over the registers of the lanes: a fragment.

use crate::warp::{Call, FIRST_TENSOR, LANES};
use std::ffi::c_int;

/// Ten times the compute capability from which on GPUs have them.
pub const CAPABILITY: usize = 80;

/// Rows, columns and depth of a product.
const ROWS: usize = 16;
const COLUMNS: usize = 8;
const DEPTH: usize = 16;
/// Rows of a matrix that `ldmatrix` loads, and elements of a row.
const SIDE: usize = 8;

/// The operands of one lane: `SimFragments` of `host.h`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Fragments {
    a: *const u32,
    b: *const u32,
    to: *mut u32,
}

/// The value of an IEEE 754 binary16.
fn of_f16(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (fraction + 1024.0) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// The value of a bfloat16.
fn of_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The two elements of a register.
fn halves(register: u32) -> [u16; 2] {
    [register as u16, (register >> 16) as u16]
}

/// Runs the function of this number for the calls of a whole warp.
///
/// # Safety
/// The value of each call is the address of the fragments of its lane, which are valid for the function.
pub unsafe fn run(function: c_int, calls: &[Call]) {
    // SAFETY: the caller's promise.
    let lanes: Vec<Fragments> =
        calls.iter().map(|call| unsafe { *std::ptr::with_exposed_provenance(call.value as usize) }).collect();
    // SAFETY: the caller's promise.
    unsafe {
        match function - FIRST_TENSOR {
            0 => multiply(&lanes, of_f16),
            1 => multiply(&lanes, of_bf16),
            2 => load(&lanes, false),
            _ => load(&lanes, true),
        }
    }
}

/// Adds the product of `a` (16 × 16, of four registers a lane) and `b` (16 × 8, of two) to 16 × 8 sums of
/// f32, four of which a lane has.
///
/// # Safety
/// There are 32 lanes, and each has so many registers.
unsafe fn multiply(lanes: &[Fragments], value: fn(u16) -> f32) {
    let (mut a, mut b) = ([[0.0; DEPTH]; ROWS], [[0.0; COLUMNS]; DEPTH]);
    for (lane, fragments) in lanes.iter().enumerate() {
        let (group, pair) = (lane / 4, 2 * (lane % 4));
        for register in 0..4 {
            // SAFETY: the caller's promise.
            let elements = halves(unsafe { *fragments.a.add(register) });
            for (k, element) in elements.into_iter().enumerate() {
                a[group + register % 2 * 8][pair + register / 2 * 8 + k] = value(element);
            }
        }
        for register in 0..2 {
            // SAFETY: the caller's promise.
            let elements = halves(unsafe { *fragments.b.add(register) });
            for (k, element) in elements.into_iter().enumerate() {
                b[pair + register * 8 + k][group] = value(element);
            }
        }
    }
    for (lane, fragments) in lanes.iter().enumerate() {
        for register in 0..4 {
            let (row, column) = (lane / 4 + register / 2 * 8, 2 * (lane % 4) + register % 2);
            // SAFETY: the caller's promise; the registers of sums hold f32.
            unsafe {
                let to = fragments.to.add(register);
                let sum = (0..DEPTH).fold(f32::from_bits(*to), |sum, k| a[row][k].mul_add(b[k][column], sum));
                *to = sum.to_bits();
            }
        }
    }
}

/// Loads four matrices of 8 × 8 elements of 16 bits. Lane `8 · matrix + row` gives the address of a row. Lane
/// `l` gets, of each matrix, two neighbors of row `l / 4`, or, `transposed`, of column `l / 4`.
///
/// # Safety
/// There are 32 lanes; each has the address of a row, and four registers.
unsafe fn load(lanes: &[Fragments], transposed: bool) {
    // A row may be misaligned, which was recorded as a fault.
    // SAFETY: the caller's promise.
    let row = |number: usize| unsafe { lanes[number].a.cast::<[u16; SIDE]>().read_unaligned() };
    let rows: Vec<[u16; SIDE]> = (0..LANES).map(row).collect();
    for (lane, fragments) in lanes.iter().enumerate() {
        let (group, pair) = (lane / 4, 2 * (lane % 4));
        for matrix in 0..4 {
            let element = |k: usize| {
                let (row, column) = if transposed { (pair + k, group) } else { (group, pair + k) };
                u32::from(rows[matrix * SIDE + row][column])
            };
            // SAFETY: the caller's promise.
            unsafe { *fragments.to.add(matrix) = element(0) | element(1) << 16 };
        }
    }
}
