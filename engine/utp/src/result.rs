//! Building the content of a `tool.result` card, so that status, error and result agree.

use baton_types::call::AfterExecution;
use baton_types::json::Json;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::card::{ResultError, ToolResultContent};
use crate::control::set_by_result;
use crate::error_code::ErrorCode;
use crate::read::shown;
use crate::status::Status;

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
    /// Returns a success with `result`. A value that is no JSON becomes the error `result_not_serializable`.
    pub fn success<T: Serialize + ?Sized>(result: &T) -> Self {
        match Json::of_outside(result) {
            Ok(result) => Self { status: Status::Success.as_str().to_owned(), after_execution: None, result, error: None },
            Err(error) => {
                Self::failed(ResultError::new(ErrorCode::RESULT_NOT_SERIALIZABLE, format!("the result is no JSON: {error}")))
            }
        }
    }

    /// Returns a failure.
    pub fn failed(error: ResultError) -> Self {
        Self { status: Status::Failed.as_str().to_owned(), after_execution: None, result: Json::null(), error: Some(error) }
    }

    /// Returns the content of the card.
    ///
    /// - A status that is none becomes `failed`, with the error `invalid_status`. An error that was there is its detail.
    /// - `success` with an error becomes `failed`.
    /// - Every other status without an error gets `unknown_error`.
    /// - The result of a card with an error has `error_code` and `error_message`. A result that is no object moves to `output`.
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
                let message = format!("the status of the result is {shown}; expected {}", crate::callback::STATUS_RULE);
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
