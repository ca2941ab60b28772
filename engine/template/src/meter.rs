//! Memory that a rendering has used, and its limit.
//!
//! A rendering takes place on one thread, so the meter is the thread's: filters and operators have no other way to it.

use std::cell::Cell;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::code::Namespace;

/// The levels that a value may have: more than any JSON that was read, and few enough to be walked on any stack.
const MAX_LEVELS: usize = 200;

/// Size of an entry of a list or an object, without its content.
pub(super) const ENTRY: u64 = 32;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Lets `render` make `limit` bytes.
pub(super) fn within<T>(limit: u64, render: impl FnOnce() -> T) -> T {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    let _restore = Restore(LEFT.replace(limit));
    render()
}

/// Counts `bytes` that are about to be made, or refuses them.
pub(super) fn charge(bytes: u64) -> Result<(), Error> {
    match LEFT.get().checked_sub(bytes) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => Err(exhausted()),
    }
}

fn exhausted() -> Error {
    Error::new(ErrorKind::InvalidOperation, "the template makes too much text or too long lists")
}

/// Size of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    /// The most bytes that it has as text.
    pub(super) text: u64,
    /// Its values, one within another and itself.
    pub(super) nodes: u64,
    /// Number of its levels.
    pub(super) levels: usize,
    /// Whether a namespace is in it.
    pub(super) holds_namespace: bool,
}

impl Extent {
    /// Measures `value`; refuses one with too many levels, and one whose text is more than what may still be made.
    pub(super) fn of(value: &Value) -> Result<Self, Error> {
        let mut extent = Self::default();
        extent.add(value, 1)?;
        Ok(extent)
    }

    fn add(&mut self, value: &Value, level: usize) -> Result<(), Error> {
        if level > MAX_LEVELS {
            let message = format!("the template makes a value of more than {MAX_LEVELS} levels");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        self.levels = self.levels.max(level);
        self.nodes += 1;
        self.text += match value.kind() {
            ValueKind::String if level == 1 => value.as_str().map_or(0, str::len) as u64,
            ValueKind::String => quoted(value.as_str().unwrap_or_default()),
            ValueKind::Bytes => value.as_bytes().map_or(0, <[u8]>::len) as u64 * 8,
            ValueKind::Number if value.is_integer() => 40,
            // The longest number is written without an exponent.
            ValueKind::Number => 350,
            ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => 8,
            _ => 16,
        };
        if self.text > LEFT.get() {
            return Err(exhausted());
        }
        self.holds_namespace |= value.downcast_object_ref::<Namespace>().is_some();
        let is_map = value.kind() == ValueKind::Map;
        if is_map || matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            // An object that cannot be listed is a leaf.
            let Ok(items) = value.try_iter() else { return Ok(()) };
            for item in items {
                self.text += 4;
                if is_map {
                    self.add(&value.get_item(&item)?, level + 1)?;
                }
                self.add(&item, level + 1)?;
            }
        }
        Ok(())
    }
}

/// Returns the most bytes that `text` takes as part of a list.
fn quoted(text: &str) -> u64 {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\'' | b'\\'));
    2 + text.len() as u64 * if is_plain { 1 } else { 8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(value: impl Into<Value>) -> (u64, u64, usize) {
        let extent = within(u64::MAX, || Extent::of(&value.into())).unwrap();
        (extent.text, extent.nodes, extent.levels)
    }

    #[test]
    fn a_value_is_as_large_as_the_longest_text_that_shows_it() {
        assert_eq!(extent("it's"), (4, 1, 1));
        assert_eq!(extent(Value::from_bytes(vec![0, 255])), (16, 1, 1));
        assert_eq!(extent(7), (40, 1, 1));
        assert_eq!(extent(0.5), (350, 1, 1));
        assert_eq!(extent(true), (16, 1, 1));
        assert_eq!(extent(vec!["ab", "it's"]), (8 + 2 * 4 + (2 + 2) + (2 + 4 * 8), 3, 2), "quotation marks are escaped");
        assert_eq!(extent(vec!["a\n"]), (8 + 4 + 2 + 2 * 8, 2, 2));
        assert_eq!(
            extent(std::collections::BTreeMap::from([("k", 1)])),
            (8 + 4 + 40 + 3, 3, 2),
            "a map has its keys and its values"
        );
        assert_eq!(extent(vec![vec![vec![1]]]), (3 * 8 + 3 * 4 + 40, 4, 4));
    }

    #[test]
    fn a_value_may_be_as_large_as_what_is_left_and_no_larger() {
        assert!(within(40, || Extent::of(&Value::from(7))).is_ok());
        assert!(within(39, || Extent::of(&Value::from(7))).is_err());
        let nested = |levels: usize| (1..levels).fold(Value::from(1), |inner, _| Value::from(vec![inner]));
        assert_eq!(extent(nested(MAX_LEVELS)).2, MAX_LEVELS);
        assert!(within(u64::MAX, || Extent::of(&nested(MAX_LEVELS + 1))).is_err());
    }

    #[test]
    fn a_rendering_within_another_one_leaves_it_what_it_had() {
        within(100, || {
            charge(60).unwrap();
            within(10, || assert!(charge(11).is_err()));
            assert!(charge(40).is_ok());
            assert!(charge(1).is_err());
        });
    }
}
