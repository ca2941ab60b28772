//! The generators of tasks: a seed gives each its numbers and words.

mod numbers;
mod simple;
mod tables;
mod writing;

use serde_json::{Value, json};

use super::chance::Chance;
use super::task::Task;

/// A generator of tasks.
pub(super) struct Generator {
    /// Name of its tasks in options and tables.
    pub(super) name: &'static str,
    make: fn(&mut Chance) -> Task,
}

impl Generator {
    /// Returns the task of a seed.
    pub(super) fn task(&self, seed: u64) -> Task {
        (self.make)(&mut Chance::new(seed, self.name))
    }
}

/// All generators. Those with the same agents are neighbors, because a server reuses the beginning of the prompt before.
pub(super) const GENERATORS: [Generator; 20] = [
    Generator { name: "product-plus", make: numbers::product_plus },
    Generator { name: "growth", make: numbers::growth },
    Generator { name: "rounded-root", make: numbers::rounded_root },
    Generator { name: "parentheses", make: numbers::parentheses },
    Generator { name: "second-sum", make: numbers::second_sum },
    Generator { name: "two-sums", make: numbers::two_sums },
    Generator { name: "echo", make: simple::echo },
    Generator { name: "random", make: simple::random },
    Generator { name: "wait", make: simple::wait },
    Generator { name: "no-tool", make: simple::no_tool },
    Generator { name: "csv-cell", make: tables::cell },
    Generator { name: "csv-sum", make: tables::sum },
    Generator { name: "csv-maximum", make: tables::maximum },
    Generator { name: "csv-arithmetic", make: tables::arithmetic },
    Generator { name: "json-count", make: tables::count },
    Generator { name: "json-value", make: simple::json_value },
    Generator { name: "write", make: writing::exact },
    Generator { name: "change-number", make: writing::change },
    Generator { name: "delegate-sum", make: numbers::delegated },
    Generator { name: "delegate-document", make: writing::delegated },
];

/// Words for names of people, files and things; no two are similar.
const WORDS: [&str; 16] = [
    "lantern", "harbor", "violet", "meadow", "copper", "falcon", "pepper", "window", "saddle", "maple", "thunder", "basket",
    "marble", "ribbon", "orchard", "candle",
];

/// Returns the schema of an object with exactly these properties; each has a type.
fn result_schema(properties: &[(&str, &str)]) -> Value {
    let names: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let types: serde_json::Map<String, Value> =
        properties.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
    json!({"type": "object", "properties": types, "required": names, "additionalProperties": false})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::GENERATORS;

    #[test]
    fn a_seed_determines_a_task() {
        for generator in &GENERATORS {
            let (task, again) = (generator.task(7), generator.task(7));
            assert_eq!((&task.request, &task.documents), (&again.request, &again.documents), "{}", generator.name);
            let requests: BTreeSet<_> =
                (0..20).map(|seed| generator.task(seed)).map(|task| (task.request, task.documents)).collect();
            // A wait is always one second.
            assert!(requests.len() > 1 || generator.name == "wait", "{}", generator.name);
        }
    }
}
