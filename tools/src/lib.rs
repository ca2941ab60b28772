//! The built-in tool functions, one file per family.
//!
//! Each function here implements the config of the same name in `tool-configs/`. The config has the description for
//! agents, the parameters and the effect after a crash. Tools that run no code, such as `stop_and_think`, `handoff` or
//! `ask_master`, are configs alone.
//!
//! * `breadcrumbs`: `breadcrumb-create`, `breadcrumb-update`, `breadcrumb-context-merge`, `breadcrumb-search`, `breadcrumb-approve`, `scheduler`
//! * [`data`]: `query_data`, `draw_chart`, `ask_data`
//! * `delegation`: `delegate_async`, `launch_principal`, `ask_expert`, `fork_join`, `provision_agent`
//! * `files`: `write_file`, `edit_file_block`, `list_files`, `search_documents`, `load_to_context`
//! * `flow`: `workflow`, `map`, `run_program`, `run_own_program`
//! * `memory`: `recall_memory`
//! * `models`: `openrouter`, `venice`, `ollama_local`, `ask_gpt`, `ask_claude`, `openrouter_models_sync`
//! * [`utility`]: `calculator`, `random`, `echo`, `timer`, `json-transform`
//! * `waiting`: `sleep`, `wait_for_event`
//! * [`web`]: `search_web`, `fetch_page`
//!
//! Nothing calls these functions by name: `#[tool]` registers them, and they are found when the crate is linked. A
//! crate without any reference is not linked at all, so a program that needs these tools writes
//!
//! ```
//! use baton_tools as _;
//! ```
//!
//! Input from an agent is hostile. A function answers it with a [`ToolError`](baton_tool::ToolError) that teaches, or
//! with a value where the tool's table defines one, and never panics.
//!
//! This crate is *not* privileged: it uses what every tool crate can use, and the engine never names one of its tools.

mod breadcrumbs;
pub mod data;
mod delegation;
mod files;
mod flow;
mod memory;
mod models;
mod reading;
mod stop;
pub mod utility;
mod waiting;
pub mod web;

pub use files::{ContentBlock, block_text, content_blocks};
