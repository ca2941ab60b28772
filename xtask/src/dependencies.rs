//! Licences, bans and sources of all dependencies, judged by deny.toml with nothing installed but Rust.
//!
//! `cargo metadata` names every package of the lock file, for all features and systems. If packages of other systems
//! are not available, those of this one are judged. The file is cargo-deny's own, so cargo-deny gives the same result.
//! A setting that is not judged here is an error, so no setting is silently ignored.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, bail};
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::project::{cargo, root};

/// The registry that packages may come from.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// deny.toml, as far as it is judged here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    graph: Graph,
    /// Left to cargo-deny.
    #[serde(rename = "advisories")]
    _advisories: Option<toml::Table>,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

/// The dependencies that are judged: all of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Graph {
    all_features: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    /// SPDX ids, some `WITH` an exception.
    allow: Vec<String>,
    private: Private,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Private {
    /// Whether packages that are not published need no licence.
    ignore: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: Level,
    wildcards: Level,
    /// Whether a path dependency needs no version.
    allow_wildcard_paths: bool,
    deny: Vec<Banned>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Level,
    unknown_git: Level,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Allow,
    Deny,
}

/// Output of `cargo metadata`.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for a package of a path.
    source: Option<String>,
    /// Registries that it may be published to; an empty list for none.
    publish: Option<Vec<String>>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    path: Option<String>,
}

/// Judges the dependencies of the workspace.
pub(crate) fn check() -> anyhow::Result<()> {
    eprintln!("$ licences, bans and sources by deny.toml");
    let policy: Policy = toml::from_str(&fs::read_to_string(root().join("deny.toml"))?).context("deny.toml")?;
    let metadata = metadata()?;
    let faults = policy.faults(&metadata)?;
    if faults.is_empty() {
        eprintln!("judged {} packages", metadata.packages.len());
        return Ok(());
    }
    bail!("deny.toml refuses dependencies:\n  {}", faults.join("\n  "))
}

fn metadata() -> anyhow::Result<Metadata> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--all-features"];
    let mut output = cargo(&arguments).output()?;
    if !output.status.success() {
        eprintln!("packages of other systems cannot be had, so only those of this one are judged");
        let system = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        output = cargo(&arguments).args(["--offline", "--filter-platform", &system]).output()?;
    }
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("the output of cargo metadata")
}

impl Policy {
    /// Returns the violations of the policy in `metadata`, a sentence each. An error is a policy that cannot be
    /// judged.
    fn faults(&self, metadata: &Metadata) -> anyhow::Result<Vec<String>> {
        if !self.graph.all_features {
            bail!("deny.toml: [graph] all-features must be true: dependencies of all features are judged");
        }
        let mut faults = Vec::new();
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in &metadata.packages {
            versions.entry(&package.name).or_default().push(&package.version);
            let named = |fault: String| format!("{} {}: {fault}", package.name, package.version);
            faults.extend(self.licence_fault(package)?.map(named));
            faults.extend(self.source_fault(package).map(named));
            faults.extend(self.wildcards(package).map(named));
            let banned = self.bans.deny.iter().find(|banned| banned.name == package.name);
            faults.extend(banned.map(|banned| named(format!("banned: {}", banned.reason))));
        }
        if self.bans.multiple_versions == Level::Deny {
            let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
            faults.extend(several.map(|(name, versions)| format!("{name}: several versions: {}", versions.join(", "))));
        }
        Ok(faults)
    }

