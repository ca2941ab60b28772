//! No key appears in errors or logs, for any failure and log level (`no_secret_is_kept`).

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_models::{ModelError, Providers};
use baton_types::config::ProviderSettings;
use serde_json::json;
use tracing::subscriber::set_default;
use tracing_subscriber::fmt::MakeWriter;

use crate::secrets::spellings;
use crate::server::{End, Reply, Server};
use crate::{KEY, ask, at, hello};

/// All that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Returns every kind of error that a provider can cause, with its key repeated wherever a server can.
pub(crate) fn provoked() -> Vec<(&'static str, Reply)> {
    let repeated = spellings().join(" | ");
    let fault = |status: u16, kind: &str| {
        let body = json!({"error": {"message": format!("no: {repeated}"), "type": kind, "code": KEY, "param": repeated}});
        Reply::new(status, body.to_string()).with("x-request-id", "canary+/=")
    };
    let asked = |status: u16| fault(status, "some_error").with("retry-after", "0");
    let cut = format!("data: {}\n\n", json!({"choices": [{"delta": {"content": repeated}}]}));
    vec![
        ("rejected", fault(400, "invalid_request_error")),
        ("filtered", fault(400, "content_filter")),
        ("key refused", fault(401, "authentication_error")),
        ("no credit", fault(402, "insufficient_quota")),
        ("forbidden", fault(403, "permission_error")),
        ("not found", fault(404, "not_found_error")),
        ("too large", fault(413, "request_too_large")),
        ("rate limited", asked(429)),
        ("overloaded", asked(529)),
        ("failed", asked(500)),
        ("no JSON", Reply::new(502, format!("<html>{repeated}</html>"))),
        ("redirected", fault(307, "moved").with("location", "http://127.0.0.1:9/?key=sk-canary%2B%2F%3D%224f9a%22-key")),
        ("fault in a good answer", fault(200, "server_error")),
        ("fault in a stream", Reply::stream(format!("data: {}\n\n", json!({"error": {"message": repeated}})))),
        ("cut", Reply::stream(cut.clone())),
        ("broken off", Reply::stream(cut.clone()).ending(End::Broken)),
        ("silent", Reply::stream(cut).ending(End::Silent)),
        ("mute", Reply::new(200, hello()).ending(End::Mute)),
        ("no answer", Reply::new(200, repeated)),
    ]
}

#[tokio::test]
async fn no_key_is_in_any_error_or_in_anything_that_is_logged() {
    let log = Log::default();
    // While there is only one subscriber, whichever thread comes to a place first decides for all whether it is logged, and the
    // threads of other tests have none. Beside a second one, all are asked.
    let _another = tracing::Dispatch::new(tracing_subscriber::registry());
    let everything = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false).with_writer(log.clone());
    let _guard = set_default(everything.finish());
    let mut kinds = Vec::new();
    let mut shown = String::new();
    for (name, reply) in provoked() {
        let server = Server::start(move |_, _| reply.clone()).await;
        let moment = Some(Duration::from_millis(200));
        let way = ProviderSettings { between_bytes: moment, first_byte: moment, ..at(&server.url, "openai") };
        let error = ask(&way).await.expect_err(name);
        let _infallible = writeln!(shown, "{name}: {error} {error:?}");
        kinds.push(std::mem::discriminant(&error));
    }
    let unreachable = ask(&at("http://127.0.0.1:9", "openai")).await.unwrap_err();
    assert!(matches!(unreachable, ModelError::Unreachable { .. }));
    let health = Providers::default().health("test", Some(&at("http://127.0.0.1:9", "openai")), &|_| Some(KEY.to_owned())).await;
    let _infallible = write!(shown, "{unreachable} {unreachable:?} {health:?}");
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("TRACE") && logged.contains("hyper"), "the log is as loud as it can be");
    for spelling in spellings() {
        assert!(!shown.contains(&spelling), "{spelling} is in\n{shown}");
        let line = logged.lines().find(|line| line.contains(&spelling));
        assert_eq!(line, None, "{spelling} is logged");
    }
    kinds.dedup();
    println!("{} replies, {} bytes logged, 0 keys", provoked().len(), logged.len());
    assert!(kinds.len() >= 8, "errors of many kinds: {shown}");
}
