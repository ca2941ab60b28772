//! The standard's text with the tools of an agent: what follows its system prompt in universal invocation.

use std::fmt::Write as _;

use baton_types::config::{Agent, Catalog, INVOCATION_NOTE, Invocation, Tool, catalog_header, tool_prompt};
use baton_types::tool_type::Then;

/// The explanation of answers, calls and results. It names no task.
const STANDARD: &str = include_str!("standard.txt");

/// The name of [`STANDARD`] in the note that follows the list of tools.
const STANDARD_TITLE: &str = "Tool Invocation Format";

/// Availability of a tool after its description, where requests offer it.
const OFFERED_NEXT: &str = " The described tools can be called from your next answer on.";

/// The way to end, which the prompt of seed 003 lacks.
const FINISHING: &str = "\nAfter a result, use the next tool or answer. An answer in plain text, without JSON, ends your work.\n";

/// Returns the text about tools that follows the system prompt of `agent`: the standard where it is needed, and the list of
/// tools where requests do not offer all of them.
pub(crate) fn about_tools(agent: &Agent) -> String {
    match (agent.invocation, agent.catalog) {
        // The loader refuses a prompt for native invocation.
        (Invocation::Native, Catalog::Full | Catalog::Prompt) => String::new(),
        (Invocation::Universal, Catalog::Prompt) => {
            let text = tool_prompt(agent.tools.values().map(|tool| &**tool));
            text + &agent.configuration_lines() + &describing(agent, "") + FINISHING
        }
        (Invocation::Native, Catalog::Discover) => {
            let tools: Vec<&Tool> = agent.tools.values().map(|tool| &**tool).filter(|tool| !tool.is_known_at_once()).collect();
            let lines: Vec<String> = tools.iter().map(|tool| tool.catalog_line()).collect();
            let lines = lines.join("\n");
            format!("\n\n{}\n\n{lines}\n{}", catalog_header(tools.len()), describing(agent, OFFERED_NEXT))
        }
        (Invocation::Universal, catalog) => {
            let mut text = format!("\n\n{STANDARD_TITLE}\n\n{STANDARD}\n{}\n\n", catalog_header(agent.tools.len()));
            for tool in agent.tools.values() {
                writeln!(text, "{}", tool.catalog_line()).expect("a string takes all text");
                if catalog == Catalog::Full || tool.is_known_at_once() {
                    let definition =
                        agent.offered_last_in_questions.iter().find(|plain| plain.id == tool.id).unwrap_or(&tool.definition);
                    writeln!(text, "  input: {}", definition.input_schema.text()).expect("a string takes all text");
                }
                // The prompt is that of tasks and of questions to the agent.
                if let Some(schema) = agent.result_schema.as_ref().filter(|_| tool.tool_type.behavior().then == Then::Stop) {
                    let schema = schema.json().text();
                    writeln!(
                        text,
                        "  schema of your result: {schema}. An answer to a question has the schema of the question instead."
                    )
                    .expect("a string takes all text");
                }
            }
            text += &agent.configuration_lines();
            // The second line of the note does not apply: the standard has no inputs of tools, but these lines or a tool do.
            text = format!("{text}\n{}\n", INVOCATION_NOTE[0]);
            if catalog == Catalog::Discover { text + &describing(agent, "") } else { text }
        }
    }
}

/// Returns the way to the definitions of tools; empty if no tool describes them.
fn describing(agent: &Agent, next: &str) -> String {
    let describing = agent.tools.values().find(|tool| tool.describes_tools);
    let text = |tool: &std::sync::Arc<Tool>| {
        format!(
            "\nBefore you first call a tool whose input is not shown above, call {} with {{\"tools\": [\"name\"]}}.{next}\n",
            tool.definition.shown_name()
        )
    };
    describing.map(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use baton_types::config::{INVOCATION_NOTE, STANDARD_BYTES};

    use super::{STANDARD, STANDARD_TITLE};

    #[test]
    fn the_standard_fits_its_bound() {
        assert!(STANDARD.len() <= STANDARD_BYTES, "{} bytes", STANDARD.len());
    }

    #[test]
    fn the_note_after_the_tools_names_the_standard() {
        assert!(INVOCATION_NOTE[0].contains(&format!("\"{STANDARD_TITLE}\"")), "{INVOCATION_NOTE:?}");
    }
}
