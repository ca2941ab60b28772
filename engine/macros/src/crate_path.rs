//! Finds the path of `baton_tool` for the generated code.

use std::path::Path;

use syn::parse_quote;

/// `::baton_tool` if the crate's own manifest names `baton-tool`, else `::baton::function`: a user's crate depends on one.
///
/// The manifest is searched by line and not parsed: a whole TOML parser would double this crate's build time. If the
/// search misses a dependency, the author writes `crate = "…"`.
pub(crate) fn default_path(folder: Option<&Path>) -> syn::Path {
    let manifest = folder.and_then(|folder| std::fs::read_to_string(folder.join("Cargo.toml")).ok()).unwrap_or_default();
    if manifest.lines().any(names_tool) { parse_quote!(::baton_tool) } else { parse_quote!(::baton::function) }
}

/// Whether a manifest's line makes `baton-tool` a dependency under its own name.
fn names_tool(line: &str) -> bool {
    let line = line.trim();
    let key = line.split(['=', ' ']).next().unwrap_or_default().trim_matches('"');
    key == "baton-tool" || key.starts_with("baton-tool.") || (line.starts_with('[') && line.ends_with("dependencies.baton-tool]"))
}

#[cfg(test)]
mod tests {
    use super::names_tool;

    #[test]
    fn a_dependency_on_the_crate_is_seen_however_it_is_written() {
        for line in [
            "baton-tool = \"0.1\"",
            "baton-tool.workspace = true",
            "baton-tool={path=\"x\"}",
            "[dependencies.baton-tool]",
            "[target.'cfg(unix)'.dependencies.baton-tool]",
        ] {
            assert!(names_tool(line), "{line}");
        }
        for line in
            ["baton = { path = \"baton-tool\" }", "# baton-tool = 1", "baton-tool-more = \"1\"", "name = \"baton-tool\"", ""]
        {
            assert!(!names_tool(line), "{line}");
        }
    }
}
