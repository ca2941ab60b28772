//! Models of providers on the command line: their names, the sources of keys, and the message about a missing key.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc;

use serde_json::json;

use crate::support::Folder;

pub(crate) const KEY: &str = "sk-canary-3b1f77";

/// Starts a server that gives every request this answer, and sends the requests into the channel. It ends with its process.
pub(crate) fn server(status: &'static str, body: String) -> (String, mpsc::Receiver<String>) {
    serving(status, vec![body])
}

/// Starts a server that gives these answers in turn, and then repeats the last one.
pub(crate) fn serving(status: &'static str, bodies: Vec<String>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for (before, stream) in listener.incoming().enumerate() {
            let body = &bodies[before.min(bodies.len() - 1)];
            let mut stream = stream.unwrap();
            // The test may have dropped the receiver.
            let _enough = sender.send(receive(&mut stream));
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n");
            write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    (url, received)
}

fn receive(stream: &mut TcpStream) -> String {
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut piece).unwrap();
        text.push_str(&String::from_utf8_lossy(&piece[..read]));
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok()).unwrap_or(0);
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
        if read == 0 || body.is_some_and(|body| body >= length) {
            return text;
        }
    }
}

pub(crate) fn hello() -> String {
    json!({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}], "model": "m"}).to_string()
}

/// Returns a `models.json` with the provider `mine` at `url`.
pub(crate) fn mine(url: &str) -> String {
    json!({
        "models": {"fast": {"model": "mine:m"}},
        "providers": {"mine": {"like": "llamacpp", "base_url": url, "key": {"env": "MINE_KEY"}}},
    })
    .to_string()
}

