//! Whole runs recorded and played: with the provider gone, without a key and without a pause, they come to the same.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use baton_models::{CassetteError, Cassettes};
use baton_runtime::{Engine, LoadedJob, RunError, StartOptions};
use baton_store::MemoryStore;
use baton_types::entry::{Entry, Recorded};
use baton_types::money::Money;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::dialects::{LIKES, Said, streamed};
use super::server::{Reply, Server};
use crate::examples;
use crate::support::{Finished, TestJob, call_result, finish, workspace};

const KEY: &str = "sk-canary-77e1-key";

/// First words of the prompts of the example's agents.
const PROMPTS: [(&str, &str); 3] =
    [("analyst", "You are a data analyst."), ("lead", "You lead a small"), ("visualizer", "You draw charts")];

/// Returns an engine that records into `folder`, or plays from it.
fn engine(cassettes: Cassettes) -> Engine {
    let needs_key = !cassettes.is_played();
    let variable = move |name: &str| (name == "TAPE_KEY" && needs_key).then(|| KEY.to_owned());
    let builder =
        Engine::builder().trust(baton_runtime::TrustEverything).store(Arc::new(MemoryStore::default())).variables(variable);
    builder.cassettes(Arc::new(cassettes)).build().unwrap()
}

async fn run(cassettes: Cassettes, job: LoadedJob, model: Option<&str>) -> Finished {
    let engine = engine(cassettes);
    let options = StartOptions { model: model.map(str::to_owned), ..StartOptions::default() };
    let handle = engine.start(job, options).await.unwrap();
    finish(&engine, &handle).await
}

/// Returns the timeline without its times and the run's id. Results of parallel calls are in call order.
fn timeline(finished: &Finished) -> Vec<Value> {
    let told = |recorded: &Arc<Recorded>| {
        let mut entry = serde_json::to_value(&recorded.entry).unwrap();
        for (kind, varies) in [("run_started", "run"), ("document_written", "at")] {
            if let Some(entry) = entry.get_mut(kind) {
                entry[varies] = Value::Null;
            }
        }
        entry
    };
    let mut entries: Vec<Value> = finished.entries.iter().map(told).collect();
    let side_by_side = |one: &Value, other: &Value| {
        let task = |entry: &Value| entry["call_finished"]["task"].as_str().map(str::to_owned);
        task(one).is_some() && task(one) == task(other)
    };
    for results in entries.chunk_by_mut(side_by_side) {
        results.sort_by_key(|entry| entry["call_finished"]["call"].to_string());
    }
    entries
}

/// Checks that `played` came to the same as `recorded`: every entry but for its time, every document, all that was spent.
fn assert_same(played: &Finished, recorded: &Finished, place: &str) {
    for (number, (played, recorded)) in (1..).zip(timeline(played).iter().zip(&timeline(recorded))) {
        assert_eq!(played, recorded, "{place}: entry {number}");
    }
    assert_eq!(played.entries.len(), recorded.entries.len(), "{place}");
    assert_eq!(workspace(played.run.documents()), workspace(recorded.run.documents()), "{place}");
}

/// Returns the files of a recording that hold `word`.
fn holding(folder: &Path, word: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|file| (file.display().to_string(), std::fs::read_to_string(&file).unwrap()));
    texts.filter(|(_, text)| text.contains(word)).map(|(file, _)| file).collect()
}

/// Returns the turns of each agent of the example: its own script, filled.
async fn said_in_example() -> BTreeMap<String, Vec<Said>> {
    let finished = examples::run(&examples::repository().join("examples/q3-sales")).await;
    let mut agents = HashMap::new();
    let mut said: BTreeMap<String, Vec<Said>> = BTreeMap::new();
    for recorded in &finished.entries {
        match &recorded.entry {
            Entry::TaskCreated(created) => _ = agents.insert(created.task.clone(), created.holder.to_string()),
            Entry::ModelAnswered(answered) => {
                let calls = answered.calls.iter().map(|call| (call.tool.clone(), call.input.value())).collect();
                said.entry(agents[&answered.task].clone()).or_default().push(Said { text: answered.text.clone(), calls });
            }
            _ => {}
        }
    }
    assert_eq!(said.keys().collect::<Vec<_>>(), ["analyst", "lead", "visualizer"]);
    said
}

