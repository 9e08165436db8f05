//! The part of JSON that headers need: objects, strings and integers. Other values are skipped.
//!
//! This parser detects names that occur twice, and allocates only the values that it returns. It is shorter
//! than the adaptation of a general parser.
// Imports: `error`, `io`.

use crate::error::{Error, Result};
use crate::io::file::format_error;

/// The deepest nesting of values.
const DEEPEST: usize = 64;

/// A parser of one text.
pub(super) struct Json<'a> {
    op: &'static str,
    text: &'a str,
    at: usize,
}

impl<'a> Json<'a> {
    pub(super) fn new(op: &'static str, text: &'a [u8]) -> Result<Self> {
        match std::str::from_utf8(text) {
            Ok(text) => Ok(Json { op, text, at: 0 }),
            Err(error) => format_error(op, format_args!("the header is not valid: {error}")),
        }
    }

    fn wrong<T>(&self, expected: &str) -> Result<T> {
        let rest: &[u8] = &self.text.as_bytes()[self.at..];
        let found = rest[..rest.len().min(24)].escape_ascii();
        format_error(
            self.op,
            format_args!("the header is not valid: \"{found}\" at byte {}, expected {expected}", self.at),
        )
    }

    fn space(&mut self) {
        while matches!(self.text.as_bytes().get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next byte that is not white space, without consuming it.
    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn wants(&mut self, byte: u8, name: &str) -> Result<()> {
        if self.takes(byte) { Ok(()) } else { self.wrong(name) }
    }

    /// Checks that the text is at its end.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.wrong("the end"),
        }
    }

    /// Parses items between brackets, separated by commas.
    fn list(&mut self, close: u8, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if self.takes(close) {
            return Ok(());
        }
        loop {
            each(self)?;
            if self.takes(close) {
                return Ok(());
            }
            self.wants(b',', "`,` or a closing bracket")?;
        }
    }

    /// Parses an object, whose values `each` parses.
    pub(super) fn object(&mut self, mut each: impl FnMut(&mut Self, String) -> Result<()>) -> Result<()> {
        self.wants(b'{', "`{`")?;
        self.list(b'}', |json| {
            let key = json.string()?;
            json.wants(b':', "`:`")?;
            each(json, key)
        })
    }

    /// Parses an array of integers.
    pub(super) fn numbers(&mut self) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        self.wants(b'[', "`[`")?;
        self.list(b']', |json| {
            json.space();
            let digits = json.text[json.at..].bytes().take_while(u8::is_ascii_digit).count();
            let Ok(number) = json.text[json.at..json.at + digits].parse() else {
                return json.wrong("an integer from 0");
            };
            if digits > 1 && json.text.as_bytes()[json.at] == b'0' {
                return json.wrong("a number without leading zeros");
            }
            json.at += digits;
            numbers.try_reserve(1).map_err(|_| Error::OutOfMemory { op: json.op, nbytes: 8 })?;
            numbers.push(number);
            Ok(())
        })?;
        Ok(numbers)
    }

    pub(super) fn string(&mut self) -> Result<String> {
        self.wants(b'"', "a string")?;
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain =
                rest.bytes().take_while(|&byte| byte != b'"' && byte != b'\\' && byte >= b' ').count();
            string.try_reserve(plain + 4).map_err(|_| Error::OutOfMemory { op: self.op, nbytes: plain })?;
            string.push_str(&rest[..plain]);
            self.at += plain;
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(b'\\') => string.push(self.escape()?),
                _ => return self.wrong("the end of a string"),
            }
        }
    }

    /// Parses the character after a backslash.
    fn escape(&mut self) -> Result<char> {
        let Some(&kind) = self.text.as_bytes().get(self.at + 1) else { return self.wrong("an escape") };
        let plain = match kind {
            b'"' | b'\\' | b'/' => kind.into(),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return self.wrong("an escape"),
        };
        self.at += 2;
        Ok(plain)
    }

    /// Parses `\uXXXX`, or two of them that are one character.
    fn unicode(&mut self) -> Result<char> {
        let high = self.hex()?;
        let code = match high {
            0xd800..0xdc00 => match self.hex()? {
                low @ 0xdc00..0xe000 => 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00),
                _ => return self.wrong("the second half of a character before this"),
            },
            other => other,
        };
        match char::from_u32(code) {
            Some(character) => Ok(character),
            None => self.wrong("a character before this"),
        }
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 6).filter(|part| part.starts_with(b"\\u"));
        let value = digits.and_then(|part| {
            part[2..].iter().try_fold(0, |value, &digit| Some(value * 16 + char::from(digit).to_digit(16)?))
        });
        match value {
            Some(value) => {
                self.at += 6;
                Ok(value)
            }
            None => self.wrong("`\\u` and four digits"),
        }
    }

    /// Skips a value.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.skip_below(DEEPEST)
    }

    fn skip_below(&mut self, depth: usize) -> Result<()> {
        let Some(deeper) = depth.checked_sub(1) else {
            return self.wrong("fewer brackets inside each other");
        };
        match self.peek() {
            Some(b'{') => self.object(|json, _| json.skip_below(deeper)),
            Some(b'[') => {
                self.at += 1;
                self.list(b']', |json| json.skip_below(deeper))
            }
            Some(b'"') => self.string().map(drop),
            _ => {
                let rest = &self.text[self.at..];
                let word = rest
                    .bytes()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
                    .count();
                let digits =
                    // Not `inf`:
                    rest[..word].bytes().all(|byte| byte.is_ascii_digit() || b"eE+-.".contains(&byte));
                let number = digits && rest[..word].parse::<f64>().is_ok();
                if !number && !matches!(&rest[..word], "true" | "false" | "null") {
                    return self.wrong("a value");
                }
                self.at += word;
                Ok(())
            }
        }
    }
}

/// A string with its quotes, as JSON writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\u{0}'..' ' => quoted.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
