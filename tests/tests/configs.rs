//! The configs that are shipped: sound as they are, and refused after any slip in any one place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_config::{Faults, ModelRules, Role, Sources, Unconfigured, load};
use baton_models::{OWN_SETTINGS, check_script};
use baton_runtime::folder::read_job;
use baton_tool::{ToolFunction, registered_functions};
use baton_tools as _;
use baton_types::config::Origin;
use serde_json::{Map, Value};

/// Accepted changes that are neither the removal of an optional key nor free text: what is changed, where (a pointer with
/// `*` for any key or index), and why nothing can tell that it is a slip.
const REVIEWED: &[(&str, &str, &str)] = &[
    ("delete", "/examples/*/input/**", "an example is data: the schema judges it here, and the tools' tests run it"),
    ("rename", "/examples/*/input/**", "an example is data: the schema judges it here, and the tools' tests run it"),
    ("retype", "/examples/*/input/**", "an example is data: the schema judges it here, and the tools' tests run it"),
    ("null", "/examples/*/input/**", "an example is data: the schema judges it here, and the tools' tests run it"),
    ("unknown", "/examples/*/input/**", "an example is data: the schema judges it here, and the tools' tests run it"),
    ("delete", "/examples/*/output/**", "an example's output may be a part, and the tools' tests compare it with the true one"),
    ("rename", "/examples/*/output/**", "the tools' tests compare it with the true output"),
    ("retype", "/examples/*/output/**", "the tools' tests compare it with the true output"),
    ("null", "/examples/*/output/**", "the tools' tests compare it with the true output"),
    ("unknown", "/examples/*/output/**", "the tools' tests compare it with the true output"),
    ("rename", "/examples/*/documents/*", "any path may stand in an example's workspace"),
    ("delete", "/input_schema/**", "every keyword of JSON Schema may be absent"),
    ("delete", "/output_schema/**", "every keyword of JSON Schema may be absent"),
    ("rename", "/output_schema/properties/*", "a key that may be absent is known by examples alone"),
    ("delete", "/result_schema/**", "every keyword of JSON Schema may be absent"),
    ("delete", "/settings/*/schema/**", "every keyword of JSON Schema may be absent"),
    (
        "rename",
        "/settings/*/schema/additionalProperties/properties/*",
        "a function reads its configurations by name: the tools' tests set them",
    ),
    ("rename", "/returns/*", "an output's keys are known by examples alone: Rust's return type is not part of a registration"),
    ("rename", "/returns/*/properties/*", "likewise, within an output"),
    ("rename", "/returns/*/items/properties/*", "likewise, within an output"),
    ("retype", "/returns/*", "likewise, where no example has the key"),
    ("retype", "/returns/*/properties/*", "likewise: the word \"object\" is a type"),
    ("retype", "/returns/*/items/properties/*", "likewise: the word \"object\" is a type"),
    ("retype", "/returns/*/items", "likewise, within an output"),
    (
        "rename",
        "/settings/*",
        "a function asks for its settings by name: the tools' tests set them, and a job that sets another name is refused",
    ),
    ("rename", "/input_schema/properties/*", "an optional input of a tool that runs no code is known by its config alone"),
    ("retype", "/request", "a text is the other shape of a request"),
    ("retype", "/system_prompt", "a text is the other shape of a prompt"),
];

/// Every shipped config with the job it belongs to.
struct Shipped {
    /// The job whose loading judges it.
    job: PathBuf,
    role: Role,
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the repository").to_owned()
}

