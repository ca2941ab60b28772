//! References to values in the inputs of calls: `${step.field[0].name}`.
//!
//! A text that is one reference becomes the value, with its type. `${text step.field}` becomes the text of the value. In a longer text
//! the value is inserted: a text as it is, any other value as JSON.
//!
//! In a row of dollars before `{`, each `$$` writes one `$`. If one dollar is left, it begins a reference. So `$${` writes `${`, and
//! `$$${a}` writes `$` and the value of `a`. A `${` without a later `}` is text.

use std::fmt;

use serde_json::Value;

use super::bounded;

/// The word before a name that asks for the text of a value.
const AS_TEXT: &str = "text ";

/// A reference: a name, such as the id of a step, and the way to a part of its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reference {
    /// As it is written, without `${` and `}`.
    text: String,
    /// The name: the id of a step, `item` or `index`.
    pub(super) name: String,
    path: Vec<Segment>,
    /// Whether the value becomes a text also where the reference is alone.
    pub(super) is_text: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Key(String),
    Index(usize),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${{{}}}", bounded(&self.text))
    }
}

impl Reference {
    /// Reads the text between `${` and `}`.
    fn parse(text: &str) -> Result<Self, String> {
        let unreadable = || {
            let text = bounded(text);
            format!("${{{text}}} cannot be read as a reference; write ${{step.field[0]}}, or $${{ for a text")
        };
        let trimmed = text.trim();
        let (is_text, trimmed) = match trimmed.strip_prefix(AS_TEXT) {
            Some(rest) => (true, rest.trim_start()),
            None => (false, trimmed),
        };
        let end = trimmed.find(['.', '[']).unwrap_or(trimmed.len());
        let (name, mut rest) = trimmed.split_at(end);
        let name = name.trim_end();
        if name.is_empty() {
            return Err(unreadable());
        }
        let mut path = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let (index, after) = after.split_once(']').ok_or_else(unreadable)?;
                path.push(Segment::Index(index.trim().parse().map_err(|_| unreadable())?));
                rest = after.trim_start();
            } else if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (key, after) = after.split_at(end);
                if key.trim().is_empty() {
                    return Err(unreadable());
                }
                path.push(Segment::Key(key.trim().to_owned()));
                rest = after;
            } else {
                return Err(unreadable());
            }
        }
        Ok(Self { text: text.trim().to_owned(), name: name.to_owned(), path, is_text })
    }

    /// Returns this reference as one that asks for the text of the value.
    pub(super) fn as_text(&self) -> String {
        format!("${{{AS_TEXT}{}}}", bounded(&self.text))
    }

    /// Returns the part of `value` that it names. A number after a dot is an index, too. `noun` names the value in the error.
    pub(super) fn part_of<'v>(&self, value: &'v Value, noun: &str) -> Result<&'v Value, String> {
        let (mut part, mut way) = (value, String::new());
        for segment in &self.path {
            let next = match (segment, part) {
                (Segment::Key(key), Value::Object(object)) => object.get(key),
                (Segment::Key(key), Value::Array(array)) => key.parse().ok().and_then(|index: usize| array.get(index)),
                (Segment::Index(index), Value::Array(array)) => array.get(*index),
                _ => None,
            };
            let missing = || {
                let kind = match part {
                    Value::Object(object) => format!("an object with {}", keys(object)),
                    Value::Array(array) => format!("a list of {}", array.len()),
                    _ => "neither an object nor a list".to_owned(),
                };
                let place =
                    if way.is_empty() { "it".to_owned() } else { format!("its part {}", bounded(way.trim_start_matches('.'))) };
                format!("{self} is not in {noun}: {place} is {kind}")
            };
            part = next.ok_or_else(missing)?;
            match segment {
                Segment::Key(key) => way.extend([".", key]),
                Segment::Index(index) => way.extend(["[", &index.to_string(), "]"]),
            }
        }
        Ok(part)
    }
}

/// Returns the keys of an object, for a message.
fn keys(object: &serde_json::Map<String, Value>) -> String {
    let mut keys: Vec<String> = object.keys().map(|key| bounded(key)).take(20).collect();
    if object.len() > keys.len() {
        keys.push("…".to_owned());
    }
    if keys.is_empty() { "no keys".to_owned() } else { format!("the keys {}", keys.join(", ")) }
}

/// An input, with its references read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Template {
    /// A value without references.
    Value(Value),
    /// A text that is one reference.
    Whole(Reference),
    /// A text with references in it.
    Text(Vec<Piece>),
    /// A list with references below.
    List(Vec<Template>),
    /// An object with references below.
    Object(Vec<(String, Template)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Reference(Reference),
}

