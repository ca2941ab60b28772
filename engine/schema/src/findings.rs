//! Reports where a value breaks its schema, each rule at its place.
//!
//! Of several alternatives only the nearest is reported: the one whose type fits, whose constants agree and which has the
//! fewest faults at its own level. So the report takes time linear in the value, as the judgement does.

use serde_json::{Map, Number, Value};

use crate::pointer::push_token;
use crate::program::{Bound, NodeId, Program, Properties, Rule, Sizes, type_names};
use crate::walk::{Stop, Token, Walk, nodes_of, repeated, size};

/// The most alternatives that are compared for the nearest one.
const MAX_COMPARED: usize = 64;

/// One rule that a value breaks.
#[derive(Debug)]
pub struct Finding<'w> {
    /// JSON pointer to the value.
    pub pointer: String,
    /// The value there.
    pub value: &'w Value,
    /// The rule.
    pub broken: Broken<'w>,
}

/// A broken rule.
#[derive(Debug)]
pub enum Broken<'w> {
    /// No value is allowed here.
    Forbidden,
    /// The value has none of these types.
    Type(Vec<&'static str>),
    /// The value is none of these.
    Unlisted(&'w [Value]),
    /// A number beyond its limit.
    Beyond(Bound, &'w Number),
    /// A number that is no multiple of this one.
    NoMultiple(&'w Number),
    /// Fewer characters, elements or keys than this.
    TooFew(Sizes, usize),
    /// More characters, elements or keys than this.
    TooMany(Sizes, usize),
    /// A key is missing.
    Missing(&'w str),
    /// A key is missing that this other key needs.
    Needed {
        /// The key that is there.
        by: &'w str,
        /// The missing key.
        key: &'w str,
    },
    /// A text does not match.
    Pattern(&'w str),
    /// A key has a name that is not allowed; the reason.
    KeyName(&'w str, String),
    /// A key that the schema does not know, beside the known keys.
    UnknownKey(&'w str, Vec<&'w str>),
    /// The element of this index equals an earlier one.
    Repeated(usize),
    /// Too few or too many elements are of a certain kind.
    Contained(usize),
    /// The value has none of the forms that are allowed: their types, and the constants among them.
    NoForm(Vec<&'static str>, Vec<&'w Value>),
    /// The value has more than one of several forms that exclude each other.
    SeveralForms,
    /// The value has a form that is not allowed.
    NotAllowed,
    /// Judging the value takes too many steps.
    TooCostly,
    /// Schema and value are nested too deeply.
    TooDeep,
}

impl Program {
    /// Whether `value` meets the schema.
    pub fn accepts(&self, value: &Value) -> bool {
        let mut walk = Walk::new(self, value);
        walk.holds(self.root, value, 0) && walk.stop.is_none()
    }

    /// Returns the rules that `value` breaks, at most this many.
    pub fn findings<'w>(&'w self, value: &'w Value, most: usize) -> Vec<Finding<'w>> {
        let mut walk = Walk::new(self, value);
        let holds = walk.holds(self.root, value, 0);
        let stopped = |stop| match stop {
            Stop::TooCostly => Broken::TooCostly,
            Stop::TooDeep => Broken::TooDeep,
        };
        if let Some(stop) = walk.stop {
            return vec![Finding { pointer: String::new(), value, broken: stopped(stop) }];
        }
        if holds {
            return Vec::new();
        }
        let mut report = Report { walk, most, pointer: String::new(), findings: Vec::new() };
        report.explain(self.root, value, 0);
        // A refused value has at least one finding.
        if report.findings.is_empty() {
            let broken = report.walk.stop.take().map_or(Broken::NotAllowed, stopped);
            report.add(value, broken);
        }
        report.findings
    }
}

struct Report<'w> {
    walk: Walk<'w>,
    most: usize,
    pointer: String,
    findings: Vec<Finding<'w>>,
}

impl<'w> Report<'w> {
    /// Whether no further finding is reported. Once the walk has stopped, its verdicts are without meaning.
    fn is_complete(&self) -> bool {
        self.findings.len() >= self.most || self.walk.stop.is_some()
    }

    fn add(&mut self, value: &'w Value, broken: Broken<'w>) {
        if !self.is_complete() {
            self.findings.push(Finding { pointer: self.pointer.clone(), value, broken });
        }
    }

    fn below(&mut self, token: Token<'_>, inner: NodeId, value: &'w Value, scope: u32) {
        let length = self.pointer.len();
        match token {
            Token::Key(key) => push_token(&mut self.pointer, key),
            Token::Index(index) => push_token(&mut self.pointer, &index.to_string()),
        }
        self.explain(inner, value, scope);
        self.pointer.truncate(length);
    }

    /// Reports what is wrong with `value`, which may meet `node`.
    fn explain(&mut self, node: NodeId, value: &'w Value, scope: u32) {
        if self.is_complete() {
            return;
        }
        let scope = self.walk.enter(node, scope);
        let program = self.walk.program;
        let mut is_of_type = true;
        for rule in &program.nodes[node as usize].rules {
            // The other rules of a type are no help to a value of another one.
            if is_of_type && !self.walk.meets(node, rule, value, scope) {
                self.explain_rule(node, rule, value, scope);
                is_of_type = !matches!(rule, Rule::Type(_));
            }
        }
    }

    fn explain_rule(&mut self, node: NodeId, rule: &'w Rule, value: &'w Value, scope: u32) {
        match (rule, value) {
            (Rule::Never, _) => self.add(value, Broken::Forbidden),
            (Rule::Type(allowed), _) => self.add(value, Broken::Type(type_names(*allowed))),
            (Rule::OneOf(values), _) => self.add(value, Broken::Unlisted(values)),
            (Rule::Bound(bound, limit), _) => self.add(value, Broken::Beyond(*bound, limit)),
            (Rule::MultipleOf(step), _) => self.add(value, Broken::NoMultiple(step)),
            (Rule::Fewest(sizes, limit), _) => self.add(value, Broken::TooFew(*sizes, *limit)),
            (Rule::Most(sizes, limit), _) => self.add(value, Broken::TooMany(*sizes, *limit)),
            (Rule::Required(names), Value::Object(keys)) => {
                for name in names.iter().filter(|name| !keys.contains_key(&***name)) {
                    self.add(value, Broken::Missing(name));
                }
            }
            (Rule::Needs(needs), Value::Object(keys)) => {
                for (by, names) in needs.iter().filter(|(by, _)| keys.contains_key(&**by)) {
                    for key in names.iter().filter(|name| !keys.contains_key(&***name)) {
                        self.add(value, Broken::Needed { by, key });
                    }
                }
            }
            (Rule::Pattern(pattern), _) => self.add(value, Broken::Pattern(pattern.text())),
            (Rule::Reference(target), _) => self.explain(*target, value, scope),
            (Rule::Dynamic { name, target }, _) => self.explain(self.walk.dynamic(*name, *target, scope), value, scope),
            (Rule::Names(inner), Value::Object(keys)) => self.explain_names(*inner, keys, value, scope),
            (Rule::Properties(properties), Value::Object(keys)) => self.explain_properties(properties, keys, value, scope),
            (Rule::Elements { first, rest }, Value::Array(elements)) => {
                for (index, element) in elements.iter().enumerate() {
                    if let Some(inner) = first.get(index).or(rest.as_ref())
                        && !self.walk.holds(*inner, element, scope)
                    {
                        self.below(Token::Index(index), *inner, element, scope);
                    }
                }
            }
            (Rule::Distinct, Value::Array(elements)) => {
                self.add(value, Broken::Repeated(repeated(elements).unwrap_or_default()));
            }
            (Rule::Contains { node, .. }, Value::Array(elements)) => {
                let found = elements.iter().filter(|element| self.walk.holds(*node, element, scope)).count();
                self.add(value, Broken::Contained(found));
            }
            (Rule::All(members), _) => members.iter().for_each(|member| self.explain(*member, value, scope)),
            (Rule::Dependent(members), Value::Object(keys)) => {
                let due = members.iter().filter(|(key, _)| keys.contains_key(&**key));
                due.for_each(|(_, member)| self.explain(*member, value, scope));
            }
            (Rule::If { test, then, otherwise }, _) => {
                let branch = if self.walk.holds(*test, value, scope) { then } else { otherwise };
                if let Some(branch) = branch {
                    self.explain(*branch, value, scope);
                }
            }
            (Rule::Any(members) | Rule::One(members), _) => self.explain_choice(members, value, scope),
            (Rule::Not(_), _) => self.add(value, Broken::NotAllowed),
            (Rule::OtherProperties(inner) | Rule::OtherElements(inner), _) => {
                for (token, other) in self.walk.others(node, value, scope) {
                    match token {
                        Token::Key(key) if self.is_never(*inner) => self.add(value, Broken::UnknownKey(key, Vec::new())),
                        token => self.below(token, *inner, other, scope),
                    }
                }
            }
            _ => {}
        }
    }

    fn is_never(&self, node: NodeId) -> bool {
        matches!(self.walk.program.nodes[node as usize].rules.as_slice(), [Rule::Never])
    }

    fn explain_names(&mut self, inner: NodeId, keys: &'w Map<String, Value>, value: &'w Value, scope: u32) {
        for key in keys.keys() {
            let name = Value::String(key.clone());
            if self.walk.holds(inner, &name, scope) {
                continue;
            }
            // The name is a value of its own, which does not live as long as this report.
            let program = self.walk.program;
            let rules = &program.nodes[inner as usize].rules;
            let broken = rules.iter().find(|rule| !self.walk.meets(inner, rule, &name, scope));
            let reason = match broken {
                Some(Rule::Pattern(pattern)) => format!("it does not match {}", pattern.text()),
                Some(Rule::Most(_, most)) => format!("it has more than {most} characters"),
                Some(Rule::Fewest(_, fewest)) => format!("it has fewer than {fewest} characters"),
                Some(Rule::OneOf(values)) => {
                    format!("it is not one of {}", values.iter().map(Value::to_string).collect::<Vec<_>>().join(", "))
                }
                _ => "its name is not allowed".to_owned(),
            };
            self.add(value, Broken::KeyName(key, reason));
        }
    }

    fn explain_properties(&mut self, properties: &'w Properties, keys: &'w Map<String, Value>, value: &'w Value, scope: u32) {
        for (key, held) in keys {
            let named: Vec<NodeId> = nodes_of(properties, key).collect();
            for inner in &named {
                if !self.walk.holds(*inner, held, scope) {
                    self.below(Token::Key(key), *inner, held, scope);
                }
            }
            let Some(rest) = properties.rest.filter(|_| named.is_empty()) else { continue };
            if self.is_never(rest) {
                let known = properties.named.iter().map(|(name, _)| &**name).collect();
                self.add(value, Broken::UnknownKey(key, known));
            } else if !self.walk.holds(rest, held, scope) {
                self.below(Token::Key(key), rest, held, scope);
            }
        }
    }

    /// Reports the nearest of the alternatives that `value` has none of.
    fn explain_choice(&mut self, members: &'w [NodeId], value: &'w Value, scope: u32) {
        if members.iter().any(|member| self.walk.holds(*member, value, scope)) {
            self.add(value, Broken::SeveralForms);
            return;
        }
        let fitting: Vec<NodeId> =
            members.iter().copied().filter(|member| self.fits_in_kind(*member, value, scope)).take(MAX_COMPARED).collect();
        let nearest = fitting.iter().copied().min_by_key(|member| self.distance(*member, value, scope));
        if let Some(nearest) = nearest {
            self.explain(nearest, value, scope);
            return;
        }
        let (mut types, mut words) = (0, Vec::new());
        for member in members {
            self.kinds(*member, scope, &mut types, &mut words);
        }
        self.add(value, Broken::NoForm(type_names(types), words));
    }

    /// Whether `value` meets the types and constants of `node`.
    fn fits_in_kind(&mut self, node: NodeId, value: &Value, scope: u32) -> bool {
        let scope = self.walk.enter(node, scope);
        let program = self.walk.program;
        program.nodes[node as usize].rules.iter().all(|rule| match rule {
            Rule::Never | Rule::Type(_) | Rule::OneOf(_) => self.walk.meets(node, rule, value, scope),
            Rule::Reference(target) => self.fits_in_kind(*target, value, scope),
            Rule::Dynamic { name, target } => self.fits_in_kind(self.walk.dynamic(*name, *target, scope), value, scope),
            Rule::All(members) => members.iter().all(|member| self.fits_in_kind(*member, value, scope)),
            _ => true,
        })
    }

    /// Collects types and constants that `node` accepts.
    fn kinds(&mut self, node: NodeId, scope: u32, types: &mut u8, words: &mut Vec<&'w Value>) {
        let scope = self.walk.enter(node, scope);
        let program = self.walk.program;
        let rules = &program.nodes[node as usize].rules;
        if let Some(values) = rules.iter().find_map(|rule| match rule {
            Rule::OneOf(values) => Some(values),
            _ => None,
        }) {
            words.extend(values);
            return;
        }
        for rule in rules {
            match rule {
                Rule::Type(allowed) => *types |= allowed,
                Rule::Reference(target) => self.kinds(*target, scope, types, words),
                Rule::Dynamic { name, target } => self.kinds(self.walk.dynamic(*name, *target, scope), scope, types, words),
                Rule::All(members) | Rule::Any(members) | Rule::One(members) => {
                    for member in members {
                        self.kinds(*member, scope, types, words);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns how far `value` is from `node` at its own level: constants that differ count most, then missing and
    /// unknown keys, then values that do not fit.
    fn distance(&mut self, node: NodeId, value: &'w Value, scope: u32) -> usize {
        let scope = self.walk.enter(node, scope);
        let program = self.walk.program;
        let mut distance = 0;
        for rule in &program.nodes[node as usize].rules {
            distance += match (rule, value) {
                (Rule::Reference(target), _) => self.distance(*target, value, scope),
                (Rule::Dynamic { name, target }, _) => self.distance(self.walk.dynamic(*name, *target, scope), value, scope),
                (Rule::All(members), _) => members.iter().map(|member| self.distance(*member, value, scope)).sum(),
                (Rule::Required(names), Value::Object(keys)) => {
                    10 * names.iter().filter(|name| !keys.contains_key(&***name)).count()
                }
                (Rule::Properties(properties), Value::Object(keys)) => {
                    let mut distance = 0;
                    for (key, held) in keys {
                        let named = nodes_of(properties, key).next();
                        distance += match named.or(properties.rest) {
                            Some(inner) if named.is_none() && self.is_never(inner) => 10,
                            Some(inner) if !self.walk.holds(inner, held, scope) => {
                                if self.has_words(inner) {
                                    1_000
                                } else {
                                    1
                                }
                            }
                            _ => 0,
                        };
                    }
                    distance
                }
                (rule, value) if rule.rank() < 6 && !self.walk.meets(node, rule, value, scope) => {
                    match (rule, size_gap(rule, value)) {
                        (_, Some(gap)) => gap.min(9),
                        _ => 1,
                    }
                }
                _ => 0,
            };
        }
        distance
    }

    /// Whether `node` lists its values, as the property that distinguishes alternatives does.
    fn has_words(&self, node: NodeId) -> bool {
        self.walk.program.nodes[node as usize].rules.iter().any(|rule| matches!(rule, Rule::OneOf(_)))
    }
}

/// Returns by how much a size misses its limit.
fn size_gap(rule: &Rule, value: &Value) -> Option<usize> {
    match rule {
        Rule::Fewest(sizes, limit) | Rule::Most(sizes, limit) => size(*sizes, value).map(|size| size.abs_diff(*limit)),
        _ => None,
    }
}
