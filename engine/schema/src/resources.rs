//! Targets of references in a schema: `$id`, `$anchor`, `$dynamicAnchor` and pointers. Nothing is ever fetched.

use std::collections::HashMap;

use baton_types::spelling::nearest;
use serde_json::Value;

use crate::dialect::{Dialect, for_each_part};
use crate::pointer::push_token;
use crate::uri::{DEFAULT_BASE, decoded, resolve, split};

/// A schema with an address of its own: the whole schema, or a part with an `$id`.
#[derive(Debug)]
pub(crate) struct Resource {
    address: String,
    /// JSON pointer to it.
    pub(crate) pointer: String,
    pub(crate) dialect: Dialect,
}

/// All resources and anchors of a schema.
#[derive(Debug)]
pub(crate) struct Resources {
    all: Vec<Resource>,
    by_address: HashMap<String, usize>,
    by_pointer: HashMap<String, usize>,
    anchors: HashMap<(usize, String), String>,
    pub(crate) dynamic: Vec<(usize, String, String)>,
}

/// Place that a reference names.
pub(crate) struct Target {
    /// JSON pointer into the whole schema.
    pub(crate) pointer: String,
    /// The resource and the name, if the reference names a dynamic anchor.
    pub(crate) dynamic: Option<String>,
}

impl Resources {
    pub(crate) fn of(root: &Value) -> Self {
        let mut resources = Self {
            all: Vec::new(),
            by_address: HashMap::new(),
            by_pointer: HashMap::new(),
            anchors: HashMap::new(),
            dynamic: Vec::new(),
        };
        resources.add(DEFAULT_BASE.to_owned(), "", Dialect::of(root));
        resources.collect(root, &mut String::new(), 0);
        resources
    }

    fn add(&mut self, address: String, pointer: &str, dialect: Dialect) -> usize {
        let index = self.all.len();
        self.by_address.entry(address.clone()).or_insert(index);
        self.by_pointer.insert(pointer.to_owned(), index);
        self.all.push(Resource { address, pointer: pointer.to_owned(), dialect });
        index
    }

    fn collect(&mut self, schema: &Value, pointer: &mut String, resource: usize) {
        let Value::Object(keywords) = schema else { return };
        let mut resource = resource;
        let dialect = self.all[resource].dialect;
        let text = |keyword: &str| keywords.get(keyword).and_then(Value::as_str);
        let is_ignored = !dialect.reads_siblings() && keywords.contains_key("$ref");
        if let Some(id) = text("$id").filter(|_| !is_ignored) {
            let (address, fragment) = split(id);
            if !address.is_empty() {
                let address = resolve(&self.all[resource].address, address);
                let dialect = text("$schema").and_then(Dialect::named).unwrap_or(dialect);
                resource = self.add(address, pointer, dialect);
            }
            // In draft 7 an id that is only a fragment is an anchor.
            if let Some(name) = fragment.filter(|name| !name.is_empty()) {
                self.anchors.entry((resource, name.to_owned())).or_insert_with(|| pointer.clone());
            }
        }
        if dialect != Dialect::Draft7 {
            for anchor in ["$anchor", "$dynamicAnchor"] {
                let Some(name) = text(anchor) else { continue };
                self.anchors.entry((resource, name.to_owned())).or_insert_with(|| pointer.clone());
                if anchor == "$dynamicAnchor" {
                    self.dynamic.push((resource, name.to_owned(), pointer.clone()));
                }
            }
        }
        for_each_part(keywords, |keyword, token, inner| {
            let length = pointer.len();
            push_token(pointer, keyword);
            if let Some(token) = token {
                push_token(pointer, &token);
            }
            self.collect(inner, pointer, resource);
            pointer.truncate(length);
        });
    }

    pub(crate) fn get(&self, resource: usize) -> &Resource {
        &self.all[resource]
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the resource that begins at `pointer`.
    pub(crate) fn at(&self, pointer: &str) -> Option<usize> {
        self.by_pointer.get(pointer).copied()
    }

    /// Returns the resource that holds `pointer`.
    pub(crate) fn around(&self, pointer: &str) -> usize {
        let mut place = pointer;
        loop {
            if let Some(resource) = self.at(place) {
                return resource;
            }
            place = place.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }

    /// Returns the place that `reference` in `resource` names; the error is the reason why there is none.
    pub(crate) fn target(&self, root: &Value, resource: usize, reference: &str) -> Result<Target, String> {
        let (address, fragment) = split(reference);
        let base = &self.all[resource].address;
        let Some(resource) = self.by_address.get(&resolve(base, address)).copied() else {
            return Err("a reference may only name a place in the same schema, such as \"#/$defs/point\"".to_owned());
        };
        let fragment = decoded(fragment.unwrap_or_default());
        if fragment.is_empty() || fragment.starts_with('/') {
            let pointer = format!("{}{fragment}", self.all[resource].pointer);
            if root.pointer(&pointer).is_some() {
                return Ok(Target { pointer, dynamic: None });
            }
            let known: Vec<String> = definitions(root).collect();
            let named = format!("#{fragment}");
            let nearest = nearest(&named, known.iter().map(String::as_str));
            let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest:?}?"));
            return Err(format!("{reference:?} names no place in this schema{hint}"));
        }
        if let Some(pointer) = self.anchors.get(&(resource, fragment.clone())) {
            let is_dynamic = self.dynamic.iter().any(|(at, name, _)| *at == resource && *name == fragment);
            return Ok(Target { pointer: pointer.clone(), dynamic: is_dynamic.then_some(fragment) });
        }
        let known = self.anchors.keys().filter(|(at, _)| *at == resource).map(|(_, name)| name.as_str());
        let hint = nearest(&fragment, known).map_or(String::new(), |nearest| format!("; did you mean \"#{nearest}\"?"));
        Err(format!(
            "no part of this schema has the anchor {fragment:?}{hint}; a reference may only name a place in the same schema, such \
             as \"#/$defs/point\""
        ))
    }
}

/// Returns the references to the definitions of a schema.
fn definitions(root: &Value) -> impl Iterator<Item = String> {
    ["$defs", "definitions"].into_iter().flat_map(move |keyword| {
        root.get(keyword).and_then(Value::as_object).into_iter().flatten().map(move |(name, _)| {
            let mut pointer = format!("#/{keyword}");
            push_token(&mut pointer, name);
            pointer
        })
    })
}