/// Returns the example in a folder whose `models.json` has the address of the provider `tape`.
fn example(like: &str, url: &str) -> (TempDir, LoadedJob) {
    let folder = tempfile::tempdir().unwrap();
    copy(&examples::repository().join("examples/q3-sales"), folder.path());
    let price = json!({"input": 3, "output": 15});
    let models = json!({
        "models": {"taped": {"model": "tape:m", "price": price}},
        "providers": {"tape": {"like": like, "base_url": url, "key": {"env": "TAPE_KEY"}}}
    });
    std::fs::write(folder.path().join("models.json"), models.to_string()).unwrap();
    let job = examples::load(folder.path());
    (folder, job)
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[tokio::test]
async fn the_example_is_played_as_it_was_recorded_in_every_dialect() {
    let said = said_in_example().await;
    for like in LIKES {
        let script = said.clone();
        let server = Server::start(move |before, request| {
            if before == 1 {
                return Reply::new(429, json!({"error": {"message": format!("{KEY} is too fast")}}).to_string())
                    .with("retry-after", "0");
            }
            let body = request.body.to_string();
            let agent = PROMPTS.iter().find(|(_, prompt)| body.contains(prompt)).expect("the prompt says who asks").0;
            streamed(like, &script[agent][rounds(&request.body)], before)
        })
        .await;
        let (kept, job) = example(like, &server.url);
        let folder = tempfile::tempdir().unwrap();
        let recorded = run(Cassettes::record(folder.path()).unwrap(), job, Some("taped")).await;
        assert_eq!(recorded.status, "success", "{like}: {}", recorded.result);
        let asked = server.received().len();
        assert_eq!(Cassettes::play(folder.path()).unwrap().count(), asked, "{like}: a cassette for each request");
        assert_eq!(holding(folder.path(), KEY), Vec::<String>::new(), "{like}");
        assert!(holding(folder.path(), "[key] is too fast").len() == 1, "{like}");
        drop(server);
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        let played = run(Cassettes::play(folder.path()).unwrap(), examples::load(kept.path()), Some("taped")).await;
        let waited = began.elapsed();
        tokio::time::resume();
        assert_same(&played, &recorded, like);
        assert_eq!(spent(&played), spent(&recorded), "{like}");
        assert!(spent(&played).0 > 0 && spent(&played).1 > 10_000, "{like}: {:?}", spent(&played));
        let documents = workspace(played.run.documents()).len();
        println!("{like:<16}  {asked} requests, {} entries, {documents} documents; {waited:?} waited", played.entries.len());
    }
}

/// Returns the money and tokens that all turns used.
fn spent(finished: &Finished) -> (u64, u64) {
    let settled = finished.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::BudgetSettled(settled) => Some((settled.cost.map_or(0, Money::picos), settled.usage.total())),
        _ => None,
    });
    settled.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

/// Returns the number of turns in the conversation of a request.
fn rounds(body: &Value) -> usize {
    let messages = body["messages"].as_array().or_else(|| body["input"].as_array()).expect("a request has a conversation");
    let is_answer = |message: &Value| message["role"] == "assistant" || message["type"] == "function_call";
    // Several items in a row are one turn.
    (0..messages.len()).filter(|at| is_answer(&messages[*at]) && (*at == 0 || !is_answer(&messages[at - 1]))).count()
}

/// Returns a job with one agent on the provider `tape`, whose tool asks models, and whose texts are summarised by one.
fn asking(url: &str, prompt: &str) -> LoadedJob {
    let text = |description: &str| json!({"type": "string", "description": description, "required": true});
    let questions = json!({"type": "array", "items": {"type": "string"}, "description": "What", "required": true});
    TestJob::new("one", json!({"summary_model": "tape:summaries"}))
        .models(super::models("llamacpp", url))
        .tool("consult", json!({"model": text("Whom"), "questions": questions}), json!({}))
        .tool("write_note", json!({"path": text("Where"), "content": text("What")}), json!({"writes": true}))
        .agent_with("one", &["consult", "write_note"], json!({"model": "tape:m", "system_prompt": prompt}))
        .load()
}

