//! Which bodies are so short that their loops wait for memory.
// Imports: nothing.

/// Methods of lanes that are one instruction, or two or three.
const SHORT: &[&str] = &[
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
/// Characters of a body that is still called short: each instruction takes some.
const LONGEST: usize = 160;

/// Whether `body`, the text of an operator's body, calls nothing but short methods of lanes, and is short itself.
///
/// A guess, for speed alone, which does not see loops: what is taken for light, or is not, has the same results.
#[doc(hidden)]
pub const fn is_cheap(body: &str) -> bool {
    let text = body.as_bytes();
    let mut end = if text.len() > LONGEST { return false } else { 0 };
    while end < text.len() {
        if text[end] == b'(' {
            let mut start = end;
            while start > 0 && is_of_name(text[start - 1]) {
                start -= 1;
            }
            // Behind an operator stands a group, behind a name a call, behind `!` or `>` something else that is called.
            let is_called = start < end || (start > 0 && matches!(text[start - 1], b'!' | b'>' | b')'));
            if is_called && !is_short(text, start, end) {
                return false;
            }
        }
        end += 1;
    }
    true
}

const fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether the name from `start` to `end` is in the list.
const fn is_short(text: &[u8], start: usize, end: usize) -> bool {
    let mut k = 0;
    while k < SHORT.len() {
        let name = SHORT[k].as_bytes();
        let mut same = 0;
        while name.len() == end - start && same < name.len() && name[same] == text[start + same] {
            same += 1;
        }
        if same == name.len() {
            return true;
        }
        k += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::is_cheap;

    #[test]
    fn bodies_of_few_instructions_are_light() {
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
}