fn builtin() -> Vec<(String, String)> {
    let mut configs: Vec<_> = std::fs::read_dir(root().join("tool-configs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| (format!("tool-configs/{}", path.file_name().unwrap().display()), std::fs::read_to_string(&path).unwrap()))
        .collect();
    configs.sort();
    configs
}

fn jobs() -> Vec<PathBuf> {
    let mut jobs: Vec<_> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("job.json").is_file())
        .collect();
    jobs.sort();
    assert!(!jobs.is_empty(), "there are examples");
    jobs
}

fn sources(job: &Path) -> Sources {
    let builtin = builtin();
    let builtin: Vec<_> = builtin.iter().map(|(path, text)| (Origin::BuiltIn, path.as_str(), text.as_str())).collect();
    read_job(job, &builtin, None).unwrap().0
}

fn load_all(sources: &Sources) -> Result<(), Faults> {
    let rules = ModelRules {
        check_script: &check_script,
        providers: &baton_models::provider_names(),
        media: baton_models::media_of,
        embeds: baton_models::embeds,
        own_settings: &OWN_SETTINGS,
        boolean_settings: &[],
        refused_settings: &[],
    };
    load(sources, &functions(), Unconfigured::Refused, &rules).map(|_| ())
}

/// Loads with the functions of these configs, and without reading the scripts, which no mutation touches.
fn load_but_scripts(sources: &Sources) -> Result<(), Faults> {
    let rules = ModelRules {
        check_script: &|_| Vec::new(),
        providers: &[],
        media: baton_models::media_of,
        embeds: baton_models::embeds,
        own_settings: &OWN_SETTINGS,
        boolean_settings: &[],
        refused_settings: &[],
    };
    let has_config =
        |function: &&ToolFunction| sources.files().any(|file| file.path.ends_with(&format!("/{}.json", function.id)));
    let functions: Vec<_> = functions().into_iter().filter(has_config).collect();
    load(sources, &functions, Unconfigured::Refused, &rules).map(|_| ())
}

/// Returns the built-in tools' functions; the tests have tools of their own, whose configs belong to no shipped job.
fn functions() -> Vec<&'static ToolFunction> {
    let functions: Vec<_> = registered_functions().into_iter().filter(|function| function.file.starts_with("tools/")).collect();
    assert!(!functions.is_empty(), "the built-in tools are linked");
    functions
}

/// Returns the job's pinned sources with one file replaced.
fn with(pinned: &Value, changed: &Shipped, text: &str) -> Sources {
    let mut pinned = pinned.clone();
    let file = pinned["files"].as_array_mut().unwrap().iter_mut().find(|file| file["path"] == changed.path.as_str()).unwrap();
    file["text"] = Value::from(text);
    serde_json::from_value(pinned).unwrap()
}

/// Returns the job's pinned sources without the built-in tools that neither the job nor `file` names, if they can be loaded without
/// them: to load all tools for each mutation would take minutes.
fn pruned(pinned: &Value, file: &Shipped) -> Value {
    let is_kept =
        |other: &Value| !other["path"].as_str().unwrap().starts_with("tool-configs/") || other["path"] == file.path.as_str();
    let files = pinned["files"].as_array().unwrap();
    let naming: String = files.iter().filter(|other| is_kept(other)).map(|other| other["text"].as_str().unwrap()).collect();
    let mut pruned = pinned.clone();
    pruned["files"].as_array_mut().unwrap().retain(|other| {
        let id = Path::new(other["path"].as_str().unwrap()).file_stem().unwrap().to_str().unwrap();
        is_kept(other) || naming.contains(&format!("\"{id}\""))
    });
    if load_but_scripts(&with(&pruned, file, &file.text)).is_ok() { pruned } else { pinned.clone() }
}

fn shipped() -> Vec<Shipped> {
    let mut shipped = Vec::new();
    for (index, job) in jobs().into_iter().enumerate() {
        for source in sources(&job).files() {
            // Built-in tools are the same for every job; prompts are free text, scripts the models' business.
            let is_config = matches!(source.role, Role::Job | Role::Agent | Role::Tool);
            if is_config || (source.role == Role::BuiltinTool && index == 0) {
                shipped.push(Shipped {
                    job: job.clone(),
                    role: source.role,
                    path: source.path.clone(),
                    text: source.text.clone(),
                });
            }
        }
    }
    shipped
}

#[test]
fn every_shipped_job_is_sound() {
    for job in jobs() {
        if let Err(faults) = load_all(&sources(&job)) {
            panic!("{}:\n{faults}", job.display());
        }
    }
}

/// One changed place of a file.
struct Mutation {
    kind: &'static str,
    /// The pointer of what was changed, or of the object that got a key.
    pointer: String,
    text: String,
}

/// Returns every single-field mutation: delete, rename, retype, null, duplicate and unknown key, for every key of every object.
fn mutations(text: &str) -> Vec<Mutation> {
    let value: Value = serde_json::from_str(text).unwrap();
    let mut found = Vec::new();
    visit(&value, &value, &mut Vec::new(), &mut found);
    found
}

