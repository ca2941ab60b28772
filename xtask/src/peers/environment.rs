//! A Python environment for each server: made once, and made anew when what is pinned changes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// Creates Python environments.
pub(crate) struct Installer<'a> {
    /// The Python that makes them.
    pub(crate) python: &'a str,
    /// The chore's folder: each server has one of its name in it.
    pub(crate) work: &'a Path,
}

/// An environment whose packages are installed.
pub(crate) struct Environment {
    /// The server's folder.
    pub(crate) folder: PathBuf,
}

impl Installer<'_> {
    /// Returns the environment of the server `name` with the packages that `requirements` pins.
    pub(crate) fn environment(&self, name: &str, requirements: &str) -> anyhow::Result<Environment> {
        let environment = Environment { folder: self.work.join(name) };
        let (venv, pinned) = (environment.folder.join("venv"), environment.folder.join("requirements.txt"));
        let stamp = venv.join("installed.txt");
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == requirements) {
            return Ok(environment);
        }
        if venv.exists() {
            std::fs::remove_dir_all(&venv).with_context(|| format!("{} cannot be removed", venv.display()))?;
        }
        std::fs::create_dir_all(&environment.folder)?;
        std::fs::write(&pinned, requirements)?;
        let log = environment.folder.join("install.log");
        eprintln!("installing {name}, which may take minutes; {} shows the progress", log.display());
        let written = File::create(&log)?;
        let run = |mut command: Command, what: &str| {
            command.stdin(Stdio::null()).stdout(written.try_clone()?).stderr(written.try_clone()?);
            let status = command.status().with_context(|| format!("{what} cannot be started"))?;
            ensure!(status.success(), "{what} failed ({status}); {} has the reason", log.display());
            Ok(())
        };
        let mut make = Command::new(self.python);
        make.args(["-m", "venv"]).arg(&venv);
        run(make, &format!("{} -m venv", self.python))?;
        let mut install = environment.python();
        install.args(["-m", "pip", "install", "--disable-pip-version-check", "--requirement"]).arg(&pinned);
        run(install, "pip install")?;
        std::fs::write(&stamp, requirements)?;
        Ok(environment)
    }
}

impl Environment {
    /// Returns a program of the environment.
    pub(crate) fn program(&self, name: &str) -> Command {
        Command::new(self.folder.join("venv").join("bin").join(name))
    }

    /// Its Python.
    pub(crate) fn python(&self) -> Command {
        self.program("python")
    }
}
