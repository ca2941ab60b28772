//! Configs as people write them: forms, a strict reader, every fault at its place, and the loader.
//!
//! Texts come in; checked and joined [`Configs`](baton_types::config::Configs) come out, or *all* faults.
//!
//! This crate does *not* open files, and knows neither providers nor scripts: the caller passes their rules in.

mod about_tools;
mod accept;
mod agent;
mod arguments;
mod background;
mod configuration;
mod conformance;
mod edit;
mod fault;
pub mod form;
mod handoff;
mod inner_calls;
mod job;
mod load;
mod loader;
mod models;
mod needed;
mod price;
mod program;
mod reader;
mod secrecy;
mod settings;
mod shape;
mod shown;
mod signature;
mod source;
mod template;
mod tool;
mod tool_schema;

pub use conformance::conformance;
pub use edit::EditFault;
pub use fault::{Fault, FaultKind, Faults};
pub use form::{MemoryForm as ProjectMemory, ProjectForm as Project};
pub use job::check_inputs;
pub use load::{Unconfigured, load, load_embeddings, load_project, load_tools};
pub use models::{ModelRules, ScriptCheck};
pub use price::{PriceTable, check_money, prices};
pub use reader::MAX_FILE_BYTES;
pub use settings::declared_settings;
pub use shape::{schema_of, schemas};
pub use source::{Role, Source, Sources};
pub use template::{TemplateError, render_prompt, render_request};
pub use tool::DEFAULT_TIMEOUT;
