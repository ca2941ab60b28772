//! Parameters of statements with their types.
//!
//! A statement that carries the types of its parameters takes one round trip and leaves nothing on the server. So it works through a
//! pooler that gives each transaction another connection.

use tokio_postgres::types::{ToSql, Type};

/// A value that can be a parameter: a Rust type with exactly one type of PostgreSQL.
pub(super) trait Value: ToSql + Sync {
    /// The type on the server.
    const TYPE: Type;
}

macro_rules! types {
    ($($rust:ty => $sql:ident),* $(,)?) => { $(impl Value for $rust { const TYPE: Type = Type::$sql; })* };
}

types!(
    bool => BOOL,
    i32 => INT4,
    i64 => INT8,
    f64 => FLOAT8,
    &str => TEXT,
    String => TEXT,
    &[u8] => BYTEA,
    Vec<u8> => BYTEA,
    Vec<bool> => BOOL_ARRAY,
    Vec<i64> => INT8_ARRAY,
    Vec<Option<i64>> => INT8_ARRAY,
    Vec<&str> => TEXT_ARRAY,
    Vec<Option<&str>> => TEXT_ARRAY,
    Vec<String> => TEXT_ARRAY,
    Vec<&[u8]> => BYTEA_ARRAY,
    Vec<Vec<u8>> => BYTEA_ARRAY,
);

impl<T: Value> Value for Option<T> {
    const TYPE: Type = T::TYPE;
}

impl<T: Value> Value for &T
where
    for<'a> &'a T: ToSql,
{
    const TYPE: Type = T::TYPE;
}

/// A parameter and its type.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Returns `value` as a parameter.
pub(super) fn parameter<T: Value>(value: &T) -> Parameter<'_> {
    (value, T::TYPE)
}

/// Makes the parameters of a statement: `values![number, &text]`.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::postgres::value::parameter(&$value)),*] };
}

pub(super) use values;

/// Returns a number as PostgreSQL keeps it: sequence numbers never come near the sign bit, bounds like `u64::MAX` may.
pub(super) fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
