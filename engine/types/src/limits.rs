//! Limits: what a run, an agent and a task may use. Checked before the act.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::{CallError, ErrorCode};
use crate::money::Money;

/// The most US dollars that a limit can say.
pub const MAX_DOLLARS: f64 = 1_000_000.0;

/// The limits a person may write on a job, an agent or a tool that delegates. An absent key means the default
/// of its level ([`Limits::run_defaults`], [`Limits::task_defaults`]) or, where there is none, no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Turns of the model. One of them is set aside for a last turn that may only hand off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub turns: Option<u32>,
    /// Deepest nesting of delegations; the root has depth 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000))]
    pub depth: Option<u32>,
    /// Delegations that one task may make in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000_000))]
    pub children: Option<u32>,
    /// Tasks that may be unfinished at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub live_tasks: Option<u32>,
    /// Function calls that may run at the same time; more of them wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub parallel_calls: Option<u32>,
    /// Tokens of requests and answers together, estimates included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// Calls that a task may make in its life, and a run in all of its tasks: functions, logged calls, delegations and
    /// questions. Refused calls count too, so that a model cannot make them without end. Handoffs do not count, nor do calls of a
    /// turn that executes nothing. The call beyond the limit is refused with `limit_reached`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000_000))]
    pub calls: Option<u32>,
    /// Tokens (≈) of one request and the longest answer to it, together. Older turns are compacted before a request exceeds
    /// it; one that exceeds it all the same is never made. A model's own window counts where it is smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 256))]
    pub context_tokens: Option<u64>,
    /// Money in US dollars, of a task and all below it. Needs a price for every model that may spend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = MAX_DOLLARS))]
    pub cost_usd: Option<f64>,
    /// Bytes of one call's output; a larger output is an error result, whether it is for the agent or the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub result_bytes: Option<u64>,
    /// Bytes of one call's output that its agent is shown; a longer one becomes a document, and the agent is told where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 256))]
    pub inline_result_bytes: Option<u64>,
    /// Number of times in a row that one tool may give the same result for the same input before it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 1_000_000))]
    pub repeats: Option<u32>,
    /// Seconds that one attempt at a model request may take; past them it is stopped and its task fails with status `timeout`.
    /// Time in which the provider is away does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub turn_seconds: Option<u32>,
    /// Seconds of work; waiting for a person or for a provider that is away does not count. Looked at before each request: what runs may finish, within
    /// `turn_seconds` and the time-outs of its tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub worked_seconds: Option<u64>,
    /// Seconds from the start, whatever happens in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub deadline_seconds: Option<u64>,
    /// Tokens of documents that one delegation, question or handoff injects whole; the rest arrive as summary and pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inject_tokens: Option<u64>,
}

impl Limits {
    /// Returns the limits of a run whose job sets none.
    pub fn run_defaults() -> Self {
        Self { turns: Some(10_000), depth: Some(16), live_tasks: Some(1_000), parallel_calls: Some(64), ..Self::default() }
    }

    /// Returns the limits of a task for which neither its agent nor the tool that created it sets any.
    pub fn task_defaults() -> Self {
        Self {
            turns: Some(100),
            children: Some(100),
            parallel_calls: Some(16),
            result_bytes: Some(1 << 20),
            inline_result_bytes: Some(1 << 16),
            repeats: Some(5),
            inject_tokens: Some(20_000),
            ..Self::default()
        }
    }

    /// Returns these limits, completed from `fallback`.
    pub fn or(&self, fallback: &Self) -> Self {
        Self {
            turns: self.turns.or(fallback.turns),
            depth: self.depth.or(fallback.depth),
            children: self.children.or(fallback.children),
            live_tasks: self.live_tasks.or(fallback.live_tasks),
            parallel_calls: self.parallel_calls.or(fallback.parallel_calls),
            tokens: self.tokens.or(fallback.tokens),
            context_tokens: self.context_tokens.or(fallback.context_tokens),
            calls: self.calls.or(fallback.calls),
            cost_usd: self.cost_usd.or(fallback.cost_usd),
            result_bytes: self.result_bytes.or(fallback.result_bytes),
            inline_result_bytes: self.inline_result_bytes.or(fallback.inline_result_bytes),
            repeats: self.repeats.or(fallback.repeats),
            turn_seconds: self.turn_seconds.or(fallback.turn_seconds),
            worked_seconds: self.worked_seconds.or(fallback.worked_seconds),
            deadline_seconds: self.deadline_seconds.or(fallback.deadline_seconds),
            inject_tokens: self.inject_tokens.or(fallback.inject_tokens),
        }
    }

    /// Returns the most money that may be spent, where there is such a limit.
    pub fn cost(&self) -> Option<Money> {
        self.cost_usd.map(Money::from_usd)
    }

    /// Whether a request must be reserved before it is made, since tokens or money are limited.
    pub const fn has_budget(&self) -> bool {
        self.tokens.is_some() || self.cost_usd.is_some()
    }
}

/// The limits of a session: of a run and of all runs that it continues, together. An absent key means no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionLimits {
    /// Turns of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub turns: Option<u32>,
    /// Calls, counted as [`Limits::calls`] are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000_000))]
    pub calls: Option<u32>,
    /// Tokens of requests and answers together, estimates included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// Money in US dollars. Needs a price for every model that may spend it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = MAX_DOLLARS))]
    pub cost_usd: Option<f64>,
}

