//! Judges one value by one schema, in time that is linear in the value.
//!
//! References can lead to one subschema and one value on many paths. The verdict is kept per subschema and value, so choices
//! within choices are not tried again at every level. A budget of steps bounds the rest. A value that exceeds the budget or
//! the depth is an error; no partial verdict is returned.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::number::{compare, is_equal, is_multiple, push_canonical};
use crate::program::{Bound, NodeId, Program, Properties, Rule, Sizes, type_of};

/// The steps that every value may take.
const BASE_STEPS: usize = 1_000_000;

/// The steps that a value may take in addition for each value in it.
const STEPS_PER_VALUE: usize = 256;

/// The most subschemas within one another while a value is judged.
const MAX_DEPTH: usize = 1_500;

/// Reason why a value was not judged to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    TooCostly,
    TooDeep,
}

/// Index of a dynamic scope.
pub(crate) type ScopeId = u32;

pub(crate) struct Walk<'w> {
    pub(crate) program: &'w Program,
    pub(crate) stop: Option<Stop>,
    steps: usize,
    budget: usize,
    pub(crate) depth: usize,
    known: HashMap<(NodeId, usize, ScopeId), bool>,
    /// For each scope, the node that each dynamic anchor leads to.
    scopes: Vec<Vec<Option<NodeId>>>,
    entered: HashMap<(ScopeId, usize), ScopeId>,
}

/// Properties and elements that the rules of a subschema judged.
#[derive(Default)]
struct Judged<'v> {
    all: bool,
    keys: HashSet<&'v str>,
    elements: HashSet<usize>,
}

impl<'w> Walk<'w> {
    pub(crate) fn new(program: &'w Program, value: &Value) -> Self {
        let mut walk = Self::of_text(program);
        walk.budget += STEPS_PER_VALUE * count(value);
        walk
    }

    /// Returns a walk through a text. Each value adds to its budget when it is read.
    pub(crate) fn of_text(program: &'w Program) -> Self {
        Self {
            program,
            stop: None,
            steps: 0,
            budget: BASE_STEPS,
            depth: 0,
            known: HashMap::new(),
            scopes: if program.names == 0 { Vec::new() } else { vec![vec![None; program.names]] },
            entered: HashMap::new(),
        }
    }

    /// Adds the budget of one value, which is judged without its tree, and takes a step. False if the walk has to stop.
    pub(crate) fn add_value(&mut self) -> bool {
        self.budget += STEPS_PER_VALUE;
        self.take_step() && self.depth < MAX_DEPTH
    }

    /// Whether `value`, a part of a text, meets the subschema `node`.
    pub(crate) fn meets_part(&mut self, node: NodeId, value: &Value, scope: ScopeId) -> bool {
        self.budget += STEPS_PER_VALUE * count(value);
        let holds = self.holds(node, value, scope);
        // Verdicts are kept by address, and the next part may have this one. Clearing a table takes time for its capacity.
        if !self.known.is_empty() {
            self.known = HashMap::new();
        }
        holds && self.stop.is_none()
    }

    /// Follows subschemas that are only references, and returns the first that is more, with its scope. They take no level of their own; the
    /// reader has bounded their number.
    pub(crate) fn target(&mut self, mut node: NodeId, scope: ScopeId) -> (NodeId, ScopeId) {
        let mut scope = self.enter(node, scope);
        while let [Rule::Reference(target)] = self.program.nodes[node as usize].rules.as_slice() {
            node = *target;
            scope = self.enter(node, scope);
        }
        (node, scope)
    }