/// Returns a provider whose agent consults a model twice, writes a note, and then repeats the model's answers.
async fn consulted() -> Server {
    Server::start(|before, request| {
        let (model, conversation) = (request.body["model"].as_str().unwrap(), request.body["messages"].as_array().unwrap());
        let call = |tool: &str, input: Value| Said { calls: vec![(tool.to_owned(), input)], ..Said::default() };
        let text = |text: &str| Said { text: text.to_owned(), ..Said::default() };
        let note = json!({"path": "note.md", "content": "Revenue rose in every region. ".repeat(100)});
        let said = match (model, rounds(&request.body)) {
            ("m", 0) => call("consult", json!({"model": "tape:adviser", "questions": ["One?", "Two?"]})),
            ("m", 1) => call("write_note", note),
            ("m", _) => text("done"),
            ("summaries", _) => text("Revenue rose."),
            (_, _) => text(&format!("You asked {}", conversation.last().unwrap()["content"])),
        };
        streamed("openai", &said, before)
    })
    .await
}

#[tokio::test]
async fn what_tools_and_summaries_ask_is_recorded_and_played_too() {
    let server = consulted().await;
    let folder = tempfile::tempdir().unwrap();
    let recorded = run(Cassettes::record(folder.path()).unwrap(), asking(&server.url, "Ask."), None).await;
    assert_eq!((recorded.status, recorded.result.as_str()), ("success", Some("done")));
    let mut names: Vec<String> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let expected = [
        "0-1.1.ask-001.1.json",
        "0-1.1.ask-002.1.json",
        "0-2.1.ask-001.1.json",
        "0.turn-001.1.json",
        "0.turn-002.1.json",
        "0.turn-003.1.json",
        "recording.json",
    ];
    assert_eq!(names, expected);
    let url = server.url.clone();
    drop(server);
    let played = run(Cassettes::play(folder.path()).unwrap(), asking(&url, "Ask."), None).await;
    assert_same(&played, &recorded, "asking");
    let (_, note) = played.run.documents().iter().next().unwrap();
    assert_eq!(note.current().content.summary, "Revenue rose.");
    // A tool or a summary that does not get its recorded answer ends the run, although it could continue without one.
    for lost in ["0-1.1.ask-002.1.json", "0-2.1.ask-001.1.json"] {
        let text = std::fs::read(folder.path().join(lost)).unwrap();
        std::fs::remove_file(folder.path().join(lost)).unwrap();
        let stopped = run(Cassettes::play(folder.path()).unwrap(), asking(&url, "Ask."), None).await;
        let why = error(&stopped);
        assert!(stopped.status == "failed" && why.contains("there is no cassette") && why.contains(lost), "{why}");
        std::fs::write(folder.path().join(lost), text).unwrap();
    }
}

/// Returns the reason why a run failed.
fn error(finished: &Finished) -> String {
    let ended = finished.entries.iter().rev().find_map(|recorded| match &recorded.entry {
        Entry::TaskEnded(ended) => ended.result.error.as_ref().map(|error| error.message.clone()),
        _ => None,
    });
    ended.unwrap_or_default()
}