impl SessionLimits {
    /// Returns the limits of tokens and money.
    pub fn budget(&self) -> Limits {
        Limits { tokens: self.tokens, cost_usd: self.cost_usd, ..Limits::default() }
    }
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// [`Limits::turns`] of the task.
    Turns,
    /// [`Limits::turns`] of the run.
    RunTurns,
    /// [`Limits::depth`].
    Depth,
    /// [`Limits::children`].
    Children,
    /// [`Limits::live_tasks`].
    LiveTasks,
    /// [`Limits::tokens`] of the task.
    Tokens,
    /// [`Limits::tokens`] of the run or of a task above.
    TokensAbove,
    /// [`Limits::context_tokens`], or the window of the model.
    Context,
    /// [`Limits::cost_usd`] of the task.
    Cost,
    /// [`Limits::cost_usd`] of the run or of a task above.
    CostAbove,
    /// [`Limits::calls`] of the task.
    Calls,
    /// [`Limits::calls`] of the run.
    RunCalls,
    /// [`SessionLimits::turns`].
    SessionTurns,
    /// [`SessionLimits::calls`].
    SessionCalls,
    /// [`SessionLimits::tokens`].
    SessionTokens,
    /// [`SessionLimits::cost_usd`].
    SessionCost,
    /// [`Limits::result_bytes`].
    ResultBytes,
    /// [`Limits::turn_seconds`].
    TurnSeconds,
    /// [`Limits::worked_seconds`].
    WorkedSeconds,
    /// [`Limits::deadline_seconds`].
    Deadline,
}

impl LimitKind {
    /// Returns the name of the limit in configs, with its level.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "limits.turns",
            Self::RunTurns => "limits.turns of the run",
            Self::Depth => "limits.depth",
            Self::Children => "limits.children",
            Self::LiveTasks => "limits.live_tasks",
            Self::Tokens => "limits.tokens",
            Self::TokensAbove => "limits.tokens of a task above or of the run",
            Self::Context => "limits.context_tokens or the model's window",
            Self::Cost => "limits.cost_usd",
            Self::CostAbove => "limits.cost_usd of a task above or of the run",
            Self::Calls => "limits.calls",
            Self::RunCalls => "limits.calls of the run",
            Self::SessionTurns => "session_limits.turns",
            Self::SessionCalls => "session_limits.calls",
            Self::SessionTokens => "session_limits.tokens",
            Self::SessionCost => "session_limits.cost_usd",
            Self::ResultBytes => "limits.result_bytes",
            Self::TurnSeconds => "limits.turn_seconds",
            Self::WorkedSeconds => "limits.worked_seconds",
            Self::Deadline => "limits.deadline_seconds",
        }
    }

    /// Checks that `used` is below the number that the limit allows; `None` allows any number.
    pub fn check(self, used: u32, allowed: Option<u32>) -> Result<(), CallError> {
        match allowed {
            Some(allowed) if used >= allowed => Err(self.error(allowed)),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the error of a call that the limit refuses.
    pub fn error(self, allowed: impl Into<Value>) -> CallError {
        let allowed: Value = allowed.into();
        CallError::new(ErrorCode::LimitReached, format!("{self} is reached: {allowed} allowed"))
            .with_detail(json!({"limit": self, "allowed": allowed}))
    }
}

impl std::fmt::Display for LimitKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A limit that is reached.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// The limit.
    pub limit: LimitKind,
    /// The amounts, if it is a limit of tokens or money.
    pub amounts: Option<Amounts>,
}

/// The amounts that reach a limit: tokens, or picodollars.
#[derive(Clone, Copy, Debug)]
pub struct Amounts {
    /// The amount that the limit allows.
    pub allowed: u64,
    /// The amount that is spent.
    pub spent: u64,
    /// The upper bound of what the next request may take, with its answer and with the last turns that wait for it.
    pub needed: u64,
}

impl From<LimitKind> for Reached {
    fn from(limit: LimitKind) -> Self {
        Self { limit, amounts: None }
    }
}

impl Reached {
    /// Returns the error of a task that ends because of this limit.
    pub fn error(self) -> CallError {
        let Self { limit, amounts } = self;
        let Some(Amounts { allowed, spent, needed }) = amounts else {
            let message = format!("{limit} was reached before the work was done");
            return CallError::new(ErrorCode::LimitReached, message).with_detail(json!({"limit": limit}));
        };
        let is_money = matches!(limit, LimitKind::Cost | LimitKind::CostAbove | LimitKind::SessionCost);
        let shown = |amount: u64| if is_money { Money::from_picos(amount).to_string() } else { format!("{amount} tokens") };
        let (setting, option) = if is_money { ("cost_usd", "--max-cost") } else { ("tokens", "--max-tokens") };
        let remedy = if matches!(limit, LimitKind::SessionTokens | LimitKind::SessionCost) {
            format!("Raise {limit} in the job")
        } else {
            format!("Raise limits.{setting} (for a run also {option})")
        };
        let message = format!(
            "{limit} allows {}, of which {} are used; the next request may take up to {} with its answer. {remedy}, or lower \
             max_tokens in the settings of the agent",
            shown(allowed),
            shown(spent),
            shown(needed)
        );
        let amount = |amount: u64| if is_money { json!(Money::from_picos(amount).as_usd()) } else { json!(amount) };
        let detail = json!({"limit": limit, "allowed": amount(allowed), "used": amount(spent), "needed": amount(needed)});
        CallError::new(ErrorCode::LimitReached, message).with_detail(detail)
    }
}
