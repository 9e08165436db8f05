//! Names of operations as numbers, which a kernel can write, and names of expressions from their Rust types.
// Imports: nothing.

use crate::device::cuda::driver::thread_state::operation_or;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// Names by number. Number 0 is no name.
#[derive(Default)]
struct NamesByNumber {
    numbers: HashMap<(usize, usize), i64>,
    all: Vec<&'static str>,
}

static NAMES: RwLock<Option<NamesByNumber>> = RwLock::new(None);

/// The number of the operation that this thread runs, or of `otherwise` if it runs none.
pub(in crate::device::cuda) fn number(otherwise: &'static str) -> i64 {
    let name = operation_or(otherwise);
    let key = (name.as_ptr().addr(), name.len());
    let known = NAMES
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()
        .and_then(|names| names.numbers.get(&key).copied());
    known.unwrap_or_else(|| {
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        let NamesByNumber { numbers, all } = names.get_or_insert_default();
        *numbers.entry(key).or_insert_with(|| {
            all.push(name);
            all.len() as i64
        })
    })
}

/// The name of a number as it is.
pub(in crate::device::cuda) fn constant(number: i64) -> Option<&'static str> {
    let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    names.as_ref()?.all.get(at).copied()
}

/// The name of a number, for an error.
pub(in crate::device::cuda) fn name(number: i64) -> Option<String> {
    constant(number).map(operators_of)
}

/// The operators in the type of an expression, outermost first: `Store<Call<Exp, …>>` is `exp`. A name that
/// is not a path of a type is returned as it is.
fn operators_of(name: &str) -> String {
    if !name.contains("::") {
        return name.to_string();
    }
    // Types that combine operators, and types of elements.
    const STRUCTURE: [&str; 11] = [
        "Store",
        "StoreMany",
        "Input",
        "Param",
        "Call",
        "RowReduce",
        "Cached",
        "InPlace",
        "PhantomData",
        "Complex",
        "Derivative",
    ];
    let paths = name.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let last = |path: &str| path.rsplit("::").next().unwrap_or_default().to_string();
    // Operators have paths with modules. Elements such as `f32` have none; `f16` and `bf16` have, and are
    // left out.
    let named =
        paths.filter(|path| path.contains("::")).map(last).filter(|word| !STRUCTURE.contains(&word.as_str()));
    let words: Vec<String> =
        named.filter(|word| !matches!(word.as_str(), "f16" | "bf16")).map(|word| snake_case(&word)).collect();
    if words.is_empty() { "copy".into() } else { words.join(", ") }
}

/// `LogSumExp` as `log_sum_exp`.
fn snake_case(name: &str) -> String {
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
    use crate::device::cuda::driver::thread_state::in_operation;

    #[test]
    fn an_expression_is_named_by_its_operators() {
        let of = |name: &str| operators_of(name);
        assert_eq!(of("matmul"), "matmul");
        assert_eq!(of("a::kernel::Store<a::kernel::Call<a::ops::Exp, (a::kernel::Input<f32>,)>>"), "exp");
        assert_eq!(of("a::kernel::Store<a::kernel::Cached<a::kernel::Call<a::ops::Exp, ()>>>"), "exp");
        assert_eq!(
            of("a::Store<a::Call<a::Add, (a::Call<a::LogSumExp, a::Input<half::bfloat::bf16>>, \
                a::Param<f32>)>>"),
            "add, log_sum_exp"
        );
        assert_eq!(of("a::Store<a::Input<u64>>"), "copy");
    }

    #[test]
    fn an_operation_keeps_its_name_while_its_parts_run() {
        let number = in_operation("outer", || in_operation("inner", || number("launch")));
        assert_eq!(name(number).as_deref(), Some("outer"));
        assert_eq!(name(super::number("launch")).as_deref(), Some("launch"));
        assert_eq!((name(0), name(-1), name(i64::MAX)), (None, None, None));
    }
}
