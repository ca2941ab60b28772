//! Every shipped tool config loads, and what its examples say is true.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use baton_config::{Role, Sources, Unconfigured, load_tools};
use baton_tool::testing::block_on;
use baton_tool::{registered_functions, run_example};
use baton_tools as _;
use baton_types::config::{Executor, Tool};
use baton_types::id::ToolId;

fn shipped() -> BTreeMap<ToolId, Arc<Tool>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tool-configs");
    let mut sources = Sources::new("");
    for entry in std::fs::read_dir(&folder).expect("the folder of the shipped configs") {
        let path = entry.expect("an entry of the folder").path();
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        sources.add(Role::BuiltinTool, format!("tool-configs/{name}"), std::fs::read(&path).expect("a readable config"));
    }
    load_tools(&sources, &registered_functions(), Unconfigured::Refused).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn every_example_of_a_shipped_tool_holds() {
    let tools = shipped();
    let mut failures = Vec::new();
    for tool in tools.values() {
        for example in &tool.examples {
            if let Err(failure) = block_on(run_example(&registered_functions(), tool, example)) {
                failures.push(format!("{}: {:?}: {failure}", tool.id, example.explanation));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_shipped_tool_has_an_example_and_every_function_a_config() {
    let tools = shipped();
    for tool in tools.values() {
        assert!(!tool.examples.is_empty(), "{} has no example", tool.id);
        assert!(tool.category.is_some() && !tool.tags.is_empty(), "{} has no category or no tags", tool.id);
    }
    let served = tools.values().filter(|tool| matches!(tool.executor, Some(Executor::Function(_)))).count();
    assert_eq!(served, registered_functions().len());
}
