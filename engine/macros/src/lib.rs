//! `#[tool]`: makes a Rust function the executor of the tool of its name.
//!
//! The function implements the tool. A JSON file of the same name describes it. The macro leaves the function as it
//! is, reads its parameters as the tool's input, and registers it with `inventory`. If the JSON file is found beside
//! the crate, disagreements are compile errors at the parameter.
//!
//! This crate does *not* check configs in full. It checks only the names and types of parameters, and whether they are
//! required. If it does not find the JSON file, the check happens at start-up, because a tool's config may come with a job.

mod config;
mod crate_path;
mod expand;
mod options;
mod signature;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

/// Registers a function as the executor of the tool of the same name.
///
/// ```text
/// /// Counts the words of `text` that have at least `min_length` letters.
/// #[tool]
/// fn word_count(text: String, min_length: Option<u32>) -> Result<Counts, ToolError> { … }
/// ```
///
/// * The function is `fn` (run on a thread where it may block) or `async fn`.
/// * A first parameter of type `&ToolContext` gives the workspace and the engine's services; it is no part of the input.
/// * Every other parameter is a property of the input: any type that is `serde::Deserialize` and `schemars::JsonSchema`.
///   `Option<T>` makes it optional. Unknown properties are refused.
/// * It returns `Result<T, ToolError>` where `T: serde::Serialize`; an error becomes a result that the agent reads.
///
/// Arguments: `id = "json-transform"` where the id is not a Rust name; `crate = "path::to::baton_tool"` where the crate
/// depends on it under another name. Without it, `::baton_tool` is used if the crate's `Cargo.toml` names `baton-tool`,
/// else `::baton::function`.
///
/// The config is looked for at `tool-configs/<id>.json`, `../tool-configs/<id>.json` and `tools/<id>.json` beside the
/// crate's `Cargo.toml`; the first found is checked against the signature, and editing it alone rebuilds the crate.
#[proc_macro_attribute]
pub fn tool(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    match options::Options::parse(arguments.into()) {
        Ok(options) => expand::tool(&options, function).into(),
        Err(error) => {
            let error = error.into_compile_error();
            quote::quote!(#function #error).into()
        }
    }
}
