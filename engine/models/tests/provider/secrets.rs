//! A key goes into one header, and nowhere else.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use baton_models::{ModelError, NoContents, Providers, RunKey, SetupError};
use baton_types::config::ProvidedModel;
use baton_types::model::ModelTurn;
use serde_json::json;

use crate::server::{Reply, Server};
use crate::{KEY, ask, at, hello, model, request};

/// Returns the spellings in which a server may repeat the key.
pub(crate) fn spellings() -> Vec<String> {
    vec![
        KEY.to_owned(),
        KEY.replace('"', "\\\""),
        "sk-canary%2B%2F%3D%224f9a%22-key".to_owned(),
        "c2stY2FuYXJ5Ky89IjRmOWEiLWtleQ==".to_owned(),
    ]
}

#[tokio::test]
async fn the_key_is_in_its_header_and_in_no_error_or_print() {
    let repeated = spellings().join(" | ");
    let replies = [
        Reply::new(401, json!({"error": {"message": format!("wrong key: {repeated}"), "type": KEY}}).to_string()),
        Reply::new(400, format!("you sent {repeated}")),
        Reply::new(500, json!({"detail": repeated}).to_string()),
        Reply::new(200, json!({"error": repeated}).to_string()),
        Reply::stream(format!("data: {}\n\n", json!({"error": {"message": repeated}}))),
    ];
    for reply in replies {
        let server = Server::start(move |_, _| reply.clone()).await;
        let way = at(&server.url, "openrouter");
        let error = ask(&way).await.unwrap_err();
        let shown = format!("{error} {error:?} {way:?} {:?}", ModelError::Unavailable { reason: error.to_string() });
        for spelling in spellings() {
            assert!(!shown.contains(&spelling), "{spelling} is in {shown}");
        }
        assert!(shown.contains("[key]"), "{shown}");
        let received = &server.received()[0];
        assert_eq!(received.headers["authorization"], format!("Bearer {KEY}"));
        assert!(!received.body.to_string().contains("canary") && !received.path.contains("canary"));
    }
}

#[tokio::test]
async fn no_beginning_of_a_key_is_left_where_words_are_cut() {
    /// Errors show so many characters of a provider's words.
    const SHOWN: usize = 600;
    /// So few characters of a key may occur anywhere by chance.
    const TELLS: usize = 6;
    let mut cuts = 0;
    for spelling in spellings() {
        for kept in [TELLS, spelling.len() / 2, spelling.len() - 1] {
            let words = format!("{}{spelling} and {}", "x".repeat(SHOWN - kept), "y".repeat(SHOWN));
            let error = json!({"error": {"message": words, "code": words}}).to_string();
            let replies = [
                Reply::new(400, error.clone()),
                Reply::new(400, words.clone()),
                Reply::new(400, json!({"detail": words}).to_string()),
                Reply::new(400, format!("data: {error}\n\n")).with("content-type", "text/event-stream"),
                Reply::new(200, json!({"error": words}).to_string()),
                Reply::stream(format!("data: {error}\n\n")),
            ];
            for reply in replies {
                let server = Server::start(move |_, _| reply.clone()).await;
                let way = at(&server.url, "openrouter");
                let health = Providers::default().health("test", Some(&way), &|_| Some(KEY.to_owned())).await;
                let shown = format!("{:?} {health:?}", ask(&way).await.unwrap_err());
                assert!(shown.contains(&"x".repeat(100)), "{shown}");
                assert!(!shown.contains(&spelling[..TELLS]), "{spelling} cut after {kept} characters is in {shown}");
                cuts += 1;
            }
        }
    }
    println!("{cuts} replies whose words are cut inside a key, 0 beginnings of keys");
}

