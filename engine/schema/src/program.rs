//! A schema in the form that values are judged by: a list of nodes, each with its rules, cheap rules first.

use serde_json::{Number, Value};

use crate::pattern::Pattern;

/// Index of a node.
pub(crate) type NodeId = u32;

/// A schema that was read.
#[derive(Debug)]
pub struct Program {
    pub(crate) nodes: Vec<Node>,
    pub(crate) root: NodeId,
    /// Nodes with a dynamic anchor, by resource: the index of the anchor's name, and the node.
    pub(crate) dynamic: Vec<Vec<(usize, NodeId)>>,
    /// Number of names of dynamic anchors.
    pub(crate) names: usize,
}

/// One subschema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) rules: Vec<Rule>,
    /// The resource that holds it: the whole schema, or the part below an `$id`.
    pub(crate) resource: usize,
    /// Whether references lead to it: then it may judge the same value several times.
    pub(crate) is_shared: bool,
}

/// One condition on a value. The order of the variants is the order of their cost.
#[derive(Debug)]
pub(crate) enum Rule {
    /// No value meets it.
    Never,
    /// A bit for each type that is allowed.
    Type(u8),
    /// `enum` and `const`.
    OneOf(Vec<Value>),
    Bound(Bound, Number),
    MultipleOf(Number),
    /// The fewest characters, elements or keys.
    Fewest(Sizes, usize),
    /// The most characters, elements or keys.
    Most(Sizes, usize),
    Required(Vec<Box<str>>),
    /// Keys that need other keys.
    Needs(Vec<(Box<str>, Vec<Box<str>>)>),
    Pattern(Pattern),
    Reference(NodeId),
    /// A reference to the outermost resource of the path that has this dynamic anchor.
    Dynamic {
        name: usize,
        target: NodeId,
    },
    Names(NodeId),
    Properties(Properties),
    Elements {
        first: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Distinct,
    Contains {
        node: NodeId,
        fewest: usize,
        most: usize,
    },
    All(Vec<NodeId>),
    /// Schemas for the whole object, by the key that makes them apply.
    Dependent(Vec<(Box<str>, NodeId)>),
    If {
        test: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    Any(Vec<NodeId>),
    One(Vec<NodeId>),
    Not(NodeId),
    /// The properties that the rules before it do not judge.
    OtherProperties(NodeId),
    /// The elements that the rules before it do not judge.
    OtherElements(NodeId),
}

/// A limit of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `minimum`
    Least,
    /// `maximum`
    Most,
    /// `exclusiveMinimum`
    MoreThan,
    /// `exclusiveMaximum`
    LessThan,
}

/// Unit of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Characters of a text.
    Text,
    /// Elements of an array.
    Array,
    /// Keys of an object.
    Object,
}

/// `properties`, `patternProperties` and `additionalProperties`.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    /// In the order of the schema.
    pub(crate) named: Vec<(Box<str>, NodeId)>,
    /// Indexes of `named` in the order of the names.
    sorted: Vec<u32>,
    pub(crate) patterns: Vec<(Pattern, NodeId)>,
    pub(crate) rest: Option<NodeId>,
}

impl Properties {
    pub(crate) fn new(named: Vec<(Box<str>, NodeId)>, patterns: Vec<(Pattern, NodeId)>, rest: Option<NodeId>) -> Self {
        let mut sorted: Vec<u32> = (0..named.len() as u32).collect();
        sorted.sort_unstable_by(|one, other| named[*one as usize].0.cmp(&named[*other as usize].0));
        Self { named, sorted, patterns, rest }
    }

    /// Returns the node of a named property.
    pub(crate) fn get(&self, name: &str) -> Option<NodeId> {
        let found = self.sorted.binary_search_by(|index| (*self.named[*index as usize].0).cmp(name)).ok()?;
        Some(self.named[self.sorted[found] as usize].1)
    }
}

impl Rule {
    /// Returns the place of the rule in the order of cost.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Never => 0,
            Self::Type(_) => 1,
            Self::OneOf(_) => 2,
            Self::Bound(..) | Self::MultipleOf(_) | Self::Fewest(..) | Self::Most(..) => 3,
            Self::Required(_) | Self::Needs(_) => 4,
            Self::Pattern(_) => 5,
            Self::Reference(_) | Self::Dynamic { .. } => 6,
            Self::Names(_) => 7,
            Self::Properties(_) | Self::Elements { .. } => 8,
            Self::Distinct | Self::Contains { .. } => 9,
            Self::All(_) | Self::Dependent(_) => 10,
            Self::If { .. } => 11,
            Self::Any(_) | Self::One(_) | Self::Not(_) => 12,
            Self::OtherProperties(_) | Self::OtherElements(_) => 13,
        }
    }

    /// Calls `each` with every node that judges the same value.
    pub(crate) fn in_place(&self, dynamic: &[Vec<(usize, NodeId)>], each: &mut dyn FnMut(NodeId)) {
        match self {
            Self::Reference(node) | Self::Not(node) => each(*node),
            Self::Dynamic { name, target } => {
                each(*target);
                let anchored = dynamic.iter().flatten().filter(|(anchor, node)| anchor == name && node != target);
                anchored.for_each(|(_, node)| each(*node));
            }
            Self::All(nodes) | Self::Any(nodes) | Self::One(nodes) => nodes.iter().for_each(|node| each(*node)),
            Self::Dependent(nodes) => nodes.iter().for_each(|(_, node)| each(*node)),
            Self::If { test, then, otherwise } => {
                [Some(test), then.as_ref(), otherwise.as_ref()].into_iter().flatten().for_each(|node| each(*node));
            }
            _ => {}
        }
    }
}

pub(crate) const NULL: u8 = 1;
pub(crate) const BOOLEAN: u8 = 1 << 1;
pub(crate) const INTEGER: u8 = 1 << 2;
pub(crate) const FRACTION: u8 = 1 << 3;
pub(crate) const STRING: u8 = 1 << 4;
pub(crate) const ARRAY: u8 = 1 << 5;
pub(crate) const OBJECT: u8 = 1 << 6;

/// The names of types, with their bits.
pub(crate) const TYPES: [(&str, u8); 7] = [
    ("string", STRING),
    ("number", INTEGER | FRACTION),
    ("integer", INTEGER),
    ("boolean", BOOLEAN),
    ("object", OBJECT),
    ("array", ARRAY),
    ("null", NULL),
];

/// Returns the bit of a value's type.
pub(crate) fn type_of(value: &Value) -> u8 {
    match value {
        Value::Null => NULL,
        Value::Bool(_) => BOOLEAN,
        Value::Number(number) if crate::number::is_whole(number) => INTEGER,
        Value::Number(_) => FRACTION,
        Value::String(_) => STRING,
        Value::Array(_) => ARRAY,
        Value::Object(_) => OBJECT,
    }
}

/// Returns the names of the types of these bits.
pub(crate) fn type_names(bits: u8) -> Vec<&'static str> {
    let has_numbers = bits & FRACTION != 0;
    TYPES
        .into_iter()
        .filter(|(name, bit)| bits & bit == *bit && !(*name == "integer" && has_numbers))
        .map(|(name, _)| name)
        .collect()
}
