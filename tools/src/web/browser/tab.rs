//! One page of the browser: what a call can do with it.
//!
//! Code of ours that looks at a page runs in a world of its own (`Page.createIsolatedWorld`): it sees the page's elements, but none of
//! the functions that the page may have replaced. Only scripts of agents run in the world of the page.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::devtools::{DevTools, DevToolsError};
use super::settings::{OPEN, SHORT};

/// Width and height of a page, in pixels.
const SIZE: (u32, u32) = (1280, 800);
/// Pause between two looks at a page.
const LOOK: Duration = Duration::from_millis(50);
/// Time in which a click begins to load another page.
const REACTION: Duration = Duration::from_millis(150);

/// The name by which the browser knows values of scripts until they are released.
const OBJECTS: &str = "baton";

/// A function that looks at the page or at one of its elements. It answers with `found`, or with `fault` and a reason.
const FIND: &str = include_str!("find.js");

/// Why an action has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TabError {
    /// The browser or the page failed.
    #[error(transparent)]
    DevTools(#[from] DevToolsError),
    /// The page does not meet the action's precondition.
    #[error("{0}")]
    Page(String),
    /// The time limit was reached.
    #[error("{what} within {} s", .limit.as_secs_f64())]
    Late {
        /// The event that was awaited.
        what: String,
        /// In how much time.
        limit: Duration,
    },
}

/// A page. Its commands go through the session of its target.
pub(super) struct Tab {
    devtools: DevTools,
    pub(super) target: String,
    session: String,
}

/// The time of an action.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    limit: Duration,
    end: Instant,
}

impl Limit {
    /// Returns a limit that begins now.
    pub(super) fn of(limit: Duration) -> Self {
        Self { limit, end: Instant::now() + limit }
    }

    fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    fn late(self, what: impl Into<String>) -> TabError {
        TabError::Late { what: what.into(), limit: self.limit }
    }
}

/// Place of a page.
#[derive(Debug, Deserialize)]
pub(super) struct Place {
    pub(super) url: String,
    pub(super) title: String,
}

/// Text of a page or of an element.
#[derive(Debug, Deserialize)]
pub(super) struct PageText {
    pub(super) text: String,
    /// Number of characters before the text was cut.
    pub(super) length: u64,
}

/// An element on the screen.
#[derive(Debug, Deserialize)]
struct Found {
    /// Its centre.
    x: f64,
    y: f64,
    /// Its kind and its first words.
    label: String,
}

/// Answer of a function of ours in the page.
#[derive(Deserialize)]
struct Answer<T> {
    fault: Option<String>,
    found: Option<T>,
}

