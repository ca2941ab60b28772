//! Meaning of each status, and whether the request is repeated.

use std::sync::Mutex;
use std::time::Duration;

use baton_models::{Attempt, ModelError, NoContents, Outage, Pause};
use serde_json::json;

use crate::server::{End, Reply, Server};
use crate::{ask, at, hello, model, request};

/// Outcome of a reply that stays the same.
#[derive(Debug, PartialEq)]
enum Means {
    Rejected,
    KeyRefused,
    NoCredit,
    Filtered,
    RateLimited,
    Unavailable,
    Unreachable,
    Interrupted,
    NotAnAnswer,
    Broken,
}

fn meaning(error: &ModelError) -> Means {
    match error {
        ModelError::Rejected { .. } => Means::Rejected,
        ModelError::KeyRefused { variable, .. } => {
            assert_eq!(variable.as_deref(), Some("TEST_KEY"));
            Means::KeyRefused
        }
        ModelError::NoCredit { .. } => Means::NoCredit,
        ModelError::Filtered { .. } => Means::Filtered,
        ModelError::RateLimited { .. } => Means::RateLimited,
        ModelError::Unavailable { .. } => Means::Unavailable,
        ModelError::Unreachable { .. } => Means::Unreachable,
        ModelError::Interrupted { .. } => Means::Interrupted,
        ModelError::NotAnAnswer { .. } => Means::NotAnAnswer,
        ModelError::Broken { .. } => Means::Broken,
        other => panic!("no reply means {other:?}"),
    }
}

#[tokio::test]
async fn each_status_means_what_it_means_and_only_what_may_pass_is_asked_again() {
    let fault = |code: &str| json!({"error": {"message": "no", "type": code}}).to_string();
    let plain = |status: u16| Reply::new(status, fault("some_error"));
    let limited = |asked: &str| plain(429).with("retry-after", asked);
    let stream_fault =
        "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\ndata: {\"error\":{\"code\":502,\"message\":\"no\"}}\n\n";
    // Rejections because of a limit are repeated until no request at all was answered for too long.
    let (once, thrice, often) = ((1, 1), (3, 3), (2, 1_000));
    let table = [
        ("400", plain(400), Means::Rejected, once),
        ("400 withheld", Reply::new(400, fault("content_filter")), Means::Filtered, once),
        ("401", plain(401), Means::KeyRefused, once),
        ("402", plain(402), Means::NoCredit, once),
        ("403", plain(403), Means::KeyRefused, once),
        ("404", plain(404), Means::Rejected, once),
        ("408", plain(408), Means::Unavailable, thrice),
        ("409", plain(409), Means::Unavailable, thrice),
        ("413", plain(413), Means::Rejected, once),
        ("429", plain(429), Means::RateLimited, often),
        ("429 after 0", limited("0"), Means::RateLimited, often),
        ("429 after 3600", limited("3600"), Means::RateLimited, once),
        ("429 after a date", limited("Wed, 21 Oct 2015 07:28:00 GMT"), Means::RateLimited, often),
        ("429 after garbage", limited("soon"), Means::RateLimited, often),
        ("429 without credit", Reply::new(429, fault("insufficient_quota")), Means::NoCredit, once),
        ("500", plain(500), Means::Unavailable, thrice),
        ("501", plain(501), Means::Rejected, once),
        ("502 with a page", Reply::new(502, "<html>502</html>").with("content-type", "text/html"), Means::Unavailable, thrice),
        ("503", plain(503), Means::Unavailable, thrice),
        ("529", plain(529), Means::Unavailable, thrice),
        ("200 with an error", Reply::new(200, fault("overloaded_error")), Means::Unavailable, thrice),
        ("200 with a rejection", Reply::new(200, fault("invalid_request_error")), Means::Rejected, once),
        ("200, error in the stream", Reply::stream(stream_fault), Means::Unavailable, thrice),
        ("200, empty", Reply::new(200, ""), Means::Broken, thrice),
        ("200, no choices", Reply::new(200, "{\"choices\":[]}"), Means::Broken, thrice),
        ("200, broken off", Reply::new(200, "{\"choices\":[").ending(End::Broken), Means::Interrupted, thrice),
        ("200 with a page", Reply::new(200, PAGE).with("content-type", "text/html; charset=utf-8"), Means::NotAnAnswer, once),
        ("200 with a plain text", Reply::new(200, "Welcome").with("content-type", "text/plain"), Means::NotAnAnswer, once),
        ("302", plain(302).with("location", "http://127.0.0.1:9/"), Means::NotAnAnswer, once),
        ("307", plain(307).with("location", "http://127.0.0.1:9/"), Means::NotAnAnswer, once),
        ("404 with a page", Reply::new(404, PAGE).with("content-type", "text/html"), Means::NotAnAnswer, once),
        (
            "404 with a plain text",
            Reply::new(404, "404 page not found").with("content-type", "text/plain"),
            Means::NotAnAnswer,
            once,
        ),
        ("403 with a page", Reply::new(403, PAGE).with("content-type", "text/html"), Means::NotAnAnswer, once),
        ("200, empty and plain", Reply::new(200, "").with("content-type", "text/plain"), Means::NotAnAnswer, once),
    ];
    println!("{:<26} {:<12} requests", "reply", "means");
    for (name, reply, means, requests) in table {
        let server = Server::start(move |_, _| reply.clone()).await;
        let error = ask(&at(&server.url, "openrouter")).await.expect_err(name);
        assert_eq!(meaning(&error), means, "{name}: {error}");
        let asked = server.received().len();
        assert!((requests.0..=requests.1).contains(&asked), "{name}: {asked} requests, {error}");
        assert_eq!(requests.1 > 1 || means == Means::RateLimited, error.is_retryable(), "{name}");
        println!("{name:<26} {:<12} {asked}", format!("{means:?}"));
    }
}