    /// Whether `value` meets the subschema `node`. Without meaning once the walk has stopped.
    pub(crate) fn holds(&mut self, node: NodeId, value: &Value, scope: ScopeId) -> bool {
        let (node, scope) = self.target(node, scope);
        let program = self.program;
        let known = &program.nodes[node as usize];
        let place = (node, std::ptr::from_ref(value) as usize, scope);
        let is_kept = known.is_shared && matches!(value, Value::Array(_) | Value::Object(_));
        if is_kept && let Some(holds) = self.known.get(&place) {
            return *holds;
        }
        if !self.take_step() {
            return false;
        }
        if self.depth >= MAX_DEPTH {
            self.stop = Some(Stop::TooDeep);
            return false;
        }
        self.depth += 1;
        let holds = known.rules.iter().all(|rule| self.meets(node, rule, value, scope));
        self.depth -= 1;
        if is_kept {
            self.known.insert(place, holds);
        }
        holds
    }

    /// Counts a step; false if the walk has to stop.
    fn take_step(&mut self) -> bool {
        self.steps += 1;
        if self.steps > self.budget && self.stop.is_none() {
            self.stop = Some(Stop::TooCostly);
        }
        self.stop.is_none()
    }

    /// Returns the dynamic scope within `node`.
    pub(crate) fn enter(&mut self, node: NodeId, scope: ScopeId) -> ScopeId {
        if self.program.names == 0 {
            return 0;
        }
        let resource = self.program.nodes[node as usize].resource;
        if let Some(known) = self.entered.get(&(scope, resource)) {
            return *known;
        }
        let mut bound = self.scopes[scope as usize].clone();
        for (name, node) in &self.program.dynamic[resource] {
            bound[*name].get_or_insert(*node);
        }
        let entered = self.scopes.iter().position(|known| *known == bound).unwrap_or_else(|| {
            self.scopes.push(bound);
            self.scopes.len() - 1
        });
        self.entered.insert((scope, resource), entered as ScopeId);
        entered as ScopeId
    }

    /// Returns the node that a dynamic reference leads to.
    pub(crate) fn dynamic(&self, name: usize, target: NodeId, scope: ScopeId) -> NodeId {
        self.scopes[scope as usize][name].unwrap_or(target)
    }

    /// Whether `value` meets one rule of `node`.
    pub(crate) fn meets(&mut self, node: NodeId, rule: &Rule, value: &Value, scope: ScopeId) -> bool {
        match (rule, value) {
            (Rule::Never, _) => false,
            (Rule::Type(allowed), value) => allowed & type_of(value) != 0,
            (Rule::OneOf(values), value) => values.iter().any(|listed| is_equal(listed, value)),
            (Rule::Bound(bound, limit), Value::Number(number)) => {
                let order = compare(number, limit);
                match bound {
                    Bound::Least => order.is_ge(),
                    Bound::Most => order.is_le(),
                    Bound::MoreThan => order.is_gt(),
                    Bound::LessThan => order.is_lt(),
                }
            }
            (Rule::MultipleOf(step), Value::Number(number)) => is_multiple(number, step),
            (Rule::Fewest(sizes, limit), value) => size(*sizes, value).is_none_or(|size| size >= *limit),
            (Rule::Most(sizes, limit), value) => size(*sizes, value).is_none_or(|size| size <= *limit),
            (Rule::Required(names), Value::Object(keys)) => names.iter().all(|name| keys.contains_key(&**name)),
            (Rule::Needs(needs), Value::Object(keys)) => {
                needs.iter().all(|(key, names)| !keys.contains_key(&**key) || names.iter().all(|name| keys.contains_key(&**name)))
            }
            (Rule::Pattern(pattern), Value::String(text)) => pattern.matches(text),
            (Rule::Reference(target), value) => self.holds(*target, value, scope),
            (Rule::Dynamic { name, target }, value) => self.holds(self.dynamic(*name, *target, scope), value, scope),
            (Rule::Names(inner), Value::Object(keys)) => {
                keys.keys().all(|key| self.holds(*inner, &Value::String(key.clone()), scope))
            }
            (Rule::Properties(properties), Value::Object(keys)) => self.meets_properties(properties, keys, scope),
            (Rule::Elements { first, rest }, Value::Array(elements)) => elements.iter().enumerate().all(|(index, element)| {
                let inner = first.get(index).or(rest.as_ref());
                inner.is_none_or(|inner| self.holds(*inner, element, scope))
            }),
            (Rule::Distinct, Value::Array(elements)) => repeated(elements).is_none(),
            (Rule::Contains { node, fewest, most }, Value::Array(elements)) => {
                let found = elements.iter().filter(|element| self.holds(*node, element, scope)).count();
                (*fewest..=*most).contains(&found)
            }
            (Rule::All(members), value) => members.iter().all(|member| self.holds(*member, value, scope)),
            (Rule::Dependent(members), Value::Object(keys)) => {
                members.iter().all(|(key, member)| !keys.contains_key(&**key) || self.holds(*member, value, scope))
            }
            (Rule::If { test, then, otherwise }, value) => {
                let branch = if self.holds(*test, value, scope) { then } else { otherwise };
                branch.is_none_or(|branch| self.holds(branch, value, scope))
            }
            (Rule::Any(members), value) => members.iter().any(|member| self.holds(*member, value, scope)),
            (Rule::One(members), value) => {
                members.iter().filter(|member| self.holds(**member, value, scope)).take(2).count() == 1
            }
            (Rule::Not(inner), value) => !self.holds(*inner, value, scope),
            (Rule::OtherProperties(inner), Value::Object(_)) | (Rule::OtherElements(inner), Value::Array(_)) => {
                self.others(node, value, scope).into_iter().all(|(_, other)| self.holds(*inner, other, scope))
            }
            // A rule for another type of value holds.
            _ => true,
        }
    }

