//! The content of a `tool.result` card, built so that status, error and result agree.

use baton_types::call::{AfterExecution, CallError, CallResult, CallStatus};
use baton_types::json::Json;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::callback::STATUS_RULE;
use crate::command::AfterExecutionName;
use crate::control::set_by_result;
use crate::error_code::ErrorCode;
use crate::id::NAME_RULE;
use crate::read::{Fields, shown};
use crate::status::Status;

/// Content of a `tool.result` card. [`Given::content`] makes one whose parts agree.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "UTP card tool.result")]
pub struct ToolResultContent {
    /// Status of the result.
    pub status: Status,
    /// The next step that the result asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AfterExecutionName>")]
    pub after_execution: Option<AfterExecution>,
    /// The result. With an error it has `error_code` and `error_message`.
    pub result: Json,
    /// The error; `null` for a success.
    pub error: Option<ResultError>,
}

/// Error of a result.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ResultError {
    /// Its code. The set is open.
    pub code: ErrorCode,
    /// One sentence.
    pub message: String,
    /// Anything else that helps.
    #[serde(skip_serializing_if = "Json::is_null")]
    #[schemars(default)]
    pub detail: Json,
}

impl ResultError {
    /// Returns an error without detail.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: Json::null() }
    }
}

impl From<&CallError> for ResultError {
    fn from(error: &CallError) -> Self {
        Self { code: error.code.into(), message: error.message.clone(), detail: error.detail.clone() }
    }
}

/// A result as a tool gave it. Nothing in it has to agree.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its status, as text.
    pub status: String,
    /// The next step that it asks for.
    pub after_execution: Option<AfterExecution>,
    /// The result.
    pub result: Json,
    /// The error.
    pub error: Option<ResultError>,
}

impl Given {
    /// Returns a success with `result`. A value that is not JSON becomes the error `result_not_serializable`.
    pub fn success<T: Serialize + ?Sized>(result: &T) -> Self {
        match Json::of_outside(result) {
            Ok(result) => Self { status: Status::Success.as_str().to_owned(), after_execution: None, result, error: None },
            Err(error) => {
                Self::failed(ResultError::new(ErrorCode::RESULT_NOT_SERIALIZABLE, format!("the result is not JSON: {error}")))
            }
        }
    }

    /// Returns a failure.
    pub fn failed(error: ResultError) -> Self {
        Self { status: Status::Failed.as_str().to_owned(), after_execution: None, result: Json::null(), error: Some(error) }
    }

    /// Returns the content of the card.
    ///
    /// - An unknown status becomes `failed`, with the error `invalid_status`. An error that was there is its detail.
    /// - `success` with an error becomes `failed`.
    /// - Every other status without an error gets `unknown_error`.
    /// - The result of a card with an error has `error_code` and `error_message`. A result that is not an object moves to `output`.
    /// - `__cg_control.after_execution` of the result becomes that of the card.
    pub fn content(self) -> ToolResultContent {
        let Self { status: given, after_execution, result, error } = self;
        let after_execution = set_by_result(&result).or(after_execution);
        let (status, error) = match (Status::parse(&given), error) {
            (Some(Status::Success), None) => (Status::Success, None),
            (Some(Status::Success), Some(error)) => (Status::Failed, Some(error)),
            (Some(status), None) => {
                let message = format!("the result has status \"{status}\" and no error");
                (status, Some(ResultError::new(ErrorCode::UNKNOWN_ERROR, message)))
            }
            (Some(status), Some(error)) => (status, Some(error)),
            (None, earlier) => {
                let shown = shown(&Value::from(given));
                let message = format!("the status of the result is {shown}; expected {STATUS_RULE}");
                let mut error = ResultError::new(ErrorCode::INVALID_STATUS, message);
                if let Some(earlier) = earlier {
                    error.detail = Json::from(json!({"error": earlier}));
                }
                (Status::Failed, Some(error))
            }
        };
        let result = match &error {
            None => result,
            Some(error) => with_error(&result, error),
        };
        ToolResultContent { status, after_execution, result, error }
    }
}

