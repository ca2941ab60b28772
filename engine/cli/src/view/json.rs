//! A run as one JSON object, which `run`, `resume` and `show` print with `--output json`.

use baton_machine::{Spent, Task};
use baton_types::call::{CallError, ErrorCode};
use baton_types::document::{Document, DocumentVersion};
use baton_types::entry::{Holder, QuestionEnd};
use baton_types::id::{AgentId, RunId};
use baton_types::json::Json;
use baton_types::model::Usage;
use baton_types::principal::Principal;
use serde::Serialize;
use serde_json::Value;

use super::approval::CallReport;
use super::failure::Failure;
use super::suspended::SuspendedReport;
use super::usage::{UnsettledReport, usd};
use super::{Asked, NotUsed, RunView, state};

/// A run, as programs read it. New keys may be added; existing keys are never renamed.
#[derive(Debug, Serialize)]
pub(crate) struct RunReport {
    run: RunId,
    job: String,
    status: String,
    result: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    /// The first cause of an end without success.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    documents: Vec<DocumentReport>,
    tasks: Vec<TaskReport>,
    questions: Vec<QuestionReport>,
    /// The suspended calls. Only `show` lists them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suspended: Vec<SuspendedReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<Json>,
    /// The run that it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    continues: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<ForkReport>,
    usage: UsageReport,
    /// Cost in US dollars; `null` if a price is unknown.
    cost_usd: Option<f64>,
    elapsed_ms: u64,
}

/// A document in a report.
#[derive(Debug, Serialize)]
pub(crate) struct DocumentReport {
    path: String,
    version: u32,
    mime_type: String,
    size_bytes: u64,
    token_count: u64,
    /// The author of the first version; `null` for the job's own documents.
    created_by: Option<Principal>,
    /// The author of this version.
    updated_by: Option<Principal>,
    summary: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// Time of the first version.
    created_at: String,
    /// Time of this version.
    updated_at: String,
    /// The task that wrote this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
}

/// A task in a report.
#[derive(Debug, Serialize)]
struct TaskReport {
    task: String,
    /// The agent; `null` if a person holds the task.
    agent: Option<AgentId>,
    holder: Holder,
    status: String,
    caller: Option<String>,
    kind: baton_types::entry::TaskKind,
    turns: u32,
    tokens: u64,
    cost_usd: Option<f64>,
    subtree: SpentReport,
}

/// Usage and cost of a task and all tasks below it.
#[derive(Debug, Serialize)]
pub(crate) struct SpentReport {
    tokens: u64,
    cost_usd: Option<f64>,
}

/// A question in a report.
#[derive(Debug, Serialize)]
pub(crate) struct QuestionReport {
    question: String,
    task: String,
    asked_by: Option<Holder>,
    asked_of: Holder,
    text: String,
    /// The call that an open approval question is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<CallReport>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<Principal>,
    #[serde(skip_serializing_if = "Json::is_null")]
    answer_schema: Json,
    documents: Vec<String>,
}

/// The origin of a fork, and its own usage. The `usage` of the run also counts the shared entries and the recorded answers; the
/// `usage` here does not.
#[derive(Debug, Serialize)]
struct ForkReport {
    run: RunId,
    seq: u64,
    turns: u32,
    recorded_turns: u32,
    usage: TokensReport,
    cost_usd: Option<f64>,
}

/// The usage of models in a report.
#[derive(Debug, Serialize)]
pub(crate) struct UsageReport {
    /// Usage as providers reported it, or an estimate without such a report.
    used: TokensReport,
    /// The largest possible usage of open requests.
    reserved: UnsettledReport,
    /// The largest possible usage of requests whose usage is unknown.
    unknown: UnsettledReport,
}

impl UsageReport {
    /// Returns the report of `used` and `not_used`.
    pub(crate) fn new(used: Usage, not_used: NotUsed) -> Self {
        Self { used: used.into(), reserved: not_used.reserved.into(), unknown: not_used.unknown.into() }
    }
}

/// Tokens in a report.
#[derive(Debug, Serialize)]
struct TokensReport {
    input_tokens: u64,
    output_tokens: u64,
    cached_tokens: u64,
    reasoning_tokens: u64,
    estimated: bool,
}

