//! One entry as a line of the public format.

use std::collections::BTreeMap;
use std::fmt;

use baton_types::document::{ContentFacts, DocumentRef};
use baton_types::entry::{Entry, Holder, Recorded, TaskKind};
use baton_types::id::{CallId, RunId, TaskId};
use baton_types::json::Json;
use baton_types::time::Timestamp;
use baton_types::tool_type::ToolType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the format, as each line has it in `v`. It is 0 until the format is frozen.
pub const VERSION: u32 = 0;

/// One entry of a timeline, with what earlier entries say about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Form", try_from = "Form")]
pub struct Line {
    /// The run whose timeline it is. A fork shares the first entries of its original; its lines bear the fork's id.
    pub run: RunId,
    /// The place in the run, from 1 without gaps.
    pub seq: u64,
    /// The number of the decision. Entries of one decision answer one event, and became durable together.
    pub decision: u64,
    /// The moment of the decision.
    pub at: Timestamp,
    /// The task that the entry belongs to; `None` for the whole run.
    pub task: Option<TaskId>,
    /// The kind of that task.
    pub task_kind: Option<TaskKind>,
    /// The holder of that task.
    pub holder: Option<Holder>,
    /// The type of the line.
    pub kind: Kind,
    /// The tool of a call, or the tool whose call created a task.
    pub tool: Option<String>,
    /// The call.
    pub call: Option<CallId>,
    /// The input of a call, or the request of the root task; else `null`.
    pub input: Json,
    /// The result of a call or of the root task; else `null`.
    pub result: Json,
    /// The output for the user: the message of a turn, or the result of a call with `"return_to_llm": false`; else `null`.
    pub output: Json,
    /// The documents that the entry names, in order.
    pub documents: Vec<DocumentReference>,
    /// The task at the other end: the caller of a created task, the callee of a call, the asker of a question.
    pub with: Option<OtherTask>,
    /// The tasks, calls and questions that end with this entry.
    pub closes: Closed,
    /// The stored entry.
    pub entry: Entry,
}

impl Line {
    /// Returns the entry as it is stored. Nothing of it is lost in a line.
    pub fn recorded(&self) -> Recorded {
        Recorded { seq: self.seq, decision: self.decision, at: self.at, entry: self.entry.clone() }
    }
}

/// The type of a line: the tool type of a call, `root` for the beginning and the end of the root task, else the entry's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call of a tool of this type, or the root task.
    Tool(ToolType),
    /// Another entry, by its name.
    Entry(&'static str),
}

impl Kind {
    /// Returns the name of the type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool(tool_type) => tool_type.as_str(),
            Self::Entry(name) => name,
        }
    }

    /// Returns the names of all types: those of the tool types first, then those of the entries.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ToolType::ALL.into_iter().map(ToolType::as_str).chain(Entry::NAMES.iter().copied())
    }

    fn named(name: &str) -> Option<Self> {
        let tool = ToolType::ALL.into_iter().find(|tool_type| tool_type.as_str() == name).map(Self::Tool);
        tool.or_else(|| Entry::NAMES.iter().find(|known| **known == name).map(|known| Self::Entry(known)))
    }
}

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| serde::de::Error::custom(format!("no line has the type {name:?}")))
    }
}

impl JsonSchema for Kind {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "enum": Self::names().collect::<Vec<_>>() })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// A version of a document, with the facts of its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentReference {
    /// The document and its version.
    #[serde(flatten)]
    pub reference: DocumentRef,
    /// The content. Absent if no earlier entry has written this version.
    #[serde(flatten)]
    pub content: Option<ContentFacts>,
}

impl fmt::Display for DocumentReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reference.fmt(f)
    }
}

/// Another task that an entry concerns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OtherTask {
    /// The task.
    pub task: TaskId,
    /// Its holder, if the task exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

/// The tasks, calls and questions that end with an entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Closed {
    /// The tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// The calls. Calls of a task that ends before they finish have no result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallId>,
    /// The numbers of the questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<u32>,
}

