//! Properties of a body that are read from its text: whether it is cheap, so that its loops are memory-bound,
//! and whether it is a sum of its operands.
// Imports: nothing.

/// Methods of lanes that take one to three instructions.
const CHEAP_METHODS: &[&str] = &[
    "abs",
    "eq",
    "ge",
    "gt",
    "int",
    "is_nan",
    "le",
    "lt",
    "max",
    "min",
    "mul_add",
    "ne",
    "one",
    "order_key",
    "real",
    "recip",
    "relu",
    "reverse_key",
    "rsqrt",
    "select",
    "sqrt",
    "square",
    "zero",
];
/// The most characters of a body that counts as cheap, since each instruction takes some.
const MAX_CHARACTERS: usize = 160;

/// Whether the operator's body with the text `body` is short and calls only cheap methods of lanes.
///
/// This is an estimate for speed alone, and it does not see loops. The answer never changes a result.
#[doc(hidden)]
pub const fn is_cheap(body: &str) -> bool {
    let text = body.as_bytes();
    let mut end = if text.len() > MAX_CHARACTERS { return false } else { 0 };
    while end < text.len() {
        if text[end] == b'(' {
            let mut start = end;
            while start > 0 && is_name_byte(text[start - 1]) {
                start -= 1;
            }
            // After an operator, `(` opens a group; after a name it opens a call; after `!` or `>` it opens
            // another form of call.
            let is_called = start < end || (start > 0 && matches!(text[start - 1], b'!' | b'>' | b')'));
            if is_called && !is_cheap_method(text, start, end) {
                return false;
            }
        }
        end += 1;
    }
    true
}

/// Whether the operator's body with the text `body` is the sum of its operands, each of which occurs once:
/// their names, `+` between them, parentheses.
#[doc(hidden)]
pub const fn is_sum(body: &str, operands: &[&str]) -> bool {
    let text = body.as_bytes();
    let (mut at, mut found, mut depth) = (0, 0u64, 0);
    let mut wants_operand = true;
    while at < text.len() {
        match text[at] {
            b' ' | b'\n' | b'\t' => {}
            b'{' | b'(' if wants_operand => depth += 1,
            b'}' | b')' if !wants_operand && depth > 0 => depth -= 1,
            b'+' if !wants_operand => wants_operand = true,
            byte if wants_operand && depth > 0 && is_name_byte(byte) => {
                let start = at;
                while at < text.len() && is_name_byte(text[at]) {
                    at += 1;
                }
                let mut k = 0;
                while k < operands.len() && !is_name(text, start, at, operands[k]) {
                    k += 1;
                }
                if k >= operands.len() || k >= u64::BITS as usize || found >> k & 1 == 1 {
                    return false;
                }
                found |= 1 << k;
                wants_operand = false;
                continue;
            }
            _ => return false,
        }
        at += 1;
    }
    !wants_operand && depth == 0 && found.count_ones() as usize == operands.len()
}

/// Whether the text from `start` to `end` is this name.
const fn is_name(text: &[u8], start: usize, end: usize, name: &str) -> bool {
    let name = name.as_bytes();
    let mut same = 0;
    while name.len() == end - start && same < name.len() && name[same] == text[start + same] {
        same += 1;
    }
    name.len() == end - start && same == name.len()
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether the name from `start` to `end` is in the list.
const fn is_cheap_method(text: &[u8], start: usize, end: usize) -> bool {
    let mut k = 0;
    while k < CHEAP_METHODS.len() {
        if is_name(text, start, end, CHEAP_METHODS[k]) {
            return true;
        }
        k += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{is_cheap, is_sum};

    #[test]
    fn bodies_of_few_instructions_are_cheap() {
        for body in [
            "{ x + y }",
            "{ (x + y) * x }",
            "{ x.gt(Lane::zero()).select(x, x * slope) }",
            "{ x * (x * x).max(-(y)) }",
        ] {
            assert!(is_cheap(body), "{body}");
        }
        for body in [
            "{ x * y + x.sin() }",
            "{ cubed(x) }",
            "{ <Exp as Op<(T,)>>::call::<L>((x,)) }",
            "{ m!(x) }",
            "{ maximum(x) }",
            "{ pick()(x) }",
        ] {
            assert!(!is_cheap(body), "{body}");
        }
        assert!(!is_cheap(&format!("{{ {} }}", "x * x + ".repeat(40))));
    }

    #[test]
    fn sums_are_found_in_any_order() {
        for body in ["{ x + y + z }", "{ z + x + y }", "{ (y + z) + x }", "{ x + (y) + z }"] {
            assert!(is_sum(body, &["x", "y", "z"]), "{body}");
        }
        for body in [
            "{ x + y }",
            "{ x + y + y }",
            "{ x + y + z + x }",
            "{ x + y - z }",
            "{ x + y * z }",
            "{ x + y + -z }",
            "{ x + y + z + 1.0 }",
            "{ x + y + z.exp() }",
            "{ x + y + zz }",
            "{ x(y) + z }",
            "{ x + y + z; }",
            "{}",
        ] {
            assert!(!is_sum(body, &["x", "y", "z"]), "{body}");
        }
        assert!(is_sum("{ x }", &["x"]) && !is_sum("{ f(x) }", &["x"]) && !is_sum("x", &["x"]));
    }
}
