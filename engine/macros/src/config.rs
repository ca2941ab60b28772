//! The tool's JSON, as far as a signature can disagree with it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Possible places of a config, relative to the crate's folder, in order of precedence.
const PLACES: [&str; 3] = ["tool-configs", "../tool-configs", "tools"];

/// A config that was found.
pub(crate) struct Config {
    /// Its path from the crate's folder, with a leading slash: what `include_str!` is given.
    pub(crate) from_crate: String,
    /// Its name in messages.
    pub(crate) shown: String,
    /// Its parameters in order, unless the config describes them in a way that only start-up can read.
    pub(crate) parameters: Option<Vec<Declared>>,
}

/// A parameter as the config declares it.
pub(crate) struct Declared {
    /// Its name.
    pub(crate) name: String,
    /// Whether the parameter is required; `None` if the config leaves that open.
    pub(crate) required: Option<bool>,
    /// The JSON types it may have, without `null`; empty if the config does not say.
    pub(crate) types: Vec<String>,
}

/// Finds and reads the config of tool `id`. `None` if there is no config. `Err` holds the reason why an existing
/// config cannot be read.
pub(crate) fn find(folder: &Path, id: &str) -> Option<Result<Config, String>> {
    let place = PLACES.iter().map(|place| format!("{place}/{id}.json")).find(|place| folder.join(place).is_file())?;
    let shown = place.trim_start_matches("../").to_owned();
    let file: PathBuf = folder.join(&place);
    Some(read(&file).map_err(|reason| format!("{shown} {reason}")).map(|parameters| Config {
        from_crate: format!("/{place}"),
        shown,
        parameters,
    }))
}

fn read(file: &Path) -> Result<Option<Vec<Declared>>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    let config: Value = serde_json::from_str(&text).map_err(|error| format!("is not JSON: {error}"))?;
    let config = config.as_object().ok_or("is not a JSON object")?;
    if let Some(tool_type) = config.get("type").and_then(Value::as_str)
        && tool_type != "function_tool"
    {
        return Err(format!("declares the tool as a {tool_type}; only a function_tool has a function"));
    }
    Ok(declared(config))
}

/// Returns the parameters of a config, in either dialect.
fn declared(config: &Map<String, Value>) -> Option<Vec<Declared>> {
    if let Some(schema) = config.get("input_schema") {
        let properties = schema.get("properties")?.as_object()?;
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        return Some(
            properties
                .iter()
                .map(|(name, property)| Declared {
                    name: name.clone(),
                    required: Some(required.contains(&name.as_str())),
                    types: types(property),
                })
                .collect(),
        );
    }
    let parameters = match config.get("parameters") {
        None => return Some(Vec::new()),
        Some(parameters) => parameters.as_object()?,
    };
    Some(
        parameters
            .iter()
            .map(|(name, parameter)| Declared {
                name: name.clone(),
                required: parameter.get("required").and_then(Value::as_bool),
                types: types(parameter),
            })
            .collect(),
    )
}

/// Returns the JSON types of a schema's `type`, without `null`, which means "may be left out" to a Rust type.
fn types(schema: &Value) -> Vec<String> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
    .into_iter()
    .filter(|name| name != "null")
    .collect()
}

/// Returns the known name that is most like `name`, if one is like it at all.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + name.len().max(candidate.len()) / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `; did you mean "…"?` where a known name is near.
pub(crate) fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map(|candidate| format!("; did you mean {candidate:?}?")).unwrap_or_default()
}