/// Returns the files below `folder` that contain `word`, except `.env`.
pub(crate) fn holding(folder: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, word));
        } else if path.is_file() && !path.ends_with(".env") {
            let content = std::fs::read(&path).unwrap();
            if content.windows(word.len()).any(|bytes| bytes == word.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_missing_key_is_named_before_anything_is_sent_or_stored() {
    let folder = Folder::new();
    folder.echo_job();
    let run = |model: &str| folder.baton(&["run", "echoing", "--model", model]);
    run("openrouter:google/gemini-2.5-flash").exits(5).tells("OPENROUTER_API_KEY").tells(".env");
    run("anthropic:m").exits(5).tells("ANTHROPIC_API_KEY");
    run("opnrouter:m").exits(2).tells("model opnrouter:m is not known").tells("openrouter:MODEL");
    run("openrouter:").exits(2);
    assert_eq!(folder.baton(&["ps", "--output", "json"]).json(), json!([]));
}

#[test]
fn a_model_for_universal_invocation_answers_no_native_agent_in_place_of_its_own() {
    let folder = Folder::new();
    folder.echo_job();
    let (url, received) = server("200 OK", hello());
    let models = mine(&url).replace("\"mine:m\"", "\"mine:m\", \"invocation\": \"universal\"");
    folder.write("echoing/models.json", models);
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    let run = ["run", "echoing", "--model", "fast", "--trust"];
    folder.baton(&run).exits(2).tells("model fast cannot answer for agent lead").tells("\"invocation\"");
    let agent = folder.read("echoing/agents/lead.json");
    folder.write("echoing/agents/lead.json", agent.replacen('{', "{\"invocation\": \"universal\", ", 1));
    folder.baton(&run).exits(0).says("hello");
    assert!(received.recv().unwrap().contains("tool_requests"), "the system prompt explains universal invocation");
}

#[test]
fn a_job_says_where_keys_go_only_with_trust_and_the_key_stays_in_its_header() {
    let folder = Folder::new();
    folder.echo_job();
    let (url, received) = server("200 OK", hello());
    folder.write("echoing/models.json", mine(&url));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    let run = ["run", "echoing", "--model", "fast"];
    folder.baton(&run).exits(2).tells("--trust").tells(&url).tells("MINE_KEY");
    assert!(received.try_recv().is_err(), "nothing was sent");
    let ran = folder.baton(&["run", "echoing", "--model", "fast", "--trust"]).exits(0).says("hello");
    let sent = received.recv().unwrap();
    assert!(
        sent.starts_with("POST /v1/chat/completions") && sent.contains(&format!("authorization: Bearer {KEY}\r\n")),
        "{sent}"
    );
    // The job is trusted once, for as long as its reaches stay the same.
    let again = folder.baton(&run).exits(0);
    let shown = folder.baton(&["timeline", "@last", "--output", "json"]).exits(0);
    let quiet = [&ran, &again, &shown].iter().all(|ran| !ran.stdout.contains(KEY) && !ran.stderr.contains(KEY));
    assert!(quiet && holding(folder.path(), KEY).is_empty(), "the key got out: {:?}", holding(folder.path(), KEY));
    assert!(shown.stdout.contains("\"provider\":\"mine\""), "the timeline tells who answered:\n{}", shown.stdout);
}

#[test]
fn a_provider_that_refuses_the_key_is_not_available() {
    let folder = Folder::new();
    folder.echo_job();
    let (url, received) = server("401 Unauthorized", json!({"error": {"message": format!("bad key {KEY}")}}).to_string());
    // The person's own file needs no trust.
    folder.write("config/baton/models.json", mine(&url));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    folder.baton(&["run", "echoing", "--model", "mine:m"]).exits(2).tells("the variable \"MINE_KEY\"").tells("not shown");
    let ran = folder.baton(&["run", "echoing", "--model", "mine:m", "--trust"]).exits(5);
    assert_eq!(received.try_iter().count(), 1, "what is refused is not asked again");
    let shown = folder.baton(&["show", "@last"]);
    let all = [ran.stdout, ran.stderr, shown.stdout].concat();
    assert!(all.contains("mine refused the key in MINE_KEY: bad key [key]"), "{all}");
    assert!(!all.contains(KEY) && holding(folder.path(), KEY).is_empty());
}

#[test]
fn a_job_widens_what_its_tools_reach_only_with_trust() {
    let folder = Folder::new();
    folder.echo_job();
    let (url, received) = server("200 OK", hello());
    let input = json!({"url": url}).to_string();
    let call = |more: &[&str]| {
        folder.baton(&[&["tool", "call", "fetch_page", "--job", "echoing", "--output", "json", "--input", &input], more].concat())
    };
    let refused = call(&[]).exits(1).json();
    assert!(refused["error"]["message"].as_str().unwrap().contains("not allowed"), "{refused}");
    let host = url.trim_start_matches("http://").trim_end_matches("/v1");
    folder.write("echoing/tools/fetch_page.json", json!({"tool_id": "fetch_page", "set": {"allow_hosts": [host]}}).to_string());
    call(&[]).exits(2).tells("can act outside of its run").tells(&format!("fetch_page sets \"allow_hosts\" to [\"{host}\"]"));
    assert!(received.try_recv().is_err(), "nothing was asked");
    let read = call(&["--trust"]).exits(0).json();
    assert_eq!(read["output"]["url"], url);
    assert!(read["output"]["excerpt"].as_str().unwrap().contains("hello"), "{read}");
    assert!(received.recv().unwrap().starts_with("GET /v1 HTTP/1.1"));
}

#[test]
fn a_person_s_own_prices_stand_beside_the_program_s() {
    let folder = Folder::new();
    folder.echo_job();
    let (url, _received) = server("200 OK", hello());
    // The provider must not resemble a server of this machine, whose models cost nothing.
    folder.write("config/baton/models.json", mine(&url).replace("llamacpp", "openai"));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    let run = ["run", "echoing", "--model", "mine:m", "--max-cost", "1", "--trust"];
    folder.baton(&run).exits(2).tells("whose price is not known");
    let row =
        json!({"models": ["mine:m"], "input": 1, "output": 1, "source": "https://example.com/prices", "as_of": "2026-01-01"});
    folder.write("config/baton/prices.json", json!({"version": "2026-01-01", "prices": [row]}).to_string());
    folder.baton(&run).exits(0).says("hello");
    folder.write("config/baton/prices.json", "{}");
    folder.baton(&run).exits(2).tells("prices.json");
}

#[test]
fn a_job_s_own_price_keeps_no_cap() {
    let folder = Folder::new();
    folder.echo_job();
    let (url, received) = server("200 OK", hello());
    // The provider must not resemble a server of this machine, whose models cost nothing.
    folder.write("config/baton/models.json", mine(&url).replace("llamacpp", "openai"));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    let free = json!({"models": {"cheap": {"model": "mine:m", "price": {"input": 0, "output": 0}}}});
    folder.write("echoing/models.json", free.to_string());
    let capped = folder.baton(&["run", "echoing", "--trust", "--model", "cheap", "--max-cost", "1"]).exits(2);
    capped.tells("B0129").tells("whose price is not known").tells("of your own, in ~/.config/baton/models.json");
    assert!(received.try_recv().is_err(), "nothing was asked");
    folder.baton(&["run", "echoing", "--trust", "--model", "cheap"]).exits(0).tells("by the job's own prices");
}

#[test]
fn each_model_that_the_docs_name_can_be_capped() {
    let docs = concat!(include_str!("../../../../README.md"), include_str!("../../../../docs/models.md"));
    let named = docs.split("`--model ").skip(1).filter_map(|rest| rest.split('`').next());
    // For a server of the person's own, the person sets the price.
    let named: Vec<&str> = named.filter(|model| !model.starts_with("mine:")).collect();
    assert!(named.len() >= 8, "{named:?}");
    let folder = Folder::new();
    folder.echo_job();
    let (url, _received) = server("200 OK", hello());
    folder.write("config/baton/models.json", mine(&url));
    folder.write(".env", format!("MINE_KEY={KEY}\n"));
    folder.baton(&["run", "echoing", "--model", "mine:m", "--record", "tape", "--trust"]).exits(0);
    for model in named {
        // No model is requested: the run ends at its first request, which is not in the recording. The start has accepted the
        // cap.
        let ran = folder.baton(&["run", "echoing", "--model", model, "--max-cost", "0.5", "--replay", "tape"]);
        assert!(ran.code != 2 && !ran.stderr.contains("B0129"), "{model}: {}", ran.stderr);
        let shown = folder.baton(&["show", "@last", "--output", "json"]).exits(0).json();
        assert_eq!(shown["job"], "echoing", "{model}");
    }
    let unknown = ["run", "echoing", "--model", "openai:unheard-of", "--max-cost", "0.5", "--replay", "tape"];
    folder.baton(&unknown).exits(2).tells("B0129");
}

/// Writes a job whose agent uses `model`, with a tool whose keys Anthropic rejects.
fn odd_tool(folder: &Folder, model: &str) {
    folder.echo_job();
    let mut agent: serde_json::Value = serde_json::from_str(&folder.read("echoing/agents/lead.json")).unwrap();
    agent["model"] = json!(model);
    agent["tools"].as_array_mut().unwrap().push(json!("measure"));
    folder.write("echoing/agents/lead.json", agent.to_string());
    let tool = r#"{
  "tool_id": "measure",
  "type": "non_function_tool",
  "description": "Notes how large something is.",
  "parameters": {
    "what": {"type": "object", "description": "What was measured", "required": true, "properties": {
      "größe": {"type": "integer", "description": "How large it is"}
    }}
  }
}"#;
    folder.write("echoing/tools/measure.json", tool);
}

#[test]
fn a_tool_that_a_provider_would_turn_down_is_told_at_its_place_before_any_run() {
    let folder = Folder::new();
    odd_tool(&folder, "anthropic:m");
    // The check needs no key, and there is none.
    let told = folder.baton(&["validate", "echoing"]).exits(2);
    told.tells("tool measure cannot be offered to anthropic: a key may only have letters")
        .tells("echoing/tools/measure.json:7:7")
        .tells("the model anthropic:m of agent lead");
    let report = folder.baton(&["validate", "echoing", "--output", "json"]).exits(2).json();
    assert_eq!(report["faults"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["faults"][0]["pointer"], "/parameters/what/properties/größe");
    folder
        .baton(&["doctor", "echoing", "--offline"])
        .exits(2)
        .says("tools     echoing: tool measure cannot be offered to anthropic")
        .says("echoing/tools/measure.json:7:7")
        .says("baton validate echoing");
    // The start of a run reports the same fault. Other providers accept the tool.
    folder.write(".env", format!("ANTHROPIC_API_KEY={KEY}\n"));
    folder.baton(&["run", "echoing", "--trust"]).exits(2).tells("tool measure cannot be offered to anthropic").tells("größe");
    odd_tool(&folder, "openai:m");
    folder.baton(&["validate", "echoing"]).exits(0);
    folder.baton(&["doctor", "echoing", "--offline"]).exits(5);
}

#[test]
fn an_offer_beyond_the_limits_of_a_provider_is_told_at_its_place() {
    let folder = Folder::new();
    odd_tool(&folder, "openai:m");
    let file = folder.read("echoing/tools/measure.json");
    let long = file.replacen("\"description\": \"", &format!("\"description\": \"{}", "long ".repeat(300)), 1);
    folder.write("echoing/tools/measure.json", &long);
    folder
        .baton(&["validate", "echoing"])
        .exits(2)
        .tells("tool measure cannot be offered to openai: its description has")
        .tells("and at most 1024 are allowed")
        .tells("echoing/tools/measure.json:");
    odd_tool(&folder, "openai-responses:m");
    folder.write("echoing/tools/measure.json", &long);
    folder.baton(&["validate", "echoing"]).exits(0);
}

#[test]
fn a_tool_that_would_be_turned_down_is_told_among_all_other_faults() {
    let folder = Folder::new();
    odd_tool(&folder, "anthropic:m");
    let mut agent: serde_json::Value = serde_json::from_str(&folder.read("echoing/agents/lead.json")).unwrap();
    agent["on_txt"] = json!("remind");
    agent["tools"].as_array_mut().unwrap().insert(0, json!("ehco"));
    folder.write("echoing/agents/lead.json", agent.to_string());
    let report = folder.baton(&["validate", "echoing", "--output", "json"]).exits(2).json();
    let told: Vec<_> = report["faults"].as_array().unwrap().iter().map(|fault| (&fault["code"], &fault["line"])).collect();
    assert_eq!(told, [(&json!("B0119"), &json!(1)), (&json!("B0103"), &json!(1)), (&json!("B0118"), &json!(7))], "{report}");
}

#[test]
fn a_fallback_is_offered_the_same_tools() {
    let folder = Folder::new();
    odd_tool(&folder, "main");
    let models = json!({"models": {"main": {"model": "openai:m", "fallbacks": ["other"]}, "other": {"model": "anthropic:m"}}});
    folder.write("echoing/models.json", models.to_string());
    folder.baton(&["validate", "echoing"]).exits(2).tells("the model other of agent lead");
}
