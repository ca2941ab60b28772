//! A thousand tool configs load in the time of a blink, and time grows with their number and not its square.

use std::time::Instant;

use baton_core::config::Role;

use crate::support::sound;

fn seconds(tools: usize) -> f64 {
    let mut files = sound();
    for index in 0..tools {
        let config = format!(
            r#"{{"tool_id": "note{index}", "type": "non_function_tool", "description": "Note {index}",
                "parameters": {{"text": {{"type": "string", "description": "Text", "required": true}},
                                "rows": {{"type": "array", "items": {{"type": "number"}}, "description": "Rows", "required": false}}}},
                "returns": {{"path": "string", "size": "integer"}},
                "examples": [{{"explanation": "One", "input": {{"text": "a"}}, "output": {{"path": "a"}}}}]}}"#
        );
        files = files.with(Role::Tool, &format!("tools/note{index}.json"), config);
    }
    let sources = files.sources();
    let start = Instant::now();
    files.load_from(&sources).unwrap();
    start.elapsed().as_secs_f64()
}

#[test]
fn time_grows_with_the_number_of_tools_and_not_its_square() {
    seconds(10);
    let (few, many) = (seconds(250), seconds(2_000));
    println!("250 tools: {:.1} ms, 2,000 tools: {:.1} ms", few * 1e3, many * 1e3);
    assert!(many < few * 8.0 * 4.0, "250 tools took {few} s and 2,000 took {many} s");
}
