//! Fourier transforms against the sum that defines them, in double-double: every length up to 64, primes, and
//! long ones; round trips, norms, several axes, views, windows, errors.
//!
//! The ratio of an error is its 2-norm divided by that of the result, by ε, and by `1 + log₂ n`; at most 4.

use rankform::fft::*;
use rankform::prelude::*;
use rankform::{Complex, f16};
use std::f64::consts::TAU;

type C = Complex<f64>;

/// The largest ratio.
const LARGEST: f64 = 4.0;

/// A number between −1 and 1 for each place.
fn noise(i: usize, seed: u64) -> f64 {
    let mut x = (i as u64) << 20 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d;
    for _ in 0..3 {
        x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    (x >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// `cos` and `sin` of `2π·k/n`, each by the smallest angle that has it, so that no rounding grows with `k`.
fn circle(k: usize, n: usize) -> C {
    // An eighth of a turn has the most exact sine and cosine: 8·k/n is octant and rest.
    let (octant, rest) = (8 * k / n, 8 * k % n);
    let angle = |rest: usize| TAU * rest as f64 / (8 * n) as f64;
    let (low, high) = (angle(rest), angle(n - rest));
    match octant % 8 {
        0 => C::new(low.cos(), low.sin()),
        1 => C::new(high.sin(), high.cos()),
        2 => C::new(-low.sin(), low.cos()),
        3 => C::new(-high.cos(), high.sin()),
        4 => C::new(-low.cos(), -low.sin()),
        5 => C::new(-high.sin(), -high.cos()),
        6 => C::new(low.sin(), -low.cos()),
        _ => C::new(high.cos(), -high.sin()),
    }
}

/// A sum whose roundings are kept and added at the end (Neumaier).
#[derive(Clone, Copy, Default)]
struct Sum(f64, f64);

impl Sum {
    fn add(&mut self, x: f64) {
        let total = self.0 + x;
        self.1 += if self.0.abs() >= x.abs() { (self.0 - total) + x } else { (x - total) + self.0 };
        self.0 = total;
    }
    /// Adds `x · y` with its rounding.
    fn add_product(&mut self, x: f64, y: f64) {
        let product = x * y;
        self.add(product);
        self.1 += x.mul_add(y, -product);
    }
}

/// The defining sum, without a factor.
fn direct(x: &[C], is_inverse: bool) -> Vec<C> {
    let n = x.len();
    let one = |k: usize| {
        let (mut re, mut im) = (Sum::default(), Sum::default());
        for (j, x) in x.iter().enumerate() {
            let w = circle(j * k % n, n);
            let sine = if is_inverse { w.im } else { -w.im };
            re.add_product(x.re, w.re);
            re.add_product(-x.im, sine);
            im.add_product(x.re, sine);
            im.add_product(x.im, w.re);
        }
        C::new(re.0 + re.1, im.0 + im.1)
    };
    (0..n).map(one).collect()
}

fn norm(x: &[C]) -> f64 {
    x.iter().map(C::norm_sqr).sum::<f64>().sqrt()
}

#[track_caller]
fn near(what: &str, found: &[C], expected: &[C], epsilon: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let difference: Vec<C> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
    let bound = LARGEST * epsilon * (1.0 + (expected.len().max(1) as f64).log2());
    assert!(
        norm(&difference) <= bound * norm(expected),
        "{what}: {:e}",
        norm(&difference) / norm(expected) / bound
    );
}

fn lengths() -> impl Iterator<Item = usize> {
    (1..=64).chain([97, 127, 211, 509, 1000, 1009, 1024, 2047])
}

trait Real: FourierReal + Into<f64> + PartialEq {
    const EPS: f64;
    fn of(x: f64) -> Self;
    fn complex(x: C) -> Complex<Self>;
    fn wide(x: Complex<Self>) -> C {
        C::new(x.re.into(), x.im.into())
    }
}
impl Real for f32 {
    const EPS: f64 = f32::EPSILON as f64;
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn complex(x: C) -> Complex<f32> {
        Complex::new(x.re as f32, x.im as f32)
    }
}
impl Real for f64 {
    const EPS: f64 = f64::EPSILON;
    fn of(x: f64) -> f64 {
        x
    }
    fn complex(x: C) -> C {
        x
    }
}

fn check_lengths<T: Real>(lengths: impl Iterator<Item = usize>)
where
    Complex<T>: FourierElement<Part = T>,
{
    for n in lengths {
        let real: Vec<T> = (0..n).map(|i| T::of(noise(i, 1))).collect();
        let complex: Vec<Complex<T>> = (0..n).map(|i| T::complex(C::new(noise(i, 2), noise(i, 3)))).collect();
        let wide_real: Vec<C> = real.iter().map(|&x| C::from(x.into())).collect();
        let wide: Vec<C> = complex.iter().map(|&x| T::wide(x)).collect();
        let values =
            |x: &Tensor<Complex<T>, 1>| x.to_vec().unwrap().into_iter().map(T::wide).collect::<Vec<C>>();
        let (real, complex) = (Tensor::from_vec(real, [n]).unwrap(), Tensor::from_vec(complex, [n]).unwrap());
        let name = |what: &str| format!("{what} of {n}, {}", std::any::type_name::<T>());

        let spectrum = direct(&wide_real, false);
        let found = fft(&real, Axis::<0>, Fft::new()).unwrap();
        near(&name("fft of reals"), &values(&found), &spectrum, T::EPS);
        let half = rfft(&real, Axis::<0>, Fft::new()).unwrap();
        assert_eq!(half.size(), dim![n / 2 + 1]);
        // The norm of the whole spectrum is the measure of its half.
        let whole: Vec<C> = (0..n)
            .map(|k| {
                let half = values(&half);
                if k <= n / 2 { half[k] } else { half[n - k].conj() }
            })
            .collect();
        near(&name("rfft"), &whole, &spectrum, T::EPS);
        let back = irfft(&half, Axis::<0>, Fft::new().length(n)).unwrap();
        let back: Vec<C> = back.to_vec().unwrap().into_iter().map(|x| C::from(x.into())).collect();
        near(&name("irfft"), &back, &wide_real, T::EPS);

        near(
            &name("fft"),
            &values(&fft(&complex, Axis::<0>, Fft::new()).unwrap()),
            &direct(&wide, false),
            T::EPS,
        );
        let inverse: Vec<C> = direct(&wide, true).into_iter().map(|x| x / n as f64).collect();
        near(&name("ifft"), &values(&ifft(&complex, Axis::<0>, Fft::new()).unwrap()), &inverse, T::EPS);

        for norm_of in [Norm::Backward, Norm::Ortho, Norm::Forward] {
            let options = Fft::new().norm(norm_of);
            let there = fft(&complex, Axis::<0>, options).unwrap();
            let back = ifft(&there, Axis::<0>, options).unwrap();
            near(&name("there and back"), &values(&back), &wide, T::EPS);
            let factor = match norm_of {
                Norm::Backward => n as f64,
                Norm::Ortho => 1.0,
                Norm::Forward => 1.0 / n as f64,
            };
            // Parseval: the factor 1/√n keeps the 2-norm.
            let ratio = norm(&values(&there)).powi(2) / norm(&wide).powi(2) / factor;
            assert!((ratio - 1.0).abs() < 20.0 * T::EPS * (1.0 + (n as f64).log2()), "{ratio}");
        }
    }
}

#[test]
fn transforms_of_f64_equal_the_defining_sum() {
    check_lengths::<f64>(lengths());
}

#[test]
fn transforms_of_f32_equal_the_defining_sum() {
    check_lengths::<f32>(lengths());
}

#[test]
fn a_long_transform_equals_the_defining_sum_at_some_frequencies() {
    for n in [4096, 4099, 1 << 16] {
        let x: Vec<C> = (0..n).map(|i| C::new(noise(i, 5), noise(i, 6))).collect();
        let found = fft(&Tensor::from_vec(x.clone(), [n]).unwrap(), Axis::<0>, Fft::new()).unwrap();
        for k in [0, 1, n / 2, n - 1, n / 3, 1234] {
            let (mut re, mut im) = (Sum::default(), Sum::default());
            for (j, x) in x.iter().enumerate() {
                let w = circle(j * k % n, n);
                re.add_product(x.re, w.re);
                re.add_product(x.im, w.im);
                im.add_product(x.im, w.re);
                im.add_product(-x.re, w.im);
            }
            let error = (found[[k]] - C::new(re.0 + re.1, im.0 + im.1)).norm();
            let bound = LARGEST * f64::EPSILON * (1.0 + (n as f64).log2()) * norm(&x);
            assert!(error <= bound, "{n}, {k}: {error:e} above {bound:e}");
        }
    }
}

#[test]
fn lines_are_cut_and_followed_by_zeros() {
    let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]]);
    let zeros = Tensor::from([[1.0, 2.0, 3.0, 0.0, 0.0], [4.0, 5.0, 7.0, 0.0, 0.0]]);
    let cut = x.slice((.., ..2)).unwrap();
    let (long, short) = (Fft::new().length(5), Fft::new().length(2));
    assert_eq!(fft(&x, Axis::<1>, long).unwrap(), fft(&zeros, Axis::<1>, Fft::new()).unwrap());
    assert_eq!(fft(&x, Axis::<1>, short).unwrap(), fft(cut, Axis::<1>, Fft::new()).unwrap());
    assert_eq!(rfft(&x, Axis::<1>, long).unwrap(), rfft(&zeros, Axis::<1>, Fft::new()).unwrap());
    assert_eq!(rfft(&x, Axis::<1>, short).unwrap(), rfft(cut, Axis::<1>, Fft::new()).unwrap());
    assert_eq!(rfft(&x, Axis::<0>, Fft::new().length(7)).unwrap().size(), dim![4, 3]);
    // Of a spectrum, the frequencies that are missing are 0.
    let spectrum = rfft(&x, Axis::<1>, Fft::new()).unwrap();
    let again = irfft(&spectrum, Axis::<1>, Fft::new().length(8)).unwrap();
    let mut padded = Tensor::<C, 2>::zeros([2, 5], &Cpu).unwrap();
    padded.view_mut().unwrap().slice((.., ..2)).unwrap().assign(&spectrum).unwrap();
    assert_eq!(again, irfft(&padded, Axis::<1>, Fft::new()).unwrap());
    // Parts that real numbers do not have are not read.
    let spectrum = Tensor::from([C::new(1.0, 9.0), C::new(0.0, 0.0), C::new(2.0, -7.0)]);
    assert_eq!(
        irfft(&spectrum, Axis::<0>, Fft::new()).unwrap().to_vec().unwrap(),
        [0.75, -0.25, 0.75, -0.25]
    );
}