impl RunView {
    /// Returns the run's status in one word: its result's status after the end, else `queued`, `waiting`, `quarantined`,
    /// `paused`, `waiting_for_provider`, `interrupted` or `running`.
    pub(crate) fn status(&self) -> &'static str {
        match self.run.ended() {
            Some(ended) => match ended.status {
                baton_types::call::CallStatus::Success => "success",
                status => status.as_str(),
            },
            None if self.queued => "queued",
            None if self.run.totals().quarantined => "quarantined",
            None if self.waits_for_person() => "waiting",
            None if self.run.totals().paused => "paused",
            None if !self.away.is_empty() => "waiting_for_provider",
            None if self.interrupted => "interrupted",
            None => "running",
        }
    }

    /// Returns true if the run continues only after a person's answer.
    pub(crate) fn waits_for_person(&self) -> bool {
        let totals = self.run.totals();
        let stopped = || !self.away.is_empty() && totals.active_tasks as usize == self.away.len();
        self.run.waits_only_for_people() || (totals.open_questions > 0 && stopped())
    }

    /// Returns the error of the root's result, or the reason why the run waits for a provider.
    fn error(&self) -> Option<CallError> {
        let of_result = || self.result()?.error.clone();
        let away = self.away.values().next().filter(|_| self.run.ended().is_none());
        away.map(|waited| CallError::new(ErrorCode::ModelUnavailable, waited.reason.clone())).or_else(of_result)
    }

    /// Returns the report of the run.
    pub(crate) fn report(&self) -> RunReport {
        let (started, totals) = (self.run.started(), self.run.totals());
        RunReport {
            run: started.map_or_else(|| RunId::new(""), |started| started.run.clone()),
            job: started.map(|started| started.job.to_string()).unwrap_or_default(),
            status: self.status().to_owned(),
            result: self.result().map_or(Value::Null, |result| result.output.value()),
            error: self.error().as_ref().map(CallError::to_value),
            failure: self.failure(),
            limit: totals.ended.as_ref().and_then(|ended| ended.limit).map(|limit| limit.to_string()),
            documents: self
                .handed_off()
                .into_iter()
                .filter_map(|version| Some(Self::document_report(self.run.documents().get(&version.path)?, version)))
                .collect(),
            tasks: self.task_reports(),
            questions: self.questions().map(|asked| self.question_report(asked)).collect(),
            suspended: self.suspended.clone(),
            outputs: self.outputs.clone(),
            continues: started.and_then(|started| started.continues.clone()),
            fork: started.and_then(|started| started.forked_from.as_ref()).map(|of| ForkReport {
                run: of.run.clone(),
                seq: of.seq,
                turns: self.fork.turns,
                recorded_turns: self.fork.recorded_turns,
                usage: self.fork.used.usage.into(),
                cost_usd: usd(self.fork.used.cost),
            }),
            usage: UsageReport::new(self.used.usage, self.not_used_by_run()),
            cost_usd: usd(self.used.cost),
            elapsed_ms: u64::try_from(totals.latest.since(self.began).as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn task_reports(&self) -> Vec<TaskReport> {
        let spent = self.spent();
        let report = |task: &Task| {
            let used = self.row(&task.id).used;
            TaskReport {
                task: task.id.to_string(),
                agent: task.agent().cloned(),
                holder: task.holder.clone(),
                status: state(&task.phase).to_owned(),
                caller: self.run.graph().caller(&task.id).map(|caller| caller.id.to_string()),
                kind: task.kind,
                turns: task.turns,
                tokens: used.usage.total(),
                cost_usd: usd(used.cost),
                subtree: spent[&task.id].0.into(),
            }
        };
        self.run.graph().iter().map(report).collect()
    }

    /// Returns the report of a document at one of its versions.
    pub(crate) fn document_report(document: &Document, version: &DocumentVersion) -> DocumentReport {
        let first = document.version(1).map_or(version, |first| &**first);
        DocumentReport {
            path: version.path.to_string(),
            version: version.version,
            mime_type: version.content.mime_type.clone(),
            size_bytes: version.content.size_bytes,
            token_count: version.content.token_count,
            created_by: first.created_by.clone(),
            updated_by: version.created_by.clone(),
            summary: version.content.summary.clone(),
            description: version.description.clone(),
            tags: version.tags.clone(),
            created_at: first.at.to_string(),
            updated_at: version.at.to_string(),
            task: version.task.as_ref().map(ToString::to_string),
        }
    }

    /// Returns the report of a question.
    pub(crate) fn question_report(&self, asked: Asked<'_>) -> QuestionReport {
        let Asked { task, question } = asked;
        let (state, answer, by) = match question.closed.as_deref() {
            None => ("open", None, None),
            Some(QuestionEnd::Answered { by, answer, .. }) => ("answered", Some(answer.clone()), Some(by.clone())),
            Some(QuestionEnd::Expired { default }) => ("expired", Some(default.clone()).filter(|value| !value.is_null()), None),
            Some(QuestionEnd::Escalated { .. }) => ("escalated", None, None),
            Some(QuestionEnd::Failed { .. }) => ("failed", None, None),
        };
        QuestionReport {
            question: format!("Q{}", question.number),
            task: task.id.to_string(),
            asked_by: self.run.task(&question.asker).map(|asker| asker.holder.clone()),
            asked_of: task.holder.clone(),
            text: question.text.to_string(),
            call: self.to_approve(task).filter(|_| asked.is_open()).map(|call| CallReport::of(call, self.previews.get(&task.id))),
            state,
            answer,
            answered_by: by,
            answer_schema: question.answer_schema.clone(),
            documents: question.documents.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<Spent> for SpentReport {
    fn from(spent: Spent) -> Self {
        Self { tokens: spent.usage.total(), cost_usd: usd(spent.cost) }
    }
}

impl From<Usage> for TokensReport {
    fn from(usage: Usage) -> Self {
        let Usage { input_tokens, output_tokens, cached_tokens, reasoning_tokens, estimated } = usage;
        Self { input_tokens, output_tokens, cached_tokens, reasoning_tokens, estimated }
    }
}
