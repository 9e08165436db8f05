//! Rust source as words, for the rules of `architecture.rs`.
//!
//! Comments and the insides of literals are not code, and code inside a macro is: this reads words, not
//! syntax trees.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One word, number, literal, lifetime or mark (`::` is one mark) of a source text, and its line, counted
/// from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// One file: its path from the crate's root, its text, its words outside `#[cfg(test)]` modules.
pub struct Source {
    pub path: String,
    pub text: String,
    pub tokens: Vec<Token>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        Source { path: path.into(), text: text.into(), tokens: without_tests(tokens(text)) }
    }

    /// The modules that the file is inside of, its own last: `src/layout/views.rs` is `["layout", "views"]`.
    pub fn module(&self) -> Vec<String> {
        let path = self.path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
        path.split('/').map(String::from).collect()
    }
}

/// Every file below `folder` with the ending `ending`, sorted.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}")) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The sources below a folder of the crate.
pub fn sources(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        Source::new(&path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/"), &text)
    };
    files(&root.join(folder), "rs").into_iter().map(named).collect()
}

/// Splits a text into tokens; comments are left out, a literal is one token that starts with its quote.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let (mut tokens, mut i, mut line) = (Vec::new(), 0, 1);
    while i < chars.len() {
        let start = i;
        let c = at(i);
        if c == '/' && at(i + 1) == '/' {
            i = (i..chars.len()).find(|&i| at(i) == '\n').unwrap_or(chars.len());
        } else if c == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            loop {
                match (at(i), at(i + 1)) {
                    ('/', '*') => (depth, i) = (depth + 1, i + 2),
                    ('*', '/') => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 || i >= chars.len() {
                    break;
                }
            }
        } else if let Some((from, hashes)) = raw_string(&chars, i) {
            let closes = |i: &usize| at(*i) == '"' && (1..=hashes).all(|k| at(i + k) == '#');
            let end = (from..chars.len()).find(closes).unwrap_or(chars.len());
            i = end + 1 + hashes;
            tokens.push(Token { text: format!("\"{}", chars[from..end].iter().collect::<String>()), line });
        } else if c == '"' || (matches!(c, 'b' | 'c') && at(i + 1) == '"') {
            let from = i + 1 + usize::from(c != '"');
            i = from;
            while i < chars.len() && at(i) != '"' {
                i += 1 + usize::from(at(i) == '\\');
            }
            tokens.push(Token {
                text: format!("\"{}", chars[from..i.min(chars.len())].iter().collect::<String>()),
                line,
            });
            i += 1;
        } else if c == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            i = (i + 2..chars.len())
                .find(|&k| at(k) == '\'' && (at(k - 1) != '\\' || at(k - 2) == '\\'))
                .unwrap_or(chars.len())
                + 1;
            tokens.push(Token { text: "'".into(), line });
        } else if is_word(c) || (c == '\'' && is_word(at(i + 1))) {
            i += 1;
            while is_word(at(i)) || (c.is_ascii_digit() && at(i) == '.' && at(i + 1).is_ascii_digit()) {
                i += 1;
            }
            tokens.push(Token { text: chars[start..i].iter().collect(), line });
        } else if !c.is_whitespace() {
            i += 1 + usize::from(c == ':' && at(i + 1) == ':');
            tokens.push(Token { text: chars[start..i].iter().collect(), line });
        } else {
            i += 1;
        }
        line += chars[start..i.min(chars.len())].iter().filter(|&&c| c == '\n').count();
    }
    tokens
}

/// The first character of the raw string at `i`, and the number of `#` that close it.
fn raw_string(chars: &[char], i: usize) -> Option<(usize, usize)> {
    let rest = &chars[i..];
    let prefix = match rest {
        ['r', ..] => 1,
        ['b' | 'c', 'r', ..] => 2,
        _ => return None,
    };
    let hashes = rest[prefix..].iter().take_while(|&&c| c == '#').count();
    (rest.get(prefix + hashes) == Some(&'"')
        && (i == 0 || !chars[i - 1].is_alphanumeric() && chars[i - 1] != '_'))
        .then_some((i + prefix + hashes + 1, hashes))
}

