//! Many children on one key, and a provider that lets only so much through: what it refuses, it refuses on paper only.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use baton_types::call::CallStatus;
use baton_types::entry::Entry;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::engine;
use super::server::receive;
use crate::support::{TestJob, run_to_end};

/// Length of the provider's window.
const WINDOW: Duration = Duration::from_millis(800);
/// Number of requests that it answers in each window.
const ALLOWED: usize = 48;
/// Time that an answer takes.
const ANSWER: Duration = Duration::from_millis(20);
/// Time in which requests may arrive that were sent before a rejection was read.
const ON_ITS_WAY: Duration = Duration::from_millis(50);
/// Children of each subtree, and the turns of each of them: the same work for every subtree.
const SUBTREES: [(usize, usize); 4] = [(8, 12), (8, 12), (16, 6), (32, 3)];

/// The way in which the provider announces its limit.
#[derive(Clone, Copy, Debug)]
enum Says {
    /// With each refusal, in `Retry-After`.
    RetryAfter,
    /// With every answer, in the form of `OpenAI`'s remaining limits.
    OpenAi,
    /// With every answer, as `OpenRouter` does.
    OpenRouter,
}

impl Says {
    /// Returns the headers of an answer when so many requests are `left` of a window that ends after `reset`.
    fn headers(self, is_refused: bool, left: usize, reset: Duration) -> String {
        // Rounded up: a millisecond early is too early.
        let reset = reset + Duration::from_millis(1);
        match self {
            Self::RetryAfter if is_refused => format!("retry-after: {:.3}\r\n", reset.as_secs_f64()),
            Self::RetryAfter => String::new(),
            Self::OpenAi => format!(
                "x-ratelimit-limit-requests: {ALLOWED}\r\nx-ratelimit-remaining-requests: {left}\r\nx-ratelimit-reset-requests: {}ms\r\n",
                reset.as_millis()
            ),
            Self::OpenRouter => {
                let moment = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + reset;
                format!("X-RateLimit-Remaining: {left}\r\nX-RateLimit-Reset: {}\r\n", moment.as_millis())
            }
        }
    }
}

/// Observations of the provider.
#[derive(Default)]
struct Seen {
    begun: Option<Instant>,
    /// Requests that were answered, by window.
    windows: Vec<usize>,
    /// Subtrees of the answered requests of children, in order.
    served: Vec<usize>,
    refused: usize,
    /// End of the pause that was announced to the clients.
    closed_until: Option<Instant>,
    /// Requests that came all the same.
    inside: usize,
}

impl Seen {
    /// Counts a request. Returns true if it is answered.
    fn admit(&mut self, now: Instant) -> bool {
        self.inside += usize::from(self.closed_until.is_some_and(|until| now < until));
        let window = self.window(now);
        let is_answered = self.windows[window] < ALLOWED;
        self.windows[window] += usize::from(is_answered);
        self.refused += usize::from(!is_answered);
        is_answered
    }

    /// Returns the window that `now` is in.
    fn window(&mut self, now: Instant) -> usize {
        let since = now - *self.begun.get_or_insert(now);
        let window = usize::try_from(since.as_micros() / WINDOW.as_micros()).unwrap();
        self.windows.resize(self.windows.len().max(window + 1), 0);
        window
    }

    /// Returns the number of requests left at `now`, and the remaining time of the window.
    fn left(&mut self, now: Instant) -> (usize, Duration) {
        let window = self.window(now);
        let end = self.begun.unwrap() + WINDOW * u32::try_from(window + 1).unwrap();
        (ALLOWED - self.windows[window], end - now)
    }

    /// Returns the part of what is allowed that was used, until there was too little left to ask for.
    fn throughput(&self) -> f64 {
        let full = &self.windows[..self.windows.len() - 1];
        full.iter().sum::<usize>() as f64 / (full.len() * ALLOWED) as f64
    }

    /// Returns the requests of each subtree, up to the moment when the first of them had all it wanted.
    fn shares(&self) -> [usize; SUBTREES.len()] {
        let mut shares = [0; SUBTREES.len()];
        for subtree in &self.served {
            shares[*subtree] += 1;
            let (children, turns) = SUBTREES[*subtree];
            if shares[*subtree] == children * turns {
                break;
            }
        }
        shares
    }
}

/// Answers as the agents: the root delegates to a lead for each subtree, a lead to its children, and these take notes.
fn answer(body: &Value) -> (Value, Option<usize>) {
    let messages = body["messages"].as_array().unwrap();
    let turn = messages.iter().filter(|message| message["role"] == "assistant").count();
    let text = |message: &Value| message["content"].to_string();
    let call = |number: usize, name: &str, input: Value| {
        let id = format!("call_{turn}_{number}");
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": input.to_string()}})
    };
    let calls = |calls: Vec<Value>| json!({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]});
    let done = || json!({"choices": [{"message": {"content": "done"}, "finish_reason": "stop"}]});
    let (system, request) = (text(&messages[0]), text(&messages[1]));
    let subtree = (0..SUBTREES.len()).find(|subtree| request.contains(&format!("subtree {subtree}")));
    let route = |agent: &str, subtree: usize, number| {
        call(number, &format!("route_to_{agent}"), json!({"request": format!("subtree {subtree}")}))
    };
    match (subtree, turn) {
        (None, 0) => (calls((0..SUBTREES.len()).map(|subtree| route("lead", subtree, subtree)).collect()), None),
        (Some(subtree), 0) if system.contains("You are lead") => {
            (calls((0..SUBTREES[subtree].0).map(|number| route("child", subtree, number)).collect()), None)
        }
        (Some(subtree), turn) if system.contains("You are child") && turn + 1 < SUBTREES[subtree].1 => {
            (calls(vec![call(0, "note", json!({"x": turn.to_string()}))]), Some(subtree))
        }
        (subtree, _) => (done(), subtree.filter(|_| system.contains("You are child"))),
    }
}