    fn meets_properties(&mut self, properties: &Properties, keys: &Map<String, Value>, scope: ScopeId) -> bool {
        keys.iter().all(|(key, value)| {
            let mut is_named = false;
            for inner in nodes_of(properties, key) {
                is_named = true;
                if !self.holds(inner, value, scope) {
                    return false;
                }
            }
            is_named || properties.rest.is_none_or(|rest| self.holds(rest, value, scope))
        })
    }

    /// Returns the keys or indexes of `value` that no rule of `node` judges, with what they hold.
    pub(crate) fn others<'v>(&mut self, node: NodeId, value: &'v Value, scope: ScopeId) -> Vec<(Token<'v>, &'v Value)> {
        let mut judged = Judged::default();
        let program = self.program;
        for rule in &program.nodes[node as usize].rules {
            if !matches!(rule, Rule::OtherProperties(_) | Rule::OtherElements(_)) {
                self.judged(rule, value, scope, &mut judged);
            }
        }
        match value {
            _ if judged.all => Vec::new(),
            Value::Object(keys) => keys
                .iter()
                .filter(|(key, _)| !judged.keys.contains(key.as_str()))
                .map(|(key, value)| (Token::Key(key), value))
                .collect(),
            Value::Array(elements) => elements
                .iter()
                .enumerate()
                .filter(|(index, _)| !judged.elements.contains(index))
                .map(|(index, value)| (Token::Index(index), value))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Collects what the rules of a subschema judge, which `value` meets.
    fn judged_by<'v>(&mut self, node: NodeId, value: &'v Value, scope: ScopeId, judged: &mut Judged<'v>) {
        if !self.take_step() {
            return;
        }
        if self.depth >= MAX_DEPTH {
            self.stop = Some(Stop::TooDeep);
            return;
        }
        let scope = self.enter(node, scope);
        let program = self.program;
        self.depth += 1;
        program.nodes[node as usize].rules.iter().for_each(|rule| self.judged(rule, value, scope, judged));
        self.depth -= 1;
    }

    fn judged<'v>(&mut self, rule: &Rule, value: &'v Value, scope: ScopeId, judged: &mut Judged<'v>) {
        match (rule, value) {
            (Rule::Reference(target), _) => self.judged_by(*target, value, scope, judged),
            (Rule::Dynamic { name, target }, _) => self.judged_by(self.dynamic(*name, *target, scope), value, scope, judged),
            (Rule::Properties(properties), Value::Object(keys)) => {
                let is_judged = |key: &String| properties.rest.is_some() || nodes_of(properties, key).next().is_some();
                judged.keys.extend(keys.keys().filter(|key| is_judged(key)).map(String::as_str));
            }
            (Rule::Elements { first, rest }, Value::Array(elements)) => {
                judged.elements.extend(0..if rest.is_some() { elements.len() } else { first.len() });
            }
            (Rule::Contains { node, .. }, Value::Array(elements)) => {
                let found = elements.iter().enumerate().filter(|(_, element)| self.holds(*node, element, scope));
                judged.elements.extend(found.map(|(index, _)| index));
            }
            (Rule::All(members), _) => members.iter().for_each(|member| self.judged_by(*member, value, scope, judged)),
            (Rule::Any(members) | Rule::One(members), _) => {
                for member in members {
                    if self.holds(*member, value, scope) {
                        self.judged_by(*member, value, scope, judged);
                    }
                }
            }
            (Rule::Dependent(members), Value::Object(keys)) => {
                for (key, member) in members {
                    if keys.contains_key(&**key) {
                        self.judged_by(*member, value, scope, judged);
                    }
                }
            }
            (Rule::If { test, then, otherwise }, _) => {
                let branch = if self.holds(*test, value, scope) {
                    self.judged_by(*test, value, scope, judged);
                    then
                } else {
                    otherwise
                };
                if let Some(branch) = branch {
                    self.judged_by(*branch, value, scope, judged);
                }
            }
            (Rule::OtherProperties(_), Value::Object(_)) | (Rule::OtherElements(_), Value::Array(_)) => judged.all = true,
            _ => {}
        }
    }
}

