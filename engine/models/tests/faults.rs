//! Classes of providers' errors: texts that they document, or that are known from public reports, with the provider of each.

use baton_models::ModelError;
use baton_models::wire::{Dialect, MAX_ANSWER_BYTES, WireError, fault_of};
use serde_json::{Value, json};

/// The class of an error.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    NoCredit,
    TooLong,
    KeyRefused,
    Filtered,
    NoModel,
    BadTurn,
    Rate,
    Rejected,
    Away,
}

fn class(error: &ModelError) -> Is {
    match error {
        ModelError::NoCredit { .. } => Is::NoCredit,
        ModelError::ContextExceeded { .. } => Is::TooLong,
        ModelError::KeyRefused { .. } => Is::KeyRefused,
        ModelError::Filtered { .. } => Is::Filtered,
        ModelError::NoModel { .. } => Is::NoModel,
        ModelError::BadTurn { .. } => Is::BadTurn,
        ModelError::RateLimited { .. } => Is::Rate,
        ModelError::Rejected { .. } => Is::Rejected,
        ModelError::Unavailable { .. } => Is::Away,
        other => panic!("no fault means {other:?}"),
    }
}

/// `{"error": {"message", "type", "code"}}`, as OpenAI and those like it have it. An empty type or code is absent.
fn openai(message: &str, kind: &str, code: &str) -> Value {
    let word = |word: &str| if word.is_empty() { Value::Null } else { Value::from(word) };
    json!({"error": {"message": message, "type": word(kind), "param": null, "code": word(code)}})
}

fn anthropic(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

fn google(code: u16, status: &str, message: &str, reason: &str) -> Value {
    let details = if reason.is_empty() {
        json!([])
    } else {
        json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}])
    };
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

fn router(code: u16, message: &str, metadata: &Value) -> Value {
    json!({"error": {"message": message, "code": code, "metadata": metadata}, "user_id": "u"})
}

