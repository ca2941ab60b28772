//! `baton new`: creates a tool, an agent, a job or a model script that works as it is.

use std::path::{Path, PathBuf};

use baton_types::id::{MAX_AGENT_ID_LENGTH, MAX_ID_LENGTH};
use baton_types::principal::RESERVED_AGENT_IDS;
use baton_types::tool_type::ToolType;
use clap::{Args, Subcommand, ValueHint};
use serde_json::{Value, json};

use crate::app::complete;
use crate::exit::{Exit, Failure};
use crate::job;
use crate::place::{JOB_FILE, PROJECT_FILE, Place};
use crate::scaffold::{self, Scaffold, check_id};
use crate::shell::{CommandLine, baton};
use crate::skeleton::skeleton;

/// Arguments of `new`.
#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    #[command(subcommand)]
    what: What,
}

/// The things that can be created.
#[derive(Debug, Subcommand)]
enum What {
    /// Create a tool and its config: a Rust function in a Rust crate, else a Python command
    Tool {
        /// Id of the tool, such as `word_count`
        name: String,
        /// Folder or name of the job that gets the Python command
        #[arg(long, value_name = "JOB", value_hint = ValueHint::DirPath, add = complete::jobs())]
        job: Option<PathBuf>,
        /// Create the Python command in the project, for all of its jobs
        #[arg(long, conflicts_with = "job")]
        shared: bool,
    },
    /// Create an agent of a job or a project
    Agent {
        /// Id of the agent, such as writer
        name: String,
        /// Folder or name of the job [default: the job in this folder, or the only job of the project]
        #[arg(long, value_name = "JOB", value_hint = ValueHint::DirPath, add = complete::jobs())]
        job: Option<PathBuf>,
        /// Create the agent in the project, for all of its jobs
        #[arg(long, conflicts_with = "job")]
        shared: bool,
    },
    /// Create a job with one agent and its model script
    Job {
        /// Id of the job, such as sales
        name: String,
    },
    /// Create a model script for the agents of a job, to edit and to run without a model
    Script {
        /// Folder or name of the job [default: the job in this folder, or the only job of the project]
        #[arg(value_name = "JOB", value_hint = ValueHint::DirPath, add = complete::jobs())]
        job: Option<PathBuf>,
        /// File to write, which must not exist yet [default: new.script.json in the job's folder]
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: Option<PathBuf>,
    },
}

/// Creates the tool, the agent or the job.
pub(crate) fn run(args: &NewArgs, place: &Place) -> Result<Exit, Failure> {
    match &args.what {
        What::Tool { name, job, shared } => tool(name, Home::of(job.as_deref(), *shared), place)?,
        What::Agent { name, job, shared } => agent(name, Home::of(job.as_deref(), *shared), place)?,
        What::Job { name } => job_files(name, place)?,
        What::Script { job, out } => script(job.as_deref(), out.as_deref(), place)?,
    }
    Ok(Exit::Done)
}

/// Owner of a new tool or agent.
#[derive(Clone, Copy)]
enum Home<'a> {
    /// To the project, whose jobs share it.
    Project,
    Job(&'a Path),
    /// The person named neither.
    Unnamed,
}

impl<'a> Home<'a> {
    fn of(job: Option<&'a Path>, shared: bool) -> Self {
        match job {
            _ if shared => Self::Project,
            Some(job) => Self::Job(job),
            None => Self::Unnamed,
        }
    }

    /// Returns its folder: the named job, the job in this folder, the project's only job, or the project.
    fn folder(self, place: &Place) -> Result<PathBuf, Failure> {
        match self {
            Self::Project if place.project().join(PROJECT_FILE).is_file() => Ok(place.project().to_owned()),
            Self::Project => Err(Failure::Usage("there is no project here; create one first: baton init".to_owned())),
            Self::Job(job) => place.job_folder(job),
            Self::Unnamed => job_here(place),
        }
    }
}

fn tool(name: &str, home: Home<'_>, place: &Place) -> Result<(), Failure> {
    check_id("a tool", name, MAX_ID_LENGTH)?;
    if name.starts_with(baton_types::id::ROUTE_PREFIX) {
        return Err(Failure::Usage(format!("{name:?} cannot be the id of a tool: route_to_ is reserved for delegations")));
    }
    let looks_like = |taken: &str| taken.replace('-', "_") == name.replace('-', "_");
    let built_in = crate::builtin_tool_configs().iter().filter_map(|(file, _)| file.strip_suffix(".json"));
    if let Some(taken) = built_in.chain([ToolType::Root.as_str()]).find(|taken| looks_like(taken)) {
        return Err(Failure::Usage(format!("{name:?} cannot be the id of a new tool: {taken} is a built-in tool")));
    }
    match (home, tool_crate(place)) {
        (Home::Unnamed, Some(home)) => rust_tool(name, &home, place),
        _ => command_tool(name, home, place),
    }
}

