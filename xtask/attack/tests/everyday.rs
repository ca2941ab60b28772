//! A sample of every area against the built program, and the frame itself.

use baton_attack::{AREAS, Scene, Size, addresses, fences, paths};

#[test]
fn a_scene_starts_the_program_with_a_home_of_its_own() {
    let scene = Scene::new().unwrap();
    let script = serde_json::json!({"lead": {"turns": [{"text": "hello from the scene"}]}});
    scene.write_job("greeting", &[("lead", &[])], script, serde_json::json!({})).unwrap();
    let ran = scene.run(&["run", "greeting"]).unwrap();
    assert_eq!((ran.code, ran.crash()), (Some(0), None), "{}", ran.text());
    assert!(ran.text().contains("hello from the scene"), "{}", ran.text());
    assert!(scene.files().unwrap().iter().any(|(path, _)| path.ends_with("greeting/job.json")));
}

#[test]
fn a_terminal_shows_what_the_program_draws() {
    let scene = Scene::new().unwrap();
    let ran = scene.run_on_terminal(&["--help"], "").unwrap();
    assert_eq!((ran.code, ran.crash()), (Some(0), None), "{}", ran.text());
    assert!(ran.text().contains("Usage"), "{}", ran.text());
}

#[test]
fn a_command_out_of_memory_counts_as_a_crash() {
    let scene = Scene::new().unwrap();
    let starved = baton_attack::program::run(scene.limited_command(4_000, &["--help"]).unwrap()).unwrap();
    assert!(starved.code != Some(0), "{}", starved.text());
    let mut killed = std::process::Command::new("sh");
    killed.args(["-c", "kill -ABRT $$"]);
    assert!(baton_attack::program::run(killed).unwrap().crash().unwrap().contains("signal 6"));
}

/// Runs the everyday size of an area: enough was tried, and nothing escaped.
fn tries(area: &str, least: usize) {
    let area = AREAS.iter().find(|known| known.name == area).expect("an area of this name");
    let tally = (area.attack)(Size::Everyday).unwrap();
    assert_eq!(tally.escaped, Vec::<String>::new());
    assert!(tally.tried >= least, "{} only tried {}", area.name, tally.tried);
}

#[test]
fn documents_cannot_forge_a_document_on_the_wire() {
    assert!(fences::count().unwrap() >= 200);
    tries("fences", 100);
}

#[test]
fn no_spelling_of_a_private_address_is_asked() {
    assert!(addresses::count().unwrap() >= 100);
    tries("addresses", 40);
}

#[test]
fn no_template_exhausts_memory_or_the_stack() {
    tries("templates", 50);
}

#[test]
fn exports_change_nothing_that_is_there() {
    tries("export", 30);
}

#[test]
fn no_path_of_a_document_misleads() {
    assert!(paths::count().unwrap() >= 127);
    tries("paths", 20);
}

#[test]
fn nothing_that_was_sent_reaches_out_before_it_is_trusted() {
    tries("trust", 20);
}

#[test]
fn no_text_reaches_a_terminal_as_a_command_to_it() {
    tries("terminal", 40);
}