#[test]
fn views_give_the_bits_of_their_copies_along_every_axis() {
    let x = Tensor::from_fn([6, 5, 8], |[i, j, k]| C::new(noise(40 * i + 8 * j + k, 7), noise(k, 8)), &Cpu)
        .unwrap();
    let line = Tensor::from([[1.0, 2.0, 4.0, 7.0]]);
    let views = [
        x.view(),
        x.permuted([2, 0, 1]).unwrap(),
        x.slice(((..).step(-1), (..).step(2), (..).step(-3))).unwrap(),
        x.slice((1..2, .., 3..)).unwrap(),
        x.slice((2..2, .., ..)).unwrap(),
    ];
    for view in views {
        let copy = view.copy().unwrap();
        for axis in 0..3 {
            if view.size()[axis] == 0 {
                continue;
            }
            let found = fft_axis(view, axis, Fft::new()).unwrap();
            assert_eq!(found, fft_axis(&copy, axis, Fft::new()).unwrap());
            assert!(found.layout().is_contiguous());
            // Each line by itself.
            let order = [(axis + 1) % 3, (axis + 2) % 3, axis];
            let (lines, results) = (view.permuted(order).unwrap(), found.permuted(order).unwrap());
            let size = lines.size();
            for (i, j) in (0..size[0]).flat_map(|i| (0..size[1]).map(move |j| (i, j))) {
                let one = fft(lines.slice((i, j, ..)).unwrap(), Axis::<0>, Fft::new()).unwrap();
                assert_eq!(results.slice((i, j, ..)).unwrap().copy().unwrap(), one);
            }
        }
    }
    let flat = line.broadcast_to([3, 4]).unwrap();
    let found = rfft(flat, Axis::<1>, Fft::new()).unwrap();
    let one = rfft(line.slice((0, ..)).unwrap(), Axis::<0>, Fft::new()).unwrap();
    assert!((0..3).all(|i| found.slice((i, ..)).unwrap().copy().unwrap() == one));
    // Many lines, in several tasks.
    let many = Tensor::from_fn([3000, 24], |[i, j]| noise(24 * i + j, 9), &Cpu).unwrap();
    let (found, back) = (
        rfft(&many, Axis::<1>, Fft::new()).unwrap(),
        irfft_axis(&rfft_axis(&many, 1, Fft::new()).unwrap(), 1, Fft::new()).unwrap(),
    );
    for i in (0..3000).step_by(97) {
        let one = rfft(many.slice((i, ..)).unwrap(), Axis::<0>, Fft::new()).unwrap();
        assert_eq!(found.slice((i, ..)).unwrap().copy().unwrap(), one);
    }
    assert!(back.allclose(&many, 0.0, 1e-14, false).unwrap());
}

