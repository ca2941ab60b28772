//! The PostgreSQL server and the pooler that tests need: found, or installed by Debian's package manager.

use std::path::Path;

use crate::check::apt_get;

/// The programs that tests start.
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "psql"];
/// Folder in which Debian's packages have them, each version in a folder of its own.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Packages whose tests start a server.
const PACKAGES: [&str; 5] = ["baton", "baton-cluster", "baton-servers", "baton-store", "baton-tests"];

/// Installs PostgreSQL if there is none and `arguments` of `cargo test` may select a test that needs one. Without it these tests fail, and
/// their messages name what is missing.
pub(crate) fn install_if_missing(arguments: &[String]) {
    if !crate::browser::may_select(arguments, &PACKAGES) || is_installed() {
        return;
    }
    eprintln!("the tests of the store in PostgreSQL need a server, which is installed now");
    let installed = apt_get(&["update", "--quiet"])
        .and_then(|()| apt_get(&["install", "--yes", "--quiet", "--no-install-recommends", "postgresql", "pgbouncer"]));
    if let Err(error) = installed {
        eprintln!("PostgreSQL cannot be installed ({error:#}); install it, or tests of the store in PostgreSQL will fail");
    }
}

fn is_installed() -> bool {
    let has_all = |folder: &Path| PROGRAMS.iter().all(|program| folder.join(program).is_file());
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).chain(versions).collect();
    let is_pooler = |folder: &Path| folder.join("pgbouncer").is_file();
    folders.iter().any(|folder| has_all(folder))
        && (is_pooler(Path::new("/usr/sbin")) || folders.iter().any(|folder| is_pooler(folder)))
}
