//! Moving bytes: some arrays are read, some written, and as little as may be is done between.

use super::pages::Pages;
use super::team::Team;
use peers::{Forms, threads};
use std::hint::black_box;

/// A vector of the widest kind; the compiler splits it where the machine's are narrower.
type V = [f32; LANES];
const LANES: usize = 16;
/// Vectors in one turn of the loop.
const TURN: usize = 8;
/// Every part begins and ends at a whole turn of the loop.
const BLOCK: usize = TURN * LANES;

/// The forms of a case that reads `R` arrays and writes `W`, of `len` elements each; `STEP` elements are read
/// for one that is written. `IN_PLACE`: the outputs are the first `W` of the inputs.
pub fn stream<const R: usize, const W: usize, const STEP: usize, const IN_PLACE: bool>(
    len: usize,
    forms: &mut Forms,
) {
    forms.add("stores", move || run::<R, W, STEP, IN_PLACE, false, false>(len));
    if R > 0 {
        forms.add("stores, fetched ahead", move || run::<R, W, STEP, IN_PLACE, false, true>(len));
    }
    if W > 0 && !IN_PLACE {
        forms.add("stores past the caches", move || run::<R, W, STEP, IN_PLACE, true, false>(len));
        if R > 0 {
            forms.add("stores past the caches, fetched ahead", move || {
                run::<R, W, STEP, IN_PLACE, true, true>(len)
            });
        }
    }
}

fn run<
    const R: usize,
    const W: usize,
    const STEP: usize,
    const IN_PLACE: bool,
    const PAST: bool,
    const AHEAD: bool,
>(
    len: usize,
) -> impl FnMut() {
    let blocks = len.div_ceil(BLOCK);
    let from: [Pages; R] = std::array::from_fn(|_| Pages::new(blocks * BLOCK * STEP));
    let to: [Pages; W] =
        std::array::from_fn(|_| if IN_PLACE { Pages::new(0) } else { Pages::new(blocks * BLOCK) });
    let team = Team::new(move |part| {
        let (begin, end) = (blocks * part / threads() * BLOCK, blocks * (part + 1) / threads() * BLOCK);
        let read = std::array::from_fn(|r| from[r].start().wrapping_add(begin * STEP).cast_const());
        let write = std::array::from_fn(|w| {
            if IN_PLACE { from[w].start() } else { to[w].start() }.wrapping_add(begin)
        });
        // SAFETY: the arrays have `blocks` blocks, and parts do not overlap.
        black_box(unsafe { move_bytes::<R, W, STEP, PAST, AHEAD>(read, write, end - begin) });
    });
    move || team.run()
}

/// Asks for a line, as far as the second cache.
fn fetch(line: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, of any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// # Safety
/// `from` have `len · STEP` elements and `to` have `len`, a multiple of `BLOCK`; nobody else writes either.
#[inline(never)]
unsafe fn move_bytes<
    const R: usize,
    const W: usize,
    const STEP: usize,
    const PAST: bool,
    const AHEAD: bool,
>(
    from: [*const f32; R],
    to: [*mut f32; W],
    len: usize,
) -> V {
    let add = |a: V, b: V| -> V { std::array::from_fn(|lane| a[lane] + b[lane]) };
    let mut sums = [[black_box(1.5); LANES]; TURN]; // not zeros, which a machine may store faster
    let mut at = 0;
    while at < len {
        for (turn, total) in sums.iter_mut().enumerate() {
            let place = at + turn * LANES;
            let mut sum = if R == 0 || W == 0 { *total } else { [0.0; LANES] };
            for from in from {
                for step in 0..STEP {
                    if AHEAD {
                        fetch(from.wrapping_add(place * STEP + step * LANES).wrapping_byte_add(if W == 0 {
                            4096
                        } else {
                            2048
                        }));
                    }
                    // SAFETY: `place` and the end of its vector are below `len`.
                    sum = add(sum, unsafe { from.add(place * STEP + step * LANES).cast::<V>().read() });
                }
            }
            for to in to {
                // SAFETY: as above.
                unsafe {
                    if PAST { write_past(to.add(place), sum) } else { to.add(place).cast::<V>().write(sum) }
                };
            }
            *total = sum;
        }
        at += TURN * LANES;
    }
    if PAST {
        fence();
    }
    sums.into_iter().fold([0.0; LANES], add)
}

/// Writes past the caches.
///
/// # Safety
/// `to` is the aligned place of a vector that nobody else reads or writes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn write_past(to: *mut f32, v: V) {
    use std::arch::x86_64::*;
    // SAFETY: the caller's; this program is built for the instructions, and all of them read bits as numbers.
    unsafe {
        #[cfg(target_feature = "avx512f")]
        _mm512_stream_ps(to, _mm512_loadu_ps(v.as_ptr()));
        #[cfg(not(target_feature = "avx512f"))]
        for part in (0..LANES).step_by(4) {
            _mm_stream_ps(to.add(part), _mm_loadu_ps(v.as_ptr().add(part)));
        }
    }
}
#[cfg(target_arch = "x86_64")]
fn fence() {
    // SAFETY: every x86-64 has it.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// An ordinary write, where the standard library has no other.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn write_past(to: *mut f32, v: V) {
    // SAFETY: the caller's.
    unsafe { to.cast::<V>().write(v) };
}
#[cfg(not(target_arch = "x86_64"))]
fn fence() {}
