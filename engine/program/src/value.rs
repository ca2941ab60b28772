//! Values of a program as JSON, and the other way round.

use monty_types::MontyObject;
use serde_json::{Map, Number, Value};

/// The name of the type of calls that are made later.
pub(crate) const LATER: &str = "Later";

/// Beginning of the keys by which `serde_json` marks its own types. It reads an object with such a key as another value.
const RESERVED: &str = "$serde_json::private::";

/// The deepest nesting of a value that leaves a program.
const MAX_DEPTH: u32 = 100;

/// Returns a JSON value as a value of a program.
pub(crate) fn from_json(value: Value) -> MontyObject {
    match value {
        Value::Null => MontyObject::None,
        Value::Bool(value) => MontyObject::Bool(value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => MontyObject::Int(number),
            None => match number.as_u64() {
                Some(number) => MontyObject::BigInt(number.into()),
                None => MontyObject::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
        },
        Value::String(text) => MontyObject::String(text),
        Value::Array(values) => MontyObject::List(values.into_iter().map(from_json).collect()),
        Value::Object(fields) => {
            let pairs: Vec<_> = fields.into_iter().map(|(key, value)| (MontyObject::String(key), from_json(value))).collect();
            MontyObject::dict(pairs)
        }
    }
}

/// Returns a value of a program as JSON. The error is the reason why it has none, as the end of a sentence.
pub(crate) fn to_json(value: MontyObject) -> Result<Value, String> {
    json_at(value, MAX_DEPTH)
}

fn json_at(value: MontyObject, depth: u32) -> Result<Value, String> {
    let Some(depth) = depth.checked_sub(1) else { return Err(format!("is nested more than {MAX_DEPTH} deep")) };
    let list = |values: Vec<MontyObject>| -> Result<Value, String> {
        values.into_iter().map(|value| json_at(value, depth)).collect::<Result<_, _>>().map(Value::Array)
    };
    Ok(match value {
        MontyObject::None => Value::Null,
        MontyObject::Bool(value) => Value::Bool(value),
        MontyObject::Int(number) => Value::from(number),
        MontyObject::BigInt(number) => match u64::try_from(&number) {
            Ok(number) => Value::from(number),
            Err(_) => return Err("has a number of more than 64 bits, which JSON cannot hold".to_owned()),
        },
        MontyObject::Float(number) => match Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None => return Err(format!("has the number {number}, which JSON cannot hold")),
        },
        MontyObject::String(text) => Value::String(text),
        MontyObject::List(values) | MontyObject::Tuple(values) | MontyObject::Set(values) | MontyObject::FrozenSet(values) => {
            list(values)?
        }
        MontyObject::NamedTuple { type_name, .. } if type_name == LATER => {
            return Err(
                "has a call of later(…) in place of its result: parallel([…]) makes such calls and returns their results"
                    .to_owned(),
            );
        }
        MontyObject::NamedTuple { field_names, values, .. } => {
            let fields = field_names.into_iter().zip(values);
            object(fields.map(|(name, value)| (MontyObject::String(name), value)), depth)?
        }
        MontyObject::Dict(pairs) => object(pairs.into_iter(), depth)?,
        MontyObject::ClassInstance(instance) => object(instance.attrs.into_iter(), depth)?,
        MontyObject::Cycle(..) => return Err("contains itself, which JSON cannot hold".to_owned()),
        other => return Err(format!("has {}, which JSON cannot hold", kind(&other))),
    })
}

fn object(pairs: impl Iterator<Item = (MontyObject, MontyObject)>, depth: u32) -> Result<Value, String> {
    let mut fields = Map::new();
    for (key, value) in pairs {
        let key = match key {
            MontyObject::String(key) => key,
            MontyObject::Int(number) => number.to_string(),
            other => return Err(format!("has {} as a key, which JSON cannot hold", kind(&other))),
        };
        if key.starts_with(RESERVED) {
            return Err(format!("has the key {key:?}, which is reserved"));
        }
        let value = json_at(value, depth)?;
        if fields.contains_key(&key) {
            return Err(format!("has the key {key:?} twice, once as a number, which JSON cannot hold"));
        }
        fields.insert(key, value);
    }
    Ok(Value::Object(fields))
}

/// Returns what a value is, for a message.
fn kind(value: &MontyObject) -> &'static str {
    match value {
        MontyObject::Function { .. } | MontyObject::BuiltinFunction(_) => "a function",
        MontyObject::Repr(text) => kind_of_repr(text),
        MontyObject::Path(_) => "a path",
        MontyObject::FileHandle(_) => "a file",
        MontyObject::Ellipsis => "`...`",
        MontyObject::NotImplemented => "`NotImplemented`",
        MontyObject::Type(_) => "a type",
        MontyObject::Exception { .. } => "an exception",
        MontyObject::Bytes(_) => "bytes",
        MontyObject::Date(_)
        | MontyObject::DateTime(_)
        | MontyObject::Time(_)
        | MontyObject::TimeDelta(_)
        | MontyObject::TimeZone(_) => "a date or time",
        _ => "an object",
    }
}

/// Returns what an object is that the interpreter gives only as its `repr`, such as `<function '<lambda>' at 0x1>`.
fn kind_of_repr(text: &str) -> &'static str {
    let is = |beginnings: &[&str]| beginnings.iter().any(|beginning| text.starts_with(beginning));
    if is(&["<function ", "<built-in function ", "<built-in method ", "<bound method ", "functools.partial("]) {
        "a function"
    } else if is(&["<coroutine ", "<gather("]) {
        "a result that is not awaited"
    } else if is(&["<module "]) {
        "a module"
    } else if is(&["range("]) {
        "a range"
    } else if text.ends_with("iterator object>") {
        "an iterator"
    } else {
        "an object"
    }
}
