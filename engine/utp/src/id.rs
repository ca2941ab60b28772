//! Names in payloads and cards: texts of 1 to 512 characters without control characters.
//!
//! Each kind has its own type, so a card id cannot take the place of a call id. Names from other systems may have any form. Those that
//! Baton makes have the forms that the functions `of` describe.

use std::borrow::Cow;
use std::fmt;

use baton_types::id::{CallId, RunId, TaskId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// Most characters of a name.
pub const MAX_NAME_LENGTH: usize = 512;

/// The rule for a name, as messages give it.
pub const NAME_RULE: &str = "a text of 1 to 512 characters without control characters";

/// Pattern of a name in published schemas.
const NAME_PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";

/// Whether `text` may be a name.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= MAX_NAME_LENGTH && !text.chars().any(char::is_control)
}

/// A text that payloads use as a name.
pub trait Name: Sized {
    /// Takes `text` as such a name, if it is one by [`NAME_RULE`].
    fn parse(text: &str) -> Option<Self>;
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Name for $name {
            fn parse(text: &str) -> Option<Self> {
                is_name(text).then(|| Self(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH, "pattern": NAME_PATTERN})
            }

            fn inline_schema() -> bool {
                true
            }
        }
    )*};
}

names! {
    /// An agent of a job, or the author of a card.
    AgentName;
    /// The work that a call belongs to. For Baton: run and task, as `RUN/TASK`.
    AgentTurnId;
    /// One answer of a model within that work. For Baton: the number of the turn.
    StepId;
    /// A call. For Baton: the id of the call, such as `0/1.1/3.1`. Unique within its agent turn.
    ToolCallId;
    /// A card.
    CardId;
    /// A tool, by its id in `resource.tools`.
    ToolName;
    /// A box of cards that a call may read.
    ContextBoxId;
    /// A project: the tenant that a card belongs to.
    ProjectName;
}

/// The kind of a card that Baton derives from a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Derived {
    /// A `tool.call` card of a call.
    Call,
    /// A `tool.result` card of a call.
    Result,
}

impl Derived {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Result => "result",
        }
    }
}

impl AgentTurnId {
    /// Returns the id of `task` in `run`: `RUN/TASK`.
    pub fn of(run: &RunId, task: &TaskId) -> Self {
        Self(format!("{run}/{task}").into())
    }

    /// Returns the run and the task that [`AgentTurnId::of`] put into this id; `None` if it has another form. The run may not exist.
    pub fn named(&self) -> Option<(RunId, TaskId)> {
        let (run, task) = self.0.split_once('/')?;
        let is_task = CallId::new(format!("{task}/1.1")).is_well_formed();
        (!run.is_empty() && is_task).then(|| (RunId::new(run), TaskId::new(task)))
    }
}

impl StepId {
    /// Returns the id of a turn: its number.
    pub fn of(turn: u32) -> Self {
        Self(turn.to_string().into())
    }

    /// Returns the id of the turn that `call` belongs to. The call of a program belongs to the turn of the call that made it.
    pub fn of_call(call: &CallId) -> Option<Self> {
        let (turn, _) = outermost(call).position()?;
        Some(Self::of(turn))
    }
}

impl ToolCallId {
    /// Returns the id of `call`, unchanged.
    pub fn of(call: &CallId) -> Self {
        Self(call.as_str().into())
    }

    /// Returns the call that [`ToolCallId::of`] named; `None` if the text has another form. The call may not exist.
    pub fn named(&self) -> Option<CallId> {
        let call = CallId::new(&*self.0);
        call.is_well_formed().then_some(call)
    }
}

impl ToolName {
    /// Returns the name of the tool `id`.
    pub fn of(id: &baton_types::id::ToolId) -> Self {
        Self(id.as_str().into())
    }
}

impl AgentName {
    /// Returns the name of the agent `id`.
    pub fn of(id: &baton_types::id::AgentId) -> Self {
        Self(id.as_str().into())
    }

    /// Returns the author of cards that belong to no agent.
    pub fn engine() -> Self {
        Self("baton".into())
    }
}

impl CardId {
    /// Returns the id of a card that Baton derives from `call` of `run`: `RUN:CALL:KIND`.
    ///
    /// So the same call always has the same cards, and any worker finds the call of a card without an index.
    pub fn of_call(run: &RunId, call: &CallId, kind: Derived) -> Self {
        Self(format!("{run}:{call}:{}", kind.as_str()).into())
    }

    /// Returns the id of the card with the text of a turn: `RUN:TASK/TURN:thought`.
    pub fn of_thought(run: &RunId, task: &TaskId, turn: u32) -> Self {
        Self(format!("{run}:{task}/{turn}:thought").into())
    }

    /// Returns the id of the card with the result of a task: `RUN:TASK:deliverable`.
    pub fn of_deliverable(run: &RunId, task: &TaskId) -> Self {
        Self(format!("{run}:{task}:deliverable").into())
    }

    /// Returns the run and the task whose entries have this card; `None` if it has the form of no card of a timeline. They may not exist.
    pub fn named_task(&self) -> Option<(RunId, TaskId)> {
        if let Some((run, call, _)) = self.named_call() {
            return Some((run, call.task()));
        }
        let (rest, kind) = self.0.rsplit_once(':')?;
        let (run, place) = rest.split_once(':')?;
        let task = match kind {
            "thought" => place.rsplit_once('/')?.0,
            "deliverable" => place,
            _ => return None,
        };
        (!run.is_empty() && CallId::new(format!("{task}/1.1")).is_well_formed()).then(|| (RunId::new(run), TaskId::new(task)))
    }

    /// Returns the run, the call and the kind that [`CardId::of_call`] put into this id; `None` if it has another form.
    pub fn named_call(&self) -> Option<(RunId, CallId, Derived)> {
        let (rest, kind) = self.0.rsplit_once(':')?;
        let kind = [Derived::Call, Derived::Result].into_iter().find(|known| known.as_str() == kind)?;
        let (run, call) = rest.split_once(':')?;
        let call = CallId::new(call);
        (!run.is_empty() && call.is_well_formed()).then(|| (RunId::new(run), call, kind))
    }
}

/// Returns the `turn_epoch` of a call: the number of the turn that it belongs to. It rises whenever the work is dispatched or resumed, and
/// stays when another worker continues the run.
pub fn turn_epoch(call: &CallId) -> u64 {
    outermost(call).position().map_or(0, |(turn, _)| u64::from(turn))
}

/// Returns the call of a model that `call` is, or within whose code it was made.
fn outermost(call: &CallId) -> CallId {
    let mut outermost = call.clone();
    while let Some((outer, _)) = outermost.outer() {
        outermost = outer;
    }
    outermost
}
