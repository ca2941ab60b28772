//! The NATS server and its Python client, which tests of the bus need: found, or installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::check::apt_get;
use crate::project::root;

/// Folders that may have the server and are not on every path.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/bin"];
/// The Python client, in the version that the tests were written with.
const CLIENT: &str = "nats-py==2.16.0";
/// Packages whose tests start a server.
const PACKAGES: [&str; 4] = ["baton", "baton-cluster", "baton-servers", "baton-tests"];

/// Installs nats-server with Debian's package manager, and its Python client into `target/python`, if they are missing and `arguments` of
/// `cargo test` may select a test that needs them. Without them these tests fail, and their messages name what is missing.
pub(crate) fn install_if_missing(arguments: &[String]) {
    if !crate::browser::may_select(arguments, &PACKAGES) {
        return;
    }
    if !is_installed() {
        eprintln!("the tests of the bus need nats-server, which is installed now");
        let installed = apt_get(&["update", "--quiet"])
            .and_then(|()| apt_get(&["install", "--yes", "--quiet", "--no-install-recommends", "nats-server"]));
        if let Err(error) = installed {
            eprintln!("nats-server cannot be installed ({error:#}); install it, or tests of the bus will fail");
        }
    }
    if !python().join("nats").is_dir()
        && let Err(error) = install_client()
    {
        eprintln!("{CLIENT} cannot be installed ({error:#}); install it, or the test of the service in Python will fail");
    }
}

/// Returns the folder of Python packages that tests use.
fn python() -> PathBuf {
    root().join("target/python")
}

fn install_client() -> anyhow::Result<()> {
    let has_pip = Command::new("python3").args(["-m", "pip", "--version"]).output().is_ok_and(|found| found.status.success());
    if !has_pip {
        apt_get(&["update", "--quiet"])?;
        apt_get(&["install", "--yes", "--quiet", "--no-install-recommends", "python3-pip"])?;
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(python()).arg(CLIENT);
    let status = pip.status().context("python3 cannot be started")?;
    ensure!(status.success(), "pip failed");
    Ok(())
}

fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    folders.into_iter().any(|folder| Path::is_file(&folder.join("nats-server")))
}