#[tokio::test]
async fn each_provider_gets_the_key_in_its_own_header() {
    let server = Server::start(|_, request| match request.path.as_str() {
        "/messages" => {
            Reply::new(200, json!({"content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"}).to_string())
        }
        "/responses" => {
            let item = json!({"type": "message", "content": [{"type": "output_text", "text": "hello"}]});
            Reply::new(200, json!({"status": "completed", "output": [item]}).to_string())
        }
        "/api/chat" => Reply::new(200, json!({"message": {"content": "hello"}, "done": true}).to_string()),
        _ => Reply::new(200, hello()),
    })
    .await;
    for like in baton_models::provider_names() {
        let turn = model(&at(&server.url, like)).answer(&request(), &NoContents).await.unwrap();
        assert_eq!(turn.text, "hello", "{like}");
        let received = server.received().pop().unwrap();
        let bearer = received.headers.get("authorization").map(String::as_str);
        if like == "anthropic" {
            assert_eq!((received.headers["x-api-key"].as_str(), bearer), (KEY, None));
            assert!(received.headers.contains_key("anthropic-version"));
        } else if like == "azure" {
            assert_eq!((received.headers["api-key"].as_str(), bearer), (KEY, None));
        } else {
            assert_eq!(bearer, Some(format!("Bearer {KEY}").as_str()), "{like}");
        }
    }
}

#[test]
fn a_key_that_is_missing_is_named_before_anything_is_sent() {
    let model =
        |provider: &str| ProvidedModel { provider: provider.to_owned(), model: "m".to_owned(), ..ProvidedModel::default() };
    let (providers, run) = (Providers::default(), RunKey::unique());
    let missing = providers.model(run, &model("anthropic"), None, &|_| None).err();
    let expected = SetupError::KeyMissing { provider: "anthropic".to_owned(), variable: "ANTHROPIC_API_KEY".to_owned() };
    assert_eq!(missing, Some(expected));
    // A variable that is there and empty holds no key.
    assert!(providers.model(run, &model("openai"), None, &|_| Some(" ".to_owned())).is_err());
    // What needs no key is asked without; what is like a provider, elsewhere, is not sent that provider's key.
    assert!(providers.model(run, &model("ollama"), None, &|_| None).is_ok());
    let mut elsewhere = at("http://127.0.0.1:9", "openai");
    elsewhere.key_variable = None;
    let asked = std::sync::Mutex::new(Vec::new());
    let variable = |name: &str| {
        asked.lock().unwrap().push(name.to_owned());
        Some(KEY.to_owned())
    };
    assert!(providers.model(run, &model("mine"), Some(&elsewhere), &variable).is_ok());
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new(), "no key was looked for");
    let odd = providers.model(run, &model("openai"), None, &|_| Some("two\nlines".to_owned())).err().unwrap();
    assert!(matches!(odd, SetupError::Unusable { .. }) && !odd.to_string().contains("lines"), "{odd}");
}

/// Returns everything in a turn as text.
fn said(turn: &ModelTurn) -> String {
    format!("{turn:?} {}", turn.calls.iter().map(|call| call.input.text()).collect::<String>())
}

/// Answers that repeat `secret` in a text, in reasoning, in the id and the arguments of a call, and in the ids of the answer;
/// streamed by pieces of `most` characters.
fn repeating(secret: &str, most: usize) -> Vec<(&'static str, Reply)> {
    let arguments = json!({"text": secret, "list": [{ secret: 1 }]}).to_string();
    let call = |arguments: &str| json!({"index": 0, "id": secret, "type": "function", "function": {"name": "echo", "arguments": arguments}});
    let whole = json!({
        "id": secret, "model": secret,
        "choices": [{"message": {"content": format!("It is {secret}."), "reasoning_content": format!("Hm: {secret}"),
            "tool_calls": [call(&arguments)]}, "finish_reason": "tool_calls"}],
    });
    let pieces = |text: &str| {
        let characters: Vec<char> = text.chars().collect();
        characters.chunks(most).map(|piece| piece.iter().collect::<String>()).collect::<Vec<_>>()
    };
    let event = |delta: serde_json::Value| format!("data: {}\n\n", json!({"id": secret, "choices": [{"delta": delta}]}));
    let mut stream = String::new();
    for (key, text) in [("reasoning_content", format!("Hm: {secret}")), ("content", format!("It is {secret}."))] {
        for piece in pieces(&text) {
            stream += &event(json!({ key: piece }));
        }
    }
    stream += &event(json!({"tool_calls": [call("")]}));
    for piece in pieces(&arguments) {
        stream += &event(json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}));
    }
    stream += "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    vec![("whole", Reply::new(200, whole.to_string())), ("streamed", Reply::stream(stream))]
}

