//! Configurations of tools: other settings or another key for the calls that name them.

use baton_config::{Role, Sources, Unconfigured, load};
use baton_tool::ToolFunction;
use baton_types::config::{Configs, Configuration, Origin};
use serde_json::{Value, json};

use crate::support::{Files, WORD_COUNT, rules, sound};

/// The function of the tool if its input names configurations.
static NAMING: ToolFunction = ToolFunction { parameters: naming_parameters, ..WORD_COUNT };

fn naming_parameters() -> Value {
    let mut parameters = (WORD_COUNT.parameters)();
    parameters["properties"]["config_id"] = json!({"type": ["string", "null"]});
    parameters
}

const BUILT_IN: &str = "tool-configs/word_count.json";
const FAST: &str = "configs/fast.json";

/// Returns the valid job with a tool that has settings and one secret. Its counter calls tools in its text, and is granted the
/// configuration `fast` with these keys.
fn configured(keys: &str) -> Files {
    let settings = r#""settings": {
    "most": { "type": "integer", "description": "At most", "default": 3, "minimum": 1 },
    "language": { "type": "string", "description": "Which", "default": "en", "enum": ["en", "de"] },
    "hosts": { "type": "array", "items": { "type": "string" }, "description": "Where", "needs_trust": true }
  },
  "secrets": ["WORD_KEY"],
  "effect": "pure""#;
    granting("\"fast\"").edited(BUILT_IN, "\"effect\": \"pure\"", settings).with(
        Role::Configuration,
        FAST,
        format!("{{ \"tool\": \"word_count\"{keys} }}"),
    )
}

/// Returns the valid job whose counter is granted these configurations.
fn granting(ids: &str) -> Files {
    let granted = format!("\"agent_id\": \"counter\", \"invocation\": \"universal\", \"configs\": [{ids}]");
    sound().edited("agents/counter.json", "\"agent_id\": \"counter\"", &granted)
}

/// Returns the facts that a person would have to trust, a line each.
fn to_trust(configs: &Configs) -> Vec<String> {
    configs.reaches().iter().filter(|reach| reach.origin.needs_trust()).map(ToString::to_string).collect()
}

