//! JSON types of a Rust signature, used at compile time by the code that `#[tool]` writes.
//!
//! The compiler, not the macro, judges types, so that aliases and newtypes are understood. It judges only what it can
//! know from a type alone; whole schemas are compared at start-up.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::marker::PhantomData;

use baton_types::json::Json;
use serde_json::Value;

/// The JSON type of a Rust type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    /// A text.
    String,
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// Names and values.
    Object,
    /// Any value.
    Any,
    /// Not known from the type alone: a struct or an enum of the tool's own.
    Unknown,
}

impl JsonType {
    /// Whether a value of the JSON Schema type `name` can be read into the Rust type, as far as is known.
    pub const fn takes(self, name: &str) -> bool {
        match self {
            Self::String => same(name, "string"),
            Self::Integer => same(name, "integer"),
            Self::Number => same(name, "number"),
            Self::Boolean => same(name, "boolean"),
            Self::Array => same(name, "array"),
            Self::Object => same(name, "object"),
            Self::Any | Self::Unknown => true,
        }
    }
}

/// Compares texts in a constant, where `==` is not yet allowed.
const fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// A Rust type whose JSON type is known. Implement it for a newtype to have it checked while compiling.
pub trait JsonTyped {
    /// The JSON type.
    const TYPE: JsonType;
}

/// Asks what is known of `T`: `Probe::<T>::TYPE` and `Probe::<T>::OPTIONAL`.
///
/// An inherent constant that applies to `T` takes precedence over the constant of a trait in scope. So the code can test
/// whether `T` meets a bound, without specialisation.
pub struct Probe<T: ?Sized>(PhantomData<T>);

impl<T: JsonTyped + ?Sized> Probe<T> {
    /// The JSON type of `T`.
    pub const TYPE: JsonType = T::TYPE;
}

impl<T> Probe<Option<T>> {
    /// An `Option` may be left out.
    pub const OPTIONAL: bool = true;
}

/// Result of [`Probe`] for a type that is not [`JsonTyped`].
pub trait UnknownByDefault {
    /// Not known.
    const TYPE: JsonType = JsonType::Unknown;
}

impl<T: ?Sized> UnknownByDefault for Probe<T> {}

/// Result of [`Probe`] for a type that is no `Option`.
pub trait OptionalByDefault {
    /// It must be given.
    const OPTIONAL: bool = false;
}

impl<T: ?Sized> OptionalByDefault for Probe<T> {}

/// Declares the JSON type of Rust types without parameters.
macro_rules! json_types {
    ($($json:ident: $($rust:ty),+;)*) => {
        $($(impl JsonTyped for $rust {
            const TYPE: JsonType = JsonType::$json;
        })+)*
    };
}

json_types! {
    String: String, str, char, Box<str>, baton_types::path::DocumentPath;
    Integer: u8, u16, u32, u64, usize, i8, i16, i32, i64, isize;
    Integer: std::num::NonZeroU8, std::num::NonZeroU16, std::num::NonZeroU32, std::num::NonZeroU64, std::num::NonZeroUsize;
    Number: f32, f64;
    Boolean: bool;
    Object: serde_json::Map<String, Value>;
    Any: Value, Json;
}

/// Declares the JSON type of Rust types with parameters.
macro_rules! json_types_of_generics {
    ($($json:ident: <$($parameter:ident),+> $rust:ty;)*) => {
        $(impl<$($parameter),+> JsonTyped for $rust {
            const TYPE: JsonType = JsonType::$json;
        })*
    };
}

json_types_of_generics! {
    Array: <T> Vec<T>;
    Array: <T> VecDeque<T>;
    Array: <T> BTreeSet<T>;
    Array: <T, S> HashSet<T, S>;
    Array: <A, B> (A, B);
    Array: <A, B, C> (A, B, C);
    Object: <K, V> BTreeMap<K, V>;
    Object: <K, V, S> HashMap<K, V, S>;
}

impl<T, const N: usize> JsonTyped for [T; N] {
    const TYPE: JsonType = JsonType::Array;
}

impl<T: JsonTyped> JsonTyped for Option<T> {
    const TYPE: JsonType = T::TYPE;
}

impl<T: JsonTyped> JsonTyped for Box<T> {
    const TYPE: JsonType = T::TYPE;
}

#[cfg(test)]
mod tests {
    use super::{JsonType, OptionalByDefault as _, Probe, UnknownByDefault as _};

    struct Own;
    type Alias = Option<Vec<Own>>;

    #[test]
    fn types_are_judged_through_aliases_and_unknown_ones_take_everything() {
        assert_eq!(Probe::<Alias>::TYPE, JsonType::Array);
        assert_eq!(Probe::<Own>::TYPE, JsonType::Unknown);
        assert_eq!(Probe::<Option<Own>>::TYPE, JsonType::Unknown);
        assert!(Probe::<Own>::TYPE.takes("object") && Probe::<Own>::TYPE.takes("string"));
        assert!(Probe::<f64>::TYPE.takes("number") && !Probe::<f64>::TYPE.takes("integer"));
        assert!(!Probe::<String>::TYPE.takes("boolean"));
    }

    #[test]
    fn only_an_option_is_optional() {
        const { assert!(Probe::<Alias>::OPTIONAL) };
        const { assert!(!Probe::<Own>::OPTIONAL) };
        const { assert!(!Probe::<String>::OPTIONAL) };
    }
}
