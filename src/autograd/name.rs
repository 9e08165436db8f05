//! Names of parameters.
// Imports: nothing.

use std::fmt;

/// The name of a tensor in a tree of parameters: the fields and indices that lead to it, for example
/// `layers.0.weight`. The name of a tensor that is the whole tree is empty.
///
/// A name is made without an allocation; `name.to_string()` is a string.
#[derive(Clone, Copy)]
pub struct Name<'a> {
    outer: Option<&'a Name<'a>>,
    last: LastPart,
}

#[derive(Clone, Copy)]
enum LastPart {
    Root,
    Field(&'static str),
    Index(usize),
}

impl Name<'_> {
    /// The name of the whole tree.
    pub const ROOT: Name<'static> = Name { outer: None, last: LastPart::Root };

    /// The name of a field of the tree that has this name.
    pub fn field(&self, field: &'static str) -> Name<'_> {
        Name { outer: Some(self), last: LastPart::Field(field) }
    }

    /// The name of an entry of the tree that has this name.
    pub fn index(&self, index: usize) -> Name<'_> {
        Name { outer: Some(self), last: LastPart::Index(index) }
    }

    /// Whether this is the name of the whole tree.
    pub fn is_root(&self) -> bool {
        matches!(self.last, LastPart::Root)
    }
}

impl PartialEq<str> for Name<'_> {
    /// Compares without an allocation.
    fn eq(&self, other: &str) -> bool {
        /// The rest of the other name.
        struct Rest<'a>(Option<&'a str>);
        impl fmt::Write for Rest<'_> {
            fn write_str(&mut self, part: &str) -> fmt::Result {
                self.0 = self.0.and_then(|rest| rest.strip_prefix(part));
                if self.0.is_some() { Ok(()) } else { Err(fmt::Error) }
            }
        }
        let mut rest = Rest(Some(other));
        fmt::write(&mut rest, format_args!("{self}")).is_ok() && rest.0 == Some("")
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(outer) = self.outer.filter(|outer| !outer.is_root()) {
            write!(f, "{outer}.")?;
        }
        match self.last {
            LastPart::Root => Ok(()),
            LastPart::Field(field) => f.write_str(field),
            LastPart::Index(index) => write!(f, "{index}"),
        }
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
