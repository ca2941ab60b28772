//! Tool functions as `#[tool]` registers them, and what the code that it writes relies on.

use baton_types::config::FunctionName;
use baton_types::document::DocumentVersion;
use baton_types::json::Json;
use serde::Serialize;
use serde_json::Value;

use crate::context::ToolContext;
use crate::error::{ToolError, ToolErrorKind};
use crate::host::BoxFuture;

/// A registered tool function. Written by `#[tool]`; collected by `inventory` in no particular order.
///
/// A crate without any reference is not linked and its functions vanish: programs write `use my_tools as _;`. A config
/// without its function is a start-up fault, so the absence cannot be silent.
pub struct ToolFunction {
    /// The tool id it serves.
    pub id: &'static str,
    /// Its name in Rust.
    pub name: &'static str,
    /// Source file.
    pub file: &'static str,
    /// The line of its signature.
    pub line: u32,
    /// The JSON Schema of its parameters, from the Rust types; an object schema with `properties` and `required`.
    pub parameters: fn() -> Value,
    /// Whether it is a plain `fn`, which may block its thread; the shell gives it one of its own.
    pub blocking: bool,
    /// Runs it with a checked input.
    pub invoke: for<'a> fn(&'a ToolContext, &'a Json) -> BoxFuture<'a, Result<Json, ToolError>>,
}

inventory::collect!(ToolFunction);

impl ToolFunction {
    /// Returns the name by which configs refer to it.
    pub const fn name(&self) -> FunctionName {
        FunctionName { id: self.id, name: self.name }
    }
}

/// A preview of the texts that a tool function makes. `#[tool(preview = …)]` writes it beside the function.
///
/// People see it before they approve a call. It runs without a context, so it is a pure function of what it is given.
pub struct ToolPreview {
    /// The tool id that the function serves.
    pub id: &'static str,
    /// The text that a call with this input makes of the version of a document with this content, or why the call
    /// changes nothing.
    pub text: PreviewText,
}

/// The function of a [`ToolPreview`].
pub type PreviewText = fn(&Value, &DocumentVersion, &[u8]) -> Result<String, String>;

inventory::collect!(ToolPreview);

/// Returns the preview that the function `id` has registered.
pub fn registered_preview(id: &str) -> Option<PreviewText> {
    inventory::iter::<ToolPreview>.into_iter().find(|preview| preview.id == id).map(|preview| preview.text)
}

/// Returns all linked functions, ordered by id. Two of one id are both listed: the loader refuses them.
pub fn registered_functions() -> Vec<&'static ToolFunction> {
    let mut functions: Vec<_> = inventory::iter::<ToolFunction>.into_iter().collect();
    functions.sort_by_key(|function| (function.id, function.file, function.line));
    functions
}

/// Returns the JSON Schema of `T` without references, so that its properties can be compared; used by the code that
/// `#[tool]` writes.
pub fn schema_of<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Serialises what a function returned; used by the code that `#[tool]` writes.
pub fn to_output<T: Serialize>(value: T) -> Result<Json, ToolError> {
    Json::of_outside(&value).map_err(|error| ToolError::new(format!("the tool's output cannot be kept as JSON: {error}")))
}

/// Reads the arguments; used by the code that `#[tool]` writes.
pub fn from_input<T: serde::de::DeserializeOwned>(input: &Json) -> Result<T, ToolError> {
    serde_json::from_str(input.text())
        .map_err(|error| ToolError::new(format!("the input does not fit: {error}")).of_kind(ToolErrorKind::InvalidInput))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_readers_would_lose_is_an_error() {
        let nested = |levels: usize| (0..levels).fold(Value::Null, |value, _| Value::Array(vec![value]));
        assert_eq!(to_output(nested(127)).unwrap().value(), nested(127));
        let error = to_output(nested(128)).unwrap_err().to_string();
        assert!(error.contains("the tool's output cannot be kept as JSON: objects and arrays are nested deeper"), "{error}");
        let raw = serde_json::value::RawValue::from_string("{\"accepted\": false, \"accepted\": true}".to_owned()).unwrap();
        assert!(to_output(raw).unwrap_err().to_string().contains("occurs twice"));
    }
}
