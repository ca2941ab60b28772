//! Classes of faults by their codes and words: providers use one status, and one type, for very different things.

use super::Fault;

/// Meaning of a fault for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The account cannot pay.
    NoCredit,
    /// The request is longer than what the model takes.
    TooLong,
    /// The key is not accepted, or not for this.
    KeyRefused,
    /// The provider withholds the answer because of its content, or that of the request.
    Filtered,
    /// The provider has no such model, or not for this account.
    NoModel,
    /// The model wrote a call or a text that its server could not read. Another answer may be readable.
    BadTurn,
    /// Too much in too little time.
    Rate,
    /// The request itself is at fault.
    Rejected,
}

/// The signs of a class.
struct Rule {
    class: Class,
    /// Statuses with which the signs count; all of them if empty. In the middle of an answer there is no status.
    statuses: &'static [u16],
    /// Codes and types, as they are.
    codes: &'static [&'static str],
    /// Words of messages, in lowercase; `*` for anything between them.
    words: &'static [&'static str],
}

/// The rules in order of precedence: the first rule with a matching sign sets the class. The tests name the provider of each sign.
const RULES: [Rule; 9] = [
    Rule {
        class: Class::BadTurn,
        statuses: &[],
        codes: &["tool_use_failed", "output_parse_failed", "json_validate_failed"],
        words: &[],
    },
    Rule {
        class: Class::NoCredit,
        statuses: &[],
        codes: &[
            "insufficient_quota",
            "insufficient_credits",
            "insufficient_balance",
            "billing_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "exceeded_current_quota_error",
            "Arrearage",
            "1113",
        ],
        words: &[
            "credit balance is too low",
            "insufficient credits",
            "requires more credits",
            "insufficient balance",
            "used all available credits",
            "reached your specified api usage limits",
            "make sure your account is in good standing",
        ],
    },
    Rule {
        class: Class::Filtered,
        statuses: &[],
        codes: &[
            "content_filter",
            "content_policy_violation",
            "moderation_blocked",
            "invalid_prompt",
            "data_inspection_failed",
            "DataInspectionFailed",
            "1301",
        ],
        words: &[
            "requires moderation",
            "your input was flagged",
            "flagged as potentially violating",
            "content management policy",
            "blocked by content filtering policy",
            "content violates usage guidelines",
            "content exists risk",
            "considered high risk",
        ],
    },
    Rule {
        class: Class::TooLong,
        statuses: &[400, 413, 422, 500],
        codes: &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "model_max_prompt_tokens_exceeded",
            "request_too_large",
            "1261",
        ],
        words: &[
            "prompt is too long",
            "prompt too long",
            "input is too long",
            "exceed context limit",
            "context window",
            "maximum context length",
            "exceeds the available context size",
            "exceeds the maximum number of tokens",
            "maximum prompt length",
            "reduce the length of the messages",
            "prompt token count of",
            "greater than the context length",
            "longer than the model's context length",
            "longer than the maximum model length",
            "exceeded model token limit",
            "prompt exceeds max length",
            "range of input length",
            "`max_new_tokens` must be <=",
            "`inputs` must have less than",
        ],
    },
    Rule {
        class: Class::NoModel,
        statuses: &[400, 403, 404, 410, 422],
        codes: &["model_not_found", "model_not_available", "model_decommissioned", "invalid_model", "ModelNotFound"],
        words: &[
            "is not a valid model id",
            "no endpoints found",
            "model not exist",
            "model not found",
            "model identifier is invalid",
            "model * does not exist",
        ],
    },
    Rule {
        class: Class::KeyRefused,
        statuses: &[400, 401, 403],
        codes: &[
            "authentication_error",
            "permission_error",
            "invalid_api_key",
            "wrong_api_key",
            "invalid_authentication_error",
            "API_KEY_INVALID",
            "UNAUTHENTICATED",
            "PERMISSION_DENIED",
        ],
        words: &[
            "api key not valid",
            "incorrect api key",
            "invalid api key",
            "api key expired",
            "api key was reported as leaked",
            "this organization has been disabled",
        ],
    },
    Rule {
        class: Class::Rate,
        statuses: &[400, 403],
        codes: &[
            "rate_limit_error",
            "rate_limit_exceeded",
            "too_many_requests",
            "RESOURCE_EXHAUSTED",
            "ThrottlingException",
            "1302",
        ],
        words: &[],
    },
    // Before an answer its status is known.
    Rule { class: Class::NoModel, statuses: &[404], codes: &["not_found_error"], words: &[] },
    Rule {
        class: Class::Rejected,
        statuses: &[400],
        codes: &["invalid_request_error", "not_found_error", "INVALID_ARGUMENT"],
        words: &[],
    },
];

/// Returns the class that the codes and the words of `fault` show, if they do. `status` is that of the answer, if it had one.
pub(crate) fn class_of(fault: &Fault, status: Option<u16>) -> Option<Class> {
    let words = fault.message.to_lowercase();
    let shows = |rule: &&Rule| {
        let codes = [&fault.code, &fault.kind].into_iter().flatten();
        let counts = rule.statuses.is_empty() || status.is_none_or(|status| rule.statuses.contains(&status));
        counts
            && (codes.into_iter().any(|code| rule.codes.contains(&code.as_str()))
                || rule.words.iter().any(|sign| matches(&words, sign)))
    };
    RULES.iter().find(shows).map(|rule| rule.class)
}

/// Whether the parts of `sign` are in `words` one after the other.
fn matches(words: &str, sign: &str) -> bool {
    let rest = |words: &'_ str, part: &str| words.find(part).map(|at| at + part.len());
    let mut from = 0;
    sign.split('*').all(|part| match rest(&words[from..], part) {
        Some(end) => {
            from += end;
            true
        }
        None => false,
    })
}