#[test]
fn several_axes_are_one_after_the_other() {
    let x = Tensor::from_fn([3, 4, 5], |[i, j, k]| noise(20 * i + 5 * j + k, 10), &Cpu).unwrap();
    let one = |x: &Tensor<C, 3>, axis| fft_axis(x, axis, Fft::new()).unwrap();
    let last = fft(&x, Axis::<2>, Fft::new()).unwrap();
    assert_eq!(fftn(&x, Axis::<2>, Norm::Backward).unwrap(), last);
    assert_eq!(fft2(&x, Norm::Backward).unwrap(), one(&last, 1));
    assert_eq!(fftn(&x, (Axis::<1>, Axis::<2>), Norm::Backward).unwrap(), one(&last, 1));
    assert_eq!(fftn(&x, All, Norm::Backward).unwrap(), one(&one(&last, 1), 0));
    for norm in [Norm::Backward, Norm::Ortho, Norm::Forward] {
        let back = ifftn(&fftn(&x, All, norm).unwrap(), All, norm).unwrap();
        assert!(back.re().unwrap().allclose(&x, 0.0, 1e-15, false).unwrap());
        let back = ifft2(&fft2(&x, norm).unwrap(), norm).unwrap();
        assert!(back.re().unwrap().allclose(&x, 0.0, 1e-15, false).unwrap());
    }
}

