//! Exchanges with a provider, recorded and played: the content of a cassette, secrets that never enter one, and the
//! error of a request without one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton_models::provider::Retries;
use baton_models::{CassetteError, Cassettes, Model, ModelError, NoContents, Providers, RunKey, SetupError};
use baton_types::config::{ProvidedModel, ProviderSettings};
use baton_types::id::{AgentId, CallId, RunId};
use baton_types::message::{Message, Part, Role, framed};
use baton_types::model::{ModelRequest, ModelTurn};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::loud::provoked;
use crate::secrets::spellings;
use crate::server::{End, Reply, Server};
use crate::{KEY, at, hello, quick, request};

/// A change to a cassette, and part of the expected error.
type Tampering = (&'static str, fn(&mut Value));

/// Returns a recording in a folder of its own, which has its run.
fn recording() -> (TempDir, Arc<Cassettes>) {
    let folder = tempfile::tempdir().unwrap();
    let cassettes = Cassettes::record(folder.path()).unwrap();
    cassettes.claim().unwrap();
    cassettes.label(&RunId::new("r1")).unwrap();
    (folder, Arc::new(cassettes))
}

fn played(folder: &TempDir) -> Arc<Cassettes> {
    Arc::new(Cassettes::play(folder.path()).unwrap())
}

/// Returns the model `name` of the provider in `settings`. The key is read only if needed.
fn model(name: &str, settings: &ProviderSettings, cassettes: &Arc<Cassettes>) -> Result<Arc<dyn Model>, SetupError> {
    let model = ProvidedModel { provider: "test".to_owned(), model: name.to_owned(), ..ProvidedModel::default() };
    let needs_key = !cassettes.is_played();
    let variable = move |name: &str| (name == "TEST_KEY" && needs_key).then(|| KEY.to_owned());
    // A machine under load is slow: what is limited for a moment is not given up.
    let retries = Retries { patience: Duration::from_secs(10), ..quick() };
    Providers::new(retries).with_cassettes(Some(Arc::clone(cassettes))).model(RunKey::unique(), &model, Some(settings), &variable)
}

async fn ask(asked: &ModelRequest, settings: &ProviderSettings, cassettes: &Arc<Cassettes>) -> Result<ModelTurn, ModelError> {
    model("maker/m", settings, cassettes).unwrap().answer(asked, &NoContents).await
}

/// Returns a request with `text`.
fn saying(text: &str) -> ModelRequest {
    let message = Message { role: Role::User, parts: vec![Part::Request(text.to_owned())] };
    ModelRequest { messages: Arc::new(vec![Arc::new(message)]), ..request() }
}

/// Returns the files of a recording by their names, without its label.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let texts = entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()));
    texts.filter(|(name, _)| name != "recording.json").collect()
}

fn names(folder: &Path) -> Vec<String> {
    files(folder).into_keys().collect()
}

fn cassette(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&files(folder)[name]).unwrap()
}

fn rewrite(folder: &TempDir, name: &str, change: impl FnOnce(&mut Value)) {
    let mut value = cassette(folder.path(), name);
    change(&mut value);
    std::fs::write(folder.path().join(name), value.to_string()).unwrap();
}

#[tokio::test]
async fn a_cassette_says_what_was_sent_and_what_came() {
    let server = Server::start(|before, _| match before {
        0 => Reply::new(429, json!({"error": {"message": "slow down"}}).to_string()).with("retry-after", "0.02"),
        _ => Reply::stream("data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"),
    })
    .await;
    let way = at(&server.url, "llamacpp");
    let (folder, cassettes) = recording();
    let turn = ask(&request(), &way, &cassettes).await.unwrap();
    assert_eq!(turn.text, "hello");
    let (occasion, sent) = (
        json!({"task": "0", "agent": "one", "turn": 1, "model": "m"}),
        json!({"provider": "test", "path": "/chat/completions", "body": {"json": server.received()[0].body}}),
    );
    let refused = json!({"occasion": occasion, "attempt": 1, "request": sent, "answer": {
        "status": 429, "content_type": "application/json", "retry_after_milliseconds": 20,
        "body": {"json": {"error": {"message": "slow down"}}},
    }});
    let answered = json!({"occasion": occasion, "attempt": 2, "request": sent, "answer": {
        "status": 200, "content_type": "text/event-stream", "body": {"lines": [
            "data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}", "",
            "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}", "", "data: [DONE]", "", "",
        ]},
    }});
    let expected = [("0.turn-001.1.json", refused), ("0.turn-001.2.json", answered)];
    let expected = expected.map(|(name, value)| (name.to_owned(), format!("{value:#}\n")));
    assert_eq!(files(folder.path()), BTreeMap::from(expected));
    let label: Value = serde_json::from_slice(&std::fs::read(folder.path().join("recording.json")).unwrap()).unwrap();
    assert_eq!((&label["format"], &label["run"]), (&json!(1), &json!("r1")));
    drop(server);
    assert_eq!(ask(&request(), &way, &played(&folder)).await, Ok(turn));
}

