//! Identifiers, documents, paths, usage, money and limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_types::call::{CallError, ErrorCode};
use baton_types::document::{ContentFacts, DocumentVersion, Documents, Names};
use baton_types::estimate::content_tokens;
use baton_types::id::{ContentHash, TaskId};
use baton_types::json::Json;
use baton_types::limits::{LimitKind, Limits};
use baton_types::model::{FinishReason, ModelTurn, Usage};
use baton_types::money::{Money, Price};
use baton_types::path::DocumentPath;
use baton_types::time::Timestamp;
use serde_json::json;

fn path(text: &str) -> DocumentPath {
    DocumentPath::parse(text).unwrap()
}

fn version(text: &str, task: Option<TaskId>) -> DocumentVersion {
    let (hash, mime_type) = (ContentHash::of(b"x"), "text/plain".to_owned());
    let content = ContentFacts { hash, size_bytes: 1, mime_type, token_count: 1, summary: "x".to_owned() };
    let (description, tags, at) = (String::new(), Vec::new(), Timestamp::from_micros(0));
    DocumentVersion {
        path: path(text),
        version: 1,
        base: None,
        content,
        description,
        tags,
        task,
        call: None,
        created_by: None,
        at,
    }
}

#[test]
fn a_hash_is_its_bytes_its_digits_and_nothing_else() {
    let hash = ContentHash::of(b"content");
    assert_eq!(hash.as_bytes(), blake3::hash(b"content").as_bytes());
    assert_eq!(ContentHash::from_bytes(*hash.as_bytes()), hash);
    assert_eq!(ContentHash::from_hex(&hash.to_string()), Some(hash));
    assert_eq!(ContentHash::from_hex("00"), None);
    assert_eq!(format!("{hash:?}"), format!("{}…", &hash.to_string()[..8]));
    assert_ne!(hash.extended(b"more"), hash);
    assert_ne!(hash.extended(b"more"), ContentHash::of(b"more"));
}

#[test]
fn json_keeps_its_text_and_what_is_none_is_refused() {
    let text = r#"{"n":9007199254740993,"x":1.0}"#;
    assert_eq!(Json::parse(text).unwrap().text(), text);
    assert_eq!(format!("{:?}", Json::parse(text).unwrap()), text);
    assert!(Json::parse("{").is_err());
    assert!(Json::parse("1 2").is_err());
}

#[test]
fn the_schema_of_a_payload_accepts_anything_and_that_of_a_path_is_a_text_both_without_references() {
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Form {
        payload: Json,
        place: DocumentPath,
    }
    let schema = schemars::schema_for!(Form).to_value();
    assert_eq!(schema["properties"]["payload"], json!(true));
    assert_eq!(schema["properties"]["place"], json!({"type": "string"}));
    assert_eq!(<DocumentPath as schemars::JsonSchema>::schema_name(), "DocumentPath");
    assert_eq!(<Json as schemars::JsonSchema>::schema_name(), "Json");
}

#[test]
fn an_error_without_detail_shows_none() {
    let error = CallError::new(ErrorCode::UnknownTool, "no such tool");
    assert_eq!(error.to_value(), json!({"code": "unknown_tool", "message": "no such tool"}));
    let detailed = error.with_detail(json!({"known": ["a"]}));
    assert_eq!(detailed.to_value()["detail"], json!({"known": ["a"]}));
}

#[test]
fn a_version_is_by_its_task_or_by_the_job() {
    assert_eq!(version("a.md", None).author(), "job");
    assert_eq!(version("a.md", Some(TaskId::root())).author(), TaskId::root().as_str());
}

#[test]
fn a_workspace_is_empty_until_something_is_written() {
    let mut documents = Documents::default();
    assert!(documents.is_empty());
    documents.insert(version("a.md", None));
    assert!(!documents.is_empty());
    assert_eq!(documents.len(), 1);
    let document = Arc::clone(documents.get(&path("a.md")).unwrap());
    assert_eq!(document.versions().len(), 1);
    assert!(document.version(0).is_none() && document.version(2).is_none());
}