#[test]
fn real_transforms_along_several_axes_are_parts_of_complex_ones() {
    for (m, n) in [(4, 5), (3, 6), (1, 1), (5, 2)] {
        let x = Tensor::from_fn([3, m, n], |[i, j, k]| noise(90 * i + 9 * j + k, 11), &Cpu).unwrap();
        let half = |whole: Tensor<C, 3>| whole.slice((.., .., ..n / 2 + 1)).unwrap().copy().unwrap();
        let near = |found: &Tensor<C, 3>, expected: Tensor<C, 3>| {
            assert_eq!(found.size(), expected.size());
            assert!(found.iter().zip(expected.iter()).all(|(a, b)| (a - b).norm() < 1e-13));
        };
        for norm in [Norm::Backward, Norm::Ortho, Norm::Forward] {
            let options = Fft::new().norm(norm).length(n);
            let (all, two) = (rfftn(&x, All, norm).unwrap(), rfft2(&x, norm).unwrap());
            near(&all, half(fftn(&x, All, norm).unwrap()));
            near(&two, half(fft2(&x, norm).unwrap()));
            let some = rfftn(&x, (Axis::<0>, Axis::<2>), norm).unwrap();
            near(&some, half(fftn(&x, (Axis::<0>, Axis::<2>), norm).unwrap()));
            let backs = [
                irfftn(&all, All, options).unwrap(),
                irfft2(&two, options).unwrap(),
                irfftn(&some, (Axis::<0>, Axis::<2>), options).unwrap(),
            ];
            for back in backs {
                assert!(back.allclose(&x, 0.0, 1e-14, false).unwrap());
            }
            // The length along another axis than the last one.
            let first = rfftn(&x, (Axis::<0>, Axis::<1>), norm).unwrap();
            assert_eq!(first.size(), dim![3, m / 2 + 1, n]);
            let back = irfftn(&first, (Axis::<0>, Axis::<1>), Fft::new().norm(norm).length(m)).unwrap();
            assert!(back.allclose(&x, 0.0, 1e-14, false).unwrap());
            let last = rfft(&x, Axis::<2>, Fft::new().norm(norm)).unwrap();
            assert_eq!(rfftn(&x, Last, norm).unwrap(), last);
            assert_eq!(irfftn(&last, Last, options).unwrap(), irfft(&last, Axis::<2>, options).unwrap());
        }
        if n % 2 == 0 {
            assert_eq!(irfft2(&rfft2(&x, Norm::Ortho).unwrap(), Fft::new()).unwrap().size(), x.size());
        }
    }
    let x = Tensor::from([[1.0, 2.0]]);
    let error = irfft2(&rfft2(&x, Norm::Ortho).unwrap(), Fft::new().length(0)).unwrap_err();
    assert_eq!(error.to_string(), "irfft2: a transform of length 0 along axis 1 of sizes [1, 2]");
}