/// A key in a provider's answer is in no cassette, and a played request ends like the recorded one.
#[tokio::test]
async fn no_key_is_in_any_cassette_and_every_failure_is_played_as_it_was() {
    let mut cassettes_seen = 0;
    let unreachable = ("unreachable", Reply::new(200, hello()));
    for (name, reply) in provoked().into_iter().chain([unreachable]) {
        let server = Server::start(move |_, _| reply.clone()).await;
        let moment = Some(Duration::from_millis(200));
        let url = if name == "unreachable" { "http://127.0.0.1:9" } else { &server.url };
        let way = ProviderSettings { between_bytes: moment, first_byte: moment, ..at(url, "openai") };
        let (folder, cassettes) = recording();
        // As if a tool had read the key and shown it to the agent.
        let asked = saying(&format!("Begin. {}", spellings().join(" ")));
        let error = ask(&asked, &way, &cassettes).await.expect_err(name);
        let written = files(folder.path());
        let made = if name == "unreachable" { 3 } else { server.received().len() };
        assert_eq!(written.len(), made, "{name}: a file for each request");
        for (file, text) in &written {
            for spelling in spellings() {
                let in_json = serde_json::to_string(&spelling).unwrap();
                let hits = [&*spelling, in_json.trim_matches('"')].map(|spelling| text.matches(spelling).count());
                assert_eq!(hits, [0, 0], "{name}: {spelling} is in {file}:\n{text}");
            }
            assert!(!text.contains("authorization") && !text.contains("127.0.0.1"), "{name}: {file}:\n{text}");
        }
        cassettes_seen += written.len();
        drop(server);
        let now = saying(&asked.messages[0].parts.iter().map(shown).collect::<String>());
        let again = ask(&now, &way, &played(&folder)).await.expect_err(name);
        if name == "no answer" {
            // The key itself could not be parsed. Its replacement cannot either, one column later.
            assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(&error));
        } else {
            assert_eq!(again.to_string(), error.to_string(), "{name}");
        }
    }
    println!("{cassettes_seen} cassettes, 0 keys");
    assert!(cassettes_seen > provoked().len());
}

/// Returns the text of a part, as it is recorded.
fn shown(part: &Part) -> String {
    let Part::Request(text) = part else { panic!("the request has nothing else") };
    spellings().iter().fold(text.clone(), |text, spelling| text.replace(spelling, "[key]"))
}

