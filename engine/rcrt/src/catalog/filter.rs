//! The selection of tools by category and tags.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_types::config::Tool;

/// Conditions of a selection. A tool must meet all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The category.
    pub category: Option<String>,
    /// The tags.
    pub tags: Vec<String>,
}

/// A category or tag in a filter that no tool has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchName {
    /// The kind of the name: `category` or `tag`.
    pub kind: &'static str,
    /// The name.
    pub name: String,
    /// The names that tools have, where the other conditions hold.
    pub known: BTreeSet<String>,
}

impl Filter {
    /// Returns the tools that meet all conditions.
    pub(super) fn selected(&self, mut tools: Vec<Arc<Tool>>) -> Result<Vec<Arc<Tool>>, NoSuchName> {
        if let Some(category) = &self.category {
            let known = tools.iter().filter_map(|tool| tool.category.clone()).collect();
            tools.retain(|tool| tool.category.as_ref() == Some(category));
            checked(&tools, "category", category, known)?;
        }
        for tag in &self.tags {
            let known = tools.iter().flat_map(|tool| tool.tags.iter().cloned()).collect();
            tools.retain(|tool| tool.tags.contains(tag));
            checked(&tools, "tag", tag, known)?;
        }
        Ok(tools)
    }
}

fn checked(tools: &[Arc<Tool>], kind: &'static str, name: &str, known: BTreeSet<String>) -> Result<(), NoSuchName> {
    if tools.is_empty() { Err(NoSuchName { kind, name: name.to_owned(), known }) } else { Ok(()) }
}
