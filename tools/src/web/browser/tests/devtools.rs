use tokio::io::{DuplexStream, duplex};

use super::*;

/// The browser's side of a connection.
struct Browser {
    commands: DuplexStream,
    answers: DuplexStream,
}

impl Browser {
    fn connected() -> (DevTools, Self) {
        let (input, commands) = duplex(1 << 20);
        let (answers, output) = duplex(1 << 20);
        (DevTools::connect(input, output), Self { commands, answers })
    }

    /// Returns the next command.
    async fn command(&mut self) -> Value {
        let mut bytes = Vec::new();
        loop {
            match self.commands.read_u8().await.unwrap() {
                0 => return serde_json::from_slice(&bytes).unwrap(),
                byte => bytes.push(byte),
            }
        }
    }

    async fn write(&mut self, message: &str) {
        self.answers.write_all(message.as_bytes()).await.unwrap();
        self.answers.write_all(&[0]).await.unwrap();
    }
}

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn each_command_gets_its_own_answer() {
    let (devtools, mut browser) = Browser::connected();
    let first = devtools.call(None, "A.first", json!({"x": 1}), LIMIT);
    devtools.note_session("T", "s");
    let second = devtools.call(Some("s"), "A.second", json!({}), LIMIT);
    let answers = async {
        assert_eq!(browser.command().await, json!({"id": 1, "method": "A.first", "params": {"x": 1}}));
        assert_eq!(browser.command().await, json!({"id": 2, "method": "A.second", "params": {}, "sessionId": "s"}));
        browser.write(r#"{"id":2,"error":{"message":"no"},"sessionId":"s"}"#).await;
        browser.write(r#"{"method":"A.event","params":{}}"#).await;
        browser.write(r#"{"id":1,"result":{"y":2}}"#).await;
    };
    let (first, second, ()) = tokio::join!(first, second, answers);
    assert_eq!(first, Ok(json!({"y": 2})));
    assert_eq!(second, Err(DevToolsError::Refused("no".to_owned())));
}

#[tokio::test]
async fn a_message_that_is_too_long_or_no_json_fails_its_command_alone() {
    let (devtools, mut browser) = Browser::connected();
    let call = |method| devtools.call(None, method, json!({}), LIMIT);
    let answers = async {
        let long = "x".repeat(MAX_MESSAGE_BYTES);
        browser.write(&format!(r#"{{"id":1,"result":{{"value":"{long}"}}}}"#)).await;
        browser.write(&format!(r#"{{"method":"A.event","params":"{long}"}}"#)).await;
        browser.write(r#"{"id":2,"result":{"value":"\ud800"}}"#).await;
        browser.write(&format!(r#"{{"id":3,"result":{}{}}}"#, "[".repeat(1_000), "]".repeat(1_000))).await;
        browser.write(r#"{"id":4,"result":{}}"#).await;
    };
    let (long, half, deep, good, ()) = tokio::join!(call("A.a"), call("A.b"), call("A.c"), call("A.d"), answers);
    for failed in [long, half, deep] {
        assert!(matches!(failed, Err(DevToolsError::Unreadable)));
    }
    assert_eq!(good, Ok(json!({})));
}

#[tokio::test]
async fn a_crash_fails_the_commands_of_its_page() {
    let (devtools, mut browser) = Browser::connected();
    devtools.note_session("T", "s");
    let of_page = devtools.call(Some("s"), "A.a", json!({}), LIMIT);
    let of_browser = devtools.call(None, "A.b", json!({}), LIMIT);
    let crash = async {
        browser.command().await;
        browser.command().await;
        browser.write(r#"{"method":"Target.targetCrashed","params":{"targetId":"T"}}"#).await;
        browser.write(r#"{"id":2,"result":{}}"#).await;
    };
    let (of_page, of_browser, ()) = tokio::join!(of_page, of_browser, crash);
    assert_eq!((of_page, of_browser), (Err(DevToolsError::Crashed), Ok(json!({}))));
    assert!(!devtools.has_target("T"));
    devtools.note_session("T", "s");
    assert_eq!(devtools.call(Some("s"), "A.c", json!({}), LIMIT).await, Err(DevToolsError::Crashed), "at once");
}

#[tokio::test]
async fn the_end_of_the_browser_fails_all_commands() {
    let (devtools, mut browser) = Browser::connected();
    let end = async {
        browser.command().await;
        drop(browser);
    };
    let (ended, ()) = tokio::join!(devtools.call(None, "A.a", json!({}), LIMIT), end);
    assert_eq!(ended, Err(DevToolsError::Ended));
    assert_eq!(devtools.call(None, "A.b", json!({}), LIMIT).await, Err(DevToolsError::Ended));
    let mut over = devtools.ended.clone();
    over.wait_for(|ended| *ended).await.unwrap();
    assert!(devtools.has_ended());
}

#[tokio::test]
async fn dialogs_and_other_windows_are_closed_at_once() {
    let (devtools, mut browser) = Browser::connected();
    for (dialog, accept) in [("alert", false), ("beforeunload", true)] {
        let opening = json!({"method": "Page.javascriptDialogOpening", "sessionId": "s", "params": {"type": dialog}});
        browser.write(&opening.to_string()).await;
        let command = browser.command().await;
        assert_eq!((&command["method"], &command["sessionId"]), (&json!("Page.handleJavaScriptDialog"), &json!("s")));
        assert_eq!(command["params"]["accept"], accept);
    }
    browser
        .write(r#"{"method":"Target.targetCreated","params":{"targetInfo":{"targetId":"P","type":"page","openerId":"T"}}}"#)
        .await;
    let command = browser.command().await;
    assert_eq!((&command["method"], &command["params"]["targetId"]), (&json!("Target.closeTarget"), &json!("P")));
    drop(devtools);
    assert!(browser.commands.read_u8().await.is_err(), "the pipe ends with the last clone");
}
