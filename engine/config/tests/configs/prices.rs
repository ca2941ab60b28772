//! Prices: where they come from, and (fault 9) limits of money that cannot be kept without one.

use baton_config::{PriceTable, Role, check_money, prices};
use baton_types::config::{Configs, PERSON_MODEL};
use baton_types::limits::Limits;
use baton_types::money::{Money, Price};

use crate::support::sound;

/// Returns the message when `model`, which the program brings itself, answers for all.
fn refused_with(configs: &Configs, model: &str) -> String {
    let prices = prices(configs, Some(model), |_| true, PriceTable::embedded);
    check_money(configs, Some(model), &prices).expect_err("the limit cannot be kept").to_string()
}

#[test]
fn a_limit_of_money_on_a_model_without_a_price_is_refused_at_its_place() {
    let configs = sound().edited("agents/counter.json", "\"turns\": 7", "\"cost_usd\": 1.5").load().expect("scripts are free");
    let expected = r#"error B0129: "cost_usd" cannot be enforced: agent "counter" may run on "brought", whose price is not known
   ┌─ demo/agents/counter.json:7:15
 7 │   "limits": { "cost_usd": 1.5 }
   │               ^^^^^^^^^^ expected a price for "brought" of your own, in ~/.config/baton/models.json or prices.json (a job's does not count), or "tokens" instead
1 error"#;
    assert_eq!(refused_with(&configs, "brought"), expected);
    let brought = prices(&configs, None, |name| name == "scripted", PriceTable::embedded);
    assert!(brought.is_empty(), "a program's model in place of a script is not free");
    check_money(&configs, None, &brought).expect_err("and the limit cannot be kept");
}

#[test]
fn a_limit_of_money_asks_for_the_prices_of_those_it_holds_and_of_nobody_else() {
    let other = r#""models": { "scripted": { "provider": "scripted", "script": "demo.script.json" },
               "brought": { "provider": "scripted", "script": "demo.script.json" } }"#;
    let own = r#""models": { "scripted": { "provider": "scripted", "script": "demo.script.json" } }"#;
    let job = || sound().edited("job.json", own, other);
    let check = |configs: &Configs| {
        let prices = prices(configs, None, |name| name == "brought", PriceTable::embedded);
        check_money(configs, None, &prices).map_err(|faults| faults.to_string())
    };
    let on = |agent: &str, file: &str, key: &str, with: &str| {
        let moved = job().edited(&format!("agents/{agent}.json"), "\"model\": \"scripted\"", "\"model\": \"brought\"");
        moved.edited(file, key, with).load().expect("the job is sound")
    };
    // The counter is called by the lead: what holds the lead holds it, and what holds it does not hold the lead.
    let lead_limit = ("agents/lead.json", "\"model\":", "\"limits\": {\"cost_usd\": 2}, \"model\":");
    let counter_limit = ("agents/counter.json", "\"turns\": 7", "\"cost_usd\": 2");
    let run_limit = ("job.json", "\"root\":", "\"limits\": {\"cost_usd\": 2}, \"root\":");
    let held = |agent, (file, key, with): (&str, &str, &str)| check(&on(agent, file, key, with)).is_err();
    assert!(held("counter", lead_limit) && held("counter", counter_limit) && held("counter", run_limit));
    assert!(held("lead", lead_limit) && held("lead", run_limit));
    // The lead answers what the counter asks, and that is below the counter's task.
    assert!(held("lead", counter_limit));
    let silent = sound().edited("agents/counter.json", ", \"ask_master\"", "").edited("job.json", own, other);
    let silent = silent.edited("agents/lead.json", "\"model\": \"scripted\"", "\"model\": \"brought\"");
    let silent = silent.edited(counter_limit.0, counter_limit.1, counter_limit.2).load().expect("the job is sound");
    check(&silent).expect("who asks nobody has nobody answering below it");
    let edge = r#"{"tool_id": "route_to_counter", "type": "agent_as_tool", "description": "Counts.", "limits": {"cost_usd": 3}}"#;
    let edge = job().with(Role::Tool, "tools/route_to_counter.json", edge).edited(
        "agents/counter.json",
        "\"model\": \"scripted\"",
        "\"model\": \"brought\"",
    );
    let told = check(&edge.load().expect("the job is sound")).expect_err("the edge holds the counter");
    assert!(told.contains("tools/route_to_counter.json:1:"), "{told}");
}