#[test]
fn a_configuration_is_a_tool_with_other_settings() {
    let configs = configured(r#", "set": { "most": 9, "hosts": ["a.example"] }, "key": "TEAM_KEY""#).load().expect("it is sound");
    let counter = &configs.agents["counter"];
    let fast = &counter.configurations["fast"];
    assert_eq!(fast.settings.value(), json!({"most": 9, "language": "en", "hosts": ["a.example"]}));
    assert_eq!(counter.tools["word_count"].settings.value(), json!({"most": 3, "language": "en"}), "the tool stays as it is");
    let expected = Configuration { id: "fast".to_owned(), model_key: None, secret: Some("TEAM_KEY".to_owned()) };
    assert_eq!(fast.configuration, Some(expected));
    assert_eq!(
        to_trust(&configs),
        [
            r#"word_count with configuration fast sets "hosts" to ["a.example"]"#,
            r#"word_count with configuration fast reads the secret "TEAM_KEY""#,
        ]
    );
}

#[test]
fn a_configuration_without_a_grant_reaches_nothing() {
    let files = configured(r#", "key": "TEAM_KEY""#).edited("agents/counter.json", "[\"fast\"]", "[]");
    let configs = files.load().expect("it is sound");
    assert_eq!((configs.agents["counter"].configurations.len(), to_trust(&configs).len()), (0, 0));
}

#[test]
fn the_key_of_a_tool_that_asks_models_is_that_of_its_requests() {
    let settings = r#""settings": { "model": { "type": "string", "description": "Which" } }, "effect": "pure""#;
    let files = granting("\"fast\"").edited(BUILT_IN, "\"effect\": \"pure\"", settings);
    let fast = r#"{ "tool": "word_count", "set": { "model": "m" }, "key": "TEAM_KEY" }"#;
    let configs = files.with(Role::Configuration, FAST, fast).load().expect("it is sound");
    let fast = configs.agents["counter"].configurations["fast"].configuration.clone().unwrap();
    assert_eq!((fast.model_key.as_deref(), fast.secret), (Some("TEAM_KEY"), None));
}

#[test]
fn all_faults_of_a_configuration_are_reported_at_their_places() {
    let told = configured(r#", "set": { "mots": 4, "most": 0, "language": "fr" }, "key": "no key""#).faults();
    for expected in ["demo/configs/fast.json:1:", "the name of a variable of the environment", "error"] {
        assert!(told.contains(expected), "{expected} is not in:\n{told}");
    }
    assert!(!told.contains("no key"), "a key in place of a name is not shown:\n{told}");
    for keys in [
        r#", "api_key": "hush""#,
        r#", "set": { "most": "sk-hush" }"#,
        r#", "set": { "language": "sk-hush" }"#,
        r#", "set": { "secret": "hush" }"#,
        r#", "set": { "hosts": "Ab3dE5fG7hushJ9kL1mN2pQ4rS6t" }"#,
        ",\n\"set\": { \"most\": 0 }, \"key\":\n\"hush\"",
    ] {
        let told = configured(keys).faults();
        assert!(told.contains("error B01") && !told.contains("hush"), "{keys}\n{told}");
    }
    let told = configured(r#", "set": { "most": "sk-hush" }"#).faults();
    assert!(told.contains("error B0107: the value is not an integer"), "{told}");
    let told = configured(r#", "set": { "mots": 4, "most": 0, "language": "fr" }"#).faults();
    for expected in [
        "error B0103: tool \"word_count\" has no setting \"mots\"",
        "did you mean \"most\"?",
        "0 is less than the minimum of 1",
        "\"fr\" is not one of \"en\" or \"de\"",
        "demo/configs/fast.json:1:",
        "3 errors",
    ] {
        assert!(told.contains(expected), "{expected} is not in:\n{told}");
    }
    let of = |text: &str| granting("").with(Role::Configuration, FAST, text).faults();
    for (text, expected) in [
        (r#"{ "tool": "word_cuont", "set": {} }"#, "did you mean \"word_count\"?"),
        (r#"{ "tool": "note", "set": { "x": 1 } }"#, "tool \"note\" has no settings and no key"),
        (r#"{ "tool": "word_count", "key": "A" }"#, "tool \"word_count\" has no settings and no key"),
        (r#"{ "set": { "x": 1 } }"#, "\"tool\" is missing"),
        (r#"{ "tool": "word_count", "sets": {} }"#, "unknown key \"sets\""),
        ("[]", "demo/configs/fast.json:1:1"),
        ("{", "demo/configs/fast.json:1:"),
    ] {
        let told = of(text);
        assert!(told.contains(expected), "{text}: {expected} is not in:\n{told}");
    }
    let told = configured("").faults();
    assert!(told.contains("the configuration \"fast\" changes nothing"), "{told}");
    let told = configured(r#", "set": { "most": 4 }"#).with(Role::Configuration, "configs/Not One.json", "{}").faults();
    assert!(told.contains("the file name \"Not One\" cannot be the id of a configuration"), "{told}");
}

#[test]
fn a_key_needs_a_tool_that_takes_one() {
    for secrets in ["[]", "[\"A\", \"B\"]"] {
        let told =
            configured(r#", "set": { "most": 4 }, "key": "TEAM_KEY""#).edited(BUILT_IN, "[\"WORD_KEY\"]", secrets).faults();
        assert!(told.contains("tool \"word_count\" takes no \"key\"") && told.contains("1 error"), "{told}");
    }
}

#[test]
fn faults_of_a_grant_are_in_the_agents_file() {
    let faults = |ids: &str| {
        configured(r#", "set": { "most": 4 }"#).edited("agents/counter.json", "[\"fast\"]", &format!("[{ids}]")).faults()
    };
    let told = faults(r#""fsat""#);
    for expected in ["error B0135", "unknown configuration \"fsat\"", "did you mean \"fast\"?", "demo/agents/counter.json:"] {
        assert!(told.contains(expected), "{expected} is not in:\n{told}");
    }
    let told = faults(r#""fast", "fast""#);
    assert!(told.contains("configuration \"fast\" is granted twice"), "{told}");
    let files = configured(r#", "set": { "most": 4 }"#);
    let told = files.edited("agents/counter.json", "\"invocation\": \"universal\"", "\"invocation\": \"native\"").faults();
    assert!(
        told.contains("tool \"word_count\" has no input \"config_id\", so a native agent cannot use configuration \"fast\""),
        "{told}"
    );
}

#[test]
fn a_native_agent_reads_the_ids_in_the_input_that_names_them() {
    let config = r#""config_id": { "type": "string", "description": "A configuration", "required": false },
    "limit":"#;
    let files = configured(r#", "set": { "most": 4 }"#)
        .edited("agents/counter.json", "\"invocation\": \"universal\"", "\"invocation\": \"native\"")
        .edited(BUILT_IN, "\"limit\":", config);
    let configs = files.functions(&[&NAMING]).load().expect("it is sound");
    let input = configs.agents["counter"].tools["word_count"].definition.input_schema.value();
    assert_eq!(input["properties"]["config_id"]["description"], "A configuration. Granted: fast");
}

#[test]
fn a_job_refines_a_configuration_of_its_project_by_keys() {
    let files = configured(r#", "set": { "most": 7 }"#);
    let mut sources = files.sources();
    sources.share("home", 2);
    sources.add(Role::SharedConfiguration, FAST, r#"{ "tool": "word_count", "set": { "language": "de" }, "key": "TEAM_KEY" }"#);
    let configs = files.load_from(&sources).expect("it is sound");
    let fast = &configs.agents["counter"].configurations["fast"];
    assert_eq!(fast.settings.value(), json!({"most": 7, "language": "en"}), "\"set\" as a whole is the job's");
    assert_eq!(fast.configuration.as_ref().and_then(|fast| fast.secret.as_deref()), Some("TEAM_KEY"));
    assert!(fast.reaches.iter().any(|reach| reach.origin == Origin::Job), "what a project says counts as the job's");
    let pinned: Sources = serde_json::from_str(&serde_json::to_string(&sources).unwrap()).unwrap();
    assert!(files.load_from(&pinned).unwrap().agents["counter"].configurations.contains_key("fast"));
    sources.add(Role::SharedConfiguration, "configs/other.json", r#"{ "tool": "nothing" }"#);
    let told = files.load_from(&sources).unwrap_err().to_string();
    assert!(told.contains("home/configs/other.json:1:"), "{told}");
}

#[test]
fn a_value_of_a_configuration_is_set_by_its_place() {
    let files = configured(r#", "set": { "most": 7 }"#);
    let (before, mut sources) = (files.sources(), files.sources());
    sources.set("configs.fast.set.most", json!(8)).unwrap();
    assert_eq!(sources.changes_from(&before), ["configs/fast.json: set"]);
    assert_eq!(files.load_from(&sources).unwrap().agents["counter"].configurations["fast"].settings.value()["most"], 8);
    assert!(sources.set("configs.slow.set.most", json!(8)).unwrap_err().to_string().contains("known: fast"));
}

#[test]
fn a_run_that_continues_loads_the_granted_configurations_only() {
    let continued = |ids: &str| {
        let files = configured(r#", "set": { "most": 4 }"#).with(Role::Configuration, "configs/broken.json", "{");
        let files = files.edited("agents/counter.json", "[\"fast\"]", &format!("[{ids}]"));
        load(&files.sources(), &[&WORD_COUNT], Unconfigured::Allowed, &rules())
            .map(|configs| configs.agents["counter"].configurations.keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(continued("\"fast\"").expect("the broken one is not read"), ["fast"]);
    assert_eq!(continued("").expect("nothing is read"), Vec::<String>::new());
    let told = continued("\"broken\"").expect_err("it is broken").to_string();
    assert!(told.contains("demo/configs/broken.json:1:") && told.ends_with("\n1 error"), "{told}");
}
