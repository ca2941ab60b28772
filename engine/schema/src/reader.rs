//! Reads a schema as a [`Program`], and reports everything in it that is no schema, each at its place.

use std::collections::{HashMap, HashSet, VecDeque};

use baton_types::schema::SchemaFault;
use serde_json::{Map, Number, Value};

use crate::dialect::Dialect;
use crate::number::is_whole;
use crate::pattern::Pattern;
use crate::pointer::push_token;
use crate::program::{Bound, Node, NodeId, Program, Properties, Rule, Sizes};
use crate::resources::Resources;
use crate::type_name::type_named;

/// The most subschemas that one value is judged by in place: references that branch would double them with every line.
const MAX_STEPS: usize = 10_000;

/// The most references in a row that lead to the judgement of one value.
const MAX_CHAIN: usize = 1_000;

/// Keywords whose value is a text.
const TEXTS: [&str; 10] = [
    "$anchor",
    "$comment",
    "$dynamicAnchor",
    "$id",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "description",
    "format",
    "title",
];

impl Program {
    /// Reads `schema`; the error has all faults. References lead to places of the schema itself: nothing is fetched.
    pub fn read(schema: &Value) -> Result<Self, Vec<SchemaFault>> {
        let mut reader = Reader {
            root: schema,
            resources: Resources::of(schema),
            nodes: Vec::new(),
            pointers: Vec::new(),
            places: HashMap::new(),
            due: VecDeque::new(),
            names: Vec::new(),
            faults: Vec::new(),
        };
        let root = reader.node(schema, &mut String::new(), 0);
        reader.read_due();
        let dynamic = reader.dynamic();
        reader.read_due();
        let names = reader.names.len();
        if reader.faults.is_empty() {
            reader.check_references(&dynamic);
        }
        if !reader.faults.is_empty() {
            return Err(reader.faults);
        }
        Ok(Self { nodes: reader.nodes, root, dynamic, names })
    }
}

struct Reader<'s> {
    root: &'s Value,
    resources: Resources,
    nodes: Vec<Node>,
    /// JSON pointers of the nodes.
    pointers: Vec<String>,
    places: HashMap<String, NodeId>,
    /// Nodes that references lead to, which may be read already.
    due: VecDeque<NodeId>,
    /// Names of dynamic anchors that references use.
    names: Vec<String>,
    faults: Vec<SchemaFault>,
}

/// One subschema while it is read.
struct Place<'p> {
    pointer: &'p mut String,
    resource: usize,
    dialect: Dialect,
}

impl<'s> Reader<'s> {
    fn fault(&mut self, pointer: &str, keyword: &str, message: impl Into<String>) {
        let mut pointer = pointer.to_owned();
        push_token(&mut pointer, keyword);
        self.faults.push(SchemaFault { pointer, message: message.into() });
    }

    /// Returns the node of the schema at `pointer`, which may not have been read yet.
    fn reserve(&mut self, pointer: &str) -> NodeId {
        if let Some(known) = self.places.get(pointer) {
            return *known;
        }
        let node = self.nodes.len() as NodeId;
        self.nodes.push(Node { resource: usize::MAX, ..Node::default() });
        self.pointers.push(pointer.to_owned());
        self.places.insert(pointer.to_owned(), node);
        node
    }

    /// Reads the targets of references at places where no schema was expected.
    fn read_due(&mut self) {
        while let Some(node) = self.due.pop_front() {
            if self.nodes[node as usize].resource == usize::MAX {
                let mut pointer = self.pointers[node as usize].clone();
                let schema = self.root.pointer(&pointer).unwrap_or(&Value::Null);
                let resource = self.resources.around(&pointer);
                self.node(schema, &mut pointer, resource);
            }
        }
    }

    /// Returns the nodes with dynamic anchors that references use, by resource.
    fn dynamic(&mut self) -> Vec<Vec<(usize, NodeId)>> {
        let mut dynamic = vec![Vec::new(); self.resources.len()];
        for (resource, name, pointer) in std::mem::take(&mut self.resources.dynamic) {
            if let Some(index) = self.names.iter().position(|known| *known == name) {
                let node = self.reserve(&pointer);
                self.nodes[node as usize].is_shared = true;
                self.due.push_back(node);
                dynamic[resource].push((index, node));
            }
        }
        dynamic
    }