fn visit(root: &Value, here: &Value, path: &mut Vec<String>, found: &mut Vec<Mutation>) {
    let place = path.clone();
    let mutated = |change: &dyn Fn(&mut Map<String, Value>)| {
        let mut changed = root.clone();
        let object = place.iter().fold(&mut changed, |value, token| match value {
            Value::Array(elements) => &mut elements[token.parse::<usize>().unwrap()],
            other => &mut other[token.as_str()],
        });
        change(object.as_object_mut().unwrap());
        changed.to_string()
    };
    match here {
        Value::Object(object) => {
            found.push(Mutation {
                kind: "unknown",
                pointer: pointer(path),
                text: mutated(&|object| {
                    object.insert("zzz_unknown".to_owned(), Value::from(1));
                }),
            });
            for (key, value) in object {
                let changes: [(&'static str, Value); 2] = [("null", Value::Null), ("retype", other_type(value))];
                let place = [path.as_slice(), std::slice::from_ref(key)].concat();
                for (kind, replacement) in changes.into_iter().filter(|(_, replacement)| replacement != value) {
                    let text = mutated(&|object| {
                        object.insert(key.clone(), replacement.clone());
                    });
                    found.push(Mutation { kind, pointer: pointer(&place), text });
                }
                let deleted = mutated(&|object| {
                    object.shift_remove(key);
                });
                found.push(Mutation { kind: "delete", pointer: pointer(&place), text: deleted });
                let renamed = mutated(&|object| {
                    *object = object
                        .iter()
                        .map(|(name, value)| (if name == key { format!("{key}x") } else { name.clone() }, value.clone()))
                        .collect();
                });
                found.push(Mutation { kind: "rename", pointer: pointer(&place), text: renamed });
                // JSON trees hold no key twice, so the second one gets its name in the text.
                let marked = mutated(&|object| {
                    object.insert("zzz_twice".to_owned(), value.clone());
                });
                let twice = marked.replacen("\"zzz_twice\"", &Value::from(key.as_str()).to_string(), 1);
                found.push(Mutation { kind: "duplicate", pointer: pointer(&place), text: twice });
                path.push(key.clone());
                visit(root, value, path, found);
                path.pop();
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                path.push(index.to_string());
                visit(root, element, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn pointer(path: &[String]) -> String {
    path.iter().flat_map(|token| ["/".to_owned(), token.replace('~', "~0").replace('/', "~1")]).collect()
}

fn other_type(value: &Value) -> Value {
    match value {
        Value::String(_) => Value::from(7),
        Value::Number(_) => Value::from("seven"),
        Value::Bool(_) => Value::from("yes"),
        Value::Array(_) => Value::from("list"),
        Value::Object(_) | Value::Null => Value::from("object"),
    }
}

/// Whether `pointer` matches `pattern`, in which `*` matches one token and a final `**` the rest.
fn matches_pattern(pattern: &str, pointer: &str) -> bool {
    let (pattern, pointer): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), pointer.split('/').collect());
    if let [head @ .., "**"] = pattern.as_slice() {
        return pointer.len() >= head.len() && head.iter().zip(&pointer).all(|(token, part)| *token == "*" || token == part);
    }
    pattern.len() == pointer.len() && pattern.iter().zip(&pointer).all(|(token, part)| *token == "*" || token == part)
}

/// Returns the keys that a file may leave out, by its published JSON Schema.
fn is_optional(role: Role, value: &Value, pointer: &str) -> bool {
    let name = match role {
        Role::Job => "job.schema.json",
        Role::Agent => "agent.schema.json",
        _ => "tool-config.schema.json",
    };
    let schema = &baton_config::schemas().into_iter().find(|(known, _)| *known == name).unwrap().1;
    let tokens: Vec<&str> = pointer.split('/').skip(1).collect();
    let (key, above) = tokens.split_last().unwrap();
    let mut candidates = vec![schema];
    let mut here = value;
    for token in above {
        candidates = candidates
            .iter()
            .flat_map(|candidate| resolved(schema, candidate))
            .flat_map(|candidate| inside(candidate, token))
            .collect();
        here = here.get(token).or_else(|| token.parse::<usize>().ok().and_then(|index| here.get(index))).unwrap_or(&Value::Null);
    }
    candidates.iter().flat_map(|candidate| resolved(schema, candidate)).any(|candidate| {
        let declared = candidate["properties"].get(*key).is_some();
        // Free maps hold entries of which each may be absent.
        let free = candidate.get("additionalProperties").is_some_and(|others| *others != false);
        let required = candidate["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key));
        (declared || free) && !required
    }) && here.is_object()
}

fn resolved<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    if let Some(target) = schema["$ref"].as_str() {
        return resolved(root, root.pointer(target.trim_start_matches('#')).unwrap());
    }
    match schema["anyOf"].as_array() {
        Some(members) => members.iter().flat_map(|member| resolved(root, member)).collect(),
        None => vec![schema],
    }
}

fn inside<'s>(schema: &'s Value, token: &str) -> Vec<&'s Value> {
    if token.parse::<usize>().is_ok() && schema.get("items").is_some() {
        return vec![&schema["items"]];
    }
    match schema["properties"].get(token) {
        Some(property) => vec![property],
        None => schema.get("additionalProperties").filter(|others| others.is_object()).into_iter().collect(),
    }
}

#[test]
fn every_single_field_mutation_of_every_shipped_config_is_refused() {
    let mut survivors: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut used = vec![false; REVIEWED.len()];
    let (mut count, mut optional, mut reviewed) = (0, 0, 0);
    let mut pinned: BTreeMap<PathBuf, Value> = BTreeMap::new();
    for file in shipped() {
        let sources = pinned.entry(file.job.clone()).or_insert_with(|| serde_json::to_value(sources(&file.job)).unwrap());
        let sources = pruned(sources, &file);
        let value: Value = serde_json::from_str(&file.text).unwrap();
        for mutation in mutations(&file.text) {
            count += 1;
            match load_but_scripts(&with(&sources, &file, &mutation.text)) {
                Err(faults) => {
                    let shown = faults.to_string();
                    assert!(faults.iter().any(|fault| fault.line > 0), "{}: {shown}", file.path);
                }
                Ok(()) if mutation.kind == "delete" && is_optional(file.role, &value, &mutation.pointer) => optional += 1,
                Ok(()) => match REVIEWED
                    .iter()
                    .position(|(kind, pattern, _)| *kind == mutation.kind && matches_pattern(pattern, &mutation.pointer))
                {
                    Some(reason) => {
                        used[reason] = true;
                        reviewed += 1;
                    }
                    None => survivors.entry((mutation.kind.to_owned(), mutation.pointer)).or_default().push(file.path.clone()),
                },
            }
        }
    }
    println!("{count} mutations: {optional} left out an optional key, {reviewed} are reviewed, the others were refused");
    let listed: Vec<_> =
        survivors.iter().map(|((kind, pointer), files)| format!("{kind} {pointer}   {}", files.join(" "))).collect();
    assert!(listed.is_empty(), "accepted although no reviewed reason covers them:\n{}", listed.join("\n"));
    let idle: Vec<_> = REVIEWED.iter().zip(&used).filter(|(_, used)| !**used).map(|(reason, _)| reason).collect();
    assert!(idle.is_empty(), "reviewed reasons that nothing needs: {idle:#?}");
}

#[test]
fn two_faults_in_each_of_three_files_are_six_messages_in_one_go() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "job.json",
        r#"{ "job_id": "six", "descripton": "d", "description": "d", "root": 7, "request": "r",
             "models": { "m": { "provider": "scripted", "script": "m.script.json" } } }"#,
    );
    write("m.script.json", r#"{ "agents": {} }"#);
    write(
        "agents/one.json",
        r#"{ "agent_id": "one", "description": "d", "model": "m", "system_prompt": "{{ nobody }}", "tools": ["echoo", "handoff"] }"#,
    );
    write("tools/echo.json", r#"{ "tool_id": "echo", "timeout_seconds": 0, "tags": "all" }"#);
    let builtin = builtin();
    let builtin: Vec<_> = builtin.iter().map(|(path, text)| (Origin::BuiltIn, path.as_str(), text.as_str())).collect();
    let (sources, _) = read_job(folder.path(), &builtin, None).unwrap();
    let faults = load_all(&sources).unwrap_err();
    let shown = faults.to_string();
    assert_eq!(faults.len(), 6, "{shown}");
    assert!(shown.ends_with("\n6 errors"), "{shown}");
    for file in ["job.json", "agents/one.json", "tools/echo.json"] {
        assert_eq!(faults.iter().filter(|fault| fault.file.ends_with(file)).count(), 2, "{file}:\n{shown}");
    }
}
