//! Why a case is behind its best peer. A cause is a fact about what is computed, looked up in code or counted; a case that
//! is behind and has none here is listed without one.

/// A case, or the first part of some cases' names; and the cause.
const CAUSES: &[(&str, &str)] = &[];

/// The cause of the longest name that `case` begins with.
pub fn cause(case: &str) -> Option<&'static str> {
    CAUSES.iter().filter(|(name, _)| case.starts_with(name)).max_by_key(|(name, _)| name.len()).map(|&(_, cause)| cause)
}
