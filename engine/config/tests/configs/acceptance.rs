//! Acceptors of delegations.

use baton_config::Role;
use baton_types::config::{Accept, Acceptor, Target};
use baton_types::id::{AgentId, ToolId};

use crate::support::{Files, check, sound};

/// Returns a job whose delegations to `counter` have this `accept`.
fn accepted(accept: &str) -> Files {
    let file = format!("{{ \"tool_id\": \"route_to_counter\",\n  \"accept\": {accept} }}");
    sound().with(Role::Tool, "tools/route_to_counter.json", file)
}

const INPUT: &str = r#""input_schema": { "type": "object", "additionalProperties": false,
    "properties": {
      "request": { "type": "string", "description": "The request" },
      "result": { "type": ["string", "object"], "description": "The result" },
      "documents": { "type": "array", "items": { "type": "object" }, "description": "The documents" } },
    "required": ["request", "result"] },
  "output_schema": { "type": "object", "properties": {
      "accepted": { "type": "boolean", "description": "Whether it is accepted" },
      "reason": { "type": "string", "description": "Why" } } }"#;

/// Returns the job with a command that accepts results, in which `piece` of its config is replaced.
fn by_command(piece: &str, by: &str) -> Files {
    let file = format!(
        "{{ \"tool_id\": \"judge\", \"type\": \"function_tool\", \"description\": \"Judges\",\n  {INPUT},\n  \
         \"exec\": {{ \"command\": [\"judge\"] }} }}"
    );
    assert!(file.contains(piece));
    accepted(r#"{ "by": "tool:judge" }"#).with(Role::Tool, "tools/judge.json", file.replacen(piece, by, 1))
}

#[test]
fn an_agent_or_a_tool_accepts_results() {
    let accept = |files: Files| files.load().unwrap().tools["route_to_counter"].accept.clone();
    let by_agent = Accept { by: Acceptor::Agent(AgentId::new("lead")), rounds: 3 };
    assert_eq!(accept(accepted(r#"{ "by": "agent:lead" }"#)), Some(by_agent.clone()), "three rounds are the default");
    assert_eq!(accept(accepted(r#"{ "by": "agent:lead", "rounds": 20 }"#)), Some(Accept { rounds: 20, ..by_agent }));
    let by_tool = Accept { by: Acceptor::Tool(ToolId::new("judge")), rounds: 3 };
    assert_eq!(accept(by_command("judge", "judge")), Some(by_tool));
    assert_eq!(accept(sound()), None);
    by_command("[\"string\", \"object\"]", "\"object\"").load().expect("the result has the type that the callee gives it");
}

#[test]
fn a_command_that_accepts_results_needs_trust_although_no_agent_has_it() {
    let configs = by_command("judge", "judge").load().unwrap();
    assert!(configs.agents.values().all(|agent| !agent.tools.contains_key("judge")));
    let is_command = |target: &Target| matches!(target, Target::Command(arguments) if arguments == &["judge"]);
    assert!(configs.reaches().iter().any(|reach| is_command(&reach.target)), "{:?}", configs.reaches());
}

#[test]
fn a_command_that_code_may_call_needs_trust_although_no_agent_has_it() {
    let command = r#"{ "tool_id": "hidden", "type": "function_tool", "description": "Runs", "exec": { "command": ["hidden"] },
  "parameters": { "x": { "type": "string", "description": "x", "required": false } } }"#;
    let files = sound().with(Role::Tool, "tools/hidden.json", command);
    let reaches = |files: &Files| files.load().unwrap().reaches().len();
    let calling = files.edited("tool-configs/word_count.json", "\"effect\"", "\"calls\": [\"hidden\"], \"effect\"");
    assert_eq!((reaches(&sound()), reaches(&calling)), (0, 1));
}

#[test]
fn an_acceptor_that_is_not_there_is_told() {
    check(
        accepted(r#"{ "by": "agent:leed", "rounds": 2 }"#),
        r#"
error B0120: the acceptor "leed" is not an agent of the job
   ┌─ demo/tools/route_to_counter.json:2:21
 2 │   "accept": { "by": "agent:leed", "rounds": 2 } }
   │                     ^^^^^^^^^^^^ did you mean "lead"?
1 error
"#,
    );
    let told = accepted(r#"{ "by": "tool:word_cuont" }"#).faults();
    assert!(told.contains("the acceptor \"word_cuont\" is not a tool of the job") && told.contains("word_count"), "{told}");
    let told = by_command("\"type\": \"function_tool\"", "\"type\": \"functional_tool\"").faults();
    assert!(told.contains("cannot be \"functional_tool\"") && told.ends_with("\n1 error"), "a faulty tool is there: {told}");
    let told = accepted(r#"{ "by": "lead" }"#).faults();
    assert!(told.contains("route_to_counter.json:2:"), "{told}");
}

#[test]
fn an_agent_does_not_accept_its_own_results() {
    let told = accepted(r#"{ "by": "agent:counter" }"#).faults();
    let expected = "the acceptor \"agent:counter\" cannot accept its own results";
    assert!(told.contains(expected) && told.contains("route_to_counter.json:2:") && told.ends_with("\n1 error"), "{told}");
}

#[test]
fn the_number_of_rounds_has_bounds() {
    for rounds in ["0", "21", "-1", "1.5", "\"3\""] {
        let told = accepted(&format!("{{ \"by\": \"agent:lead\", \"rounds\": {rounds} }}")).faults();
        assert!(told.contains("\"rounds\"") && told.contains("route_to_counter.json:2:"), "{rounds}: {told}");
    }
}

#[test]
fn a_tool_that_cannot_accept_results_is_told() {
    let told = accepted(r#"{ "by": "tool:word_count" }"#).faults();
    assert!(told.contains("tool \"word_count\" cannot take a result to accept: it has no input \"request\""), "{told}");
    let told = accepted(r#"{ "by": "tool:note" }"#).faults();
    assert!(told.contains("tool \"note\" is of type non_function_tool, which runs no code"), "{told}");
    let told = by_command("\"type\": \"array\", \"items\": { \"type\": \"object\" }", "\"type\": \"string\"").faults();
    assert!(told.contains("tool \"judge\" cannot take a result to accept"), "{told}");
    let grade = "\"grade\": { \"type\": \"integer\", \"description\": \"Grade\" }";
    let told = by_command("\"result\": {", &format!("{grade}, \"result\": {{"))
        .edited("tools/judge.json", "[\"request\", ", "[\"grade\", ")
        .faults();
    assert!(told.contains("tool \"judge\" cannot take a result to accept"), "{told}");
    let told = by_command("\"accepted\": { \"type\": \"boolean\"", "\"accepted\": { \"type\": \"string\"").faults();
    assert!(told.contains("the output of tool \"judge\" has no boolean \"accepted\""), "{told}");
    let told = by_command("\"exec\"", "\"writes\": true, \"exec\"").faults();
    assert!(told.contains("tool \"judge\" writes documents, so it cannot be an acceptor"), "{told}");
}

#[test]
fn only_a_delegation_has_an_acceptor() {
    let told =
        sound().edited("tools/note.json", "\"description\"", "\"accept\": { \"by\": \"agent:lead\" }, \"description\"").faults();
    assert!(told.contains("\"accept\" does not apply to a tool of type non_function_tool"), "{told}");
}