#[test]
fn a_limit_of_money_needs_the_price_of_who_summarises_what_tools_write_below_it() {
    let summary = |model: &str| format!(r#""summary_model": "{model}", "root":"#);
    let job = |model: &str| sound().edited("job.json", "\"root\":", &summary(model));
    let limited = |model: &str| job(model).edited("agents/counter.json", "\"turns\": 7", "\"cost_usd\": 1.5");
    let effect = "\"effect\": \"pure\"";
    let writes = "\"writes\": true, \"effect\": \"pure\"";
    let writing = |model: &str| limited(model).edited("tool-configs/word_count.json", effect, writes);
    let refused = writing("acme:m").faults();
    assert!(refused.contains("B0129") && refused.contains("\"acme:m\" makes summaries, and its price is not known"), "{refused}");
    limited("acme:m").load().expect("nothing is written");
    job("acme:m").load().expect("nothing is limited");
    let configs = writing("scripted").load().expect("a script is free");
    // A model that replaces the agents' models makes no summaries.
    let brought = |stand_in| prices(&configs, stand_in, |name| name == "scripted", PriceTable::embedded);
    let refused = check_money(&configs, Some("demo"), &brought(Some("demo"))).unwrap_err().to_string();
    assert!(refused.contains("agent \"counter\" may run on \"demo\""), "{refused}");
    let mut prices = brought(Some("demo"));
    prices.insert("demo".to_owned(), Price::scripted());
    let refused = check_money(&configs, Some("demo"), &prices).unwrap_err().to_string();
    assert!(refused.contains("\"scripted\" makes summaries"), "{refused}");
    let free = baton_config::prices(&configs, Some("demo"), |_| false, PriceTable::embedded);
    assert!(free.contains_key("scripted"), "its price is looked up beside that of the one that stands in");
}

#[test]
fn a_limit_of_one_run_stands_in_place_of_the_jobs_and_leaves_the_others() {
    let job = sound().edited("job.json", "\"root\":", "\"limits\": {\"cost_usd\": 2, \"depth\": 3, \"turns\": 5}, \"root\":");
    let limited = |limits: Limits| {
        let mut sources = job.sources();
        sources.limit_run(&limits);
        job.load_from(&sources).expect("the job is sound")
    };
    let configs = limited(Limits { turns: Some(9), ..Limits::default() });
    let expected = Limits { turns: Some(9), depth: Some(3), cost_usd: Some(2.0), ..Limits::default() };
    assert_eq!(configs.job.limits, expected.or(&Limits::run_defaults()));
    let told = refused_with(&configs, "brought");
    assert!(told.contains("demo/job.json:4:") && told.ends_with("\n1 error"), "{told}");
    let told = refused_with(&limited(Limits { cost_usd: Some(1.0), ..Limits::default() }), "brought");
    assert!(told.contains("run-limits:1:") && told.ends_with("\n1 error"), "{told}");
}

#[test]
fn an_agent_that_answers_a_question_cannot_delegate() {
    let own = r#""models": { "scripted": { "provider": "scripted", "script": "demo.script.json" } }"#;
    let both = own
        .replace("\"models\": {", "\"models\": { \"brought\": { \"provider\": \"scripted\", \"script\": \"demo.script.json\" },");
    let clerk = r#"{"agent_id": "clerk", "description": "Files", "model": "brought", "system_prompt": "You file.", "tools": ["handoff"]}"#;
    let job = || {
        let job = sound().edited("job.json", own, &both).with(Role::Agent, "agents/clerk.json", clerk);
        job.edited("agents/lead.json", "\"handoff\"", "\"route_to_clerk\", \"handoff\"")
    };
    let kept = |file: &str, key: &str, with: &str| {
        let configs = job().edited(file, key, with).load().expect("the job is sound");
        check_money(&configs, None, &prices(&configs, None, |name| name == "brought", PriceTable::embedded)).is_ok()
    };
    // The lead answers the counter, whose limit therefore does not hold the clerk; the lead's own does.
    assert!(kept("agents/counter.json", "\"turns\": 7", "\"cost_usd\": 2"));
    assert!(!kept("agents/lead.json", "\"model\":", "\"limits\": {\"cost_usd\": 2}, \"model\":"));
}

#[test]
fn what_a_job_says_of_its_model_wins_and_a_script_is_free() {
    let priced = r#""script": "demo.script.json", "price": {"input": 3, "cached_input": 0.3, "output": 15}"#;
    let configs = sound().edited("job.json", "\"script\": \"demo.script.json\"", priced).load().expect("the job is sound");
    let rate = Money::from_picos;
    let said = Price {
        input: rate(3_000_000),
        cached_input: rate(300_000),
        output: rate(15_000_000),
        source: "job.json".to_owned(),
        context_tokens: None,
        output_tokens: None,
        is_estimate: false,
    };
    let prices = prices(&configs, None, |_| true, PriceTable::embedded);
    assert_eq!(prices.get("scripted"), Some(&said), "whoever answers under that name");
    let free = baton_config::prices(&sound().load().expect("the job is sound"), None, |_| false, PriceTable::embedded);
    assert_eq!(free.get("scripted"), Some(&Price::scripted()));
    for (brings, price) in [(true, Some(Price::person())), (false, None)] {
        let prices = baton_config::prices(&configs, Some(PERSON_MODEL), |_| brings, PriceTable::embedded);
        assert_eq!(prices.get(PERSON_MODEL), price.as_ref(), "a person who answers costs nothing");
    }
    let other = baton_config::prices(&configs, Some("brought"), |_| true, PriceTable::embedded);
    assert!(other.is_empty(), "another model of the program has no price");
}

#[test]
fn a_model_of_a_program_does_not_cost_what_the_provider_does_whose_name_it_answers_under() {
    let models = r#"{"models": {"fast": {"model": "acme:claude-opus-4-5"}}}"#;
    let configs = sound().with(Role::Models, "models.json", models).load().expect("the job is sound");
    let table = PriceTable::embedded();
    let asked = prices(&configs, Some("fast"), |_| false, || table);
    assert_eq!(asked.get("fast"), table.price("claude-opus-4-5"), "the provider's model is the one with a price");
    assert!(prices(&configs, Some("fast"), |name| name == "fast", || table).is_empty(), "nobody knows what the program's costs");
}

#[test]
fn a_price_that_a_config_says_leaves_the_window_that_the_table_tells() {
    let table = r#"{"version": "2026-01-31", "prices": [
  {"models": ["acme:m", "acme:n"], "input": 1, "output": 2, "context_tokens": 9000, "output_tokens": 700, "source": "https://example.com", "as_of": "2026-01-31"}
]}"#;
    let table = PriceTable::load("prices.json", table.as_bytes()).expect("it is sound");
    let models = r#"{"models": {"fast": {"model": "acme:m", "price": {"input": 3, "output": 4}}, "slow": {"model": "acme:n"},
        "faster": {"model": "acme:m", "price": {"input": 5, "output": 6}}}}"#;
    let configs = sound().with(Role::UserModels, "models.json", models).load().expect("the job is sound");
    let prices = prices(&configs, None, |_| false, || &table);
    for (name, output) in [("fast", 4e-6), ("slow", 2e-6), ("faster", 6e-6)] {
        let price = &prices[name];
        assert_eq!(
            (price.output, price.context_tokens, price.output_tokens),
            (Money::from_usd(output), Some(9_000), Some(700)),
            "{name}"
        );
    }
}