#[test]
fn frequencies_of_long_lines_are_of_every_element() {
    let n = 100_000;
    let one = f16::from_f64(1.0);
    let found = rfftfreq(n, one).unwrap().to_vec().unwrap();
    for (k, x) in found.into_iter().enumerate() {
        assert_eq!(x, f16::from_f64(k as f64 / n as f64));
    }
    let error = fftfreq(4, f64::NAN).unwrap_err();
    let text = "fftfreq: length 4 and spacing NaN; both must be finite and other than 0";
    assert_eq!(error.to_string(), text);
}

#[test]
fn shifts_order_frequencies() {
    for n in 1..9 {
        let frequencies = fftfreq(n, 1.0 / n as f64).unwrap();
        let shifted = fftshift(&frequencies, All).unwrap();
        assert!(shifted.to_vec().unwrap().is_sorted());
        assert_eq!(ifftshift(&shifted, All).unwrap(), frequencies);
        let half = rfftfreq(n, 1.0 / n as f64).unwrap().to_vec().unwrap();
        assert_eq!(half, (0..=n / 2).map(|k| k as f64).collect::<Vec<_>>());
    }
    let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    assert_eq!(fftshift(&x, All).unwrap(), Tensor::from([[6, 4, 5], [3, 1, 2]]));
    assert_eq!(fftshift(&x, Axis::<1>).unwrap(), Tensor::from([[3, 1, 2], [6, 4, 5]]));
    assert_eq!(ifftshift(&fftshift(&x, All).unwrap(), All).unwrap(), x);
}

#[test]
fn windows_have_the_values_of_scipy() {
    // scipy.signal.windows, version 1.11, sym=True and sym=False.
    let near = |found: Tensor<f64, 1>, expected: &[f64]| {
        assert_eq!(found.numel(), expected.len());
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{found:?} {expected:?}");
    };
    let root = 3.0_f64.sqrt() / 4.0;
    use Sampling::{Periodic, Symmetric};
    near(hann(5, Symmetric).unwrap(), &[0.0, 0.5, 1.0, 0.5, 0.0]);
    near(hann(6, Periodic).unwrap(), &[0.0, 0.25, 0.75, 1.0, 0.75, 0.25]);
    near(hamming(6, Periodic).unwrap(), &[0.08, 0.31, 0.77, 1.0, 0.77, 0.31]);
    near(blackman(6, Periodic).unwrap(), &[0.0, 0.13, 0.63, 1.0, 0.63, 0.13]);
    near(hann(12, Periodic).unwrap().slice(1..3).unwrap().copy().unwrap(), &[0.5 - root, 0.25]);
    for n in 0..20 {
        for sampling in [Periodic, Symmetric] {
            for window in [hann::<f64>, hamming::<f64>, blackman::<f64>] {
                let w = window(n, sampling).unwrap().to_vec().unwrap();
                assert_eq!(w.len(), n);
                assert!(n != 1 || w == [1.0]);
                let from = usize::from(sampling == Periodic);
                assert!((from..n).all(|k| w[k] == w[n - 1 - k + from]), "{w:?}");
            }
        }
    }
}

#[test]
fn a_transform_of_length_0_is_an_error_with_the_sizes() {
    let none = Tensor::<f64, 2>::zeros([3, 0], &Cpu).unwrap();
    let error = fft(&none, Axis::<1>, Fft::new()).unwrap_err();
    assert_eq!(error.to_string(), "fft: a transform of length 0 along axis 1 of sizes [3, 0]");
    assert!(rfft(&none, Axis::<1>, Fft::new()).is_err());
    let x = Tensor::from([[1.0, 2.0]]);
    assert!(ifft(&x, Axis::<1>, Fft::new().length(0)).is_err());
    let single = Tensor::from([C::new(3.0, 0.0)]);
    assert!(irfft(&single, Axis::<0>, Fft::new()).is_err());
    assert_eq!(irfft(&single, Axis::<0>, Fft::new().length(1)).unwrap().to_vec().unwrap(), [3.0]);
    // Without lines there is nothing to do; an empty line is followed by zeros.
    assert_eq!(fft(&none, Axis::<0>, Fft::new()).unwrap().size(), dim![3, 0]);
    assert_eq!(
        fft(&none, Axis::<1>, Fft::new().length(2)).unwrap(),
        Tensor::<C, 2>::zeros([3, 2], &Cpu).unwrap()
    );
    assert!(matches!(fft_axis(&x, 2, Fft::new()), Err(Error::Axis { op: "fft", axis: 2, .. })));
    assert!(fftfreq(0, 1.0).is_err() && fftfreq(4, 0.0).is_err() && rfftfreq(4, f64::NAN).is_err());
    let unallocated = Tensor::<f64, 1>::empty([4], &Cpu).unwrap();
    assert!(matches!(fft(&unallocated, Axis::<0>, Fft::new()), Err(Error::Unallocated { op: "fft", .. })));
}