impl Closed {
    /// Whether nothing ends.
    pub fn is_empty(&self) -> bool {
        let Self { tasks, calls, questions } = self;
        tasks.is_empty() && calls.is_empty() && questions.is_empty()
    }
}

/// One entry of a run.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Line")]
pub(crate) struct Form {
    /// The version of this format.
    v: u32,
    /// The run whose timeline it is.
    run: RunId,
    /// The place in the run, from 1 without gaps.
    seq: u64,
    /// The number of the decision. Entries of one decision answer one event, and became durable together.
    decision: u64,
    /// The moment of the decision, ISO 8601 in UTC with microseconds.
    timestamp: String,
    /// The task that the entry belongs to; `null` for the whole run.
    task: Option<TaskId>,
    /// The kind of that task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_kind: Option<TaskKind>,
    /// The holder of that task.
    holder: Option<Holder>,
    /// The tool type of a call, `root` for the beginning and the end of the root task, else the entry's name.
    #[serde(rename = "type")]
    kind: Kind,
    /// The tool of a call, or the tool whose call created a task.
    tool: Option<String>,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<CallId>,
    /// The input of a call, or the request of the root task; else `null`.
    input: Json,
    /// The result of a call or of the root task; else `null`.
    result: Json,
    /// The output for the user: the message of a turn, or the result of a call with `"return_to_llm": false`.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    output: Json,
    /// The documents that the entry names, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    documents: Vec<DocumentReference>,
    /// The task at the other end: the caller of a created task, the callee of a call, the asker of a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    with: Option<OtherTask>,
    /// The tasks, calls and questions that end with this entry.
    #[serde(default, skip_serializing_if = "Closed::is_empty")]
    closes: Closed,
    /// The entry's name.
    entry: String,
    /// The entry as it is stored. Its form follows from its name.
    data: Json,
}

impl From<Line> for Form {
    fn from(line: Line) -> Self {
        let Line {
            run,
            seq,
            decision,
            at,
            task,
            task_kind,
            holder,
            kind,
            tool,
            call,
            input,
            result,
            output,
            documents,
            with,
            closes,
            entry,
        } = line;
        Self {
            v: VERSION,
            run,
            seq,
            decision,
            timestamp: at.to_string(),
            task,
            task_kind,
            holder,
            kind,
            tool,
            call,
            input,
            result,
            output,
            documents,
            with,
            closes,
            entry: entry.name().to_owned(),
            data: data(&entry),
        }
    }
}

/// Returns what is stored of `entry` beside its name. Stored entries are externally tagged: `{"name": data}`.
fn data(entry: &Entry) -> Json {
    let tagged = Json::of(entry).expect("an entry that was stored serialises");
    let mut data: BTreeMap<String, Json> = serde_json::from_str(tagged.text()).expect("an entry is an object");
    data.remove(entry.name()).expect("an entry is tagged with its name")
}

impl TryFrom<Form> for Line {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        let Form {
            v,
            run,
            seq,
            decision,
            timestamp,
            task,
            task_kind,
            holder,
            kind,
            tool,
            call,
            input,
            result,
            output,
            documents,
            with,
            closes,
            entry,
            data,
        } = form;
        if v != VERSION {
            return Err(format!("the line has version {v} of the format, this program knows version {VERSION}"));
        }
        let moment: jiff::Timestamp = timestamp.parse().map_err(|error| format!("{timestamp:?} is not a timestamp: {error}"))?;
        let tagged = Json::of(&BTreeMap::from([(&entry, &data)])).map_err(|error| error.to_string())?;
        let stored: Entry = serde_json::from_str(tagged.text()).map_err(|error| format!("the entry {entry:?}: {error}"))?;
        let at = Timestamp::from_micros(moment.as_microsecond());
        Ok(Self {
            run,
            seq,
            decision,
            at,
            task,
            task_kind,
            holder,
            kind,
            tool,
            call,
            input,
            result,
            output,
            documents,
            with,
            closes,
            entry: stored,
        })
    }
}