    fn node(&mut self, schema: &'s Value, pointer: &mut String, resource: usize) -> NodeId {
        let node = self.reserve(pointer);
        let resource = self.resources.at(pointer).unwrap_or(resource);
        self.nodes[node as usize].resource = resource;
        let rules = match schema {
            Value::Bool(true) => Vec::new(),
            Value::Bool(false) => vec![Rule::Never],
            Value::Object(keywords) => {
                let dialect = self.resources.get(resource).dialect;
                let mut rules = self.rules(keywords, &mut Place { pointer, resource, dialect });
                rules.sort_by_key(Rule::rank);
                rules
            }
            Value::String(name) if type_named(name).is_ok() => {
                let message = format!("a schema is an object; did you mean {{\"type\": {name:?}}}?");
                self.faults.push(SchemaFault { pointer: pointer.clone(), message });
                Vec::new()
            }
            _ => {
                let message = "a schema is an object, true or false".to_owned();
                self.faults.push(SchemaFault { pointer: pointer.clone(), message });
                Vec::new()
            }
        };
        self.nodes[node as usize].rules = rules;
        node
    }

    fn inner(&mut self, schema: &'s Value, place: &mut Place<'_>, tokens: &[&str]) -> NodeId {
        let length = place.pointer.len();
        for token in tokens {
            push_token(place.pointer, token);
        }
        let node = self.node(schema, place.pointer, place.resource);
        place.pointer.truncate(length);
        node
    }

    fn rules(&mut self, keywords: &'s Map<String, Value>, place: &mut Place<'_>) -> Vec<Rule> {
        let mut rules = Vec::new();
        if let (Some(reference), false) = (keywords.get("$ref"), place.dialect.reads_siblings()) {
            rules.extend(self.reference("$ref", reference, place));
            for keyword in ["$defs", "definitions"] {
                if let Some(Value::Object(named)) = keywords.get(keyword) {
                    self.named(keyword, named, place);
                }
            }
            return rules;
        }
        for (keyword, value) in keywords {
            self.value_rule(keyword, value, place, &mut rules);
            self.inner_rule(keyword, value, keywords, place, &mut rules);
        }
        if ["properties", "patternProperties", "additionalProperties"].iter().any(|keyword| keywords.contains_key(*keyword)) {
            rules.push(self.properties(keywords, place));
        }
        rules.extend(self.elements(keywords, place));
        rules.extend(self.contains(keywords, place));
        if let Some(test) = keywords.get("if") {
            let test = self.inner(test, place, &["if"]);
            let mut branch = |keyword: &str| keywords.get(keyword).map(|schema| self.inner(schema, place, &[keyword]));
            let (then, otherwise) = (branch("then"), branch("else"));
            rules.push(Rule::If { test, then, otherwise });
        }
        rules
    }