#[tokio::test]
async fn a_transient_failure_is_retried_until_it_is_answered() {
    let server = Server::start(|before, _| if before < 2 { Reply::new(503, "busy") } else { Reply::new(200, hello()) }).await;
    assert_eq!(ask(&at(&server.url, "openrouter")).await.unwrap().text, "hello");
    let received = server.received();
    assert_eq!(received.len(), 3);
    assert!(received.iter().all(|request| request.body == received[0].body), "the same is asked again");
    assert_eq!(received[0].path, "/chat/completions");
    assert_eq!(received[0].body["model"], "maker/m");
}

#[tokio::test]
async fn nobody_listens() {
    let server = Server::start(|_, _| Reply::new(200, hello())).await;
    let url = server.url.clone();
    drop(server);
    let error = ask(&at(&url, "openrouter")).await.unwrap_err();
    assert_eq!(meaning(&error), Means::Unreachable);
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

/// Page that the gate of a network sends in place of any server's answer.
const PAGE: &str = "<!doctype html>\n<html><head><title>Log in to the network</title></head></html>";

#[tokio::test]
async fn what_answers_in_a_provider_s_place_is_named_by_its_type_and_its_first_words() {
    let reply = Reply::new(200, PAGE).with("content-type", "Text/HTML");
    let server = Server::start(move |_, _| reply.clone()).await;
    let error = ask(&at(&server.url, "openrouter")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the answer came from a proxy or another server, not from test (status 200, text/html): <!doctype html> <html><head><title>Log in to the \
         network</title></head></html>"
    );
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn an_attempt_is_made_once_and_takes_no_longer_than_its_turn() {
    for reply in [Reply::new(503, "busy"), Reply::new(200, "{}"), Reply::new(200, "").ending(End::Broken)] {
        let server = Server::start(move |_, _| reply.clone()).await;
        let error =
            model(&at(&server.url, "openrouter")).attempt(&request(), &NoContents, Attempt::UNOBSERVED).await.unwrap_err();
        assert_eq!(server.received().len(), 1, "{error}");
    }
    let server = Server::start(|_, _| Reply::new(200, "").ending(End::Mute)).await;
    let limit = Duration::from_millis(40);
    let attempt = Attempt { limit: Some(limit), ..Attempt::UNOBSERVED };
    let error = model(&at(&server.url, "openrouter")).attempt(&request(), &NoContents, attempt).await.unwrap_err();
    assert_eq!(error, ModelError::TurnTimedOut { limit });
    assert!(error.outage().is_none(), "the provider was there");
}

#[tokio::test]
async fn every_pause_of_a_rate_limit_is_reported_with_its_reason() {
    let limited = Reply::new(429, json!({"error": {"message": "slow down"}}).to_string()).with("retry-after-ms", "10");
    let server = Server::start(move |before, _| if before == 0 { limited.clone() } else { Reply::new(200, hello()) }).await;
    let pauses = Mutex::new(Vec::new());
    let attempt = Attempt { limit: None, on_pause: &|pause| pauses.lock().unwrap().push(pause) };
    let answered = model(&at(&server.url, "openrouter")).attempt(&request(), &NoContents, attempt).await;
    assert_eq!(answered.map(|turn| turn.text).as_deref(), Ok("hello"));
    let [Pause { sent, length, reason }] = pauses.into_inner().unwrap().try_into().unwrap();
    assert!(sent == 1 && length >= Duration::from_millis(5), "{sent} {length:?}");
    assert!(reason.contains("slow down"), "{reason}");
}

#[tokio::test]
async fn each_outage_is_distinguished_from_a_bad_request() {
    let fault = json!({"error": {"message": "no", "type": "some_error"}}).to_string();
    let limited = Outage::Limited { retry_after: Some(Duration::from_hours(1)) };
    let table = [
        (400, None),
        (401, Some(Outage::NeedsPerson)),
        (402, Some(Outage::NeedsPerson)),
        (403, Some(Outage::NeedsPerson)),
        (404, None),
        (413, None),
        (429, Some(limited)),
        (500, Some(Outage::Failing)),
        (501, None),
        (503, Some(Outage::Failing)),
    ];
    for (status, outage) in table {
        let reply = Reply::new(status, fault.clone()).with("retry-after", "3600");
        let server = Server::start(move |_, _| reply.clone()).await;
        let error =
            model(&at(&server.url, "openrouter")).attempt(&request(), &NoContents, Attempt::UNOBSERVED).await.unwrap_err();
        assert_eq!(error.outage(), outage, "{status}: {error}");
    }
}