/// Whether the tokens from `i` on are these.
pub fn reads(tokens: &[Token], i: usize, words: &[&str]) -> bool {
    words.iter().enumerate().all(|(k, word)| tokens.get(i + k).is_some_and(|token| token.text == *word))
}

/// The place after the brace that closes the one at `open`.
pub fn closed(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let (mut kept, mut i) = (Vec::new(), 0);
    while i < tokens.len() {
        if reads(&tokens, i, &["#", "[", "cfg", "(", "test", ")", "]", "mod"])
            && reads(&tokens, i + 9, &["{"])
        {
            i = closed(&tokens, i + 9);
        } else {
            kept.push(tokens[i].clone());
            i += 1;
        }
    }
    kept
}

/// Every path in the file that starts at `crate`, `$crate` or `super`, from the crate's root on, with its
/// line; a `use` of several is one path each. Macros are followed where they are written.
pub fn paths(source: &Source) -> Vec<(Vec<String>, usize)> {
    let tokens = &source.tokens;
    let (mut found, mut inside, mut depth, mut read) = (Vec::new(), Vec::new(), 0, 0);
    for (i, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "mod" if reads(tokens, i + 2, &["{"]) => inside.push((tokens[i + 1].text.clone(), depth)),
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inside.retain(|&(_, open)| open < depth);
            }
            "crate" | "super" if i >= read && reads(tokens, i + 1, &["::"]) => {
                let mut base = Vec::new();
                let mut next = i;
                if token.text == "super" {
                    base = source.module();
                    base.extend(inside.iter().map(|(name, _)| name.clone()));
                    while reads(tokens, next, &["super"]) {
                        base.pop();
                        next += if reads(tokens, next + 1, &["::", "super"]) { 2 } else { 1 };
                    }
                } else {
                    next += 1;
                }
                read = tree(tokens, next + 1, base, &mut found);
            }
            _ => {}
        }
    }
    found
}

/// What a file re-exports or imports of its own `children`: the whole path, and the name that it has here.
pub fn uses(source: &Source, children: &BTreeSet<String>) -> Vec<(Vec<String>, String)> {
    let tokens = &source.tokens;
    let mut all = Vec::new();
    for i in 0..tokens.len() {
        if tokens[i].text != "use" || !tokens.get(i + 1).is_some_and(|next| children.contains(&next.text)) {
            continue;
        }
        let mut found = Vec::new();
        tree(tokens, i + 1, source.module(), &mut found);
        all.extend(found.into_iter().filter_map(|(path, _)| Some((path.clone(), path.last()?.clone()))));
    }
    all
}

/// Reads the path after a `::`: a name, more after it, or several in braces. Returns the place after it.
fn tree(
    tokens: &[Token],
    mut i: usize,
    mut base: Vec<String>,
    found: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    if reads(tokens, i, &["{"]) {
        i += 1;
        while i < tokens.len() && !reads(tokens, i, &["}"]) {
            i = tree(tokens, i, base.clone(), found);
            if reads(tokens, i, &["as"]) {
                i += 2;
            }
            i += usize::from(reads(tokens, i, &[","]));
        }
        return i + 1;
    }
    let Some(token) = tokens.get(i) else { return i };
    if !token.text.starts_with(|c: char| c == '_' || c == '*' || c.is_alphabetic()) {
        return i + 1; // `::<…>` after a path
    }
    if token.text == "super" {
        base.pop();
        return tree(tokens, i + 2, base, found);
    }
    if token.text != "self" {
        base.push(token.text.clone());
    }
    let goes_on = reads(tokens, i + 1, &["::"]) && !reads(tokens, i + 2, &["<"]);
    if goes_on && !reads(tokens, i, &["*"]) {
        return tree(tokens, i + 2, base, found);
    }
    found.push((base, token.line));
    i + 1
}