/// The definition, by plain sums.
fn spectra_of_parts(x: &[f64], window: &[f64], hop: usize) -> Vec<Vec<C>> {
    let n = window.len();
    let part = |m: usize| -> Vec<C> {
        let of: Vec<C> = (0..n).map(|j| C::from(x[m * hop + j] * window[j])).collect();
        direct(&of, false)[..n / 2 + 1].to_vec()
    };
    (0..1 + (x.len() - n) / hop).map(part).collect()
}

#[test]
fn spectra_of_parts_equal_the_defining_sum() -> Result<()> {
    for (n, hop, edges) in
        [(8, 2, Edges::Cut), (7, 3, Edges::Reflect), (6, 6, Edges::Zeros), (9, 1, Edges::Cut)]
    {
        let line: Vec<f64> = (0..31).map(|i| noise(i, 3)).collect();
        let x = Tensor::from_vec(line.clone(), [31])?;
        let margin = if edges == Edges::Cut { 0 } else { n / 2 };
        let at = |i: usize| match (i.checked_sub(margin), edges) {
            (Some(i), _) if i < 31 => line[i],
            (_, Edges::Zeros) => 0.0,
            (Some(i), _) => line[60 - i],
            (None, _) => line[margin - i],
        };
        let padded: Vec<f64> = (0..31 + 2 * margin).map(at).collect();
        let window: Vec<f64> = (0..n).map(|i| 1.5 + noise(i, 4)).collect();
        let options = Stft::new(n).hop(hop).edges(edges);
        let found = stft(&x, &Tensor::from_vec(window.clone(), [n])?, options)?;
        let expected = spectra_of_parts(&padded, &window, hop);
        assert_eq!(found.size(), [n / 2 + 1, expected.len()]);
        for (m, expected) in expected.iter().enumerate() {
            near("a part", &found.slice((.., m))?.to_vec()?, expected, f64::EPSILON);
        }
        let scaled = stft(&x, &Tensor::from_vec(window, [n])?, options.norm(Norm::Ortho))?;
        let expected = found.mul(C::from(1.0 / (n as f64).sqrt()))?;
        assert!(scaled.sub(&expected)?.modulus()?.max(All)?.item()? < 1e-14);
    }
    Ok(())
}

#[test]
fn lines_come_back_from_the_spectra_of_their_parts() -> Result<()> {
    let x = Tensor::from_fn([2, 3, 203], |[i, j, k]| noise(k + 203 * (3 * i + j), 5), &Cpu)?;
    let view = x.permuted([1, 0, 2])?;
    for (n, hop, width, edges) in [
        (16, 4, 16, Edges::Reflect),
        (16, 8, 16, Edges::Zeros),
        (15, 5, 15, Edges::Reflect),
        (32, 4, 20, Edges::Reflect),
        (64, 16, 64, Edges::Zeros),
    ] {
        let window = hamming(width, Sampling::Periodic)?;
        let options = Stft::new(n).hop(hop).edges(edges).norm(Norm::Ortho);
        let spectra = stft(view, &window, options)?;
        let back = istft(&spectra, &window, options.length(203))?;
        assert!(back.allclose(view, 0.0, 1e-12, false)?, "{n} {hop} {edges:?}");
        let shorter = istft(&spectra, &window, options)?;
        let length = (spectra.size()[3] - 1) * hop + n % 2;
        assert_eq!(shorter.size(), [3, 2, length]);
        let kept = length.min(203);
        assert!(shorter.slice((.., .., ..kept))?.allclose(
            view.slice((.., .., ..kept))?,
            0.0,
            1e-12,
            false
        )?);
    }
    // Without edges and with a window that is nowhere 0, all that the parts cover.
    let window = hamming(16, Sampling::Symmetric)?;
    let options = Stft::new(16).hop(4).edges(Edges::Cut);
    let back = istft(&stft(&x, &window, options)?, &window, options)?;
    assert_eq!(back.size(), [2, 3, 200]);
    assert!(back.allclose(x.slice((.., .., ..200))?, 0.0, 1e-12, false)?);
    let (x, window) = (x.cast::<f32>()?, window.cast::<f32>()?);
    let back = istft(&stft(&x, &window, options)?, &window, options)?;
    assert!(back.allclose(x.slice((.., .., ..200))?, 0.0, 1e-5, false)?);
    Ok(())
}

