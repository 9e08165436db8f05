//! The function of cuBLAS that rankform calls: a product of batches of column-major matrices.

use std::ffi::c_int;

/// One operand: its address, the number of its type in `cudaDataType`, and its strides.
#[derive(Clone)]
pub struct Matrix {
    pub address: usize,
    pub kind: c_int,
    /// Whether numbers of f32 are rounded to TF32 when they are read.
    pub tf32: bool,
    pub transposed: bool,
    pub pitch: i64,
    pub matrix: i64,
}

impl Matrix {
    fn at(&self, batch: i64, row: i64, column: i64) -> i64 {
        let (row, column) = if self.transposed { (column, row) } else { (row, column) };
        batch * self.matrix + row + column * self.pitch
    }

    /// A number of f32, to the 10 bits of fraction of TF32 if the product uses it.
    fn rounded(&self, x: f32) -> f64 {
        let is_rounded = self.tf32 && x.is_finite();
        f64::from(if is_rounded { f32::from_bits(x.to_bits().wrapping_add(0x1000) & !0x1fff) } else { x })
    }

    /// The element at a position, as a complex number.
    ///
    /// # Safety
    /// The operand has an element at this position.
    unsafe fn read(&self, at: i64) -> Option<[f64; 2]> {
        let at = at as usize;
        // SAFETY: the caller promises an element at this position.
        unsafe {
            Some(match self.kind {
                0 => [self.rounded((self.address as *const f32).add(at).read_unaligned()), 0.0],
                1 => [(self.address as *const f64).add(at).read_unaligned(), 0.0],
                2 => [half(u32::from((self.address as *const u16).add(at).read_unaligned())), 0.0],
                14 => [
                    f64::from(f32::from_bits(
                        u32::from((self.address as *const u16).add(at).read_unaligned()) << 16,
                    )),
                    0.0,
                ],
                4 => {
                    (self.address as *const [f32; 2]).add(at).read_unaligned().map(|part| self.rounded(part))
                }
                5 => (self.address as *const [f64; 2]).add(at).read_unaligned(),
                _ => return None,
            })
        }
    }

    /// Writes an element from a complex number.
    ///
    /// # Safety
    /// The operand has an element at this position, which no other thread uses.
    unsafe fn write(&self, at: i64, value: [f64; 2]) -> Option<()> {
        let at = at as usize;
        // SAFETY: as above.
        unsafe {
            match self.kind {
                0 => (self.address as *mut f32).add(at).write_unaligned(value[0] as f32),
                1 => (self.address as *mut f64).add(at).write_unaligned(value[0]),
                2 => (self.address as *mut u16).add(at).write_unaligned(to_half(value[0])),
                14 => (self.address as *mut u16).add(at).write_unaligned(to_bfloat(value[0] as f32)),
                4 => (self.address as *mut [f32; 2]).add(at).write_unaligned(value.map(|part| part as f32)),
                5 => (self.address as *mut [f64; 2]).add(at).write_unaligned(value),
                _ => return None,
            }
        }
        Some(())
    }
}

fn half(bits: u32) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, (bits >> 10 & 31) as i32, f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

fn to_half(value: f64) -> u16 {
    let (sign, magnitude) = (u16::from(value.is_sign_negative()) << 15, value.abs());
    if value.is_nan() {
        return 0x7fff;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    let exponent = if magnitude == 0.0 { -14 } else { (magnitude.log2().floor() as i32).max(-14) };
    let units = (magnitude * 2f64.powi(10 - exponent)).round_ties_even() as u16;
    sign | (units + (((exponent + 14) as u16) << 10))
}

fn to_bfloat(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        0x7fff
    } else {
        ((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16) as u16
    }
}

/// The number of bytes that each operand spans. `None` for an unknown type.
pub fn bytes(batch: i64, [m, n, k]: [i64; 3], a: &Matrix, b: &Matrix, c: &Matrix) -> Option<[usize; 3]> {
    let of = |matrix: &Matrix, rows: i64, columns: i64| {
        let element = match matrix.kind {
            2 | 14 => 2,
            0 => 4,
            1 | 4 => 8,
            5 => 16,
            _ => return None,
        };
        let empty = batch * rows * columns == 0;
        Some(if empty { 0 } else { (matrix.at(batch - 1, rows - 1, columns - 1) as usize + 1) * element })
    };
    Some([of(a, m, k)?, of(b, k, n)?, of(c, m, n)?])
}

/// `c = a · b`, with `m` rows, `n` columns, and sums of `k` products. `None` for an unknown type.
///
/// # Safety
/// The operands are valid for their sizes: `a` and `b` for reads, `c` for writes.
pub unsafe fn product(batch: i64, [m, n, k]: [i64; 3], a: &Matrix, b: &Matrix, c: &Matrix) -> Option<()> {
    for batch in 0..batch {
        for row in 0..m {
            for column in 0..n {
                let mut sum = [0.0; 2];
                for along in 0..k {
                    // SAFETY: the caller's promise.
                    let (x, y) =
                        unsafe { (a.read(a.at(batch, row, along))?, b.read(b.at(batch, along, column))?) };
                    sum = [sum[0] + x[0] * y[0] - x[1] * y[1], sum[1] + x[0] * y[1] + x[1] * y[0]];
                }
                // SAFETY: the caller's promise.
                unsafe { c.write(c.at(batch, row, column), sum)? };
            }
        }
    }
    Some(())
}