/// Places of a crate's tools.
struct ToolCrate {
    folder: PathBuf,
    /// The folder of tool functions, and the file that lists them.
    functions: PathBuf,
    list: PathBuf,
    configs: PathBuf,
    /// The `use` lines of a tool function.
    imports: &'static str,
}

/// Finds the nearest crate in the folders above that depends on the engine and has a place for tools.
fn tool_crate(place: &Place) -> Option<ToolCrate> {
    for folder in place.current.ancestors() {
        let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        if !manifest.contains("baton") {
            continue;
        }
        let (functions, list) = if folder.join("src/tools/mod.rs").is_file() {
            (folder.join("src/tools"), folder.join("src/tools/mod.rs"))
        } else if folder.join("tools/src/lib.rs").is_file() {
            (folder.join("tools/src"), folder.join("tools/src/lib.rs"))
        } else if let Some(list) = ["src/lib.rs", "src/main.rs"].iter().map(|file| folder.join(file)).find(|file| file.is_file())
        {
            (folder.join("src"), list)
        } else {
            continue;
        };
        let configs = match folder.join("../tool-configs") {
            beside if beside.is_dir() && !folder.join("tool-configs").is_dir() => beside,
            _ => folder.join("tool-configs"),
        };
        // A crate of the engine's workspace imports the engine's crates; any other crate depends on one package.
        let of_engine = manifest.lines().any(|line| line.trim_start().starts_with("baton-tool."));
        let imports =
            if of_engine { "use baton_macros::tool;\nuse baton_tool::ToolError;" } else { "use baton::{ToolError, tool};" };
        return Some(ToolCrate { folder: folder.to_owned(), functions, list, configs, imports });
    }
    None
}

fn rust_tool(name: &str, home: &ToolCrate, place: &Place) -> Result<(), Failure> {
    let module = name.replace('-', "_");
    let attribute = if module == name { "#[tool]".to_owned() } else { format!("#[tool(id = \"{name}\")]") };
    let output = camel(name);
    let function = format!(
        "//! The tool `{name}`.\n\n{}\n\n/// Output of `{name}`.\n#[derive(serde::Serialize)]\nstruct {output} {{\n    words: usize,\n}}\n\n\
         /// Counts the words of `text`. The tool's description for agents is in its config.\n{attribute}\n\
         fn {module}(text: String) -> Result<{output}, ToolError> {{\n    Ok({output} {{ words: text.split_whitespace().count() }})\n}}\n",
        home.imports
    );
    let list = std::fs::read_to_string(&home.list).map_err(|error| Failure::file(&home.list, error))?;
    let mut files = Scaffold::new(&home.folder);
    files.add(home.functions.join(format!("{module}.rs")), function);
    files.add(home.configs.join(format!("{name}.json")), pretty(&config(name, &home.configs, place, None)));
    let mut written = files.write(place)?;
    std::fs::write(&home.list, with_module(&list, &module)).map_err(|error| Failure::file(&home.list, error))?;
    written.push(format!("{} (mod {module})", place.shown(&home.list)));
    let next = [format!("cargo run -- tool call {name} --text \"a b\""), format!("cargo run -- tool test {name}")];
    scaffold::report(place, &written, &next)
}

/// Returns `list` with `mod module;` among its modules: before the first module that sorts after it. Without one, it comes after
/// the last module, or else after the head of the file.
fn with_module(list: &str, module: &str) -> String {
    let line = format!("mod {module};");
    let mut lines: Vec<&str> = list.lines().collect();
    if lines.contains(&line.as_str()) {
        return list.to_owned();
    }
    let is_module =
        |text: &str| text.ends_with(';') && text.trim_start_matches("pub ").trim_start_matches("pub(crate) ").starts_with("mod ");
    let modules: Vec<usize> = (0..lines.len()).filter(|index| is_module(lines[*index])).collect();
    let place = match (modules.iter().find(|index| lines[**index] > line.as_str()), modules.last()) {
        (Some(next), _) => *next,
        (None, Some(last)) => last + 1,
        (None, None) => {
            let head =
                lines.iter().take_while(|text| text.starts_with("//!") || text.starts_with("#![") || text.is_empty()).count();
            lines.insert(head, "");
            head
        }
    };
    lines.insert(place, &line);
    lines.join("\n") + "\n"
}

