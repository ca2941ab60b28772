//! Models of providers: by `PROVIDER:MODEL`, by names of a job's or a person's `models.json`, and what can be wrong there.

use std::sync::Arc;
use std::time::Duration;

use baton_config::{PriceTable, Role, Sources, Unconfigured, load, load_embeddings, prices};
use baton_types::config::{Catalog, ModelSpec, Origin, ProvidedModel, RUN_SCRIPT};
use baton_types::model::Invocation;
use baton_types::money::Money;

use crate::support::{Files, WORD_COUNT, check, rules, sound};

const MODEL: &str = "\"model\": \"scripted\"";

fn provided(files: &Files, name: &str) -> ProvidedModel {
    match files.load().expect("the job is sound").job.model(name) {
        Some(ModelSpec::Provided(provided)) => provided,
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn a_provider_and_a_model_need_no_name() {
    let files = sound().edited("agents/lead.json", MODEL, "\"model\": \"acme:maker/m-1:free\"");
    let model = provided(&files, "acme:maker/m-1:free");
    assert_eq!((model.provider.as_str(), model.model.as_str()), ("acme", "maker/m-1:free"));
    let job = files.load().unwrap().job;
    assert!(job.model("acme:").is_none() && job.model("nobody:m").is_none() && job.model("acme").is_none());
    // A job whose agents name their models so needs no models of its own.
    let own = r#""models": { "scripted": { "provider": "scripted", "script": "demo.script.json" } }"#;
    let bare = files.edited("agents/counter.json", MODEL, "\"model\": \"local:m\"").edited("job.json", own, "\"limits\": {}");
    assert!(bare.load().is_ok());
}

#[test]
fn a_model_sets_the_way_to_call_tools_of_agents_that_set_none() {
    let small = r#"{"models": {"small": {"model": "acme:m", "invocation": "universal"}}}"#;
    let files = || sound().with(Role::Models, "models.json", small);
    let of = |files: &Files, agent: &str| {
        let agent = Arc::clone(&files.load().expect("the job is sound").agents[agent]);
        (agent.invocation, agent.catalog)
    };
    let named = files().edited("agents/counter.json", MODEL, "\"model\": \"small\"");
    assert_eq!(of(&named, "counter"), (Invocation::Universal, Catalog::Discover));
    assert_eq!(of(&named, "lead"), (Invocation::Native, Catalog::Full), "its model is another one");
    let own = files().edited("agents/counter.json", MODEL, "\"model\": \"small\", \"invocation\": \"native\"");
    assert_eq!(of(&own, "counter").0, Invocation::Native, "the agent's own key counts");

    let in_job = r#""models": {"small": {"model": "acme:m", "invocation": "universal"}, "#;
    let in_job = sound().edited("job.json", "\"models\": {", in_job).edited("agents/counter.json", MODEL, "\"model\": \"small\"");
    assert_eq!(of(&in_job, "counter").0, Invocation::Universal);
}

#[test]
fn a_native_agent_cannot_fall_back_to_a_model_that_needs_universal_invocation() {
    let models = r#"{"models": {"large": {"model": "acme:l", "fallbacks": ["small"]}, "small": {"model": "acme:m", "invocation": "universal"}}}"#;
    let files = || sound().with(Role::Models, "models.json", models);
    let large = |more: &str| files().edited("agents/counter.json", MODEL, &format!("\"model\": \"large\"{more}"));
    check(
        large(""),
        r#"
error B0109: "small", a fallback of the model of agent "counter", has "invocation": "universal", but the agent is native
   ┌─ demo/agents/counter.json:4:12
 4 │   "model": "large",
   │            ^^^^^^^ expected "invocation": "universal" in the agent, or a fallback without it
1 error
"#,
    );
    assert!(large(", \"invocation\": \"native\"").faults().contains("a fallback of the model of agent"));
    assert!(large(", \"invocation\": \"universal\"").load().is_ok());
}

#[test]
fn the_job_names_its_models_and_the_person_says_how_providers_are_reached() {
    let of_job = r#"{
      "models": {"fast": {"model": "acme:m", "price": {"input": 1, "output": 2}}},
      "providers": {"acme": {"base_url": "https://elsewhere.example"}, "mine": {"like": "local", "base_url": "http://127.0.0.1:1"}}
    }"#;
    let of_person = r#"{
      "models": {"fast": {"model": "local:n"}, "slow": {"model": "mine:n", "settings": {"temperature": 0.5}}},
      "providers": {"acme": {"key": {"env": "MY_KEY"}, "headers": {"X-Title": "t"}, "timeouts": {"total_seconds": 9}}}
    }"#;
    let files = sound().with(Role::Models, "models.json", of_job).with(Role::UserModels, "/home/me/models.json", of_person);
    let files = files.edited("agents/lead.json", MODEL, "\"model\": \"slow\"");
    assert_eq!(provided(&files, "fast").provider, "acme", "the job's own name counts");
    let slow = provided(&files, "slow");
    assert_eq!((slow.provider.as_str(), slow.settings["temperature"].as_f64()), ("mine", Some(0.5)));
    let configs = files.load().unwrap();
    let acme = &configs.job.providers["acme"];
    assert_eq!((acme.base_url.as_deref(), acme.key_variable.as_deref(), acme.origin), (None, Some("MY_KEY"), Origin::Person));
    assert_eq!(acme.total, Some(Duration::from_secs(9)));
    assert_eq!(configs.job.providers["mine"].origin, Origin::Job);
    let prices = prices(&configs, Some("fast"), |_| false, PriceTable::embedded);
    assert_eq!(prices["fast"].output, Money::from_usd(2e-6));
    assert!(
        baton_config::prices(&configs, Some("slow"), |_| false, PriceTable::embedded).is_empty(),
        "what is not known is not free"
    );
}

