//! The way back: an input as a strict dialect words it becomes one of the tool's own schema.
//!
//! Where a schema requires every property, `null` means an omitted one. Exactly those nulls are removed again: the
//! compiler noted them beside the schema that it wrote. A null that the tool's own schema accepts stays. All other
//! bytes stay as the model wrote them, so numbers keep every digit.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use baton_types::json::Json;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The most comparisons of lists and objects with forms: alternatives beyond them stay as they are, for the tool's own schema
/// to judge.
const MAX_STEPS: usize = 1_000_000;

/// Nulls of an input that mean omitted properties.
#[derive(Debug, Default)]
pub(super) struct Back {
    nodes: Vec<Node>,
    root: usize,
}

/// Values that a compiled schema accepts at one place, as far as needed to distinguish its forms.
#[derive(Debug)]
pub(super) enum Node {
    /// Values of the kinds of these bits; one of `words`, if there are any.
    Plain { kinds: u8, words: Option<Vec<Value>> },
    /// A list of the other node.
    List(usize),
    /// An object of these properties and no others.
    Object(BTreeMap<String, Slot>),
    /// The values of one of the other nodes.
    Choice(Vec<usize>),
}

/// A property.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) node: usize,
    /// Whether null means that it is omitted.
    pub(super) can_be_absent: bool,
}

/// Part that is removed from a value.
#[derive(Debug)]
enum Cut {
    /// All of it.
    Whole,
    /// Something within the values under these keys.
    Keys(BTreeMap<String, Cut>),
    /// Something within the elements of these indexes.
    Elements(BTreeMap<usize, Cut>),
}

impl Back {
    /// Nodes that refer to one another by their indexes; `None` if a choice leads back to itself without going down.
    pub(super) fn new(nodes: Vec<Node>, root: usize) -> Option<Self> {
        let back = Self { nodes, root };
        let mut state = vec![None; back.nodes.len()];
        (0..back.nodes.len()).all(|node| back.comes_to_an_end(node, &mut state)).then_some(back)
    }

    fn comes_to_an_end(&self, node: usize, state: &mut [Option<bool>]) -> bool {
        if let Some(done) = state[node] {
            return done;
        }
        state[node] = Some(false);
        let ends = match &self.nodes[node] {
            Node::Choice(members) => members.iter().all(|member| self.comes_to_an_end(*member, state)),
            Node::Plain { .. } | Node::List(_) | Node::Object(_) => true,
        };
        state[node] = Some(ends);
        ends
    }

    /// Whether a finite value meets the compiled schema. An object that requires itself has none.
    pub(super) fn has_value(&self) -> bool {
        let mut has = vec![false; self.nodes.len()];
        loop {
            let before = has.iter().filter(|has| **has).count();
            for (index, node) in self.nodes.iter().enumerate() {
                has[index] = match node {
                    Node::Plain { .. } | Node::List(_) => true,
                    Node::Object(slots) => slots.values().all(|slot| slot.can_be_absent || has[slot.node]),
                    Node::Choice(members) => members.iter().any(|member| has[*member]),
                };
            }
            if has.iter().filter(|has| **has).count() == before {
                return has.get(self.root).is_none_or(|has| *has);
            }
        }
    }

    /// Returns `input` without the nulls that mean omitted properties.
    pub(super) fn restored(&self, input: &Json) -> Json {
        let removes = |node: &Node| matches!(node, Node::Object(slots) if slots.values().any(|slot| slot.can_be_absent));
        if !self.nodes.iter().any(removes) {
            return input.clone();
        }
        let value = input.value();
        let cut = Walk { nodes: &self.nodes, known: HashMap::new() }.cut(self.root, &value);
        cut.and_then(|cut| Json::parse(&without(input.text(), &cut)).ok()).unwrap_or_else(|| input.clone())
    }
}

/// One walk over one input. What fits is remembered, so that alternatives within alternatives are not tried again.
struct Walk<'w> {
    nodes: &'w [Node],
    known: HashMap<(usize, *const Value), bool>,
}