/// Writes a tool that is a command: a Python script next to its config, in a job or a project.
fn command_tool(name: &str, home: Home<'_>, place: &Place) -> Result<(), Failure> {
    let folder = home.folder(place)?;
    let script = "#!/usr/bin/env python3\n\"\"\"Reads the call's input as JSON on stdin and writes its output as JSON on stdout.\"\"\"\n\
                  import json\nimport sys\n\ninput = json.load(sys.stdin)\njson.dump({\"words\": len(input[\"text\"].split())}, sys.stdout)\n";
    let mut files = Scaffold::new(&folder);
    let tools = folder.join("tools");
    files.add(tools.join(format!("{name}.py")), script);
    files.add(tools.join(format!("{name}.json")), pretty(&config(name, &tools, place, Some(format!("tools/{name}.py")))));
    let written = files.write(place)?;
    let shown = place.shown(&folder);
    let needs_no_job = shown == "." || matches!(home, Home::Project);
    let within = |line: CommandLine| if needs_no_job { line } else { line.option("--job", &shown) };
    let call = within(baton("tool call").value(name)).option("--text", "a b").flag("--trust");
    let next = [call.to_string(), within(baton("tool test").value(name)).to_string()];
    scaffold::report(place, &written, &next)
}

/// Returns the config of a tool that counts words. `command` is the file that runs it, if the tool is a command.
fn config(name: &str, folder: &Path, place: &Place, command: Option<String>) -> Value {
    let mut config = json!({
        "$schema": schema("tool-config", folder, place),
        "tool_id": name,
        "type": "function_tool",
        "description": "Count the words of a text.",
        "parameters": {"text": {"type": "string", "description": "The text to look at", "required": true}},
        "returns": {"words": "integer"},
        "examples": [{"explanation": "Two words", "input": {"text": "a b"}, "output": {"words": 2}}],
        "effect": "pure",
    });
    if let Some(command) = command {
        config["exec"] = json!({"command": ["python3", command]});
    }
    config
}

fn agent(name: &str, home: Home<'_>, place: &Place) -> Result<(), Failure> {
    check_id("an agent", name, MAX_AGENT_ID_LENGTH)?;
    if RESERVED_AGENT_IDS.contains(&name) {
        let message = format!("the agent id \"{name}\" is reserved; choose another, such as {name}_agent");
        return Err(Failure::Usage(message));
    }
    let folder = home.folder(place)?;
    let model = match home {
        // Each job that uses the agent names the model.
        Home::Project => match place.jobs().first() {
            Some(job) => first_model(&place.job_folder(Path::new(job))?)?,
            None => None,
        },
        Home::Job(_) | Home::Unnamed => first_model(&folder)?,
    };
    let model = model.unwrap_or_else(|| "scripted".to_owned());
    let agents = folder.join("agents");
    let mut files = Scaffold::new(&folder);
    files.add(agents.join(format!("{name}.json")), pretty(&agent_config(name, &model, &agents, place)));
    let written = files.write(place)?;
    let validate = match home {
        Home::Project => baton("validate"),
        Home::Job(_) | Home::Unnamed => baton("validate").value(place.shown(&folder)),
    };
    let next = [format!("add \"route_to_{name}\" to the tools of the agent that may call it"), validate.to_string()];
    scaffold::report(place, &written, &next)
}

/// Returns the name of the first model of the job in `folder`.
fn first_model(folder: &Path) -> Result<Option<String>, Failure> {
    let file = folder.join(JOB_FILE);
    let text = std::fs::read_to_string(&file).map_err(|error| Failure::file(&file, error))?;
    let job: Option<Value> = serde_json::from_str(&text).ok();
    Ok(job.and_then(|job| job["models"].as_object()?.keys().next().cloned()))
}

fn agent_config(name: &str, model: &str, folder: &Path, place: &Place) -> Value {
    json!({
        "$schema": schema("agent", folder, place),
        "agent_id": name,
        "description": format!("Does the work of {name}."),
        "model": model,
        "system_prompt": format!("You are {name}. Do what the request asks, then hand off the result."),
        "tools": ["handoff"],
    })
}