/// Returns the errors: provider, status, body, class.
#[rustfmt::skip]
fn errors() -> Vec<(&'static str, u16, Value, Is)> {
    let raw = |raw: &str| json!({"raw": raw, "provider_name": "Upstream"});
    let invalid = "invalid_request_error";
    vec![
        // The request is longer than the window.
        ("Anthropic", 400, anthropic(invalid, "prompt is too long: 213462 tokens > 200000 maximum"), Is::TooLong),
        ("Anthropic", 400, anthropic(invalid, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"), Is::TooLong),
        ("Anthropic", 413, anthropic("request_too_large", "Request exceeds the maximum size"), Is::TooLong),
        ("OpenAI", 400, openai("This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.", invalid, "context_length_exceeded"), Is::TooLong),
        ("OpenAI, Responses", 400, openai("Your input exceeds the context window of this model. Please adjust your input and try again.", invalid, "context_length_exceeded"), Is::TooLong),
        ("Google", 400, google(400, "INVALID_ARGUMENT", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", ""), Is::TooLong),
        ("xAI", 400, json!({"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}), Is::TooLong),
        ("Groq", 400, openai("Please reduce the length of the messages or completion.", invalid, "context_length_exceeded"), Is::TooLong),
        ("Cerebras", 400, json!({"message": "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192", "type": invalid, "param": "messages", "code": "context_length_exceeded"}), Is::TooLong),
        ("OpenRouter", 400, router(400, "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens.", &json!({"provider_name": null})), Is::TooLong),
        ("OpenRouter, upstream Anthropic", 400, router(400, "Provider returned error", &raw("{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}")), Is::TooLong),
        ("llama.cpp", 400, json!({"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_ctx": 4096}}), Is::TooLong),
        ("LM Studio", 400, json!({"error": "The number of tokens to keep from the initial prompt is greater than the context length."}), Is::TooLong),
        ("GitHub Copilot", 400, openai("prompt token count of 128001 exceeds the limit of 128000", "", "model_max_prompt_tokens_exceeded"), Is::TooLong),
        ("MiniMax", 400, json!({"type": "error", "error": {"type": "bad_request_error", "message": "invalid params, context window exceeds limit (2013)"}}), Is::TooLong),
        ("Moonshot", 400, openai("Your request exceeded model token limit: 262144 (requested: 270112)", invalid, ""), Is::TooLong),
        ("Mistral", 400, json!({"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "type": "invalid_request_prompt", "code": "3051"}), Is::TooLong),
        ("Z.ai", 400, json!({"error": {"code": "1261", "message": "Prompt exceeds max length"}}), Is::TooLong),
        ("Alibaba", 400, openai("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", invalid, "invalid_parameter_error"), Is::TooLong),
        ("Together", 422, openai("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`", invalid, ""), Is::TooLong),
        ("Together, SGLang", 400, openai("The input (13000 tokens) is longer than the model's context length (8193 tokens).", invalid, ""), Is::TooLong),
        ("vLLM", 400, json!({"object": "error", "message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", "type": "BadRequestError", "code": 400}), Is::TooLong),
        ("TGI", 422, json!({"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", "error_type": "validation"}), Is::TooLong),
        ("Ollama", 400, json!({"error": "prompt too long; exceeded max context length by 10 tokens"}), Is::TooLong),
        ("DeepSeek", 400, openai("This model's maximum context length is 65536 tokens. However, you requested 70000 tokens.", invalid, invalid), Is::TooLong),
        ("Bedrock", 400, json!({"message": "Input is too long for requested model."}), Is::TooLong),
        // The account cannot pay.
        ("Anthropic", 400, anthropic(invalid, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."), Is::NoCredit),
        ("Anthropic", 400, anthropic(invalid, "You have reached your specified API usage limits. You will regain access on 2026-02-01 at 00:00 UTC."), Is::NoCredit),
        ("Anthropic", 402, anthropic("billing_error", "Your payment failed."), Is::NoCredit),
        ("OpenAI", 429, openai("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota", "insufficient_quota"), Is::NoCredit),
        ("OpenAI", 429, openai("Your account is not active, please check your billing details on our website.", "billing_not_active", "billing_not_active"), Is::NoCredit),
        ("OpenRouter", 402, router(402, "Insufficient credits. Add more using https://openrouter.ai/settings/credits", &json!({})), Is::NoCredit),
        ("OpenRouter", 402, router(402, "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can only afford 3000.", &json!({})), Is::NoCredit),
        ("DeepSeek", 402, openai("Insufficient Balance", "unknown_error", invalid), Is::NoCredit),
        ("Moonshot", 429, openai("Your account is suspended, please check your plan and billing details", "exceeded_current_quota_error", ""), Is::NoCredit),
        ("xAI", 403, json!({"code": "The caller does not have permission to execute the specified operation", "error": "Your team has either used all available credits or reached its monthly spending limit."}), Is::NoCredit),
        ("Alibaba", 400, openai("Access denied, please make sure your account is in good standing.", "Arrearage", "Arrearage"), Is::NoCredit),
        ("Z.ai", 429, json!({"error": {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}}), Is::NoCredit),
        // The key is not accepted.
        ("Anthropic", 401, anthropic("authentication_error", "invalid x-api-key"), Is::KeyRefused),
        ("Anthropic", 403, anthropic("permission_error", "Your API key does not have permission to use the specified resource."), Is::KeyRefused),
        ("Anthropic", 400, anthropic(invalid, "This organization has been disabled."), Is::KeyRefused),
        ("OpenAI", 401, openai("Incorrect API key provided: sk-abc.", invalid, "invalid_api_key"), Is::KeyRefused),
        ("Google", 400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", "API_KEY_INVALID"), Is::KeyRefused),
        ("Google, OpenAI's form", 400, json!([google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", "")]), Is::KeyRefused),
        ("Google", 403, google(403, "PERMISSION_DENIED", "Your API key was reported as leaked. Please use another API key.", ""), Is::KeyRefused),
        ("xAI", 400, json!({"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***zz."}), Is::KeyRefused),
        ("Cerebras", 401, json!({"message": "Wrong API Key", "type": invalid, "param": "api_key", "code": "wrong_api_key"}), Is::KeyRefused),
        ("Moonshot", 401, openai("Invalid Authentication", "invalid_authentication_error", ""), Is::KeyRefused),
        ("OpenRouter", 401, router(401, "User not found.", &json!({})), Is::KeyRefused),
        ("Mistral", 401, json!({"detail": "Unauthorized"}), Is::KeyRefused),
        // The request or the answer is withheld because of its content.
        ("OpenRouter", 403, router(403, "openai/gpt-4o requires moderation on OpenAI. Your input was flagged for \"harassment\".", &json!({"reasons": ["harassment"], "provider_name": "OpenAI"})), Is::Filtered),
        ("Azure", 400, openai("The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", "", "content_filter"), Is::Filtered),
        ("OpenAI", 400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", invalid, "invalid_prompt"), Is::Filtered),
        ("OpenAI", 400, openai("Your request was rejected by the safety system.", "image_generation_user_error", "moderation_blocked"), Is::Filtered),
        ("Anthropic", 400, anthropic(invalid, "Output blocked by content filtering policy"), Is::Filtered),
        ("xAI", 403, json!({"code": "The caller does not have permission to execute the specified operation", "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"}), Is::Filtered),
        ("DeepSeek", 400, openai("Content Exists Risk", invalid, invalid), Is::Filtered),
        ("Moonshot", 400, openai("The request was rejected because it was considered high risk", "content_filter", ""), Is::Filtered),
        ("Alibaba", 400, openai("Input text data may contain inappropriate content.", "data_inspection_failed", "data_inspection_failed"), Is::Filtered),
        // There is no such model.
        ("OpenAI, Responses", 400, openai("The requested model 'gpt-9' does not exist.", invalid, "model_not_found"), Is::NoModel),
        ("OpenAI", 404, openai("The model `gpt-9` does not exist or you do not have access to it.", invalid, "model_not_found"), Is::NoModel),
        ("Anthropic", 404, anthropic("not_found_error", "model: claude-9"), Is::NoModel),
        ("OpenRouter", 400, router(400, "acme/none is not a valid model ID", &json!({})), Is::NoModel),
        ("OpenRouter", 404, router(404, "No endpoints found that support tool use.", &json!({})), Is::NoModel),
        ("Groq", 400, openai("The model `llama2-70b-4096` has been decommissioned and is no longer supported.", invalid, "model_decommissioned"), Is::NoModel),
        ("Mistral", 400, json!({"object": "error", "message": "Invalid model: mistral-none", "type": "invalid_model", "param": null, "code": "1500"}), Is::NoModel),
        ("OpenAI, images", 400, openai("The model 'no-image-model' does not exist.", "image_generation_user_error", "invalid_value"), Is::NoModel),
        ("OpenRouter, embeddings", 400, router(400, "Model acme/no-model does not exist", &json!({})), Is::NoModel),
        ("DeepSeek", 400, openai("Model Not Exist", invalid, invalid), Is::NoModel),
        ("Together", 404, openai("Unable to access model acme/none.", invalid, "model_not_available"), Is::NoModel),
        ("Bedrock", 400, json!({"message": "The provided model identifier is invalid."}), Is::NoModel),
        // The model wrote what its server cannot read.
        ("Groq", 400, json!({"error": {"message": "Failed to call a function. Please adjust your prompt.", "type": invalid, "code": "tool_use_failed", "failed_generation": "<function=look{\"a\":1}</function>"}}), Is::BadTurn),
        ("Groq", 400, json!({"error": {"message": "Failed to generate JSON.", "type": invalid, "code": "json_validate_failed", "failed_generation": "{"}}), Is::BadTurn),
        ("Groq", 400, openai("Parsing failed. The model generated output that could not be parsed.", invalid, "output_parse_failed"), Is::BadTurn),
        // Too much in too little time.
        ("Anthropic", 429, anthropic("rate_limit_error", "This request would exceed your organization's rate limit of 40,000 input tokens per minute."), Is::Rate),
        ("OpenAI", 429, openai("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000.", "tokens", "rate_limit_exceeded"), Is::Rate),
        ("Google", 429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details.", ""), Is::Rate),
        ("OpenRouter", 429, router(429, "Provider returned error", &raw("acme/m:free is temporarily rate-limited upstream. Please retry shortly.")), Is::Rate),
        ("Cerebras", 429, json!({"message": "Tokens per minute limit exceeded - too many tokens processed.", "type": "too_many_tokens_error", "param": "quota", "code": "token_quota_exceeded"}), Is::Rate),
        ("Moonshot", 429, openai("The engine is currently overloaded, please try again later", "engine_overloaded_error", ""), Is::Rate),
        // The request is at fault.
        ("Anthropic", 400, anthropic(invalid, "messages.1.content.0: Unexpected `tool_use_id` found in `tool_result` blocks"), Is::Rejected),
        ("OpenAI", 400, openai("Unsupported parameter: 'max_tokens' is not supported with this model.", invalid, "unsupported_parameter"), Is::Rejected),
        ("Google", 400, google(400, "INVALID_ARGUMENT", "Function call is missing a thought_signature in functionCall parts.", ""), Is::Rejected),
        ("Mistral", 422, json!({"object": "error", "message": {"detail": [{"type": "extra_forbidden"}]}, "type": "invalid_request_error", "code": null}), Is::Rejected),
        // The provider is away.
        ("Anthropic", 529, anthropic("overloaded_error", "Overloaded"), Is::Away),
        ("OpenAI", 500, openai("The server had an error while processing your request.", "server_error", ""), Is::Away),
        ("Google", 503, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ""), Is::Away),
        ("OpenRouter", 502, router(502, "Provider returned error", &raw("upstream connect error")), Is::Away),
    ]
}

#[test]
fn each_error_that_providers_document_has_its_class() {
    let errors = errors();
    let wrong: Vec<String> = errors
        .iter()
        .filter_map(|(provider, status, body, is)| {
            let error = ModelError::of_fault("p", Some(*status), &fault_of(body.to_string().as_bytes()), None);
            (class(&error) != *is).then(|| format!("{provider} {status} {body}: {:?} instead of {is:?}", class(&error)))
        })
        .collect();
    println!("{} errors", errors.len());
    assert!(errors.len() >= 60 && wrong.is_empty(), "{} of {}:\n{}", wrong.len(), errors.len(), wrong.join("\n"));
}

#[test]
fn an_error_in_the_middle_of_an_answer_has_its_class() {
    let groq = json!({"error": {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed", "status_code": 400, "failed_generation": "look"}});
    let own_code = openai("messages[1] is not allowed", "invalid_request_error", "unsupported_value");
    let responses = json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow down"}}});
    let router = json!({"id": "1", "error": {"code": 502, "message": "Provider returned error"}, "choices": [{"delta": {}, "finish_reason": "error"}]});
    let cases = [
        (Dialect::Chat, groq, Is::BadTurn),
        (Dialect::Chat, own_code, Is::Rejected),
        (Dialect::Chat, openai("You exceeded your current quota.", "insufficient_quota", "insufficient_quota"), Is::NoCredit),
        (Dialect::Chat, router, Is::Away),
        (
            Dialect::Chat,
            json!({"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400}),
            Is::TooLong,
        ),
        (Dialect::Anthropic, anthropic("overloaded_error", "Overloaded"), Is::Away),
        (Dialect::Anthropic, anthropic("invalid_request_error", "prompt is too long: 3 tokens > 2 maximum"), Is::TooLong),
        (Dialect::Anthropic, anthropic("rate_limit_error", "slow down"), Is::Rate),
        (Dialect::Responses, responses, Is::Rate),
        (Dialect::Responses, json!({"type": "error", "code": "invalid_prompt", "message": "no"}), Is::Filtered),
    ];
    for (dialect, event, is) in cases {
        let mut decoder = dialect.decoder(MAX_ANSWER_BYTES);
        let read = decoder.push(format!("data: {event}\n\n").as_bytes()).and_then(|()| decoder.finish().map(drop));
        let Err(WireError::Fault(fault)) = read else { panic!("{event} is a fault: {read:?}") };
        assert_eq!(class(&ModelError::of_fault("p", None, &fault, None)), is, "{event}");
    }
}

#[test]
fn the_words_of_an_upstream_and_the_pause_of_a_message_are_read() {
    let (_, _, upstream, _) = errors().into_iter().find(|(provider, ..)| *provider == "OpenRouter, upstream Anthropic").unwrap();
    let error = ModelError::of_fault("p", Some(400), &fault_of(upstream.to_string().as_bytes()), None).to_string();
    assert!(error.contains("Upstream: prompt is too long: 210000 tokens"), "{error}");
    let mut limited = google(429, "RESOURCE_EXHAUSTED", "slow down", "");
    limited["error"]["details"] = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}]);
    let error = ModelError::of_fault("p", Some(429), &fault_of(json!([limited]).to_string().as_bytes()), None);
    let ModelError::RateLimited { retry_after, .. } = error else { panic!("{error}") };
    assert_eq!(retry_after.map(|pause| pause.as_secs_f64()), Some(34.4));
}

#[test]
fn a_missing_model_may_be_replaced_by_its_fallback_and_a_rejected_request_not() {
    let error = |status, body: Value| ModelError::of_fault("p", Some(status), &fault_of(body.to_string().as_bytes()), None);
    assert!(error(400, openai("no", "invalid_request_error", "model_not_found")).is_unavailable());
    assert!(error(400, anthropic("invalid_request_error", "Your credit balance is too low")).is_unavailable());
    assert!(!error(400, anthropic("invalid_request_error", "no")).is_unavailable());
}