    /// Reads a keyword that has no schema in it.
    fn value_rule(&mut self, keyword: &str, value: &'s Value, place: &Place<'_>, rules: &mut Vec<Rule>) {
        let newer = place.dialect != Dialect::Draft7;
        match (keyword, value) {
            ("type", _) => rules.extend(self.types(value, place.pointer)),
            ("enum", Value::Array(values)) => rules.push(Rule::OneOf(values.clone())),
            ("enum", _) => self.fault(place.pointer, keyword, "\"enum\" is a list of values"),
            ("const", value) => rules.push(Rule::OneOf(vec![value.clone()])),
            ("minimum", _) => rules.extend(self.bound(Bound::Least, keyword, value, place.pointer)),
            ("maximum", _) => rules.extend(self.bound(Bound::Most, keyword, value, place.pointer)),
            ("exclusiveMinimum", _) => rules.extend(self.bound(Bound::MoreThan, keyword, value, place.pointer)),
            ("exclusiveMaximum", _) => rules.extend(self.bound(Bound::LessThan, keyword, value, place.pointer)),
            ("multipleOf", Value::Number(step)) if step.as_f64().is_some_and(|step| step > 0.0) => {
                rules.push(Rule::MultipleOf(step.clone()));
            }
            ("multipleOf", _) => self.fault(place.pointer, keyword, "\"multipleOf\" is a number of more than 0"),
            ("minLength", _) => {
                rules.extend(self.size(keyword, value, place.pointer).map(|size| Rule::Fewest(Sizes::Text, size)));
            }
            ("maxLength", _) => rules.extend(self.size(keyword, value, place.pointer).map(|size| Rule::Most(Sizes::Text, size))),
            ("minItems", _) => {
                rules.extend(self.size(keyword, value, place.pointer).map(|size| Rule::Fewest(Sizes::Array, size)));
            }
            ("maxItems", _) => rules.extend(self.size(keyword, value, place.pointer).map(|size| Rule::Most(Sizes::Array, size))),
            ("minProperties", _) => {
                rules.extend(self.size(keyword, value, place.pointer).map(|size| Rule::Fewest(Sizes::Object, size)));
            }
            ("maxProperties", _) => {
                rules.extend(self.size(keyword, value, place.pointer).map(|size| Rule::Most(Sizes::Object, size)));
            }
            ("pattern", Value::String(pattern)) => match Pattern::read(pattern) {
                Ok(pattern) => rules.push(Rule::Pattern(pattern)),
                Err(message) => self.fault(place.pointer, keyword, message),
            },
            ("pattern", _) => self.fault(place.pointer, keyword, "\"pattern\" is a text"),
            ("uniqueItems", Value::Bool(true)) => rules.push(Rule::Distinct),
            ("uniqueItems" | "deprecated" | "readOnly" | "writeOnly", value) if !value.is_boolean() => {
                self.fault(place.pointer, keyword, format!("{keyword:?} is true or false"));
            }
            ("required", _) => rules.extend(self.required(value, place.pointer)),
            ("dependentRequired", Value::Object(named)) if newer => rules.extend(self.needs(keyword, named, place.pointer)),
            ("dependentRequired", value) if newer && !value.is_object() => {
                self.fault(place.pointer, keyword, "\"dependentRequired\" has a list of keys for each key");
            }
            ("$ref", _) => rules.extend(self.reference(keyword, value, place)),
            ("$dynamicRef", _) if newer => rules.extend(self.reference(keyword, value, place)),
            ("$recursiveRef", Value::String(_)) => {
                let message =
                    "\"$recursiveRef\" is not read; a reference may only name a place in the same schema: write \"$ref\"";
                self.fault(place.pointer, keyword, message);
            }
            ("$schema", Value::String(address)) if Dialect::named(address).is_none() => {
                let message = format!(
                    "the dialect {address:?} is not known; 2020-12 is \"https://json-schema.org/draft/2020-12/schema\", draft 7 \"http://json-schema.org/draft-07/schema#\""
                );
                self.fault(place.pointer, keyword, message);
            }
            ("examples", value) if !value.is_array() => self.fault(place.pointer, keyword, "\"examples\" is a list of values"),
            (text, value) if TEXTS.contains(&text) && !value.is_string() => {
                self.fault(place.pointer, keyword, format!("{keyword:?} is a text"));
            }
            _ => {}
        }
    }