#[test]
fn parts_that_do_not_fit_are_errors() -> Result<()> {
    let (x, window) = (Tensor::<f64, 1>::ones([8], &Cpu)?, Tensor::<f64, 1>::ones([4], &Cpu)?);
    let text = |found: Result<Tensor<C, 2>>| found.unwrap_err().to_string();
    let wide = text(stft(&x, &window, Stft::new(3)));
    assert_eq!(
        wide,
        "stft: a window of 4 elements in parts of 3, 1 apart: a window has from 1 element to those of a part"
    );
    assert!(text(stft(&x, &window, Stft::new(4).hop(0))).contains("0 apart"));
    let long = text(stft(&x, &window, Stft::new(9).edges(Edges::Cut)));
    assert_eq!(long, "stft: lines of 8 elements, parts of 9, edges Cut");
    assert!(text(stft(&x, &window, Stft::new(16))).contains("edges Reflect"));
    let spectra = stft(&x, &window, Stft::new(4).hop(4))?;
    let other = istft::<f64, 2, 1>(&spectra, &window, Stft::new(6)).unwrap_err().to_string();
    assert_eq!(other, "istft: spectra of 3 frequencies of 3 parts; parts of 6 elements have 4");
    let far = istft::<f64, 2, 1>(&spectra, &window, Stft::new(4).hop(4).length(11)).unwrap_err().to_string();
    assert!(far.ends_with("element 10 of 11: it is not determined"), "{far}");
    assert!(istft::<f64, 2, 1>(&spectra, &window, Stft::new(4).hop(6)).is_err()); // gaps between the parts
    Ok(())
}

/// `Σ x[j] · y[k − j]`, all of it.
fn convolved(x: &[f64], y: &[f64]) -> Vec<f64> {
    let mut sums = vec![Sum::default(); x.len() + y.len() - 1];
    for (j, &x) in x.iter().enumerate() {
        for (i, &y) in y.iter().enumerate() {
            sums[i + j].add_product(x, y);
        }
    }
    sums.into_iter().map(|Sum(total, rest)| total + rest).collect()
}

#[test]
fn convolutions_equal_the_defining_sum() -> Result<()> {
    let line = |n: usize, seed| -> Vec<f64> { (0..n).map(|i| noise(i, seed)).collect() };
    for (n, m) in [(1, 1), (1, 5), (7, 3), (7, 4), (5, 9), (100, 99), (600, 500), (500, 601), (2000, 3)] {
        let (x, y) = (line(n, 6), line(m, 7));
        let all = convolved(&x, &y);
        let (a, b) = (Tensor::from_vec(x, [n])?, Tensor::from_vec(y, [m])?);
        let from = (m - 1) / 2;
        for (extent, expected) in [(Extent::Full, &all[..]), (Extent::Same, &all[from..from + n])] {
            let found = convolve(&a, &b, extent)?.to_vec()?;
            assert_eq!(found.len(), expected.len());
            let largest = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(largest <= 4e-16 * (n.min(m) as f64).max(4.0), "{n} {m} {extent:?}: {largest:e}");
        }
        if n < m {
            assert!(convolve(&a, &b, Extent::Valid).is_err());
            continue;
        }
        let found = convolve(&a, &b, Extent::Valid)?;
        let expected = Tensor::from_vec(all[m - 1..n].to_vec(), [n - m + 1])?;
        assert!(found.allclose(&expected, 0.0, 1e-13, false)?, "{n} {m}");
        // Complex numbers, along the last axis of a view.
        let pairs = Tensor::from_fn([n, 2], |[k, i]| C::new(noise(k, 8), noise(k + i, 9)), &Cpu)?;
        let (found, b) = (convolve(pairs.transposed(), &b.cast::<C>()?, Extent::Full)?, b);
        for i in 0..2 {
            let row = pairs.slice((.., i))?;
            let (re, im) = (convolve(&row.re()?, &b, Extent::Full)?, convolve(&row.im()?, &b, Extent::Full)?);
            let found = found.slice((i, ..))?;
            assert!(found.re()?.allclose(&re, 0.0, 1e-12, false)?, "{n} {m}");
            assert!(found.im()?.allclose(&im, 0.0, 1e-12, false)?, "{n} {m}");
        }
    }
    Ok(())
}

