//! Multiplying and adding in registers: as many chains as hide the latency, nothing loaded or stored.

use super::team::Team;
use peers::{Forms, threads};
use std::hint::black_box;

/// Chains that depend on themselves alone: latency × instructions a cycle is 8 to 10 on the machines of
/// today.
const CHAINS: usize = 12;

/// A form that does `flops` with a step which does `each` in every chain.
fn form<V: Copy + Send + Sync + 'static>(
    name: &str,
    flops: f64,
    each: f64,
    start: V,
    step: impl Fn(V) -> V + Copy + Send + Sync + 'static,
    forms: &mut Forms,
) {
    let turns = (flops / (each * CHAINS as f64 * threads() as f64)).ceil() as usize;
    forms.add(name, move || {
        let team = Team::new(move |_| {
            let mut chains = [black_box(start); CHAINS];
            for _ in 0..turns {
                for chain in &mut chains {
                    *chain = step(*chain);
                }
            }
            black_box(chains);
        });
        move || team.run()
    });
}

/// Multiplication and addition of vectors, by the instruction; elsewhere as the compiler makes it. Vectors of
/// 512 bits have a higher peak on some machines, and lower the clock of others: both are tried.
macro_rules! multiply_add {
    (
        $($name:ident: $element:ty, $($lanes:literal $set:ident $multiply_add:ident $feature:literal),*;)*
    ) => { $(
        pub fn $name(flops: f64, forms: &mut Forms) {
            $(
                #[cfg(all(target_arch = "x86_64", target_feature = $feature))]
                {
                    use std::arch::x86_64::*;
                    // SAFETY: this program is built for these instructions.
                    let (factor, term) = unsafe { (black_box($set(0.999_999)), black_box($set(1e-6))) };
                    let name = concat!("multiply and add ", $lanes);
                    // SAFETY: as above.
                    form(
                        name, flops, 2.0 * $lanes as f64, factor,
                        move |x| unsafe { $multiply_add(x, factor, term) }, forms
                    );
                }
            )*
            #[cfg(not(all(target_arch = "x86_64", target_feature = "fma")))]
            {
                let step = |x: [$element; 8]| x.map(|x| x * 0.999_999 + 1e-6);
                form("multiply and add", flops, 16.0, [1.0; 8], step, forms);
            }
        }
    )* };
}
multiply_add! {
    f32: f32, 8 _mm256_set1_ps _mm256_fmadd_ps "fma", 16 _mm512_set1_ps _mm512_fmadd_ps "avx512f";
    f64: f64, 4 _mm256_set1_pd _mm256_fmadd_pd "fma", 8 _mm512_set1_pd _mm512_fmadd_pd "avx512f";
}

/// Products of the 16-bit and 8-bit kinds have instructions of their own on some machines.
#[cfg(all(target_arch = "x86_64", target_feature = "avx512bf16"))]
pub fn bf16(flops: f64, forms: &mut Forms) {
    use std::arch::x86_64::{_mm512_cvtne2ps_pbh, _mm512_dpbf16_ps, _mm512_set1_ps};
    // SAFETY: this program is built for these instructions.
    let (x, sum) =
        unsafe { (_mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5), _mm512_set1_ps(0.25)), _mm512_set1_ps(1.0)) };
    // SAFETY: as above.
    form("dot products of pairs", flops, 64.0, sum, move |sum| unsafe { _mm512_dpbf16_ps(sum, x, x) }, forms);
}
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx512bf16")))]
pub fn bf16(flops: f64, forms: &mut Forms) {
    f32(flops, forms);
}

#[cfg(all(target_arch = "x86_64", target_feature = "avx512vnni"))]
pub fn i8(flops: f64, forms: &mut Forms) {
    use std::arch::x86_64::{_mm512_dpbusd_epi32, _mm512_set1_epi8, _mm512_setzero_si512};
    // SAFETY: this program is built for these instructions.
    let (x, y, sum) = unsafe { (_mm512_set1_epi8(3), _mm512_set1_epi8(-2), _mm512_setzero_si512()) };
    // SAFETY: as above.
    form(
        "dot products of fours",
        flops,
        128.0,
        sum,
        move |sum| unsafe { _mm512_dpbusd_epi32(sum, x, y) },
        forms,
    );
}
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx512vnni")))]
pub fn i8(_: f64, _: &mut Forms) {}
