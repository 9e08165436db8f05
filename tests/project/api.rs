//! The public interface as text: `public_api.txt` lists every item that is marked `pub`, with its signature.
//!
//! A change of the interface changes that file, and a review sees it. `PUBLIC_API=overwrite cargo test --test
//! project api` writes it anew. Methods that a macro generates have the macro's text: the list holds the macro's
//! rows and not the expanded methods.

use crate::source::{Source, Token, reads, sources};

/// The words that begin an item after `pub`.
const ITEMS: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "use", "unsafe", "async", "extern"];

/// The text of an item up to its body, its value or its end.
fn signature(tokens: &[Token]) -> String {
    let (mut text, mut depth) = (String::new(), 0_i32);
    let mut last = "";
    for token in tokens {
        let word = token.text.as_str();
        match word {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            "{" if !reads(tokens, 0, &["pub", "use"]) => break,
            ";" if depth == 0 => break,
            "=" if depth == 0 && !reads(tokens, 0, &["pub", "type"]) && last != "<" => break,
            _ => {}
        }
        let is_word = |text: &str| text.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        if !text.is_empty()
            && is_word(last)
            && word.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '\'')
        {
            text.push(' ');
        }
        if matches!(word, "-" | "=" | "+" | "where" | "for")
            || matches!(last, "," | ":" | "=" | "+" | ">") && depth == 0
        {
            text.push(' ');
        }
        text.push_str(word);
        last = word;
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The public items of a file, one a line.
fn items(source: &Source) -> Vec<String> {
    let tokens = &source.tokens;
    let module = source.module().join("::");
    let is_item = |i: &usize| {
        tokens[*i].text == "pub" && tokens.get(i + 1).is_some_and(|next| ITEMS.contains(&next.text.as_str()))
    };
    (0..tokens.len()).filter(is_item).map(|i| format!("{module}: {}", signature(&tokens[i..]))).collect()
}

#[test]
fn the_public_interface_is_the_recorded_one() {
    let mut lines: Vec<String> = sources("src").iter().flat_map(items).collect();
    lines.sort();
    let text = lines.join("\n") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/project/public_api.txt");
    if std::env::var_os("PUBLIC_API").is_some_and(|wish| wish == "overwrite") {
        std::fs::write(path, &text).expect("the list is written");
    }
    let recorded = std::fs::read_to_string(path).unwrap_or_default();
    let missing = recorded.lines().filter(|line| lines.binary_search(&line.to_string()).is_err());
    let old: Vec<&str> = recorded.lines().collect();
    let added = lines.iter().filter(|line| old.binary_search(&line.as_str()).is_err());
    let changes: Vec<String> =
        missing.map(|line| format!("- {line}")).chain(added.map(|line| format!("+ {line}"))).collect();
    assert!(
        changes.is_empty(),
        "the public interface changed; if that is intended, `PUBLIC_API=overwrite cargo test --test project api`, and \
         a line in CHANGELOG.md:\n{}",
        changes.join("\n")
    );
}

#[test]
fn items_have_their_signatures_without_bodies() {
    let source = Source::new(
        "src/a.rs",
        "pub fn f<T: Copy>(x: &[T; 2]) -> Option<T> where T: Eq { None } pub(crate) fn g() {} pub struct S(pub u8); \
         pub const N: usize = 3; impl S { pub const fn h(&self) -> u8 { self.0 } }",
    );
    let names: Vec<String> = items(&source).iter().map(|item| item.replace(' ', "")).collect();
    assert_eq!(
        names,
        [
            "a:pubfnf<T:Copy>(x:&[T;2])->Option<T>whereT:Eq",
            "a:pubstructS(pubu8)",
            "a:pubconstN:usize",
            "a:pubconstfnh(&self)->u8"
        ]
    );
}