    /// Reads a keyword that holds schemas and has no other keyword beside it that counts.
    fn inner_rule(
        &mut self,
        keyword: &'s str,
        value: &'s Value,
        keywords: &'s Map<String, Value>,
        place: &mut Place<'_>,
        rules: &mut Vec<Rule>,
    ) {
        let newer = place.dialect != Dialect::Draft7;
        match (keyword, value) {
            ("allOf" | "anyOf" | "oneOf", Value::Array(members)) if !members.is_empty() => {
                let nodes = self.listed(keyword, members, place);
                rules.push(match keyword {
                    "allOf" => Rule::All(nodes),
                    "anyOf" => Rule::Any(nodes),
                    _ => Rule::One(nodes),
                });
            }
            ("allOf" | "anyOf" | "oneOf", _) => {
                self.fault(place.pointer, keyword, format!("{keyword:?} is a list of at least one schema"));
            }
            ("not", inner) => rules.push(Rule::Not(self.inner(inner, place, &[keyword]))),
            ("propertyNames", inner) => rules.push(Rule::Names(self.inner(inner, place, &[keyword]))),
            ("unevaluatedProperties", inner) if newer => {
                rules.push(Rule::OtherProperties(self.inner(inner, place, &[keyword])));
            }
            ("unevaluatedItems", inner) if newer => rules.push(Rule::OtherElements(self.inner(inner, place, &[keyword]))),
            ("dependentSchemas", Value::Object(named)) if newer => {
                let nodes = self.named(keyword, named, place);
                rules.push(Rule::Dependent(nodes));
            }
            ("dependencies", Value::Object(named)) => {
                let lists = named.iter().filter(|(_, inner)| inner.is_array());
                let lists: Map<String, Value> = lists.map(|(key, inner)| (key.clone(), inner.clone())).collect();
                rules.extend(self.needs(keyword, &lists, place.pointer));
                let nodes = self.named(keyword, named, place);
                rules.push(Rule::Dependent(nodes));
            }
            ("$defs" | "definitions", Value::Object(named)) => drop(self.named(keyword, named, place)),
            ("$defs" | "definitions" | "dependencies" | "dependentSchemas" | "properties" | "patternProperties", value)
                if !value.is_object() =>
            {
                self.fault(place.pointer, keyword, format!("{keyword:?} has a schema for each name"));
            }
            ("then" | "else", inner) if !keywords.contains_key("if") => drop(self.inner(inner, place, &[keyword])),
            ("contentSchema", inner) if newer => drop(self.inner(inner, place, &[keyword])),
            _ => {}
        }
    }