    /// Returns the reason why the licence of `package` is not enough. An `OR` needs one side, an `AND` both.
    fn licence_fault(&self, package: &Package) -> anyhow::Result<Option<String>> {
        let is_private = package.source.is_none() && package.publish.as_ref().is_some_and(Vec::is_empty);
        if is_private && self.licenses.private.ignore {
            return Ok(None);
        }
        let allowed = self.licenses.allow.iter().map(|licence| spdx::Licensee::parse(licence));
        let allowed: Vec<_> = allowed.collect::<Result<_, _>>().context("deny.toml: [licenses] allow")?;
        let Some(licence) = &package.license else { return Ok(Some("it names no licence".to_owned())) };
        let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
            return Ok(Some(format!("its licence is not an SPDX expression: {licence}")));
        };
        let is_met = expression.evaluate(|required| allowed.iter().any(|licensee| licensee.satisfies(required)));
        Ok((!is_met).then(|| format!("its licence is not allowed: {licence}")))
    }

    fn source_fault(&self, package: &Package) -> Option<String> {
        let source = package.source.as_deref().filter(|source| *source != CRATES_IO)?;
        let level = if source.starts_with("git+") { self.sources.unknown_git } else { self.sources.unknown_registry };
        (level == Level::Deny).then(|| format!("it comes from {source}"))
    }

    fn wildcards(&self, package: &Package) -> Option<String> {
        if package.source.is_some() || self.bans.wildcards == Level::Allow {
            return None;
        }
        let is_loose =
            |dependency: &&Dependency| dependency.req == "*" && !(dependency.path.is_some() && self.bans.allow_wildcard_paths);
        let loose: Vec<&str> = package.dependencies.iter().filter(is_loose).map(|dependency| &*dependency.name).collect();
        (!loose.is_empty()).then(|| format!("any version is good enough for it: {}", loose.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const POLICY: &str = r#"
        [graph]
        all-features = true
        [licenses]
        allow = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"]
        private = { ignore = true }
        [bans]
        multiple-versions = "deny"
        wildcards = "deny"
        allow-wildcard-paths = true
        deny = [{ crate = "openssl-sys", reason = "one TLS stack" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
    "#;

    fn package(name: &str, change: Value) -> Value {
        let mut package = json!({
            "name": name, "version": "1.0.0", "license": "MIT", "source": CRATES_IO, "publish": null, "dependencies": [],
        });
        for (key, value) in change.as_object().unwrap() {
            package[key] = value.clone();
        }
        package
    }

    fn faults(packages: Value) -> Vec<String> {
        let policy: Policy = toml::from_str(POLICY).unwrap();
        policy.faults(&serde_json::from_value(json!({"packages": packages})).unwrap()).unwrap()
    }

    #[test]
    fn licences_are_read_as_expressions() {
        for (licence, is_allowed) in [
            ("MIT", true),
            ("MIT OR GPL-3.0-only", true),
            ("GPL-3.0-only OR MIT", true),
            ("MIT/Apache-2.0", true),
            ("MIT or Apache-2.0", true),
            ("(MIT OR GPL-2.0-only) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-3.0-only", false),
            ("MIT AND GPL-3.0-only", false),
            ("(MIT OR Apache-2.0) AND AGPL-3.0-only", false),
            ("Apache-2.0 WITH Classpath-exception-2.0", false),
            ("MIT WITH LLVM-exception", false),
            ("Something of my own", false),
        ] {
            let found = faults(json!([package("a", json!({"license": licence}))]));
            assert_eq!(found.is_empty(), is_allowed, "{licence}: {found:?}");
        }
        assert_eq!(faults(json!([package("a", json!({"license": null}))])), ["a 1.0.0: it names no licence"]);
    }

    #[test]
    fn what_is_not_published_needs_no_licence_and_what_is_does() {
        let own = |publish: Value| package("own", json!({"license": null, "source": null, "publish": publish}));
        assert_eq!(faults(json!([own(json!([]))])), Vec::<String>::new());
        assert_eq!(faults(json!([own(Value::Null)])).len(), 1);
    }

    #[test]
    fn banned_crates_and_second_versions_are_found() {
        let found = faults(json!([
            package("openssl-sys", json!({})),
            package("a", json!({})),
            package("a", json!({"version": "2.0.0"}))
        ]));
        assert_eq!(found, ["openssl-sys 1.0.0: banned: one TLS stack", "a: several versions: 1.0.0, 2.0.0"]);
    }

    #[test]
    fn only_crates_io_is_a_source() {
        for source in
            ["git+https://example.org/a?branch=main#1234", "registry+https://example.org/index", "sparse+https://example.org/"]
        {
            let found = faults(json!([package("a", json!({"source": source}))]));
            assert_eq!(found, [format!("a 1.0.0: it comes from {source}")]);
        }
    }

    #[test]
    fn a_dependency_names_its_version() {
        let own = |dependency: Value| package("own", json!({"source": null, "publish": [], "dependencies": [dependency]}));
        let loose = json!({"name": "b", "req": "*", "path": null});
        assert_eq!(faults(json!([own(loose)])), ["own 1.0.0: any version is good enough for it: b"]);
        assert_eq!(faults(json!([own(json!({"name": "b", "req": "*", "path": "/b"}))])), Vec::<String>::new());
        assert_eq!(faults(json!([own(json!({"name": "b", "req": "^1", "path": null}))])), Vec::<String>::new());
    }

    #[test]
    fn a_setting_that_is_not_judged_is_an_error() {
        for setting in ["[bans]\nskip = []", "[licenses]\nexceptions = []", "[output]\nfeature-depth = 1"] {
            let (table, line) = setting.split_once('\n').unwrap();
            let policy =
                if POLICY.contains(table) { POLICY.replacen(table, setting, 1) } else { format!("{POLICY}\n{table}\n{line}") };
            assert!(toml::from_str::<Policy>(&policy).is_err(), "{setting} was accepted");
        }
        let warned = POLICY.replacen("multiple-versions = \"deny\"", "multiple-versions = \"warn\"", 1);
        assert!(toml::from_str::<Policy>(&warned).is_err());
    }

    #[test]
    fn the_dependencies_of_this_repository_are_allowed() {
        check().unwrap();
    }

    #[test]
    fn the_policy_of_this_repository_can_be_judged() {
        let policy: Policy = toml::from_str(&fs::read_to_string(root().join("deny.toml")).unwrap()).unwrap();
        assert!(!policy.licenses.allow.is_empty() && policy.bans.deny.len() >= 3);
        let allowed = policy.licenses.allow.iter().map(|licence| spdx::Licensee::parse(licence));
        assert!(allowed.clone().all(|licensee| licensee.is_ok()), "{:?}", allowed.collect::<Vec<_>>());
    }
}