#[tokio::test]
async fn a_key_that_comes_in_pieces_fails_the_run_and_is_not_written() {
    let pieces = ["sk-can", "ary+/=\"4f9", "a\"-key"];
    let events = pieces.map(|piece| format!("data: {}\n\n", json!({"choices": [{"delta": {"content": piece}}]})));
    let server = Server::start(move |_, _| Reply::stream(events.concat() + "data: [DONE]\n\n")).await;
    let (folder, cassettes) = recording();
    let error = ask(&request(), &at(&server.url, "llamacpp"), &cassettes).await.unwrap_err();
    assert!(matches!(&error, ModelError::Cassette(CassetteError::SecretInPieces { .. })) && error.fails_run(), "{error}");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_waited_for_when_it_is_played() {
    let server = Server::start(|before, _| match before {
        0 | 1 => Reply::new(429, "{}").with("retry-after", "0"),
        2 => Reply::new(503, "{}"),
        _ => Reply::new(200, hello()),
    })
    .await;
    let way = at(&server.url, "llamacpp");
    let (folder, cassettes) = recording();
    ask(&request(), &way, &cassettes).await.unwrap();
    drop(server);
    let played = played(&folder);
    for name in ["0.turn-001.1.json", "0.turn-001.2.json"] {
        rewrite(&folder, name, |cassette| cassette["answer"]["retry_after_milliseconds"] = json!(86_400_000));
    }
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    assert_eq!(ask(&request(), &way, &played).await.unwrap().text, "hello");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_provider_that_is_left_alone_is_left_alone_when_it_is_played() {
    let server = Server::start(|_, _| Reply::new(429, "{}").with("retry-after", "86400")).await;
    let way = at(&server.url, "llamacpp");
    let (folder, cassettes) = recording();
    let recorded = model("m", &way, &cassettes).unwrap();
    let mut errors = Vec::new();
    for turn in 1..=2 {
        errors.push(recorded.answer(&ModelRequest { turn, ..request() }, &NoContents).await.unwrap_err().to_string());
    }
    assert_eq!(server.received().len(), 1, "the second request was not made");
    let second = cassette(folder.path(), "0.turn-002.1.json");
    assert_eq!((&second["answer"], &second["failure"]["kind"]), (&Value::Null, &json!("left_alone")));
    drop(server);
    let again = model("m", &way, &played(&folder)).unwrap();
    for (turn, expected) in (1..).zip(errors) {
        let error = again.answer(&ModelRequest { turn, ..request() }, &NoContents).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_request_that_was_given_up_is_waited_for_a_little_longer_than_it_was() {
    let server = Server::start(|_, _| Reply::new(200, "").ending(End::Mute)).await;
    let way = at(&server.url, "llamacpp");
    let (folder, cassettes) = recording();
    let asked = request();
    let mut waiting = Box::pin(ask(&asked, &way, &cassettes));
    while server.received().is_empty() {
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut waiting).await.is_err());
    }
    drop(waiting);
    let name = "0.turn-001.1.json";
    assert!(cassette(folder.path(), name)["given_up_after_milliseconds"].is_u64());
    rewrite(&folder, name, |cassette| cassette["given_up_after_milliseconds"] = json!(5_000));
    tokio::time::pause();
    let (began, played) = (tokio::time::Instant::now(), played(&folder));
    let error = ask(&asked, &way, &played).await.unwrap_err();
    assert!(began.elapsed() > Duration::from_secs(5) && began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
    assert!(matches!(&error, ModelError::Cassette(CassetteError::NotGivenUp { .. })) && error.fails_run());
    assert!(error.to_string().contains(name) && error.to_string().contains("5000 ms"), "{error}");
}

#[tokio::test]
async fn fallbacks_and_tools_have_cassettes_of_their_own() {
    let server = Server::start(|_, request| match request.body["model"].as_str() {
        Some("first") => Reply::new(500, "{}"),
        _ => Reply::new(200, hello()),
    })
    .await;
    let way = at(&server.url, "llamacpp");
    let (folder, cassettes) = recording();
    let tool = ModelRequest { call: Some(CallId::new("0/1.2")), agent: AgentId::new("ask_gpt"), ..request() };
    let asked = |model: &str| ModelRequest { model: model.to_owned(), ..request() };
    for cassettes in [cassettes, played(&folder)] {
        let (first, second) = (model("first", &way, &cassettes).unwrap(), model("second", &way, &cassettes).unwrap());
        assert!(matches!(first.answer(&asked("first"), &NoContents).await, Err(ModelError::Unavailable { .. })));
        assert_eq!(second.answer(&asked("second"), &NoContents).await.unwrap().text, "hello");
        assert_eq!(second.answer(&tool, &NoContents).await.unwrap().text, "hello");
        if !cassettes.is_played() {
            let expected = ["0-1.2.ask-001.1", "0.turn-001.1", "0.turn-001.2", "0.turn-001.3", "0.turn-001.4"];
            assert_eq!(names(folder.path()), expected.map(|name| format!("{name}.json")));
            // Resumed after a crash, the same is asked anew, and takes the place of what was recorded of it alone.
            assert_eq!(second.answer(&asked("second"), &NoContents).await.unwrap().text, "hello");
            assert_eq!(cassettes.count(), 5);
        }
    }
    assert_eq!(server.received().len(), 3 + 1 + 1 + 1, "nothing was asked when it was played");
}

#[tokio::test]
async fn a_repeated_request_replaces_its_recording() {
    let server = Server::start(|before, _| if before == 0 { Reply::new(500, "{}") } else { Reply::new(200, hello()) }).await;
    let way = at(&server.url, "llamacpp");
    let (folder, cassettes) = recording();
    ask(&request(), &way, &cassettes).await.unwrap();
    assert_eq!(names(folder.path()).len(), 2);
    let further = Arc::new(Cassettes::record_further(folder.path()).unwrap());
    further.check_run(&RunId::new("r1")).unwrap();
    ask(&request(), &way, &further).await.unwrap();
    assert_eq!(names(folder.path()), ["0.turn-001.1.json"]);
    assert_eq!(cassette(folder.path(), "0.turn-001.1.json")["answer"]["status"], 200);
}

#[tokio::test]
async fn what_cannot_be_played_says_which_cassette_and_why() {
    let server = Server::start(|_, _| Reply::new(200, hello())).await;
    let way = at(&server.url, "llamacpp");
    let (folder, cassettes) = recording();
    ask(&request(), &way, &cassettes).await.unwrap();
    drop(server);
    let name = "0.turn-001.1.json";
    let whole = files(folder.path())[name].clone();
    let error_of = async |asked: ModelRequest| {
        let error = ask(&asked, &way, &played(&folder)).await.unwrap_err();
        assert!(error.fails_run() && !error.is_retryable() && !error.is_unavailable(), "{error}");
        error.to_string()
    };
    let said = error_of(saying("Begin, then.")).await;
    assert!(said.contains(name) && said.contains("--record DIR"), "{said}");
    let [recorded, now] = ["Begin.", "Begin, then."].map(|text| json!(framed("request", text)));
    let place = "/request/body/json/messages/1/content";
    assert!(said.contains(&format!("{place}: recorded is {recorded}, now it is {now}")), "{said}");
    let said = error_of(ModelRequest { model: "other".to_owned(), ..request() }).await;
    assert!(said.contains("at /occasion/model: recorded is \"m\", now it is \"other\""), "{said}");
    let said = error_of(ModelRequest { turn: 2, ..request() }).await;
    assert!(said.starts_with("there is no cassette") && said.contains("0.turn-002.1.json"), "{said}");
    let tampered: [Tampering; 5] = [
        ("unknown field", |cassette| cassette["answr"] = json!(1)),
        ("missing field", |cassette| _ = cassette.as_object_mut().unwrap().remove("request")),
        ("neither an answer nor a failure", |cassette| _ = cassette.as_object_mut().unwrap().remove("answer")),
        ("base64", |cassette| cassette["answer"]["body"] = json!({"base64": "?"})),
        ("unknown variant", |cassette| cassette["answer"]["body"] = json!({"yaml": "?"})),
    ];
    for (reason, change) in tampered {
        rewrite(&folder, name, change);
        let said = error_of(request()).await;
        assert!(said.contains(name) && said.contains("cannot be read") && said.contains(reason), "{reason}: {said}");
        std::fs::write(folder.path().join(name), &whole).unwrap();
    }
    std::fs::write(folder.path().join(name), &whole[..whole.len() / 2]).unwrap();
    assert!(error_of(request()).await.contains("cannot be read"));
}

#[tokio::test]
async fn a_recording_that_cannot_be_made_is_refused_and_one_that_gets_a_hole_fails_its_run() {
    let server = Server::start(|_, _| Reply::new(200, hello())).await;
    let way = at(&server.url, "llamacpp");
    let (folder, cassettes) = recording();
    assert!(matches!(cassettes.claim(), Err(CassetteError::Taken { .. })), "a recording has one run");
    assert!(matches!(cassettes.check_run(&RunId::new("r2")), Err(CassetteError::OtherRun { .. })));
    assert!(matches!(Cassettes::record(folder.path()), Err(CassetteError::NotEmpty { .. })));
    let empty = tempfile::tempdir().unwrap();
    for opened in [Cassettes::play(empty.path()), Cassettes::record_further(empty.path())] {
        assert!(matches!(opened, Err(CassetteError::NoRecording { .. })));
    }
    let unbegun = Cassettes::record(&empty.path().join("new/folder")).unwrap();
    assert!(matches!(unbegun.check_run(&RunId::new("r1")), Err(CassetteError::Unrecorded { .. })));
    std::fs::write(empty.path().join("recording.json"), "{\"format\": 2, \"run\": \"r1\", \"baton\": \"9\"}").unwrap();
    assert!(matches!(Cassettes::play(empty.path()), Err(CassetteError::Unreadable { .. })));
    ask(&request(), &way, &cassettes).await.unwrap();
    std::fs::remove_dir_all(folder.path()).unwrap();
    let error = ask(&ModelRequest { turn: 2, ..request() }, &way, &cassettes).await.unwrap_err();
    assert!(matches!(&error, ModelError::Cassette(CassetteError::Unwritten { .. })) && error.fails_run(), "{error}");
    assert_eq!(server.received().len(), 2, "it was answered, and the answer does not count");
}