fn job_files(name: &str, place: &Place) -> Result<(), Failure> {
    check_id("a job", name, MAX_ID_LENGTH)?;
    let folder = place.home_of_new_jobs().join(name);
    let agents = folder.join("agents");
    let job = json!({
        "$schema": schema("job", &folder, place),
        "job_id": name,
        "description": format!("The job {name}."),
        "root": "lead",
        "request": {
            "text": "Greet {{ inputs.who }}.",
            "inputs": {"who": {"type": "string", "description": "Who is greeted", "default": "the world"}},
        },
        "models": {"scripted": {"provider": "scripted", "script": format!("{name}.script.json")}},
    });
    let script = json!({
        "$schema": schema("script", &folder, place),
        "agents": {"lead": {"turns": [{"calls": [{"tool": "handoff", "input": {"result": {"summary": "Done: {{ request }}"}}}]}]}},
    });
    let mut files = Scaffold::new(&folder);
    files.add(JOB_FILE, pretty(&job));
    files.add("agents/lead.json", pretty(&agent_config("lead", "scripted", &agents, place)));
    files.add(format!("{name}.script.json"), pretty(&script));
    let written = files.write(place)?;
    scaffold::report(
        place,
        &written,
        &[
            baton("run").value(name).to_string(),
            baton("new agent").value("NAME").option("--job", place.shown(&folder)).to_string(),
        ],
    )
}

/// Writes a model script with one call of each agent.
fn script(job: Option<&Path>, out: Option<&Path>, place: &Place) -> Result<(), Failure> {
    let folder = job.map_or_else(|| job_here(place), |job| place.job_folder(job))?;
    let loaded = job::load(place, &folder)?;
    let file = out.map_or_else(|| folder.join("new.script.json"), |out| place.current.join(out));
    let mut script = json!({"$schema": schema("script", file.parent().unwrap_or(&folder), place)});
    if let Value::Object(answers) = skeleton(&loaded.configs) {
        script.as_object_mut().expect("a script is an object").extend(answers);
    }
    let mut files = Scaffold::new(&folder);
    files.add(&file, pretty(&script));
    let written = files.write(place)?;
    let run = baton("run").value(place.shown(&folder)).option("--script", place.shown(&file));
    scaffold::report(place, &written, &[run.to_string()])
}

/// Returns the job of a new file: the job in this folder, or the project's only job.
fn job_here(place: &Place) -> Result<PathBuf, Failure> {
    if place.current.join(JOB_FILE).is_file() {
        return Ok(place.current.clone());
    }
    match place.jobs().as_slice() {
        [only] => place.job_folder(Path::new(only)),
        [] => Err(Failure::Usage("there is no job here; create one first: baton new job NAME".to_owned())),
        several => {
            let jobs = several.join(" | ");
            Err(Failure::Usage(format!("there are several jobs; choose one: --job {jobs}, or --shared for all of them")))
        }
    }
}

/// Returns the `$schema` of a file in `folder`: the project's copy, or the engine's own inside its repository.
fn schema(kind: &str, folder: &Path, place: &Place) -> String {
    let file = format!("{kind}.schema.json");
    let has = |root: &Path, name: &str| root.join(name).join(&file).is_file();
    let root = folder.ancestors().find(|root| root.join("schemas").is_dir() || has(root, "generated-docs"));
    let root = root.unwrap_or_else(|| place.project());
    let name = if has(root, "generated-docs") { "generated-docs" } else { "schemas" };
    let depth = folder.strip_prefix(root).map_or(1, |below| below.components().count());
    format!("{}{name}/{file}", "../".repeat(depth))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Converts an id such as `word_count` into the name of a Rust type.
fn camel(name: &str) -> String {
    let upper = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split(['_', '-']).map(upper).collect::<String>() + "Output"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_listed_in_order() {
        assert_eq!(with_module("//! Tools.\n\nmod b;\n", "a"), "//! Tools.\n\nmod a;\nmod b;\n");
        assert_eq!(with_module("//! Tools.\n\nmod b;\n", "c"), "//! Tools.\n\nmod b;\nmod c;\n");
        assert_eq!(with_module("mod b;\n", "b"), "mod b;\n");
        assert_eq!(with_module("//! Tools.\n\nfn main() {}\n", "a"), "//! Tools.\n\nmod a;\n\nfn main() {}\n");
    }

    #[test]
    fn a_type_is_named_after_the_tool() {
        assert_eq!(camel("word_count"), "WordCountOutput");
        assert_eq!(camel("json-transform"), "JsonTransformOutput");
    }
}
