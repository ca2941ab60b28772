//! Time limits and size limits of a provider's answer.

use std::time::{Duration, Instant};

use baton_models::ModelError;
use baton_types::config::ProviderSettings;

use crate::server::{End, Reply, Server};
use crate::{ask, at};

const SHORT: Duration = Duration::from_millis(40);

/// Makes a request to a server that answers with `reply`. Returns the error and the time per request.
async fn waited(reply: Reply, settings: impl Fn(&mut ProviderSettings)) -> (ModelError, Duration) {
    let server = Server::start(move |_, _| reply.clone()).await;
    let mut way = at(&server.url, "openrouter");
    settings(&mut way);
    let begun = Instant::now();
    let error = ask(&way).await.unwrap_err();
    (error, begun.elapsed() / u32::try_from(server.received().len()).unwrap())
}

#[tokio::test]
async fn each_time_limit_ends_the_wait_that_it_is_for() {
    let begun = "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n";
    let mute = waited(Reply::stream("").ending(End::Mute), |way| way.first_byte = Some(SHORT)).await;
    let silent = waited(Reply::stream(begun).ending(End::Silent), |way| way.between_bytes = Some(SHORT)).await;
    let comments = waited(Reply::stream(": still thinking\n\n").ending(End::Endless), |way| way.total = Some(SHORT)).await;
    println!(
        "limit {} ms: no first byte {:?}, no next byte {:?}, comments without end {:?}",
        SHORT.as_millis(),
        mute.1,
        silent.1,
        comments.1
    );
    let what = |error: &ModelError| match error {
        ModelError::TimedOut { what, limit: SHORT, .. } => *what,
        other => panic!("expected a time-out, found {other:?}"),
    };
    assert_eq!(what(&mute.0), "no answer began");
    assert_eq!(what(&silent.0), "the answer stopped in the middle");
    assert_eq!(what(&comments.0), "no whole answer");
}

#[tokio::test]
async fn an_answer_without_end_is_refused_at_its_limit() {
    let (error, _) = waited(Reply::stream(vec![b'x'; 1 << 20]).ending(End::Endless), |_| {}).await;
    assert!(matches!(error, ModelError::TooLong { .. }), "{error}");
    let (error, _) = waited(Reply::new(200, vec![b' '; 1 << 20]).ending(End::Endless), |_| {}).await;
    assert!(matches!(error, ModelError::TooLong { .. }), "{error}");
    let (error, _) = waited(Reply::new(400, vec![b' '; 1 << 20]).ending(End::Endless), |_| {}).await;
    assert!(matches!(error, ModelError::Rejected { .. }), "{error}");
}