#[test]
fn a_path_has_a_twin_where_one_would_be_a_folder_of_the_other() {
    let mut names = Names::default();
    names.insert(&path("reports/q3.md"));
    assert_eq!(names.twin(&path("reports/q3.md")), None);
    assert_eq!(names.twin(&path("Reports/Q3.md")), Some(&path("reports/q3.md")));
    assert_eq!(names.twin(&path("reports")), Some(&path("reports/q3.md")));
    assert_eq!(names.twin(&path("reports/q3.md/a")), Some(&path("reports/q3.md")));
    assert_eq!(names.twin(&path("report")), None);
    assert_eq!(names.twin(&path("reports/q3.mdx")), None);
}

#[test]
fn an_image_costs_what_an_image_costs_and_a_drawing_what_its_text_costs() {
    assert_eq!(content_tokens("image/png", 4_000_000), 1_600);
    assert_eq!(content_tokens("image/svg+xml", 400), 100);
    assert_eq!(content_tokens("text/plain", 401), 101);
    assert_eq!(content_tokens("text/plain", 0), 0);
}

#[test]
fn the_limits_that_hold_where_nobody_says_anything() {
    let run = Limits { turns: Some(10_000), depth: Some(16), live_tasks: Some(1_000), ..Limits::default() };
    assert_eq!(Limits::run_defaults(), Limits { parallel_calls: Some(64), ..run });
    let task = Limits { turns: Some(100), children: Some(100), parallel_calls: Some(16), ..Limits::default() };
    let task = Limits { inline_result_bytes: Some(1 << 16), ..task };
    let rest = Limits { result_bytes: Some(1 << 20), repeats: Some(5), inject_tokens: Some(20_000), ..task };
    assert_eq!(Limits::task_defaults(), rest);
}

#[test]
fn what_limits_leave_open_is_taken_from_the_fallback() {
    let all = |n: u32, cost_usd: f64| {
        let keys = [
            "turns",
            "depth",
            "children",
            "live_tasks",
            "parallel_calls",
            "tokens",
            "calls",
            "context_tokens",
            "result_bytes",
            "inline_result_bytes",
            "repeats",
            "turn_seconds",
            "worked_seconds",
            "deadline_seconds",
            "inject_tokens",
        ];
        let mut limits: BTreeMap<&str, serde_json::Value> = keys.into_iter().map(|key| (key, json!(n))).collect();
        limits.insert("cost_usd", json!(cost_usd));
        serde_json::from_value::<Limits>(json!(limits)).unwrap()
    };
    let (own, fallback) = (all(1, 1.0), all(2, 2.0));
    assert_eq!(own.or(&fallback), own);
    assert_eq!(Limits::default().or(&fallback), fallback);
}

#[test]
fn only_tokens_and_money_are_reserved() {
    assert!(!Limits::run_defaults().has_budget());
    assert!(Limits { tokens: Some(1), ..Limits::default() }.has_budget());
    assert!(Limits { cost_usd: Some(1.0), ..Limits::default() }.has_budget());
    assert_eq!(Limits { cost_usd: Some(1.5), ..Limits::default() }.cost(), Some(Money::from_usd(1.5)));
    assert_eq!(Limits::default().cost(), None);
}

#[test]
fn a_sum_of_usage_is_an_estimate_if_any_part_is() {
    let exact = Usage { input_tokens: 1, output_tokens: 2, cached_tokens: 3, reasoning_tokens: 4, ..Usage::default() };
    let mut sum = exact;
    sum.add(&exact);
    assert!(!sum.estimated);
    sum.add(&Usage { estimated: true, ..exact });
    assert!(sum.estimated);
    sum.add(&exact);
    let whole = Usage { input_tokens: 4, output_tokens: 8, cached_tokens: 12, reasoning_tokens: 16, estimated: true };
    assert_eq!(sum, whole);
    assert_eq!(sum.total(), 12);
}

#[test]
fn counts_that_are_nothing_are_not_written_and_others_are() {
    let plain = serde_json::to_value(Usage { input_tokens: 1, ..Usage::default() }).unwrap();
    assert!(plain.get("cached_tokens").is_none() && plain.get("reasoning_tokens").is_none(), "{plain}");
    let counted = Usage { cached_tokens: 2, reasoning_tokens: 3, ..Usage::default() };
    let written = serde_json::to_value(counted).unwrap();
    assert_eq!((&written["cached_tokens"], &written["reasoning_tokens"]), (&json!(2), &json!(3)));
}