    fn listed(&mut self, keyword: &str, members: &'s [Value], place: &mut Place<'_>) -> Vec<NodeId> {
        let each = |(index, member): (usize, &'s Value)| self.inner(member, place, &[keyword, &index.to_string()]);
        members.iter().enumerate().map(each).collect()
    }

    fn named(&mut self, keyword: &str, named: &'s Map<String, Value>, place: &mut Place<'_>) -> Vec<(Box<str>, NodeId)> {
        // A list is no schema: in `dependencies` it has names of keys.
        let schemas = named.iter().filter(|(_, inner)| keyword != "dependencies" || !inner.is_array());
        schemas.map(|(name, inner)| (name.as_str().into(), self.inner(inner, place, &[keyword, name]))).collect()
    }

    fn properties(&mut self, keywords: &'s Map<String, Value>, place: &mut Place<'_>) -> Rule {
        let named = match keywords.get("properties") {
            Some(Value::Object(named)) => self.named("properties", named, place),
            _ => Vec::new(),
        };
        let mut patterns = Vec::new();
        if let Some(Value::Object(given)) = keywords.get("patternProperties") {
            for (pattern, inner) in given {
                let node = self.inner(inner, place, &["patternProperties", pattern]);
                match Pattern::read(pattern) {
                    Ok(pattern) => patterns.push((pattern, node)),
                    Err(message) => {
                        let at = format!("{}/patternProperties", place.pointer);
                        self.fault(&at, pattern, message);
                    }
                }
            }
        }
        let rest = keywords.get("additionalProperties").map(|rest| self.inner(rest, place, &["additionalProperties"]));
        Rule::Properties(Properties::new(named, patterns, rest))
    }

    /// Reads the keywords of elements by their places.
    fn elements(&mut self, keywords: &'s Map<String, Value>, place: &mut Place<'_>) -> Option<Rule> {
        let items = keywords.get("items");
        if place.dialect.has_tuples() {
            return match items {
                Some(Value::Array(members)) => {
                    let first = self.listed("items", members, place);
                    let rest = keywords.get("additionalItems").map(|rest| self.inner(rest, place, &["additionalItems"]));
                    Some(Rule::Elements { first, rest })
                }
                Some(items) => Some(Rule::Elements { first: Vec::new(), rest: Some(self.inner(items, place, &["items"])) }),
                None => None,
            };
        }
        let first = match keywords.get("prefixItems") {
            Some(Value::Array(members)) if !members.is_empty() => self.listed("prefixItems", members, place),
            Some(_) => {
                self.fault(place.pointer, "prefixItems", "\"prefixItems\" is a list of at least one schema");
                return None;
            }
            None => Vec::new(),
        };
        if items.is_some_and(Value::is_array) {
            let message = "\"items\" is one schema for all elements; write \"prefixItems\" for a schema of each element, or declare draft 7 with \"$schema\": \"http://json-schema.org/draft-07/schema#\"";
            self.fault(place.pointer, "items", message);
            return None;
        }
        let rest = items.map(|items| self.inner(items, place, &["items"]));
        (rest.is_some() || !first.is_empty()).then_some(Rule::Elements { first, rest })
    }

    fn contains(&mut self, keywords: &'s Map<String, Value>, place: &mut Place<'_>) -> Option<Rule> {
        let newer = place.dialect != Dialect::Draft7;
        let mut count =
            |keyword: &str| keywords.get(keyword).filter(|_| newer).and_then(|size| self.size(keyword, size, place.pointer));
        let (fewest, most) = (count("minContains"), count("maxContains"));
        let node = self.inner(keywords.get("contains")?, place, &["contains"]);
        Some(Rule::Contains { node, fewest: fewest.unwrap_or(1), most: most.unwrap_or(usize::MAX) })
    }

    fn types(&mut self, value: &Value, pointer: &str) -> Option<Rule> {
        let names = match value {
            Value::String(_) => std::slice::from_ref(value),
            Value::Array(names) if !names.is_empty() => names.as_slice(),
            _ => {
                self.fault(pointer, "type", "\"type\" is the name of a type, or a list of names");
                return None;
            }
        };
        let mut bits = 0;
        for (index, name) in names.iter().enumerate() {
            let mut at = format!("{pointer}/type");
            if value.is_array() {
                push_token(&mut at, &index.to_string());
            }
            let found = name.as_str().map_or_else(|| Err(format!("{name} is not the name of a type")), type_named);
            match found {
                Ok(_) if names[..index].contains(name) => {
                    self.fault(pointer, "type", format!("{name} is listed twice"));
                }
                Ok(bit) => bits |= bit,
                Err(message) => self.faults.push(SchemaFault { pointer: at, message }),
            }
        }
        Some(Rule::Type(bits))
    }

    fn bound(&mut self, bound: Bound, keyword: &str, value: &Value, pointer: &str) -> Option<Rule> {
        match value {
            Value::Number(limit) => Some(Rule::Bound(bound, limit.clone())),
            Value::Bool(_) if matches!(bound, Bound::MoreThan | Bound::LessThan) => {
                let message = format!("{keyword:?} is the bound itself, a number; true and false are of draft 4");
                self.fault(pointer, keyword, message);
                None
            }
            _ => {
                self.fault(pointer, keyword, format!("{keyword:?} is a number"));
                None
            }
        }
    }

    fn size(&mut self, keyword: &str, value: &Value, pointer: &str) -> Option<usize> {
        let whole = |number: &Number| {
            number.as_u64().or_else(|| Some(number.as_f64()?).filter(|size| *size >= 0.0).map(|size| size as u64))
        };
        let size = value.as_number().filter(|number| is_whole(number)).and_then(whole);
        if size.is_none() {
            self.fault(pointer, keyword, format!("{keyword:?} is a whole number of at least 0"));
        }
        size.map(|size| usize::try_from(size).unwrap_or(usize::MAX))
    }

    fn required(&mut self, value: &Value, pointer: &str) -> Option<Rule> {
        match value {
            Value::Bool(_) => {
                let message = "\"required\" is a list of keys, beside the \"properties\" that describe them";
                self.fault(pointer, "required", message);
                None
            }
            value => self.keys(value, pointer, "required").map(Rule::Required),
        }
    }

    fn needs(&mut self, keyword: &str, named: &Map<String, Value>, pointer: &str) -> Option<Rule> {
        let at = format!("{pointer}/{keyword}");
        let each = |(key, names): (&String, &Value)| Some((key.as_str().into(), self.keys(names, &at, key)?));
        Some(Rule::Needs(named.iter().filter_map(each).collect())).filter(|_| !named.is_empty())
    }

    /// Reads a list of distinct keys.
    fn keys(&mut self, value: &Value, pointer: &str, keyword: &str) -> Option<Vec<Box<str>>> {
        let names = value.as_array().map(|names| names.iter().filter_map(Value::as_str).collect::<Vec<_>>());
        let Some(names) = names.filter(|names| value.as_array().is_some_and(|all| all.len() == names.len())) else {
            self.fault(pointer, keyword, format!("{keyword:?} is a list of keys"));
            return None;
        };
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
            self.fault(pointer, keyword, format!("{twice:?} is listed twice"));
            return None;
        }
        Some(names.into_iter().map(Box::from).collect())
    }