/// Returns `result` with the code and the message of `error`.
fn with_error(result: &Json, error: &ResultError) -> Json {
    let mut keys = match result.value() {
        Value::Object(keys) => keys,
        Value::Null => Map::new(),
        other => Map::from_iter([("output".to_owned(), other)]),
    };
    keys.insert("error_code".to_owned(), Value::from(error.code.as_str()));
    keys.insert("error_message".to_owned(), Value::from(error.message.as_str()));
    Json::from(Value::Object(keys))
}

impl ToolResultContent {
    /// Returns the content for a result on a timeline. `after` is the step that it led to.
    pub fn of(result: &CallResult, after: AfterExecution) -> Self {
        let mut error = result.error.as_ref().map(ResultError::from);
        if result.status == CallStatus::UnknownOutcome {
            let message = || "a crash left it unknown whether the call had its effect".to_owned();
            let message = error.take().map_or_else(message, |error| error.message);
            error = Some(ResultError::new(ErrorCode::UNKNOWN_OUTCOME, message));
        }
        let status = Status::from(result.status).as_str().to_owned();
        let output = result.output.shown().into_owned();
        let mut content = Given { status, after_execution: None, result: output, error }.content();
        // An override within the output has been judged before: its effect is in `after`.
        content.after_execution = Some(after);
        content
    }

    /// Returns the result as a timeline records it. A code that timelines do not have is in the detail.
    pub fn to_result(&self) -> CallResult {
        let Some(error) = &self.error else { return CallResult::success(self.result.clone()) };
        let code = error.code.on_timeline();
        let detail = if ErrorCode::from(code) == error.code {
            error.detail.clone()
        } else {
            let mut detail = json!({"code": error.code});
            if !error.detail.is_null() {
                detail["detail"] = error.detail.value();
            }
            Json::from(detail)
        };
        let unknown = self.status == Status::Failed && error.code == ErrorCode::UNKNOWN_OUTCOME;
        let status = if unknown { CallStatus::UnknownOutcome } else { self.status.into() };
        let mut result = CallResult::error(status, CallError::new(code, error.message.as_str()).with_detail(detail));
        if self.status == Status::Partial {
            result.output = self.result.clone().into();
        }
        result
    }

    /// Reads a content, whose parts need not agree. `raw` returns a value of the card as it is written.
    pub(crate) fn read(fields: &mut Fields<'_>, raw: impl Fn(&[&str]) -> Option<Json>) -> Option<Self> {
        // Any text is taken: an unknown one makes the result a failure, which is better than none.
        let status = fields.choice("status", "a text", |text| Some(text.to_owned()));
        let after_execution = match fields.optional("after_execution") {
            None => Some(None),
            Some(_) => fields.after("after_execution").map(Some),
        };
        let result = raw(&["content", "result"]).unwrap_or_default();
        let error = match fields.optional("error") {
            None => Some(error_within(&result)),
            Some(_) => fields
                .object("error", |error| {
                    let code = error.choice("code", NAME_RULE, ErrorCode::parse);
                    let message = error.choice("message", "a text", |text| Some(text.to_owned()));
                    let detail = raw(&["content", "error", "detail"]).unwrap_or_default();
                    Some(ResultError { code: code?, message: message?, detail })
                })
                .map(Some),
        };
        Some(Given { status: status?, after_execution: after_execution?, result, error: error? }.content())
    }
}

/// Returns the error that a result without success has only in `error_code` and `error_message`.
fn error_within(result: &Json) -> Option<ResultError> {
    if !result.text().contains("error_code") {
        return None;
    }
    let result = result.value();
    let code = result.get("error_code").and_then(Value::as_str).and_then(ErrorCode::parse)?;
    let message = result.get("error_message").and_then(Value::as_str).unwrap_or_default();
    Some(ResultError::new(code, message))
}