#[test]
fn a_limit_of_money_needs_a_price_at_a_start_and_not_to_go_on() {
    let limited = |price: &str| {
        let models = format!(r#"{{"models": {{"m": {{"model": "acme:m"{price}}}}}}}"#);
        let files = sound().with(Role::UserModels, "/home/me/models.json", models).edited(
            "agents/counter.json",
            MODEL,
            "\"model\": \"m\"",
        );
        files.edited("agents/counter.json", "\"turns\": 7", "\"cost_usd\": 1.5")
    };
    let shown = limited("").faults();
    assert!(shown.contains("agent \"counter\" may run on \"m\", whose price is not known"), "{shown}");
    assert!(
        load(&limited("").sources(), &[&WORD_COUNT], Unconfigured::Allowed, &rules()).is_ok(),
        "prices are those of the start"
    );
    assert!(limited(r#", "price": {"input": 1, "output": 2}"#).load().is_ok());
}

#[test]
fn every_fault_of_models_is_told_at_its_place() {
    let models = r#"{
  "models": {
    "fast": {"model": "acm:m"},
    "slow": {"model": "acme:m", "settings": {"max_tokens": 9, "messages": []}}
  },
  "providers": {
    "mine": {"base_url": "http://127.0.0.1:1"},
    "acme": {"base_url": "ftp://x", "headers": {"Authorization": "Bearer k"}, "tiemouts": {}}
  }
}"#;
    let files = sound().with(Role::Models, "models.json", models);
    let shown = files.edited("agents/lead.json", MODEL, "\"model\": \"loacl:m\"").faults();
    for expected in [
        "the model \"loacl:m\" does not name a known provider",
        "unknown key \"tiemouts\"",
        "did you mean \"timeouts\"",
        "did you mean \"local\"",
    ] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
    let repaired = models.replace(", \"tiemouts\": {}", "");
    let shown = sound().with(Role::Models, "models.json", repaired).faults();
    for expected in [
        "the model \"acm:m\" does not name a known provider",
        "demo/models.json:3:",
        "\"max_tokens\" belongs into the settings of an agent",
        "\"messages\" is not a setting",
        "there is no provider \"mine\", and the entry \"mine\" has no \"like\" to name a known one",
        "this is not a web address",
        "header \"Authorization\" would hold a key",
        "demo/models.json:8:",
    ] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
    for url in ["https://me:hush@acme.example/v1", "https://acme.example/v1?key=hush", "https://acme.example/#hush"] {
        let models = format!(r#"{{"providers": {{"acme": {{"base_url": "{url}"}}}}}}"#);
        let told = sound().with(Role::Models, "models.json", models).faults();
        assert!(told.contains("the address has a part that may hold a key") && !told.contains("hush"), "{told}");
    }
    assert!(!shown.contains("Bearer k"), "a key that stands where none may is not repeated:\n{shown}");
}

#[test]
fn an_address_has_a_scheme_and_a_host() {
    let told = |url: &str| {
        let models = format!(r#"{{"providers": {{"acme": {{"base_url": "{url}"}}}}}}"#);
        sound().with(Role::Models, "models.json", models).told()
    };
    for url in ["http://a", "https://a", "http://127.0.0.1:8080/v1"] {
        assert_eq!(told(url), "", "{url}");
    }
    for url in ["http://", "https://", "https:///v1", "http://?", "ftp://acme.example/v1", "acme.example/v1"] {
        assert!(told(url).contains("this is not a web address"), "{url}: {}", told(url));
    }
}

#[test]
fn only_the_lines_that_may_hold_a_key_are_not_shown() {
    let models = r#"{
  "providers": {
    "acme": {"headers": {"Authorization": "Bearer hush"}},
    "mine": {"base_url": "http://127.0.0.1:1"}
  }
}"#;
    let of_person = "{\n  \"models\": {\n    \"fast\": {\"model\": \"acm:m\"}\n  }\n}";
    let files = sound().with(Role::Models, "models.json", models).with(Role::UserModels, "/home/me/models.json", of_person);
    let told = files.faults();
    assert!(told.contains("demo/models.json:3:") && !told.contains("hush"), "{told}");
    assert!(told.contains(r#"4 │     "mine": {"base_url""#), "another line of that file is shown:\n{told}");
    assert!(told.contains(r#"3 │     "fast": {"model": "acm:m"}"#), "so is the same line of another file:\n{told}");
}

#[test]
fn a_key_in_a_file_is_not_shown_whatever_is_wrong_with_it() {
    for provider in [
        r#""key": "hush""#,
        r#""key": {"value": "hush"}"#,
        r#""key": {"env": "no-hush"}"#,
        r#""api_key": "hush""#,
        r#""apiKey": "hush", "like": 7"#,
        r#""accessToken": {"bearer": ["hush"]}"#,
        r#""timeouts": "sk-hush""#,
        r#""limits": {"requests_per_minute": "Ab3dE5fG7hushJ9kL1mN2pQ4rS6t"}"#,
    ] {
        for space in [" ", "\n"] {
            let models = format!(r#"{{"providers": {{"acme": {{{provider}}}}}}}"#).replace(' ', space);
            let told = sound().with(Role::Models, "models.json", &models).faults();
            assert!(
                told.contains("error B01") && told.contains("demo/models.json:") && !told.contains("hush"),
                "{models}\n{told}"
            );
        }
    }
}

#[test]
fn the_script_that_a_start_brings_is_a_model_and_is_checked_like_any_other() {
    let brought = |script: &str| sound().with(Role::RunScript, "/home/me/again.script.json", script);
    let job = brought("{}").load().expect("the job is sound").job;
    assert!(matches!(job.model(RUN_SCRIPT), Some(ModelSpec::Scripted { text, .. }) if &*text == "{}"));
    let told = brought("{\"bad\": true}").faults();
    assert!(told.contains("this script cannot be followed") && told.contains("again.script.json:1:"), "{told}");
}

#[test]
fn a_model_is_a_script_or_a_providers() {
    let own = r#"{ "provider": "scripted", "script": "demo.script.json" }"#;
    check(
        sound().edited("job.json", own, r#"{ "provider": "scripted" }"#),
        r#"
error B0106: key "script" is missing
    ┌─ demo/job.json:10:15
 10 │   "models": { "scripted": { "provider": "scripted" } }
    │               ^^^^^^^^^^
1 error
"#,
    );
    check(
        sound().edited("job.json", own, r#"{ "script": "demo.script.json" }"#),
        r#"
error B0106: key "provider" is missing
    ┌─ demo/job.json:10:15
 10 │   "models": { "scripted": { "script": "demo.script.json" } }
    │               ^^^^^^^^^^
1 error
"#,
    );
    check(
        sound().edited("job.json", own, "{}"),
        r#"
error B0106: key "model" is missing
    ┌─ demo/job.json:10:15
 10 │   "models": { "scripted": {} }
    │               ^^^^^^^^^^ expected "model": "PROVIDER:MODEL", or "provider" with "script"
1 error
"#,
    );
    check(
        sound().edited("job.json", own, r#"{ "provider": "scripted", "script": "demo.script.json", "model": "acme:m" }"#),
        r#"
error B0109: a model that follows a script cannot have the keys of a provider's model
    ┌─ demo/job.json:10:15
 10 │   "models": { "scripted": { "provider": "scripted", "script": "demo.script.json", "model": "acme:m" } }
    │               ^^^^^^^^^^
1 error
"#,
    );
}

#[test]
fn a_model_names_those_that_are_asked_in_its_place() {
    let of_job = r#"{"models": {
      "fast": {"model": "acme:m", "fallbacks": ["slow", "local:n", "scripted"]},
      "slow": {"model": "acme:n", "fallbacks": ["fast"]}
    }}"#;
    let files = sound().with(Role::Models, "models.json", of_job);
    let configs = files.edited("agents/lead.json", MODEL, "\"model\": \"fast\"").load().unwrap();
    assert_eq!(configs.job.fallbacks("fast"), ["slow", "local:n", "scripted"]);
    assert_eq!(configs.job.fallbacks("slow"), ["fast"], "two may stand in for each other");
    assert!(configs.job.fallbacks("scripted").is_empty() && configs.job.fallbacks("acme:m").is_empty());
}

#[test]
fn a_model_has_the_window_that_its_config_says_and_a_provider_or_none() {
    let of_job = r#"{"models": {"wide": {"model": "acme:m", "context_tokens": 200000}, "plain": {"model": "acme:n"}}}"#;
    let configs = sound().with(Role::Models, "models.json", of_job).load().unwrap();
    let windows = ["wide", "plain", "scripted", "acme:m", "nobody"].map(|name| configs.job.window(name));
    assert_eq!(windows, [Some(200_000), None, None, None, None]);
    let provided = ["wide", "plain", "acme:m", "scripted", "nobody:m", "nobody"].map(|name| configs.job.is_provided(name));
    assert_eq!(provided, [true, true, true, false, false, false]);
    for window in ["255", "1000000001", "-1"] {
        let models = of_job.replace("200000", window);
        assert!(sound().with(Role::Models, "models.json", models).faults().contains("context_tokens"), "{window}");
    }
}

#[test]
fn a_model_takes_what_its_config_says_and_its_provider_elsewhere() {
    let own = r#"{ "provider": "scripted", "script": "demo.script.json" }"#;
    let of_files = r#"{"models": {"blind": {"model": "acme:m", "modalities": {"images": false}}, "plain": {"model": "acme:n"}}}"#;
    let with_one = format!(r#"{own}, "reader": {{"model": "acme:m", "modalities": {{"files": true}}}}"#);
    let files = sound().with(Role::Models, "models.json", of_files).edited("job.json", own, &with_one);
    let configs = files.load().unwrap();
    let modalities = ["blind", "plain", "reader"].map(|name| match &configs.job.models[name] {
        ModelSpec::Provided(model) => (model.modalities.images, model.modalities.files),
        ModelSpec::Scripted { .. } => panic!("{name} is no script"),
    });
    assert_eq!(modalities, [(Some(false), None), (None, None), (None, Some(true))]);
    let unknown = of_files.replace("images", "imges");
    let shown = sound().with(Role::Models, "models.json", unknown).faults();
    assert!(shown.contains("imges") && shown.contains("images"), "{shown}");
}

#[test]
fn every_fault_of_fallbacks_is_told_at_its_place() {
    let models = r#"{"models": {
  "fast": {"model": "acme:m", "fallbacks": [
    "slwo",
    "acme:m",
    "slow",
    "local:n",
    "fast"
  ]},
  "slow": {"model": "local:n"}
}}"#;
    let shown = sound().with(Role::Models, "models.json", models).faults();
    for expected in [
        "\"fast\" falls back to \"slwo\", which is not a known model",
        "demo/models.json:3:5",
        "did you mean \"slow\"",
        "error B0123: the fallbacks of \"fast\" contain \"acme:m\", which is asked before",
        "demo/models.json:4:5",
        "the fallbacks of \"fast\" contain \"local:n\", which is asked before",
        "the fallbacks of \"fast\" contain \"fast\", which is asked before",
        "4 errors",
    ] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
    let many: Vec<String> = (0..9).map(|number| format!("\"acme:{number}\"")).collect();
    let models = format!(r#"{{"models": {{"fast": {{"model": "acme:m", "fallbacks": [{}]}}}}}}"#, many.join(", "));
    let shown = sound().with(Role::Models, "models.json", models).faults();
    assert!(shown.contains("B0107") && shown.contains("fallbacks"), "{shown}");
    let own = r#"{ "provider": "scripted", "script": "demo.script.json" }"#;
    let scripted = r#"{ "provider": "scripted", "script": "demo.script.json", "fallbacks": ["acme:m"] }"#;
    let windowed = scripted.replace(r#""fallbacks": ["acme:m"]"#, r#""context_tokens": 1000"#);
    let seeing = scripted.replace(r#""fallbacks": ["acme:m"]"#, r#""modalities": {"images": true}"#);
    for given in [scripted, windowed.as_str(), seeing.as_str()] {
        let shown = sound().edited("job.json", own, given).faults();
        assert!(shown.contains("a model that follows a script cannot have the keys of a provider's model"), "{shown}");
    }
}

#[test]
fn a_limit_of_money_needs_the_price_of_every_fallback() {
    let limited = |price: &str| {
        let priced = r#""price": {"input": 1, "output": 2}"#;
        let models = format!(
            r#"{{"models": {{"m": {{"model": "acme:m", {priced}, "fallbacks": ["n"]}}, "n": {{"model": "acme:n"{price}}}}}}}"#
        );
        let files = sound().with(Role::UserModels, "/home/me/models.json", models).edited(
            "agents/counter.json",
            MODEL,
            "\"model\": \"m\"",
        );
        files.edited("agents/counter.json", "\"turns\": 7", "\"cost_usd\": 1.5")
    };
    let shown = limited("").faults();
    assert!(shown.contains("agent \"counter\" may run on \"n\", whose price is not known"), "{shown}");
    let configs = limited(r#", "price": {"input": 3, "output": 4}"#).load().unwrap();
    let prices = prices(&configs, Some("m"), |_| false, PriceTable::embedded);
    assert_eq!(prices.keys().collect::<Vec<_>>(), ["m", "n"], "a model that stands in brings its fallbacks");
}

#[test]
fn limits_of_a_provider_are_read_and_kept_in_bounds() {
    let models = |limits: &str| format!(r#"{{"providers": {{"acme": {{"limits": {limits}}}}}}}"#);
    let files = sound().with(Role::Models, "models.json", models(r#"{"requests_per_minute": 60, "in_flight": 8}"#));
    let limits = files.load().unwrap().job.providers["acme"].limits;
    assert_eq!((limits.requests_per_minute, limits.tokens_per_minute, limits.in_flight), (Some(60), None, Some(8)));
    let wrong = r#"{"requests_per_minute": 0, "tokens_per_minute": 2000000000, "in_fligth": 8}"#;
    let shown = sound().with(Role::Models, "models.json", models(wrong)).faults();
    for expected in ["B0107", "requests_per_minute", "tokens_per_minute", "did you mean \"in_flight\""] {
        assert!(shown.contains(expected), "{expected} is not in\n{shown}");
    }
}

#[test]
fn a_model_that_a_person_plays_keeps_its_name() {
    let files = sound().edited("job.json", r#""models": { "#, r#""models": { "person": { "model": "acme:m" }, "#);
    let told = files.faults();
    assert!(told.contains("error B0122: the model name \"person\" is reserved"), "{told}");
}

#[test]
fn the_persons_embeddings_count_and_a_name_is_one_of_the_same_file() {
    let of_person =
        r#"{"models": {"near": {"model": "acme:e", "settings": {"dimensions": 8}}}, "embeddings": {"model": "near"}}"#;
    let of_job = r#"{"models": {"near": {"model": "local:other"}}, "embeddings": {"model": "local:e"}}"#;
    let job = || sound().with(Role::Models, "models.json", of_job);
    let name = |configs: &baton_types::config::Configs| {
        configs.job.embeddings.as_ref().map(|embeddings| (embeddings.name(), embeddings.origin))
    };
    assert_eq!(name(&job().load().unwrap()), Some(("local:e".to_owned(), Origin::Job)));
    let both = job().with(Role::UserModels, "/home/me/models.json", of_person).load().unwrap();
    assert_eq!(name(&both), Some(("acme:e".to_owned(), Origin::Person)));
    assert_eq!(both.job.embeddings.as_ref().unwrap().model.settings["dimensions"], 8);
    assert_eq!(name(&sound().load().unwrap()), None);
    for (models, expected) in [
        (r#"{"embeddings": {"model": "near"}}"#, "the model \"near\" does not name a known provider"),
        (r#"{"embeddings": {"model": "acm:e"}}"#, "the model \"acm:e\" does not name a known provider"),
        (r#"{"embeddings": {"modle": "acme:e"}}"#, "did you mean \"model\""),
        (r#"{"embeddings": "acme:e"}"#, "models.json:1:16"),
        (r#"{"embeddings": {"model": "mute:e"}, "providers": {"mute": {"like": "mute-maker"}}}"#, "mute-maker"),
    ] {
        let shown = sound().with(Role::Models, "models.json", models).faults();
        assert!(shown.contains(expected), "{models}: {shown}");
    }
    let mut rules = rules();
    rules.embeds = |name| name != "acme";
    let files = sound().with(Role::Models, "models.json", r#"{"embeddings": {"model": "acme:e"}}"#);
    let shown = load(&files.sources(), &[&WORD_COUNT], Unconfigured::Refused, &rules).unwrap_err().to_string();
    assert!(
        shown.contains("the provider \"acme\" has no models for embeddings") && shown.contains("models.json:1:26"),
        "{shown}"
    );
}

#[test]
fn embeddings_and_providers_load_without_a_job() {
    let of_person = r#"{"embeddings": {"model": "acme:e"}, "providers": {"acme": {"base_url": "https://acme.example"}}}"#;
    let mut sources = Sources::default();
    sources.add_from(Origin::Person, Role::UserModels, "/home/me/models.json", of_person);
    let (embeddings, providers) = load_embeddings(&sources, &rules()).expect("it is sound");
    assert_eq!(embeddings.expect("a model is named").name(), "acme:e");
    let providers: Vec<_> = providers.iter().map(|(name, settings)| (name.as_str(), settings.base_url.as_deref())).collect();
    assert_eq!(providers, [("acme", Some("https://acme.example"))]);
    let (embeddings, providers) = load_embeddings(&Sources::default(), &rules()).expect("no file has a fault");
    assert!(embeddings.is_none() && providers.is_empty());
    sources.add(Role::Models, "models.json", r#"{"models": {"a": {"model": "acme:a", "settings": {"messages": 1}}}}"#);
    let told = load_embeddings(&sources, &rules()).expect_err("the engine sets the messages").to_string();
    assert!(told.contains("models.json:1:51") && told.contains("\"messages\" is not a setting"), "{told}");
}