#[tokio::test]
async fn a_run_that_parts_from_its_recording_ends_and_says_where() {
    let server = consulted().await;
    let folder = tempfile::tempdir().unwrap();
    run(Cassettes::record(folder.path()).unwrap(), asking(&server.url, "Ask."), None).await;
    let asked = server.received().len();
    let play = || Cassettes::play(folder.path()).unwrap();
    let stopped = run(play(), asking(&server.url, "Ask twice."), None).await;
    let (said, file) = (error(&stopped), folder.path().join("0.turn-001.1.json"));
    let place = format!("the request differs from cassette {} at /request/body/json/messages/0/content", file.display());
    assert!(said.starts_with(&format!("agent one in task 0, turn 1: {place}: recorded is \"Ask.\\n\\n")), "{said}");
    assert!(said.contains("now it is \"Ask twice.\\n\\n"), "{said}");
    assert!(said.ends_with("if the change is intended, record it again with baton run JOB --record DIR"), "{said}");
    // An answer that somebody changed leads to another request than the recorded one.
    let file = folder.path().join("0-1.1.ask-001.1.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("You ask"), "{text}");
    std::fs::write(&file, text.replace("You ask", "You axx")).unwrap();
    let stopped = run(play(), asking(&server.url, "Ask."), None).await;
    let why = error(&stopped);
    assert!(why.contains("0.turn-002.1.json") && why.contains("You asked") && why.contains("You axxed"), "{why}");
    std::fs::remove_file(folder.path().join("0.turn-001.1.json")).unwrap();
    let stopped = run(play(), asking(&server.url, "Ask."), None).await;
    assert!(error(&stopped).contains("0.turn-001.1.json: the recorded run did not send this request"), "{}", error(&stopped));
    assert_eq!(server.received().len(), asked, "nothing was asked of the provider, which was there");
}

#[tokio::test]
async fn children_that_lose_a_race_are_given_up_again() {
    let server = Server::start(|before, request| {
        let (body, turn) = (request.body.to_string(), rounds(&request.body));
        let call = |agent: &str| (format!("route_to_{agent}"), json!({"request": "Run."}));
        let said = match turn {
            0 if body.contains("You are lead") => Said { calls: vec![call("quick"), call("slow")], ..Said::default() },
            _ if body.contains("You are slow") => return Reply::new(200, "").ending(super::server::End::Mute),
            _ => Said { text: "done".to_owned(), ..Said::default() },
        };
        streamed("openai", &said, before)
    })
    .await;
    let job = || {
        TestJob::new("lead", json!({}))
            .models(super::models("llamacpp", &server.url))
            .agent_with("lead", &["route_to_quick", "route_to_slow"], json!({"model": "tape:m", "join": "first_success"}))
            .agent_with("quick", &[], json!({"model": "tape:m"}))
            .agent_with("slow", &[], json!({"model": "tape:m"}))
            .load()
    };
    let folder = tempfile::tempdir().unwrap();
    let recorded = run(Cassettes::record(folder.path()).unwrap(), job(), None).await;
    assert_eq!((recorded.status, call_result(&recorded.entries, "0/1.2").as_str()), ("success", "cancelled cancelled"));
    let asked = server.received().len();
    let played = run(Cassettes::play(folder.path()).unwrap(), job(), None).await;
    assert_eq!((played.result, call_result(&played.entries, "0/1.2")), (recorded.result, "cancelled cancelled".to_owned()));
    assert_eq!(server.received().len(), asked);
}

#[tokio::test]
async fn a_recording_has_one_run_from_its_start_and_goes_on_with_it() {
    let server = consulted().await;
    let folder = tempfile::tempdir().unwrap();
    let recording = engine(Cassettes::record(folder.path()).unwrap());
    let start = async |engine: &Engine| engine.start(asking(&server.url, "Ask."), StartOptions::default()).await;
    let handle = start(&recording).await.unwrap();
    let refused = |result: Result<_, RunError>| match result {
        Err(RunError::Cassettes(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    };
    assert!(matches!(refused(start(&recording).await), CassetteError::Taken { .. }));
    finish(&recording, &handle).await;
    assert!(Cassettes::record(folder.path()).is_err(), "its folder is not empty");
    let further = engine(Cassettes::record_further(folder.path()).unwrap());
    assert!(matches!(refused(start(&further).await), CassetteError::Taken { .. }));
    let other = tempfile::tempdir().unwrap();
    let unrecorded = engine(Cassettes::record(other.path()).unwrap());
    assert!(matches!(refused(unrecorded.resume(handle.id()).await), CassetteError::Unrecorded { .. }));
}