#[test]
fn an_amount_is_rounded_where_it_is_cut() {
    let shown = |picodollars| Money::from_picos(picodollars).to_string();
    assert_eq!(shown(1), "$0.000000000001");
    assert_eq!(shown(99_999_999), "$0.000100");
    assert_eq!(shown(100_000_000), "$0.0001");
    assert_eq!(shown(1_004_999_999_999), "$1.00");
    assert_eq!(shown(1_005_000_000_000), "$1.01");
    assert_eq!(shown(999_999_999_999), "$1.0000");
}

#[test]
fn cached_tokens_are_never_more_than_those_of_the_request() {
    let price = Price {
        input: Money::from_picos(10),
        cached_input: Money::from_picos(1),
        output: Money::from_picos(100),
        source: "test".to_owned(),
        context_tokens: None,
        output_tokens: None,
        is_estimate: false,
    };
    let usage = |input_tokens, cached_tokens| Usage { input_tokens, cached_tokens, output_tokens: 2, ..Usage::default() };
    assert_eq!(price.cost(&usage(10, 4)), Money::from_picos(6 * 10 + 4 + 200));
    assert_eq!(price.cost(&usage(10, 40)), Money::from_picos(10 + 200));
    assert_eq!(price.worst_case(10, 2), Money::from_picos(300));
}

#[test]
fn a_moment_is_shown_in_utc_with_microseconds() {
    assert_eq!(Timestamp::from_micros(1_767_225_600_000_001).to_string(), "2026-01-01T00:00:00.000001Z");
    assert_eq!(Timestamp::from_micros(i64::MAX).to_string(), format!("{}µs", i64::MAX));
}

#[test]
fn the_extension_of_a_path_is_that_of_its_last_component() {
    assert_eq!(path("a.b/C.CSV").extension(), "csv");
    assert_eq!(path("a.b/c").extension(), "");
    assert_eq!(format!("{:?}", path("a.b/c")), "a.b/c");
}

#[test]
fn a_path_may_be_as_long_as_it_may_be_and_no_longer() {
    let component = "c".repeat(255);
    assert!(DocumentPath::parse(&component).is_ok());
    assert!(DocumentPath::parse(&format!("{component}c")).is_err());
    let long = [component.as_str(); 16].join("/");
    assert_eq!(long.len(), 4_095);
    assert!(DocumentPath::parse(&long).is_ok());
    assert!(DocumentPath::parse(&format!("{long}/d")).is_err());
    assert!(DocumentPath::parse("companion.md").is_ok(), "no device of four letters and a digit");
    assert!(DocumentPath::parse("lpt9.txt").is_err());
    assert!(DocumentPath::parse("prn9.txt").is_ok());
}

#[test]
fn a_limit_is_named_as_configs_name_it() {
    assert_eq!(LimitKind::RunTurns.to_string(), "limits.turns of the run");
    assert_eq!(LimitKind::Cost.to_string(), "limits.cost_usd");
}

#[test]
fn a_turn_of_calls_ends_with_calls_and_one_of_text_stops() {
    assert_eq!(ModelTurn::calls(Vec::new()).finish, FinishReason::ToolCalls);
    assert_eq!(ModelTurn::text("so").finish, FinishReason::Stop);
}

#[test]
fn an_answer_has_room_beside_its_reasoning() {
    let tokens = |settings: serde_json::Value| baton_types::config::output_tokens(settings.as_object().unwrap());
    for (settings, expected) in [
        (json!({}), 4_000),
        (json!({"max_tokens": 50, "reasoning": {"effort": "high"}}), 50),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 10_000}}), 14_000),
        (json!({"thinking": {"type": "adaptive"}}), 48_000),
        (json!({"reasoning": {"effort": "medium"}}), 25_000),
        (json!({"reasoning_effort": "low"}), 10_000),
        (json!({"output_config": {"effort": "max"}}), 48_000),
        (json!({"reasoning": {"effort": "none"}}), 4_000),
        (json!({"reasoning": {"max_tokens": 2_000}}), 6_000),
    ] {
        assert_eq!(tokens(settings.clone()), expected, "{settings}");
    }
}