    fn reference(&mut self, keyword: &str, value: &Value, place: &Place<'_>) -> Option<Rule> {
        let Some(reference) = value.as_str() else {
            self.fault(place.pointer, keyword, format!("{keyword:?} is a text, such as \"#/$defs/point\""));
            return None;
        };
        match self.resources.target(self.root, place.resource, reference) {
            Ok(target) => {
                let node = self.reserve(&target.pointer);
                self.nodes[node as usize].is_shared = true;
                self.due.push_back(node);
                let Some(anchor) = target.dynamic.filter(|_| keyword == "$dynamicRef") else {
                    return Some(Rule::Reference(node));
                };
                let name = self.names.iter().position(|known| *known == anchor).unwrap_or_else(|| {
                    self.names.push(anchor);
                    self.names.len() - 1
                });
                Some(Rule::Dynamic { name, target: node })
            }
            Err(message) => {
                self.fault(place.pointer, keyword, message);
                None
            }
        }
    }

    /// Reports references that would be followed for ever, or nearly so, without going down into the value.
    fn check_references(&mut self, dynamic: &[Vec<(usize, NodeId)>]) {
        let mut done = vec![None; self.nodes.len()];
        for node in 0..self.nodes.len() {
            if !self.nodes[node].rules.iter().any(|rule| matches!(rule, Rule::Reference(_) | Rule::Dynamic { .. })) {
                continue;
            }
            let message = match self.steps(node as NodeId, dynamic, &mut Vec::new(), &mut done) {
                Err(message) => message,
                Ok(steps) if steps.all > MAX_STEPS => "the references branch too often",
                Ok(_) => continue,
            };
            self.faults.push(SchemaFault { pointer: self.pointers[node].clone(), message: message.to_owned() });
            return;
        }
    }

    /// Counts the subschemas that judge the same value as `node`. Fails if that never ends, or if the longest chain of them
    /// is too long, in whatever order the nodes are asked for.
    fn steps(
        &self,
        node: NodeId,
        dynamic: &[Vec<(usize, NodeId)>],
        path: &mut Vec<NodeId>,
        done: &mut [Option<Steps>],
    ) -> Result<Steps, &'static str> {
        if let Some(known) = done[node as usize] {
            return Ok(known);
        }
        if path.contains(&node) {
            return Err("the reference leads back to itself");
        }
        let is_too_long = "the chain of references is too long";
        if path.len() > MAX_CHAIN {
            return Err(is_too_long);
        }
        path.push(node);
        let mut next = Vec::new();
        self.nodes[node as usize].rules.iter().for_each(|rule| rule.in_place(dynamic, &mut |inner| next.push(inner)));
        let mut steps = Steps { all: 1, in_a_row: 0 };
        for inner in next {
            let inner = self.steps(inner, dynamic, path, done)?;
            steps.all = steps.all.saturating_add(inner.all);
            steps.in_a_row = steps.in_a_row.max(inner.in_a_row + 1);
        }
        if steps.in_a_row > MAX_CHAIN {
            return Err(is_too_long);
        }
        path.pop();
        done[node as usize] = Some(steps);
        Ok(steps)
    }
}

/// Subschemas that judge one value.
#[derive(Clone, Copy)]
struct Steps {
    /// Their number, each counted as often as it is reached.
    all: usize,
    /// The number of steps to the last one of their longest chain.
    in_a_row: usize,
}
