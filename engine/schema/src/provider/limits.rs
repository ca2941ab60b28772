//! Size limits of `OpenAI`'s strict subset, from its documentation.

use std::collections::HashMap;

use serde_json::Value;

use super::source::Unfit;

const MAX_PROPERTIES: usize = 5_000;
const MAX_DEPTH: usize = 10;
const MAX_WORDS: usize = 1_000;
/// The most characters of all names and listed values together.
const MAX_CHARACTERS: usize = 120_000;
/// A list of more words than this may only have so many characters.
const LONG_LIST: (usize, usize) = (250, 15_000);

#[derive(Default)]
struct Size {
    properties: usize,
    words: usize,
    characters: usize,
    longest_list: usize,
}

/// Reports the limits that a compiled schema exceeds.
pub(super) fn check(written: &Value) -> Result<(), Unfit> {
    let mut size = Size::default();
    measure(written, &mut size);
    let over = [
        (size.properties, MAX_PROPERTIES, "properties"),
        (depth(written, written, &mut HashMap::new()), MAX_DEPTH, "levels of objects"),
        (size.words, MAX_WORDS, "listed values"),
        (size.characters, MAX_CHARACTERS, "characters of names and listed values"),
        (size.longest_list, LONG_LIST.1, "characters in one list of values"),
    ];
    match over.into_iter().find(|(size, most, _)| size > most) {
        Some((size, most, what)) => Err(Unfit::new("", format!("it has {size} {what}, and {most} are allowed"))),
        None => Ok(()),
    }
}

/// Measures the schema, each definition once.
fn measure(schema: &Value, size: &mut Size) {
    for (keyword, named) in ["properties", "$defs"].into_iter().filter_map(|keyword| Some((keyword, schema.get(keyword)?))) {
        for (name, inner) in named.as_object().into_iter().flatten() {
            size.properties += usize::from(keyword == "properties");
            size.characters += name.chars().count();
            measure(inner, size);
        }
    }
    if let Some(Value::Array(words)) = schema.get("enum") {
        let characters = words.iter().map(|word| word.as_str().map_or(0, |word| word.chars().count())).sum();
        size.words += words.len();
        size.characters += characters;
        if words.len() > LONG_LIST.0 {
            size.longest_list = size.longest_list.max(characters);
        }
    }
    parts(schema).for_each(|inner| measure(inner, size));
}

/// Returns the depth of nested objects. A recursive definition counts once.
fn depth<'w>(written: &'w Value, schema: &'w Value, known: &mut HashMap<&'w str, usize>) -> usize {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        if let Some(known) = known.get(reference) {
            return *known;
        }
        known.insert(reference, 0);
        let inner = written.pointer(reference.trim_start_matches('#'));
        let depth = inner.map_or(0, |inner| depth(written, inner, known));
        known.insert(reference, depth);
        return depth;
    }
    let named = schema.get("properties").and_then(Value::as_object);
    let inner = named.into_iter().flat_map(|named| named.values()).chain(parts(schema));
    let deepest = inner.map(|inner| depth(written, inner, known)).max().unwrap_or(0);
    deepest + usize::from(named.is_some())
}

fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    schema.get("anyOf").and_then(Value::as_array).into_iter().flatten().chain(schema.get("items"))
}
