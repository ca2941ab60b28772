//! The model's file, and the server that has it.

use std::path::PathBuf;

use anyhow::{Context, ensure};

use super::super::environment::{Environment, Installer};
use super::super::server::Server;

const REQUIREMENTS: &str = include_str!("../../../peers/qwen.txt");
const JOIN: &str = include_str!("../../../peers/join_model.py");
const SERVE: &str = include_str!("../../../peers/llama_server.py");

/// Number of bytes of the model.
const MODEL_BYTES: u64 = 1_117_320_768;

/// Path that the server answers with success once its model is loaded.
const HEALTH: &str = "/health";

/// Installs the packages, joins the model's parts, and starts the server.
pub(super) fn start(installer: &Installer<'_>, threads: u32) -> anyhow::Result<Server> {
    let environment = installer.environment(super::NAME, REQUIREMENTS, &[])?;
    let model = joined(&environment)?;
    let script = environment.folder.join("llama_server.py");
    std::fs::write(&script, SERVE)?;
    let command = |port: u16| {
        let mut server = environment.python();
        server.arg(&script).arg(&model).arg(port.to_string()).arg(threads.to_string()).arg(super::task::WINDOW.to_string());
        // Threads that wait for each other sleep, so that other programs may run.
        server.env("OMP_WAIT_POLICY", "passive");
        server
    };
    Server::start(command, HEALTH, &environment.folder.join("server.log"))
}

/// Returns the file of the model, which is made once.
fn joined(environment: &Environment) -> anyhow::Result<PathBuf> {
    let model = environment.folder.join("model.gguf");
    let size = || std::fs::metadata(&model).map(|file| file.len()).unwrap_or_default();
    if size() != MODEL_BYTES {
        let script = environment.folder.join("join_model.py");
        std::fs::write(&script, JOIN)?;
        let status = environment.python().arg(&script).arg(&model).status().context("the model cannot be joined")?;
        ensure!(status.success() && size() == MODEL_BYTES, "the joined model has {} bytes instead of {MODEL_BYTES}", size());
    }
    Ok(model)
}