#[test]
fn a_price_of_a_job_never_binds_a_limit_and_never_lowers_what_others_say() {
    let table = r#"{"version": "2026-01-31", "prices": [
  {"models": ["acme:listed"], "input": 1, "output": 2, "source": "https://example.com", "as_of": "2026-01-31"}
]}"#;
    let table = PriceTable::load("prices.json", table.as_bytes()).expect("it is sound");
    let own = r#"{"models": {"paid": {"model": "acme:paid", "price": {"input": 10, "output": 30}}}}"#;
    let free = r#""price": {"input": 0, "output": 0}"#;
    let of_job = format!(
        r#"{{"models": {{"paid": {{"model": "acme:paid", {free}}}, "listed": {{"model": "acme:listed", {free}}}, "new": {{"model": "acme:new", {free}}}}}}}"#
    );
    let job = sound().edited("job.json", "\"root\":", "\"limits\": {\"cost_usd\": 2}, \"root\":");
    let configs =
        job.with(Role::UserModels, "own.json", own).with(Role::Models, "models.json", of_job).load().expect("it is sound");
    let asked = |name: &str| {
        let prices = prices(&configs, Some(name), |_| false, || &table);
        (prices[name].output, prices[name].is_estimate, check_money(&configs, Some(name), &prices).is_ok())
    };
    assert_eq!(asked("paid"), (Money::from_usd(30e-6), false, true), "the person's price holds under any name");
    assert_eq!(asked("acme:paid"), (Money::from_usd(30e-6), false, true));
    assert_eq!(asked("listed"), (Money::from_usd(2e-6), false, true));
    assert_eq!(asked("new"), (Money::ZERO, true, false), "an estimate keeps no limit");
}

