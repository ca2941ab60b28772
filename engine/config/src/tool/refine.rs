//! Refinement: how a project's and a job's config of a tool replace parts of a more general one.

use serde_json::{Map, Value};

use crate::fault::FaultKind;
use crate::loader::{Loader, Read};
use crate::reader::{Spot, pointer};
use crate::shape::show;

/// Keys that replace each other.
pub(super) const ALTERNATIVES: [(&str, &str); 2] = [("parameters", "input_schema"), ("returns", "output_schema")];

impl<'s> Loader<'s> {
    /// Checks that a refinement does not change the nature of a tool. Returns the values that remain where a change is
    /// not allowed.
    pub(super) fn check_refinement(&mut self, below: &Map<String, Value>, over: &Read<'s>) -> Map<String, Value> {
        let mut unchanged = Map::new();
        if over.value.get("tool_id").is_none() {
            self.faults.push(over.text.fault(FaultKind::MissingKey, "/tool_id", Spot::Key, "key \"tool_id\" is missing"));
        }
        for key in ["type", "agent", "settings", "changes"] {
            let Some(refined) = over.value.get(key) else { continue };
            let message = format!("a config that refines a tool cannot change its \"{key}\"");
            let fault = || over.text.fault(FaultKind::ReservedName, &pointer(&[key]), Spot::Value, message);
            match below.get(key) {
                Some(kept) if refined != kept && (refined.is_string() || matches!(key, "settings" | "changes")) => {
                    self.faults.push(fault().expected(show(kept)).found(show(refined)));
                    unchanged.insert(key.to_owned(), kept.clone());
                }
                // Only the tool's author knows the changes that its calls make, and people rely on this display.
                None if key == "changes" => self.faults.push(fault().expected("none")),
                _ => {}
            }
        }
        unchanged
    }
}

/// Returns the keys of `below`, replaced by those of `over`; a key also replaces its alternative. A description replaces the summary
/// too: catalogs would otherwise show the words of the refined config.
pub(super) fn merge(mut below: Map<String, Value>, over: &Value) -> Map<String, Value> {
    if over.get("description").is_some() {
        below.shift_remove("summary");
    }
    for (key, value) in over.as_object().into_iter().flatten() {
        for (short, full) in ALTERNATIVES {
            if key == short {
                below.shift_remove(full);
            } else if key == full {
                below.shift_remove(short);
            }
        }
        below.insert(key.clone(), value.clone());
    }
    below
}
