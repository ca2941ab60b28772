//! Limits of tokens and money against a provider that counts twice the tokens that Baton estimates.

use baton_config::PriceTable;
use baton_types::entry::Entry;
use baton_types::limits::Limits;
use baton_types::model::Usage;
use serde_json::{Value, json};

use super::engine;
use super::server::{Received, Reply, Server};
use crate::support::{Finished, TestJob, run_to_end};

/// A model in the table of prices.
const MODEL: &str = "gpt-5-mini";
/// Bytes of a request that the provider counts as a token. Baton estimates four.
const BYTES_PER_TOKEN: u64 = 2;
/// Tokens of each answer, as the provider counts them.
const ANSWER: u64 = 20;
/// Children that work at the same time, and the turns of each.
const CHILDREN: usize = 64;
const TURNS: usize = 3;

/// Returns the tokens that the provider counts for a request and its answer.
fn counted(request: &Received) -> u64 {
    request.body.to_string().len() as u64 / BYTES_PER_TOKEN + ANSWER
}

fn answered(request: &Received) -> Reply {
    let offers = |tool: &str| {
        let tools = request.body["tools"].as_array().into_iter().flatten();
        tools.map(|offered| &offered["function"]["name"]).any(|name| name == tool)
    };
    let turns = request.body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant").count();
    let call = |number: usize, tool: &str, input: Value| json!({"id": format!("c{turns}-{number}"), "type": "function", "function": {"name": tool, "arguments": input.to_string()}});
    let calls: Vec<Value> = if offers("route_to_child") && turns == 0 {
        (0..CHILDREN).map(|child| call(child, "route_to_child", json!({"request": format!("Part {child}.")}))).collect()
    } else if offers("echo") && turns + 1 < TURNS {
        vec![call(0, "echo", json!({"message": "word ".repeat(100 * (turns + 1))}))]
    } else {
        Vec::new()
    };
    let (message, finish) = if calls.is_empty() {
        (json!({"content": "done"}), "stop")
    } else {
        (json!({"content": null, "tool_calls": calls}), "tool_calls")
    };
    let usage = json!({"prompt_tokens": counted(request) - ANSWER, "completion_tokens": ANSWER});
    Reply::new(200, json!({"choices": [{"message": message, "finish_reason": finish}], "usage": usage}).to_string())
}

/// Runs the job within `limits`. Returns the run, and the tokens of its largest request with the answer.
async fn run(limits: Value) -> (Finished, u64) {
    let server = Server::start(|_, request| answered(request)).await;
    let models = json!({
        "models": {"double": {"model": format!("test:{MODEL}")}},
        "providers": {"test": {"like": "llamacpp", "base_url": server.url}}
    });
    let settings = json!({"model": "double", "settings": {"max_tokens": ANSWER}});
    let mut config: Value = serde_json::from_str(include_str!("../../../tool-configs/echo.json")).unwrap();
    config.as_object_mut().unwrap().remove("$schema");
    let parameters = config["parameters"].clone();
    let job = TestJob::new("lead", json!({"limits": limits}))
        .models(models)
        .agent_with("lead", &["route_to_child"], settings.clone())
        .agent_with("child", &["echo"], settings)
        .tool("echo", parameters, config)
        .load();
    let finished = run_to_end(&engine(), job).await;
    let largest = server.received().iter().map(counted).max().unwrap();
    (finished, largest)
}

#[tokio::test]
async fn parallel_children_exceed_a_limit_by_one_request_at_most() {
    let price = PriceTable::embedded().price(MODEL).unwrap();
    let (unlimited, _) = run(json!({})).await;
    let all = unlimited.run.totals();
    let (tokens, cost) = (all.usage.total(), all.cost.known);
    assert_eq!(cost, price.cost(&all.usage), "the price of the table counts");
    let mut reached = 0;
    for part in [0.25, 0.5, 0.75] {
        for limit in [
            Limits { tokens: Some((tokens as f64 * part) as u64), ..Limits::default() },
            Limits { cost_usd: Some(cost.as_usd() * part), ..Limits::default() },
        ] {
            let (finished, largest) = run(serde_json::to_value(&limit).unwrap()).await;
            let totals = finished.run.totals();
            let request = Usage { input_tokens: largest - ANSWER, output_tokens: ANSWER, ..Usage::default() };
            if let Some(limit) = limit.tokens {
                let used = totals.usage.total();
                assert!(
                    (limit / 2..=limit + largest).contains(&used),
                    "{used} of {limit}, and the largest request has {largest}"
                );
            }
            if let Some(limit) = limit.cost() {
                let (used, most) = (totals.cost.known, limit.plus(price.cost(&request)));
                assert!(used <= most && used.plus(used) >= limit, "{used} of {limit}, with one more request {most}");
            }
            let is_limited = |entry: &Entry| matches!(entry, Entry::TaskEnded(ended) if ended.limit.is_some());
            reached += usize::from(finished.entries.iter().any(|recorded| is_limited(&recorded.entry)));
        }
    }
    assert_eq!(reached, 6, "each limit is reached");
}
