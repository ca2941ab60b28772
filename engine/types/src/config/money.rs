//! Limits of money, with their places: whether they can be kept is known once the prices are.

use crate::id::{AgentId, ToolId};

/// A limit of money: whom it holds, and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct MoneyLimit {
    /// Subject of the limit.
    pub holder: MoneyHolder,
    /// Its key in a file.
    pub place: Place,
}

/// Subject of a money limit, with all tasks below.
#[derive(Clone, Debug, PartialEq)]
pub enum MoneyHolder {
    /// The run.
    Run,
    /// The run and those that it continues.
    Session,
    /// The tasks of an agent.
    Agent(AgentId),
    /// The tasks that calls of a tool create.
    Tool(ToolId),
}

/// A place in a file of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The file as a person would type it.
    pub file: String,
    /// From 1; 0 for the file itself.
    pub line: usize,
    /// From 1, in characters; 0 for the file itself or a whole line.
    pub column: usize,
    /// JSON pointer of the value or key.
    pub pointer: String,
    /// The line of the file.
    pub source_line: Option<String>,
    /// Number of marked characters of the line.
    pub width: usize,
}
