//! What this thread is doing: the operation's name, the stream that work goes to, whether kernels are only compiled.
// Imports: nothing.

use crate::device::cuda::stream::queue::Stream;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

thread_local! {
    static NAME: Cell<&'static str> = const { Cell::new("") };
    static STREAMS: RefCell<Vec<Arc<Stream>>> = const { RefCell::new(Vec::new()) };
    static DRY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with something of this thread set, and puts back what was there, also where it panics.
fn during<T>(set: impl FnOnce(), back: impl FnMut(), work: impl FnOnce() -> T) -> T {
    struct Back<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Back<F> {
        fn drop(&mut self) {
            (self.0)()
        }
    }
    set();
    let _back = Back(back);
    work()
}

/// Runs `work` as the operation of this name, or as part of the one that is running.
pub(in crate::device::cuda) fn named<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    let before = NAME.get();
    if !before.is_empty() {
        return work();
    }
    during(|| NAME.set(name), || NAME.set(""), work)
}

/// Runs `work`, whose operations go to `stream` where they would go to another of its card.
pub(in crate::device::cuda) fn on_stream<T>(stream: Arc<Stream>, work: impl FnOnce() -> T) -> T {
    let back = || drop(STREAMS.with_borrow_mut(|streams| streams.pop()));
    during(|| STREAMS.with_borrow_mut(|streams| streams.push(stream)), back, work)
}

/// The stream of a card that work goes to, if it is another than its own.
pub(in crate::device::cuda) fn stream_of(card: usize) -> Option<Arc<Stream>> {
    STREAMS.with_borrow(|streams| streams.iter().rev().find(|stream| stream.card.ordinal == card).cloned())
}

/// Runs `work` without running its kernels: they are compiled and loaded, and memory is neither read nor written.
pub(in crate::device::cuda) fn dry<T>(work: impl FnOnce() -> T) -> T {
    let before = DRY.get();
    during(|| DRY.set(true), move || DRY.set(before), work)
}

pub(in crate::device::cuda) fn is_dry() -> bool {
    DRY.get()
}

/// Numbers of names, which a kernel can write; 0 is none.
#[derive(Default)]
struct Names {
    numbers: HashMap<(usize, usize), i64>,
    all: Vec<&'static str>,
}

static NAMES: RwLock<Option<Names>> = RwLock::new(None);

/// The number of the operation that is running, or of `otherwise`.
pub(in crate::device::cuda) fn number(otherwise: &'static str) -> i64 {
    let name = NAME.get();
    let name = if name.is_empty() { otherwise } else { name };
    let key = (name.as_ptr().addr(), name.len());
    let known = NAMES
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()
        .and_then(|names| names.numbers.get(&key).copied());
    known.unwrap_or_else(|| {
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        let Names { numbers, all } = names.get_or_insert_default();
        *numbers.entry(key).or_insert_with(|| {
            all.push(name);
            all.len() as i64
        })
    })
}

/// The name of a number, for an error.
pub(in crate::device::cuda) fn name(number: i64) -> Option<String> {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    names.as_ref()?.all.get(at).map(|name| operations(name))
}

/// What an expression's type is made of, outermost first: `Store<Call<Exp, …>>` is `exp`. Any other name is itself.
fn operations(name: &str) -> String {
    if !name.contains("::") {
        return name.to_string();
    }
    // Types that say how operators are put together, and of what elements.
    const AROUND: [&str; 11] = [
        "Store",
        "StoreMany",
        "Input",
        "Param",
        "Call",
        "RowReduce",
        "Once",
        "InPlace",
        "PhantomData",
        "Complex",
        "Derivative",
    ];
    let paths = name.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let last = |path: &str| path.rsplit("::").next().unwrap_or_default().to_string();
    // Paths have modules; elements (`f32`) have none, and numbers (`crate::element::f16`) no operator's name.
    let named =
        paths.filter(|path| path.contains("::")).map(last).filter(|word| !AROUND.contains(&word.as_str()));
    let words: Vec<String> =
        named.filter(|word| !matches!(word.as_str(), "f16" | "bf16")).map(|word| in_words(&word)).collect();
    if words.is_empty() { "copy".into() } else { words.join(", ") }
}

/// `LogSumExp` as `log_sum_exp`.
fn in_words(name: &str) -> String {
    let mut words = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_named_by_its_operators() {
        let of = |name: &str| operations(name);
        assert_eq!(of("matmul"), "matmul");
        assert_eq!(of("a::kernel::Store<a::kernel::Call<a::ops::Exp, (a::kernel::Input<f32>,)>>"), "exp");
        assert_eq!(
            of(
                "a::Store<a::Call<a::Add, (a::Call<a::LogSumExp, a::Input<half::bfloat::bf16>>, a::Param<f32>)>>"
            ),
            "add, log_sum_exp"
        );
        assert_eq!(of("a::Store<a::Input<u64>>"), "copy");
    }

    #[test]
    fn an_operation_keeps_its_name_while_parts_of_it_run() {
        let number = named("outer", || named("inner", || number("launch")));
        assert_eq!(name(number).as_deref(), Some("outer"));
        assert_eq!(name(super::number("launch")).as_deref(), Some("launch"));
        assert_eq!((name(0), name(-1), name(i64::MAX)), (None, None, None));
    }
}