impl Template {
    /// Reads the references in `value`. Keys of objects have none.
    pub(super) fn parse(value: Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::of_text(text)?,
            Value::Array(values) => Self::List(values.into_iter().map(Self::parse).collect::<Result<_, _>>()?),
            Value::Object(object) => {
                let parsed = object.into_iter().map(|(key, value)| Ok((key, Self::parse(value)?)));
                Self::Object(parsed.collect::<Result<_, String>>()?)
            }
            other => Self::Value(other),
        })
    }

    fn of_text(text: String) -> Result<Self, String> {
        if !text.contains("${") {
            return Ok(Self::Value(Value::String(text)));
        }
        let mut pieces = Vec::new();
        let (mut literal, mut rest) = (String::new(), text.as_str());
        while let Some(at) = rest.find("${") {
            let (before, inside) = (&rest[..=at], &rest[at + 2..]);
            let start = before.trim_end_matches('$');
            let dollars = before.len() - start.len();
            literal.push_str(start);
            literal.extend(std::iter::repeat_n('$', dollars / 2));
            if dollars % 2 == 0 {
                literal.push('{');
                rest = inside;
                continue;
            }
            let Some((reference, after)) = inside.split_once('}') else {
                literal.push_str("${");
                rest = inside;
                break;
            };
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Reference(Reference::parse(reference)?));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(match <[Piece; 1]>::try_from(pieces) {
            Ok([Piece::Reference(reference)]) => Self::Whole(reference),
            Ok([Piece::Text(text)]) => Self::Value(Value::String(text)),
            Err(pieces) => Self::Text(pieces),
        })
    }

    /// Returns all references in it.
    pub(super) fn references(&self) -> Vec<&Reference> {
        match self {
            Self::Value(_) => Vec::new(),
            Self::Whole(reference) => vec![reference],
            Self::Text(pieces) => {
                let references = pieces.iter().filter_map(|piece| match piece {
                    Piece::Reference(reference) => Some(reference),
                    Piece::Text(_) => None,
                });
                references.collect()
            }
            Self::List(list) => list.iter().flat_map(Self::references).collect(),
            Self::Object(object) => object.iter().flat_map(|(_, value)| value.references()).collect(),
        }
    }

    /// Returns the reference that is the whole text at `pointer`, if there is one.
    pub(super) fn whole_at(&self, pointer: &str) -> Option<&Reference> {
        let mut template = self;
        for part in pointer.split('/').skip(1) {
            let key = part.replace("~1", "/").replace("~0", "~");
            template = match template {
                Self::Object(object) => object.iter().find(|(name, _)| *name == key).map(|(_, value)| value)?,
                Self::List(list) => list.get(key.parse::<usize>().ok()?)?,
                Self::Value(_) | Self::Whole(_) | Self::Text(_) => return None,
            };
        }
        if let Self::Whole(reference) = template { Some(reference) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_read_as_its_pieces() {
        let reference = |text: &str| Piece::Reference(Reference::parse(text).unwrap());
        let text = |text: &str| Piece::Text(text.to_owned());
        let read = |text: &str| Template::parse(json!(text)).unwrap();
        assert_eq!(read("${a.b}"), Template::Whole(Reference::parse("a.b").unwrap()));
        assert_eq!(read("$$${a} and $5"), Template::Text(vec![text("$"), reference("a"), text(" and $5")]));
        for (written, meant) in
            [("$${a}", "${a}"), ("$$$${a}", "$${a}"), ("an open ${brace", "an open ${brace"), ("$$ {", "$$ {")]
        {
            assert_eq!(read(written), Template::Value(json!(meant)));
        }
        for unreadable in ["${}", "${a.}", "${a[x]}", "${a[0}", "${.n}", "${a[0]b}"] {
            assert!(Template::parse(json!(unreadable)).unwrap_err().contains("cannot be read"), "{unreadable}");
        }
    }

    #[test]
    fn messages_are_bounded_however_long_a_reference_is() {
        let long = "x".repeat(100_000);
        let unreadable = Template::parse(json!(format!("${{{long}..}}"))).unwrap_err();
        let reference = Reference::parse(&format!("a.{long}.{long}")).unwrap();
        let missing = reference.part_of(&json!({long.as_str(): {long.as_str().to_owned() + "y": 1}}), "the item").unwrap_err();
        assert!(unreadable.len() < 1_000 && missing.len() < 1_000, "{} {}", unreadable.len(), missing.len());
    }

    #[test]
    fn a_reference_is_found_by_its_pointer() {
        let template = Template::parse(json!({"a/b": [{"c": "${x}"}, "n ${y}"]})).unwrap();
        assert_eq!(template.whole_at("/a~1b/0/c").map(ToString::to_string).as_deref(), Some("${x}"));
        assert_eq!(template.whole_at("/a~1b/1"), None);
        assert_eq!(template.whole_at("/a~1b/7/c"), None);
    }
}