#[test]
fn the_table_that_comes_with_the_engine_is_sound_and_says_where_each_price_was_read() {
    let table = PriceTable::embedded();
    let opus = table.price("claude-opus-4-5-20251101").expect("a dated version costs what its model does");
    assert_eq!(Some(opus), table.price("claude-opus-4-5"));
    assert_eq!(opus.output, Money::from_usd(25e-6));
    assert!(table.version().starts_with("20") && table.version().len() == "2026-01-31".len(), "{}", table.version());
    assert!(opus.source.starts_with("https://") && opus.source.ends_with(')'), "{}", opus.source);
    assert_eq!(Some(opus), table.price("claude-opus-4-5-2025-11-01"));
    let no_days = ["fast", "2025", "x-11-01", "2025-x-01", "2025-11-x", "25-11-01", "2025-11-1"];
    let undated = no_days.map(|end| format!("claude-opus-4-5-{end}"));
    for unknown in undated.iter().map(String::as_str).chain(["", "20251101", "my-model"]) {
        assert_eq!(table.price(unknown), None, "{unknown}");
    }
}

#[test]
fn a_table_that_is_broken_is_refused_with_every_fault() {
    let table = r#"{
  "version": "today",
  "prices": [
    {"models": ["a", "b"], "input": 1, "output": -2, "source": "https://example.com/prices", "as_of": "2026-01-31"},
    {"models": [], "input": 1, "source": "a friend", "as_of": "2026-01-31"}
  ]
}"#;
    let told = PriceTable::load("prices.json", table.as_bytes()).expect_err("it is broken").to_string();
    for place in ["prices.json:2:", "prices.json:4:", "\"output\"", "prices.json:5:", "\"source\""] {
        assert!(told.contains(place), "{place} is not in\n{told}");
    }
    let twice = r#"{"version": "2026-01-31", "prices": [
  {"models": ["a"], "input": 1, "output": 2, "source": "https://example.com", "as_of": "2026-01-31"},
  {"models": ["b", "a"], "input": 1, "output": 2, "source": "https://example.com", "as_of": "2026-01-31"}
]}"#;
    let told = PriceTable::load("prices.json", twice.as_bytes()).expect_err("a model has one price").to_string();
    assert!(told.contains("prices.json:3:20") && told.contains("\"a\" has two prices"), "{told}");
    assert!(PriceTable::load("prices.json", b"{").is_err());
}
