//! The public interface as text: `public_api.txt` lists every item that is marked `pub`, with its signature,
//! the items of public traits, the variants of public enums, public fields and exported macros.
//!
//! A change of the interface changes that file, and a review sees it. `PUBLIC_API=overwrite cargo test --test
//! project api` writes it anew. Methods that a macro generates have the macro's text: the list holds the
//! macro's rows that begin with `fn` and a list of names, and not the expanded methods.

use crate::source::{Source, Token, closed, reads, sources};

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

/// The public items of a file, one a line: items marked `pub`, public fields, items of public traits,
/// variants of public enums, exported macros.
fn items(source: &Source) -> Vec<String> {
    let tokens = &source.tokens;
    let module = source.module().join("::");
    let mut items = Vec::new();
    for i in 0..tokens.len() {
        if reads(tokens, i, &["macro_export", "]", "macro_rules", "!"]) {
            items.push(format!("{module}: macro {}!", tokens[i + 4].text));
        }
        // A row of a macro: a list of names in the place of one, without the documentation between them.
        if tokens[i].text == "fn" && tokens.get(i + 2).is_some_and(|token| token.text == ",") {
            items.push(format!("{module}: row {}", signature(&tokens[i..])));
        }
        if tokens[i].text != "pub" {
            continue;
        }
        let next = |k: usize| tokens.get(i + k).map_or("", |token| token.text.as_str());
        if !ITEMS.contains(&next(1)) {
            if next(2) == ":" && next(1) != "(" {
                items.push(format!("{module}: field {}", next(1)));
            }
            continue;
        }
        items.push(format!("{module}: {}", signature(&tokens[i..])));
        let keyword = if next(1) == "unsafe" { 2 } else { 1 };
        let name = next(keyword + 1);
        let open =
            tokens[i..].iter().position(|token| matches!(token.text.as_str(), "{" | ";")).map(|k| i + k);
        let Some(open) = open.filter(|&open| tokens[open].text == "{") else { continue };
        match next(keyword) {
            "trait" => items.extend(members(tokens, open).map(|item| format!("{module}::{name}: {item}"))),
            "enum" => items.extend(variants(tokens, open).map(|item| format!("{module}::{name}: {item}"))),
            _ => {}
        }
    }
    items
}

/// The places of the tokens directly inside the braces at `open`.
fn inside(tokens: &[Token], open: usize) -> Vec<usize> {
    let (mut depth, mut places) = (0_i32, Vec::new());
    for (i, token) in tokens.iter().enumerate().take(closed(tokens, open)).skip(open) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ if depth == 1 => places.push(i),
            _ => {}
        }
    }
    places
}

/// The functions, types and constants of a trait.
fn members(tokens: &[Token], open: usize) -> impl Iterator<Item = String> {
    let starts = inside(tokens, open).into_iter().filter(move |&i| {
        matches!(tokens[i].text.as_str(), "fn" | "type" | "const") && tokens[i + 1].text != "fn"
    });
    starts.map(move |i| signature(&tokens[i..]))
}

/// The variants of an enum.
fn variants(tokens: &[Token], open: usize) -> impl Iterator<Item = String> {
    let is_name = |text: &str| text.starts_with(char::is_uppercase);
    let starts = inside(tokens, open)
        .into_iter()
        .filter(move |&i| is_name(&tokens[i].text) && matches!(tokens[i - 1].text.as_str(), "{" | "," | "]"));
    starts.map(move |i| format!("variant {}", tokens[i].text))
}

/// The lines that only one of two sorted lists has, with a sign; a line counts as often as it occurs.
fn differences(recorded: &[String], found: &[String]) -> Vec<String> {
    let count = |list: &[String], line: &String| list.iter().filter(|other| *other == line).count();
    let mut changes = Vec::new();
    let mut all: Vec<&String> = recorded.iter().chain(found).collect();
    all.sort();
    all.dedup();
    for line in all {
        let (before, now) = (count(recorded, line), count(found, line));
        if before != now {
            changes.push(format!(
                "{} {line} ({before} before, {now} now)",
                if now > before { "+" } else { "-" }
            ));
        }
    }
    changes
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
    let recorded: Vec<String> = recorded.lines().map(String::from).collect();
    let changes = differences(&recorded, &lines);
    assert!(
        changes.is_empty(),
        "the public interface changed; if that is intended, \
         `PUBLIC_API=overwrite cargo test --test project api`, and a line in CHANGELOG.md:\n{}",
        changes.join("\n")
    );
}

#[test]
fn items_have_their_signatures_without_bodies() {
    let source = Source::new(
        "src/a.rs",
        "pub fn f<T: Copy>(x: &[T; 2]) -> Option<T> where T: Eq { None } pub(crate) fn g() {} \
         pub struct S(pub u8); pub const N: usize = 3; impl S { pub const fn h(&self) -> u8 { self.0 } }",
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

    let source = Source::new(
        "src/b.rs",
        "pub trait T { type Out; fn f(&self, x: u8) -> u8 { x } } pub enum E { A, B { x: u8 }, C(u8) } \
         pub struct S { pub width: usize } #[macro_export] macro_rules! m { () => {} } \
         rows! { fn g, /// Words.\n g_into [T: M](x: T) -> 2 where [T: N<Out = u8>] = |x| fn_of(x); }",
    );
    let names: Vec<String> = items(&source).iter().map(|item| item.replace(' ', "")).collect();
    let expected = [
        "b:pubtraitT",
        "b::T:typeOut",
        "b::T:fnf(&self,x:u8)->u8",
        "b:pubenumE",
        "b::E:variantA",
        "b::E:variantB",
        "b::E:variantC",
        "b:pubstructS",
        "b:fieldwidth",
        "b:macrom!",
        "b:rowfng,g_into[T:M](x:T)->2where[T:N<Out=u8>]",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_signature_that_occurs_once_less_is_a_difference() {
    let list = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(differences(&list(&["a", "a", "b"]), &list(&["a", "a", "b"])).is_empty());
    assert_eq!(differences(&list(&["a", "a"]), &list(&["a"])), ["- a (2 before, 1 now)"]);
    assert_eq!(differences(&list(&["a"]), &list(&["a", "b"])), ["+ b (0 before, 1 now)"]);
}