#[tokio::test]
async fn a_key_in_a_successful_answer_is_replaced_however_it_is_spelt_and_cut() {
    let more = ["736b2d63616e6172792b2f3d2234663961222d6b6579", "736B2D63616E6172792B2F3D2234663961222D6B6579"];
    let more = more.into_iter().map(str::to_owned);
    // `Basic`, with names of three lengths before the key, and in the alphabet of addresses.
    let basic = ["u:", "me:", "you:"].map(|user| STANDARD.encode(format!("{user}{KEY}!")));
    let for_addresses = URL_SAFE_NO_PAD.encode(format!("??{KEY}>"));
    let spelt: Vec<String> = spellings().into_iter().chain(more).chain(basic).chain([for_addresses]).collect();
    let mut answers = 0;
    for spelling in &spelt {
        for most in [1, 3, 1_000] {
            for (name, reply) in repeating(spelling, most) {
                let server = Server::start(move |_, _| reply.clone()).await;
                let turn = ask(&at(&server.url, "llamacpp")).await.unwrap();
                let said = said(&turn);
                assert!(turn.text.starts_with("It is ") && turn.text.contains("[key]"), "{name} {spelling}: {said}");
                // Of a longer text in base64, the characters that the key alone decides are gone.
                let core = &spelling[spelling.len() / 3..spelling.len() * 2 / 3];
                assert!(!said.contains(core), "{core} of {spelling} is in {said}");
                assert!(turn.calls[0].malformed.is_none(), "{said}");
                answers += 1;
            }
        }
    }
    println!("{answers} answers, 0 keys");
}

#[tokio::test]
async fn an_answer_without_the_key_stays_as_it_is() {
    let server = Server::start(|_, _| Reply::new(200, hello())).await;
    assert_eq!(ask(&at(&server.url, "llamacpp")).await.unwrap().text, "hello");
}

#[tokio::test]
async fn a_signed_item_with_the_key_goes_as_its_view_and_other_items_without_the_key() {
    let thinking = |words: &str| json!({"type": "thinking", "thinking": words, "signature": "sealed"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let stored = |content: serde_json::Value| async move {
        let body = json!({"content": content, "stop_reason": "end_turn"}).to_string();
        let server = Server::start(move |_, _| Reply::new(200, body.clone())).await;
        let turn = ask(&at(&server.url, "anthropic")).await.unwrap();
        assert!(!said(&turn).contains(KEY), "{turn:?}");
        (turn.text.clone(), turn.items.value()["items"].clone())
    };
    let (said, items) = stored(json!([thinking(KEY), text("A."), thinking("b"), text(&format!("B {KEY}!"))])).await;
    assert_eq!(said, "A.\n\nB [key]!");
    let place = |from: u32, to: u32| json!({"type": "text", "text": {"from": from, "to": to}});
    assert_eq!(items, json!([place(0, 2), thinking("b"), place(4, 12)]));
    // A key in two texts together leaves the text alone.
    let (first, rest) = KEY.split_at(KEY.len() / 2);
    let (said, items) = stored(json!([thinking("a"), text(first), text(rest)])).await;
    assert_eq!((said.as_str(), items), ("[key]", serde_json::Value::Null));
}
