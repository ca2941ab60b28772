//! The browser that tests need: found, or installed by Debian's package manager.

use std::path::Path;

use crate::check::apt_get;

/// The names that the browser tool looks for.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// Packages whose tests start a browser.
const PACKAGES: [&str; 2] = ["baton", "baton-tests"];

/// Installs Chromium if there is no browser and `arguments` of `cargo test` may select a test that needs one. Without a browser these
/// tests fail, and their messages name what is missing.
pub(crate) fn install_if_missing(arguments: &[String]) {
    if !may_select(arguments, &PACKAGES) || is_installed() {
        return;
    }
    eprintln!("the tests of the browser tool need Chromium, which is installed now");
    let installed = apt_get(&["update", "--quiet"]).and_then(|()| {
        // Without fonts, pages have no visible text.
        apt_get(&["install", "--yes", "--quiet", "--no-install-recommends", "chromium", "fonts-liberation"])
    });
    if let Err(error) = installed {
        eprintln!("Chromium cannot be installed ({error:#}); install Chromium or Chrome, or tests of the browser tool will fail");
    }
}

fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| NAMES.iter().any(|name| Path::new(&folder).join(name).is_file()))
}

/// Whether `arguments` of `cargo test` select all packages, or one of `wanted`.
pub(crate) fn may_select(arguments: &[String], wanted: &[&str]) -> bool {
    let mut named = arguments.iter().zip(arguments.iter().skip(1)).filter(|(flag, _)| *flag == "-p" || *flag == "--package");
    let joined = arguments.iter().filter_map(|argument| argument.strip_prefix("--package="));
    let packages: Vec<&str> = named.by_ref().map(|(_, package)| package.as_str()).chain(joined).collect();
    packages.is_empty() || packages.iter().any(|package| wanted.contains(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_needed_where_its_tests_may_run() {
        let needs =
            |arguments: &[&str]| may_select(&arguments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), &PACKAGES);
        assert!(needs(&[]) && needs(&["browser"]) && needs(&["-p", "baton-tests"]) && needs(&["--package=baton"]));
        assert!(!needs(&["-p", "baton-store"]) && !needs(&["--package=baton-types", "name"]));
        assert!(needs(&["-p", "baton-store", "-p", "baton"]));
    }
}