/// A step down into a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token<'v> {
    Key(&'v str),
    Index(usize),
}

/// Returns the nodes that judge the property `key` by its name.
pub(crate) fn nodes_of<'p>(properties: &'p Properties, key: &'p str) -> impl Iterator<Item = NodeId> + 'p {
    let matching = properties.patterns.iter().filter(move |(pattern, _)| pattern.matches(key)).map(|(_, node)| *node);
    properties.get(key).into_iter().chain(matching)
}

/// Returns the size of a value in this unit.
pub(crate) fn size(sizes: Sizes, value: &Value) -> Option<usize> {
    match (sizes, value) {
        (Sizes::Text, Value::String(text)) => Some(text.chars().count()),
        (Sizes::Array, Value::Array(elements)) => Some(elements.len()),
        (Sizes::Object, Value::Object(keys)) => Some(keys.len()),
        _ => None,
    }
}

/// Returns the index of the first element that equals an earlier one.
pub(crate) fn repeated(elements: &[Value]) -> Option<usize> {
    let mut texts = HashSet::new();
    if elements.iter().all(Value::is_string) {
        return elements.iter().position(|element| !texts.insert(element.as_str().unwrap_or_default().to_owned()));
    }
    elements.iter().position(|element| {
        let mut text = String::new();
        push_canonical(element, &mut text);
        !texts.insert(text)
    })
}

/// Returns the number of values in `value`.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(count).sum(),
        Value::Object(keys) => keys.values().map(count).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Otherwise each later part would take as long as the largest one.
    #[test]
    fn a_part_leaves_no_large_table_to_the_next() {
        let schema = json!({"items": {"allOf": [{"$ref": "#/$defs/s"}]}, "$defs": {"s": {"items": {"$ref": "#/$defs/s"}}}});
        let program = Program::read(&schema).expect("it is a schema");
        let mut walk = Walk::of_text(&program);
        assert!(walk.meets_part(program.root, &json!([[[], [], []]]), 0));
        assert_eq!(walk.known.capacity(), 0);
    }
}
