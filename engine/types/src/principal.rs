//! Typed principals: a person and an agent of the same name are never the same principal.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, PersonName, ProgramId, is_valid_id};

/// Author of an answer, approval, cancellation, steering message or document. Stored externally tagged:
/// `{"person": "ann"}`, `{"agent": "lead"}`, `{"program": "nightly"}`, `"engine"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    /// A person, by the name that the shell knows.
    Person(PersonName),
    /// An agent of the job.
    Agent(AgentId),
    /// A program that acts without a person, such as one that embeds the engine.
    Program(ProgramId),
    /// The engine itself.
    Engine,
}

impl Principal {
    /// Returns the person called `name`.
    pub fn person(name: impl Into<Arc<str>>) -> Self {
        Self::Person(PersonName::new(name))
    }

    /// Returns the program called `id`.
    pub fn program(id: impl Into<Arc<str>>) -> Self {
        Self::Program(ProgramId::new(id))
    }

    /// Whether it is a person or a program: one that acts on a run from outside.
    pub fn is_outside(&self) -> bool {
        matches!(self, Self::Person(_) | Self::Program(_))
    }
}

/// As views show it. No agent reads like a person, a program or the engine.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => write!(f, "{name} (person)"),
            Self::Agent(agent) => write_agent(f, agent),
            Self::Program(program) => write!(f, "{program} (program)"),
            Self::Engine => f.write_str("engine"),
        }
    }
}

/// Writes the id of an agent. A store can hold ids that no config could have: those are marked and quoted.
pub(crate) fn write_agent(f: &mut fmt::Formatter<'_>, agent: &AgentId) -> fmt::Result {
    let id = agent.as_str();
    if is_valid_id(id) && !RESERVED_AGENT_IDS.contains(&id) { f.write_str(id) } else { write!(f, "agent {id:?}") }
}

/// The ids that no agent may have, because views use these words for people, the engine and parts of a run.
pub const RESERVED_AGENT_IDS: [&str; 14] =
    ["agent", "anyone", "engine", "human", "job", "master", "me", "nobody", "person", "program", "run", "system", "user", "you"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Holder;

    #[test]
    fn no_agent_reads_like_a_person_a_program_or_the_engine() {
        for (principal, text) in [
            (Principal::person("ann"), "ann (person)"),
            (Principal::program("ann"), "ann (program)"),
            (Principal::Agent("ann".into()), "ann"),
            (Principal::Engine, "engine"),
            (Principal::Agent("engine".into()), "agent \"engine\""),
            (Principal::Agent("ann (person)".into()), "agent \"ann (person)\""),
        ] {
            assert_eq!(principal.to_string(), text);
        }
        assert_eq!(Holder::Person.to_string(), "you");
        assert_eq!(Holder::Agent("you".into()).to_string(), "agent \"you\"");
    }

    #[test]
    fn principals_are_stored_with_their_kind() {
        let stored = [Principal::person("ann"), Principal::Agent("ann".into()), Principal::program("ann"), Principal::Engine];
        let text = serde_json::to_string(&stored).unwrap();
        assert_eq!(text, r#"[{"person":"ann"},{"agent":"ann"},{"program":"ann"},"engine"]"#);
        assert_eq!(serde_json::from_str::<Vec<Principal>>(&text).unwrap(), stored);
        assert!(serde_json::from_str::<Principal>(r#""ann""#).is_err(), "a name alone is nobody");
    }
}
