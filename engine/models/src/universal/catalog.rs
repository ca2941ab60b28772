//! The standard's text with the tools of an agent: what follows its system prompt in universal invocation.

use std::fmt::Write as _;

use baton_types::config::{Agent, Tool};

/// The explanation of answers, calls and results. It names no task.
const STANDARD: &str = include_str!("standard.txt");

/// Greatest number of characters of a description in the list of tools.
const DESCRIPTION_CHARACTERS: usize = 300;

/// Returns the text that follows the system prompt of `agent`: the standard, and the tools that it may use.
pub fn standard(agent: &Agent) -> String {
    let mut text = format!("\n\n{STANDARD}\n=== TOOLS ({} available) ===\n", agent.tools.len());
    for definition in agent.offered.iter() {
        let outputs = agent.tools.get(&definition.id).map(|tool| outputs(tool)).unwrap_or_default();
        let description = short(&definition.description);
        writeln!(text, "\n• {}: {description}{outputs}\n  input: {}", definition.id, definition.input_schema.text())
            .expect("a string takes all text");
    }
    text
}

/// Returns the names of a tool's outputs, in the order that its config declares them.
fn outputs(tool: &Tool) -> String {
    let schema = tool.output.as_ref().map(|output| output.json().value());
    let properties = schema.as_ref().and_then(|schema| schema.get("properties")?.as_object());
    match properties {
        Some(properties) if !properties.is_empty() => {
            format!(" → {}", properties.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
        }
        _ => String::new(),
    }
}

/// Returns a description on one line, cut where it is long.
fn short(description: &str) -> String {
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(DESCRIPTION_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use baton_types::config::STANDARD_BYTES;

    use super::STANDARD;

    #[test]
    fn the_standard_fits_its_bound() {
        assert!(STANDARD.len() <= STANDARD_BYTES, "{} bytes", STANDARD.len());
    }
}
