//! What each status means, and whether it is asked again.

use baton_models::ModelError;
use serde_json::json;

use crate::server::{End, Reply, Server};
use crate::{ask, at, hello};

/// What comes of a reply that never gets better.
#[derive(Debug, PartialEq)]
enum Means {
    Rejected,
    KeyRefused,
    NoCredit,
    Filtered,
    RateLimited,
    Unavailable,
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
    // What a limit refuses is asked again until nobody has been answered for too long.
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
        ("200, broken off", Reply::new(200, "{\"choices\":[").ending(End::Broken), Means::Broken, thrice),
        ("302", plain(302).with("location", "http://127.0.0.1:9/"), Means::Rejected, once),
        ("307", plain(307).with("location", "http://127.0.0.1:9/"), Means::Rejected, once),
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
async fn what_passes_is_answered_in_the_end() {
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
    assert_eq!(meaning(&error), Means::Unavailable);
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}