impl Tab {
    /// Opens an empty page in `context`.
    pub(super) async fn open(devtools: &DevTools, context: &str) -> Result<Self, DevToolsError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        // In a window of its own: a page behind another one is not drawn.
        let opened = json!({ "url": "about:blank", "newWindow": true, "browserContextId": context });
        let target = text(&devtools.call(None, "Target.createTarget", opened, OPEN).await?["targetId"]);
        let attached = json!({ "targetId": target, "flatten": true });
        let session = text(&devtools.call(None, "Target.attachToTarget", attached, OPEN).await?["sessionId"]);
        devtools.note_session(&target, &session);
        let tab = Self { devtools: devtools.clone(), target, session };
        let size = json!({ "width": SIZE.0, "height": SIZE.1, "deviceScaleFactor": 1, "mobile": false });
        tab.call("Page.enable", json!({}), OPEN).await?;
        tab.call("Emulation.setDeviceMetricsOverride", size, OPEN).await?;
        tab.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }), OPEN).await?;
        Ok(tab)
    }

    async fn call(&self, method: &str, parameters: Value, limit: Duration) -> Result<Value, DevToolsError> {
        self.devtools.call(Some(&self.session), method, parameters, limit).await
    }

    /// Goes to `url`, and waits until the page has loaded. An error of the network is its short name, such as `net::ERR_NAME_NOT_RESOLVED`.
    pub(super) async fn navigate(&self, url: &str, limit: Limit) -> Result<(), TabError> {
        let late = || limit.late("the page did not load");
        let answer = self.call("Page.navigate", json!({ "url": url }), limit.left()).await.map_err(|error| match error {
            DevToolsError::TimedOut => late(),
            error => error.into(),
        })?;
        if answer["isDownload"] == true {
            return Err(TabError::Page("it is a download, which is refused".to_owned()));
        }
        if let Some(reason) = answer["errorText"].as_str().filter(|reason| !reason.is_empty()) {
            return Err(TabError::Page(reason.to_owned()));
        }
        self.loaded(limit).await
    }

    /// Waits until the page has loaded.
    async fn loaded(&self, limit: Limit) -> Result<(), TabError> {
        loop {
            let is_ready: bool = self.ask("ready", json!([]), limit).await.map_err(|error| match error {
                TabError::Late { .. } => limit.late("the page did not load"),
                error => error,
            })?;
            if is_ready && !self.devtools.is_loading(&self.session) {
                return Ok(());
            }
            if limit.left() < LOOK {
                return Err(limit.late("the page did not load"));
            }
            sleep(LOOK).await;
        }
    }

    /// Stops loading.
    pub(super) async fn stop_loading(&self) -> Result<(), DevToolsError> {
        self.call("Page.stopLoading", json!({}), SHORT).await.map(drop)
    }

    /// Returns the address and the title of the page.
    pub(super) async fn place(&self, limit: Limit) -> Result<Place, TabError> {
        self.ask("place", json!([]), limit).await
    }

    /// Returns the text of the page or of one element, at most `most` characters.
    pub(super) async fn text(&self, selector: Option<&str>, most: usize, limit: Limit) -> Result<PageText, TabError> {
        self.ask("text", json!([selector, most]), limit).await
    }

    /// Clicks on an element. Returns its kind and its first words.
    pub(super) async fn click(&self, selector: &str, limit: Limit) -> Result<String, TabError> {
        let found: Found = self.ask("find", json!([selector]), limit).await?;
        for (kind, button) in [("mouseMoved", "none"), ("mousePressed", "left"), ("mouseReleased", "left")] {
            let event =
                json!({ "type": kind, "x": found.x, "y": found.y, "button": button, "clickCount": u8::from(button == "left") });
            self.input("Input.dispatchMouseEvent", event, limit).await?;
        }
        self.reacted(limit).await?;
        Ok(found.label)
    }

    /// Types text into an element. A line break at its end is the key Enter.
    pub(super) async fn type_text(&self, selector: &str, text: &str, limit: Limit) -> Result<(), TabError> {
        let _focused: bool = self.ask("focus", json!([selector]), limit).await?;
        let (text, enters) = text.strip_suffix('\n').map_or((text, false), |text| (text, true));
        if !text.is_empty() {
            self.input("Input.insertText", json!({ "text": text }), limit).await?;
        }
        if enters {
            for kind in ["keyDown", "keyUp"] {
                let mut key = json!({ "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13 });
                if kind == "keyDown" {
                    key["text"] = "\r".into();
                }
                self.input("Input.dispatchKeyEvent", key, limit).await?;
            }
            self.reacted(limit).await?;
        }
        Ok(())
    }

    async fn input(&self, method: &str, event: Value, limit: Limit) -> Result<(), TabError> {
        match self.call(method, event, limit.left()).await {
            Err(DevToolsError::TimedOut) => Err(limit.late("the page did not react")),
            done => Ok(done.map(drop)?),
        }
    }

    /// Waits for the page that an input may have begun to load.
    async fn reacted(&self, limit: Limit) -> Result<(), TabError> {
        sleep(REACTION).await;
        self.loaded(limit).await
    }

    /// Waits until an element and a text are there, as far as they are given, or else until the page has loaded.
    pub(super) async fn wait_for(&self, selector: Option<&str>, text: Option<&str>, limit: Limit) -> Result<(), TabError> {
        if selector.is_none() && text.is_none() {
            return self.loaded(limit).await;
        }
        let what = || match (selector, text) {
            (Some(selector), Some(text)) => format!("{selector} with the text {text:?} did not appear"),
            (Some(selector), None) => format!("{selector} did not appear"),
            (None, text) => format!("the text {:?} did not appear", text.unwrap_or_default()),
        };
        loop {
            let is_seen: bool = self.ask("sees", json!([selector, text]), limit).await.map_err(|error| match error {
                TabError::Late { .. } => limit.late(what()),
                error => error,
            })?;
            if is_seen {
                return Ok(());
            }
            if limit.left() < LOOK {
                return Err(limit.late(what()));
            }
            sleep(LOOK).await;
        }
    }

    /// Runs a script of an agent in the world of the page. Returns its value. If that is a promise, it waits for it.
    pub(super) async fn evaluate(&self, script: &str, limit: Limit) -> Result<Value, TabError> {
        // As in a console: with `await`, and with names that may be declared again.
        let parameters = json!({
            "expression": script, "awaitPromise": true, "userGesture": true, "replMode": true, "objectGroup": OBJECTS,
        });
        let mut value = self.value("Runtime.evaluate", parameters, limit).await?;
        if value["subtype"] == "promise" {
            value = self.value("Runtime.awaitPromise", json!({ "promiseObjectId": value["objectId"] }), limit).await?;
        }
        if value["objectId"].is_string() {
            let parameters = json!({
                "functionDeclaration": "function () { return this }", "objectId": value["objectId"], "returnByValue": true,
            });
            value = self.value("Runtime.callFunctionOn", parameters, limit).await?;
        }
        self.call("Runtime.releaseObjectGroup", json!({ "objectGroup": OBJECTS }), SHORT).await?;
        // Numbers such as NaN are no JSON; they have a text instead.
        let special = value["unserializableValue"].take();
        Ok(if special.is_null() { value["value"].take() } else { special })
    }

    /// Returns what a script gives, as the browser describes it, or what it throws as an error.
    async fn value(&self, method: &str, parameters: Value, limit: Limit) -> Result<Value, TabError> {
        let mut answer = match self.call(method, parameters, limit.left()).await {
            Err(DevToolsError::TimedOut) => return Err(limit.late("the script did not end")),
            answer => answer?,
        };
        let Some(thrown) = answer.get("exceptionDetails") else { return Ok(answer["result"].take()) };
        let reason = thrown["exception"]["description"].as_str().or(thrown["exception"]["value"].as_str());
        let reason = reason.or(thrown["text"].as_str()).unwrap_or("unknown");
        Err(TabError::Page(format!("the script failed: {}", first_characters(reason, 500))))
    }

    /// Returns a picture of what can be seen of the page, as PNG.
    pub(super) async fn screenshot(&self, limit: Limit) -> Result<Vec<u8>, TabError> {
        let answer = match self.call("Page.captureScreenshot", json!({ "format": "png" }), limit.left()).await {
            Err(DevToolsError::TimedOut) => return Err(limit.late("the page was not drawn")),
            answer => answer?,
        };
        let image = BASE64.decode(answer["data"].as_str().unwrap_or_default());
        image.map_err(|_| TabError::Page("the browser returned no image".to_owned()))
    }

    /// Stops scripts that run in the page. Returns whether the page reacts again.
    pub(super) async fn stop_scripts(&self) -> bool {
        let _still_running = self.call("Runtime.terminateExecution", json!({}), SHORT).await;
        self.place(Limit::of(SHORT)).await.is_ok()
    }

    /// Calls one of our functions in the page.
    async fn ask<T: DeserializeOwned>(&self, function: &str, arguments: Value, limit: Limit) -> Result<T, TabError> {
        let late = |error| match error {
            DevToolsError::TimedOut => limit.late("the page did not react"),
            error => TabError::from(error),
        };
        let mut attempts = 0..3;
        loop {
            let world = json!({ "frameId": self.target, "worldName": "baton" });
            let world = self.call("Page.createIsolatedWorld", world, limit.left()).await.map_err(late)?;
            let parameters = json!({
                "expression": format!("({FIND})({}, ...{arguments})", json!(function)),
                "contextId": world["executionContextId"],
                "returnByValue": true,
            });
            let mut answer = match self.call("Runtime.evaluate", parameters, limit.left()).await {
                // The page was left in between.
                Err(DevToolsError::Refused(_)) if attempts.next().is_some() => continue,
                answer => answer.map_err(late)?,
            };
            if let Some(thrown) = answer.get("exceptionDetails") {
                let reason = thrown["exception"]["description"].as_str().or(thrown["text"].as_str()).unwrap_or_default();
                return Err(TabError::Page(first_characters(reason.lines().next().unwrap_or_default(), 300)));
            }
            let answer = serde_json::from_value::<Answer<T>>(answer["result"]["value"].take());
            return match answer {
                Ok(Answer { fault: Some(fault), .. }) => Err(TabError::Page(fault)),
                Ok(Answer { found: Some(found), .. }) => Ok(found),
                _ => Err(TabError::Page("the page cannot be read".to_owned())),
            };
        }
    }
}

/// Returns the beginning of `text`.
fn first_characters(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}