#[test]
fn convolutions_of_integers_are_exact_and_of_nothing_an_error() -> Result<()> {
    let big = Tensor::full([3000], 1_i64 << 40, &Cpu)?;
    let found = convolve(&big, &Tensor::<i64, 1>::ones([2000], &Cpu)?, Extent::Valid)?;
    assert_eq!(found, Tensor::full([1001], 2000 << 40, &Cpu)?);
    let bytes = convolve(&Tensor::from([200_u8, 100]), &Tensor::from([2_u8]), Extent::Full)?;
    assert_eq!(bytes.to_vec()?, [144, 200]); // wraps
    let none = Tensor::<f64, 1>::zeros([0], &Cpu)?;
    let error = convolve(&none, &Tensor::from([1.0]), Extent::Full).unwrap_err();
    assert_eq!(error.to_string(), "convolve: a convolution of 0 and 1 elements");
    let error = convolve(&Tensor::from([1.0]), &Tensor::from([1.0, 2.0]), Extent::Valid).unwrap_err();
    assert_eq!(error.to_string(), "convolve: no element of 1 has 2 neighbors: the weights are longer");
    let batch = Tensor::<f64, 3>::zeros([0, 4, 5], &Cpu)?;
    assert_eq!(convolve(&batch, &Tensor::from([1.0, 2.0]), Extent::Full)?.size(), [0, 4, 6]);
    Ok(())
}

/// Either operand may be the longer one, for each of several lines.
#[test]
fn convolutions_by_longer_operands() -> Result<()> {
    let line = |n: usize, seed| -> Vec<i32> { (0..n).map(|i| (noise(i, seed) * 9.0) as i32).collect() };
    for (n, m) in [(1, 4), (2, 3), (2, 9), (3, 8), (5, 6), (8, 3), (9, 2), (6, 6), (4, 1)] {
        let (rows, y) = ([line(n, 10), line(n, 11)], line(m, 12));
        let all = rows.each_ref().map(|x| -> Vec<i32> {
            let term = |k: usize, j: usize| k.checked_sub(j).and_then(|i| y.get(i)).map_or(0, |y| x[j] * y);
            (0..n + m - 1).map(|k| (0..n).map(|j| term(k, j)).sum()).collect()
        });
        let (a, b) = (Tensor::from_vec(rows.concat(), [2, n])?, Tensor::from_vec(y, [m])?);
        let first = (m - 1) / 2;
        for (extent, part) in [(Extent::Full, 0..n + m - 1), (Extent::Same, first..first + n)] {
            let found = convolve(&a, &b, extent)?;
            let expected = [&all[0][part.clone()], &all[1][part.clone()]].concat();
            assert_eq!(
                (found.size(), found.to_vec()?),
                (Dim([2, part.len()]), expected),
                "{n} {m} {extent:?}"
            );
        }
        let valid = convolve(&a, &b, Extent::Valid);
        match n.checked_sub(m) {
            None => assert!(valid.is_err()),
            Some(_) => assert_eq!(valid?.to_vec()?, [&all[0][m - 1..n], &all[1][m - 1..n]].concat()),
        }
    }
    let long = Tensor::full([1_000_000], 3, &Cpu)?;
    assert_eq!(convolve(&Tensor::from([2]), &long, Extent::Full)?, Tensor::full([1_000_000], 6, &Cpu)?);
    assert_eq!(convolve(&Tensor::from([2]), &long, Extent::Same)?.to_vec()?, [6]);
    let none = Tensor::<i32, 2>::zeros([0, 2], &Cpu)?;
    assert_eq!(convolve(&none, &Tensor::from([1, 2, 3]), Extent::Full)?.size(), [0, 4]);
    Ok(())
}

/// Parts so far apart that no number counts the elements between them.
#[test]
fn parts_that_are_far_apart() -> Result<()> {
    let x = Tensor::from([1.0_f64, 2.0, 3.0, 4.0]);
    let window = Tensor::<f64, 1>::ones([4], &Cpu)?;
    let options = Stft::new(4).hop(1 << 63).edges(Edges::Cut);
    let one = stft(&x, &window, options)?;
    let spectra = Tensor::concat([one.view(), one.view(), one.view()], Axis::<1>)?;
    assert!(istft::<f64, 2, 1>(&spectra, &window, options).is_err());
    let back = istft::<f64, 2, 1>(&spectra, &window, options.length(4))?;
    assert!(back.allclose(&x, 0.0, 1e-15, false)?, "{back}");
    Ok(())
}
