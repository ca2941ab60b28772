//! The catalog of seed 001's tools keeps its lines and its size.

use std::process::Command;

/// The lines of seed 001.
const SEED: [&str; 15] = [
    "• openrouter: Call LLM via OpenRouter → content, model, usage, cost_estimate",
    "• venice: Privacy-focused LLM → content, model, usage",
    "• ollama_local: Local LLM inference → content, model, usage, cost_estimate",
    "• calculator: Math operations → result, expression, formatted",
    "• random: Generate random numbers → numbers",
    "• echo: Echo input → echo",
    "• timer: Delay/wait → message, waited",
    "• breadcrumb-create: Create breadcrumb → id, success, breadcrumb, error",
    "• breadcrumb-update: Update breadcrumb → success, id, new_version, breadcrumb, error",
    "• breadcrumb-search: Search breadcrumbs → breadcrumbs, count, method",
    "• json-transform: Transform JSON → result, operation",
    "• workflow: Multi-step workflows → results, executionOrder, errors",
    "• scheduler: Schedule tasks → status, schedules_loaded, ticks_published, uptime_ms",
    "• openrouter_models_sync: Sync model catalog → models_count, catalog_id, last_updated, message",
    "• astral: Browser automation → success, url, title, text, clicked, path, size, result, error",
];

#[test]
fn the_catalog_of_the_seed_s_tools_has_its_lines_and_meets_the_targets() {
    let ran = Command::new(env!("CARGO_BIN_EXE_catalog")).output().unwrap();
    let (output, failed) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{output}{failed}");
    let (catalog, _) = output.split_once("\n\n| ").unwrap();
    assert!(catalog.starts_with("=== TOOLS (15 available) ===\n\n• "), "{catalog}");
    for expected in SEED {
        let lines = catalog.lines().filter(|line| line.starts_with(expected)).count();
        assert_eq!(lines, 1, "{expected}\nin {catalog}");
    }
    let note = "\n\nINVOCATION: See \"Tool Invocation Format\" in your system prompt above.\n\
        ALL details for input schemas, examples, and error handling are defined in the standard.";
    assert!(catalog.ends_with(note), "{catalog}");
    assert_eq!(catalog.lines().count(), 2 + SEED.len() + 3, "nothing more: {catalog}");
}
