//! Where the generated code finds `baton_core`.

use std::path::Path;

use syn::parse_quote;

/// `::baton_core` if the crate's own manifest names `baton-core`, else `::baton::core`: a user's crate depends on one.
///
/// The manifest is searched by line and not parsed: a whole TOML parser would double what this crate costs to build,
/// and whoever writes the dependency in a way this misses says `crate = "…"`.
pub(crate) fn default_core(folder: Option<&Path>) -> syn::Path {
    let manifest = folder.and_then(|folder| std::fs::read_to_string(folder.join("Cargo.toml")).ok()).unwrap_or_default();
    if manifest.lines().any(names_core) { parse_quote!(::baton_core) } else { parse_quote!(::baton::core) }
}

/// Whether a manifest's line makes `baton-core` a dependency under its own name.
fn names_core(line: &str) -> bool {
    let line = line.trim();
    let key = line.split(['=', ' ']).next().unwrap_or_default().trim_matches('"');
    key == "baton-core" || key.starts_with("baton-core.") || (line.starts_with('[') && line.ends_with("dependencies.baton-core]"))
}

#[cfg(test)]
mod tests {
    use super::names_core;

    #[test]
    fn a_dependency_on_the_core_is_seen_however_it_is_written() {
        for line in [
            "baton-core = \"0.1\"",
            "baton-core.workspace = true",
            "baton-core={path=\"x\"}",
            "[dependencies.baton-core]",
            "[target.'cfg(unix)'.dependencies.baton-core]",
        ] {
            assert!(names_core(line), "{line}");
        }
        for line in
            ["baton = { path = \"baton-core\" }", "# baton-core = 1", "baton-core-more = \"1\"", "name = \"baton-core\"", ""]
        {
            assert!(!names_core(line), "{line}");
        }
    }
}