/// Accepts one request and answers or rejects it. Waits until an announcement that nothing is left has been read.
async fn serve(mut stream: TcpStream, seen: &Mutex<Seen>, says: Says) -> std::io::Result<()> {
    let came = Instant::now();
    let request = receive(&mut stream).await?;
    let is_answered = seen.lock().unwrap().admit(came);
    let (status, body) = if is_answered {
        let (body, subtree) = answer(&request.body);
        tokio::time::sleep(ANSWER).await;
        seen.lock().unwrap().served.extend(subtree);
        (200, body)
    } else {
        (429, json!({"error": {"message": "slow down"}}))
    };
    // A rejection announces the window that it was rejected in.
    let told = if is_answered { Instant::now() } else { came };
    let (left, reset) = seen.lock().unwrap().left(told);
    let headers = says.headers(!is_answered, left, reset);
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut [0; 64]).await? > 0 {}
    if left == 0 && !headers.is_empty() {
        tokio::time::sleep(ON_ITS_WAY).await;
        let mut seen = seen.lock().unwrap();
        seen.closed_until = seen.closed_until.max(Some(told + reset));
    }
    Ok(())
}

/// Runs the job under `limits` and prints what the provider saw.
async fn run(limits: Value, says: Says) -> Seen {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let log = Arc::clone(&seen);
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let _gone = serve(stream, &log, says).await;
            });
        }
    });
    let on_tape = || json!({"model": "tape:m"});
    let note =
        json!({"type": "non_function_tool", "parameters": {"x": {"type": "string", "description": "A note", "required": true}}});
    let job = TestJob::new("root", json!({}))
        .models(json!({"providers": {"tape": {"like": "llamacpp", "base_url": url, "limits": limits}}}))
        .tool_by_schema("note", note)
        .agent_with("root", &["route_to_lead"], on_tape())
        .agent_with("lead", &["route_to_child"], on_tape())
        .agent_with("child", &["note"], on_tape())
        .load();
    let finished = run_to_end(&engine(), job).await;
    accepting.abort();
    let ended = finished.entries.iter().filter_map(|recorded| match &recorded.entry {
        Entry::TaskEnded(ended) => Some(ended.result.status),
        _ => None,
    });
    let (all, failed) =
        ended.fold((0, 0), |(all, failed), status| (all + 1, failed + usize::from(status != CallStatus::Success)));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    println!("limits {limits}, {says:?}: 64 children in 4 subtrees of 8, 8, 16 and 32; {ALLOWED} requests in {WINDOW:?}");
    println!("  tasks that failed          {failed} of {all}");
    println!("  of the allowed throughput  {:.1} % (answered by window: {:?})", seen.throughput() * 100.0, seen.windows);
    println!("  requests refused           {}", seen.refused);
    println!("  while nothing was left     {}", seen.inside);
    println!("  requests by subtree        {:?}", seen.shares());
    assert_eq!((finished.status, failed, all), ("success", 0, 1 + 4 + 64));
    seen
}

#[tokio::test]
async fn what_a_provider_refuses_fails_no_child_and_wastes_nothing() {
    let seen = run(json!({"in_flight": 8}), Says::RetryAfter).await;
    assert!(seen.refused > 0, "a provider that refuses nothing shows nothing");
    assert_eq!(seen.inside, 0);
    assert!(seen.throughput() >= 0.95, "{:?}", seen.windows);
    let shares = seen.shares();
    let even = shares.iter().sum::<usize>() as f64 / shares.len() as f64;
    assert!(shares.iter().all(|share| (*share as f64 / even - 1.0).abs() <= 0.1), "{shares:?}");
}

#[tokio::test]
async fn how_many_may_be_under_way_is_found_out() {
    let seen = run(json!({}), Says::RetryAfter).await;
    assert!(seen.refused > 0);
    assert_eq!(seen.inside, 0);
    assert!(seen.throughput() >= 0.95, "{:?}", seen.windows);
}

#[tokio::test]
async fn requests_stop_when_the_announced_rest_is_used_up() {
    for says in [Says::OpenAi, Says::OpenRouter] {
        let seen = run(json!({"in_flight": 8}), says).await;
        assert_eq!(seen.inside, 0, "{says:?}");
        // What is under way while the last one is answered may come too late, and nothing else.
        assert!(seen.refused <= 8 * seen.windows.len(), "{says:?}: {} refused", seen.refused);
        assert!(seen.throughput() >= 0.95, "{:?}", seen.windows);
    }
}