impl<'w> Walk<'w> {
    fn cut(&mut self, node: usize, value: &'w Value) -> Option<Cut> {
        match (&self.nodes[node], value) {
            (Node::List(inner), Value::Array(elements)) => {
                let cuts = elements.iter().enumerate().filter_map(|(index, element)| Some((index, self.cut(*inner, element)?)));
                Some(cuts.collect::<BTreeMap<_, _>>()).filter(|cuts| !cuts.is_empty()).map(Cut::Elements)
            }
            (Node::Object(slots), Value::Object(keys)) => {
                let cuts = keys.iter().filter_map(|(key, value)| {
                    let slot = slots.get(key)?;
                    let is_absent = slot.can_be_absent && value.is_null();
                    let cut = if is_absent { Cut::Whole } else { self.cut(slot.node, value)? };
                    Some((key.clone(), cut))
                });
                Some(cuts.collect::<BTreeMap<_, _>>()).filter(|cuts| !cuts.is_empty()).map(Cut::Keys)
            }
            (Node::Choice(_), Value::Array(_) | Value::Object(_)) => {
                let mut forms = Vec::new();
                self.forms(node, value, &mut forms);
                let form = match forms.as_slice() {
                    [only] => *only,
                    several => several.iter().copied().find(|form| self.fits(*form, value))?,
                };
                self.cut(form, value)
            }
            _ => None,
        }
    }

    /// Collects the forms that a choice leaves for `value`, judged only by its being a list or an object.
    fn forms(&self, node: usize, value: &Value, found: &mut Vec<usize>) {
        match (&self.nodes[node], value) {
            (Node::Choice(members), _) => members.iter().for_each(|member| self.forms(*member, value, found)),
            (Node::List(_), Value::Array(_)) | (Node::Object(_), Value::Object(_)) if !found.contains(&node) => found.push(node),
            _ => {}
        }
    }

    fn fits(&mut self, node: usize, value: &'w Value) -> bool {
        if let Node::Plain { kinds, words } = &self.nodes[node] {
            return kinds & kind(value) != 0 && words.as_ref().is_none_or(|words| words.iter().any(|word| is_same(word, value)));
        }
        let place = (node, std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        if self.known.len() >= MAX_STEPS {
            return false;
        }
        let fits = match (&self.nodes[node], value) {
            (Node::List(inner), Value::Array(elements)) => elements.iter().all(|element| self.fits(*inner, element)),
            (Node::Object(slots), Value::Object(keys)) => {
                keys.keys().all(|key| slots.contains_key(key))
                    && slots.iter().all(|(name, slot)| match keys.get(name) {
                        None => slot.can_be_absent,
                        Some(value) => (slot.can_be_absent && value.is_null()) || self.fits(slot.node, value),
                    })
            }
            (Node::Choice(members), value) => members.iter().any(|member| self.fits(*member, value)),
            _ => false,
        };
        self.known.insert(place, fits);
        fits
    }
}

/// Returns the bits of kinds, by the names that schemas have for them.
pub(super) fn kind_named(name: &str) -> u8 {
    match name {
        "null" => 1,
        "boolean" => 2,
        "string" => 4,
        "integer" => 8,
        "number" => 8 | 16,
        _ => 0,
    }
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::String(_) => 4,
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => 8,
        Value::Number(_) => 16,
        Value::Array(_) | Value::Object(_) => 0,
    }
}

/// Whether two plain values are one to a schema: 1 and 1.0 are.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || (one.is_number() && one.as_f64() == other.as_f64())
}

/// Returns the JSON text `text` without the parts in `cut`. A value of another kind than in `cut`, which a duplicate
/// key can cause, stays.
fn without(text: &str, cut: &Cut) -> String {
    match cut {
        Cut::Whole => "null".to_owned(),
        Cut::Keys(cuts) => {
            let Ok(Pairs(pairs)) = serde_json::from_str(text) else { return text.to_owned() };
            let kept = pairs.into_iter().filter_map(|(key, raw)| {
                let value = match cuts.get(&key) {
                    Some(Cut::Whole) => return None,
                    Some(cut) => without(raw.get(), cut),
                    None => raw.get().to_owned(),
                };
                Some(format!("{}:{value}", Value::from(key)))
            });
            format!("{{{}}}", kept.collect::<Vec<_>>().join(","))
        }
        Cut::Elements(cuts) => {
            let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(text) else { return text.to_owned() };
            let kept = elements
                .into_iter()
                .enumerate()
                .map(|(index, raw)| cuts.get(&index).map_or_else(|| raw.get().to_owned(), |cut| without(raw.get(), cut)));
            format!("[{}]", kept.collect::<Vec<_>>().join(","))
        }
    }
}

/// The keys of an object in their order, each value as it was written.
struct Pairs<'t>(Vec<(String, &'t RawValue)>);

impl<'de> serde::Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}
