//! `astral`: pages in a browser, which runs their scripts.
//!
//! * [`launch`]: the browser of a run, a Chromium process
//! * [`proxy`]: its only way to the web, which judges every address
//! * [`documents`]: documents of the run as pages
//! * [`devtools`]: commands to the browser
//! * [`tab`]: a page, and the actions on it
//!
//! Each task has a page of its own, so agents that work at the same time do not disturb each other. Cookies are the run's. Nothing of a
//! browser is stored: when the program ends, the pages are gone, and a call that needs one gets an error that names the next step.

mod devtools;
mod documents;
mod launch;
mod proxy;
mod settings;
mod tab;

use std::time::Duration;

use baton_macros::tool;
use baton_tool::{PendingWrite, ToolContext, ToolError, ToolErrorKind, parse_path};
use baton_types::json::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use self::devtools::DevToolsError;
use self::launch::{Browser, RunBrowsers};
use self::settings::BrowserSettings;
use self::tab::{Limit, Tab, TabError};
use super::guard::{self, Allowed};

/// Time of an action in seconds: by default, and at most.
const DEFAULT_SECONDS: u64 = 30;
const MAX_SECONDS: u64 = 120;
/// The most characters of a page's text.
const MAX_TEXT: usize = 400_000;
/// The most bytes of a script's result, as JSON.
const MAX_RESULT_BYTES: usize = 1 << 20;
/// The longest script, and the longest text to type.
const MAX_INPUT_BYTES: usize = 100_000;

/// Action of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Launch,
    Navigate,
    Screenshot,
    Click,
    Type,
    Extract,
    /// Another name of `extract`.
    GetContent,
    Evaluate,
    WaitFor,
    Close,
}

/// Output of `astral`. A failed call is an error result, so `error` is always null: the seeds name the field.
#[derive(Debug, Default, Serialize)]
struct BrowserOutput {
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clicked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    error: Option<String>,
}

/// Parameters of a call, as far as its action has use for them.
struct Wanted {
    action: Action,
    url: Option<String>,
    selector: Option<String>,
    text: Option<String>,
    script: Option<String>,
    path: Option<String>,
    limit: Limit,
}

/// Does one thing in the browser of the run.
#[tool]
async fn astral(
    context: &ToolContext,
    action: Action,
    url: Option<String>,
    selector: Option<String>,
    text: Option<String>,
    script: Option<String>,
    path: Option<String>,
    timeout_seconds: Option<u64>,
) -> Result<BrowserOutput, ToolError> {
    let seconds = timeout_seconds.unwrap_or(DEFAULT_SECONDS);
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(invalid(format!("timeout_seconds must be between 1 and {MAX_SECONDS}, received {seconds}")));
    }
    let settings: BrowserSettings = context.settings()?;
    let wanted = Wanted { action, url, selector, text, script, path, limit: Limit::of(Duration::from_secs(seconds)) };
    wanted.check(&settings.allowed()?)?;
    let browsers = context.run_value::<RunBrowsers>();
    if action == Action::Close {
        return close(context, &browsers, &settings).await;
    }
    // Without an address, only a page that is there can be used, and a new browser has none.
    let browser = if action == Action::Launch || wanted.url.is_some() {
        browsers.running(context, &settings).await?
    } else {
        browsers.existing(&settings).await.ok_or_else(no_page)?
    };
    // The start of the browser does not count.
    let wanted = Wanted { limit: Limit::of(Duration::from_secs(seconds)), ..wanted };
    let documents = browser.proxy.documents.clone();
    let done = tokio::select! {
        done = act(context, &browser, &wanted) => done,
        never = documents.serve(context) => match never {},
    };
    if browser.devtools.has_ended() {
        browsers.end(&settings).await;
    }
    done
}

impl Wanted {
    /// Refuses what cannot be done, before anything is.
    fn check(&self, allowed: &Allowed) -> Result<(), ToolError> {
        let needs = |name: &str, given: bool| {
            let action = serde_json::to_value(self.action).unwrap_or_default();
            if given { Ok(()) } else { Err(invalid(format!("the action {action} needs `{name}`"))) }
        };
        match self.action {
            Action::Navigate => needs("url", self.url.is_some())?,
            Action::Click => needs("selector", self.selector.is_some())?,
            Action::Type => {
                needs("selector", self.selector.is_some())?;
                needs("text", self.text.is_some())?;
            }
            Action::Evaluate => needs("script", self.script.is_some())?,
            Action::Screenshot => {
                needs("path", self.path.is_some())?;
                self.path.iter().try_for_each(|path| parse_path(path).map(drop))?;
            }
            Action::Launch | Action::Extract | Action::GetContent | Action::WaitFor | Action::Close => {}
        }
        for (name, given) in [("selector", &self.selector), ("text", &self.text), ("script", &self.script)] {
            if given.as_ref().is_some_and(|given| given.len() > MAX_INPUT_BYTES) {
                return Err(invalid(format!("{name} must have at most {MAX_INPUT_BYTES} bytes")));
            }
        }
        self.url.iter().try_for_each(|url| address(url, allowed).map(drop))
    }
}

/// Returns `url` as the browser reads it, if its text is allowed. The proxy judges what its host resolves to.
fn address(url: &str, allowed: &Allowed) -> Result<String, ToolError> {
    if url == "about:blank" || documents::place_in(url).is_some() {
        return Ok(url.to_owned());
    }
    let refused = |refusal: guard::Refusal| invalid(refusal.to_string());
    let parsed = guard::parse(url).map_err(refused)?;
    guard::check(&parsed, allowed).map_err(refused)?;
    Ok(parsed.into())
}

/// Does the action of a call.
async fn act(context: &ToolContext, browser: &Browser, wanted: &Wanted) -> Result<BrowserOutput, ToolError> {
    let tab = match wanted.url.as_deref() {
        Some(url) => navigated(context, browser, url, wanted.limit).await?,
        None if wanted.action == Action::Launch => return Ok(BrowserOutput { success: true, ..BrowserOutput::default() }),
        None => browser.tab(context.task()).await.ok_or_else(no_page)?,
    };
    match on_page(context, browser, &tab, wanted).await {
        Ok(output) => {
            browser.close_others().await.map_err(|error| failed(&error.into()))?;
            Ok(output)
        }
        Err(Failure::Page(error)) => {
            let closed = recover(context, browser, tab, &error).await;
            let mut error = failed(&error);
            error.message.push_str(closed);
            Err(error)
        }
        Err(Failure::Tool(error)) => Err(error),
    }
}

/// Returns the page of the calling task, at `url`.
async fn navigated(context: &ToolContext, browser: &Browser, url: &str, limit: Limit) -> Result<OwnedMutexGuard<Tab>, ToolError> {
    context.progress(&format!("loading {url}"));
    let address = match documents::place_in(url) {
        Some(place) => {
            let (path, _) = place.split_once('#').unwrap_or((place, ""));
            context.document(path)?;
            browser.proxy.documents.page(place)
        }
        None => url.to_owned(),
    };
    let earlier = browser.proxy.refused();
    let tab = match browser.tab(context.task()).await {
        Some(tab) => tab,
        None => match browser.open(context.task()).await {
            Ok(tab) => tab,
            Err(error) => {
                // The next call starts another browser.
                context.run_value::<RunBrowsers>().forget(browser).await;
                return Err(failed(&error.into()));
            }
        },
    };
    let Err(error) = tab.navigate(&address, limit).await else { return Ok(tab) };
    // The browser knows no more than that there is no answer.
    let refusal = browser.proxy.refusal_after(earlier).filter(|_| matches!(error, TabError::Page(_)));
    let reason = refusal.unwrap_or_else(|| error.to_string());
    let closed = recover(context, browser, tab, &error).await;
    Err(ToolError::new(format!("{url} could not be loaded: {reason}{closed}")))
}

/// Why an action on a page has no output.
enum Failure {
    Page(TabError),
    Tool(ToolError),
}

impl<E: Into<TabError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Page(error.into())
    }
}

async fn on_page(context: &ToolContext, browser: &Browser, tab: &Tab, wanted: &Wanted) -> Result<BrowserOutput, Failure> {
    let (selector, limit) = (wanted.selector.as_deref(), wanted.limit);
    let mut output = BrowserOutput { success: true, ..BrowserOutput::default() };
    match wanted.action {
        Action::Launch | Action::Navigate | Action::Close => {}
        Action::Extract | Action::GetContent => {
            let read = tab.text(selector, MAX_TEXT, limit).await?;
            let is_cut = read.length > MAX_TEXT as u64;
            let note = if is_cut { format!("\n… (cut: the text has {} characters)", read.length) } else { String::new() };
            output.text = Some(read.text + &note);
        }
        Action::Click => output.clicked = Some(tab.click(selector.unwrap_or_default(), limit).await?),
        Action::Type => {
            tab.type_text(selector.unwrap_or_default(), wanted.text.as_deref().unwrap_or_default(), limit).await?;
        }
        Action::WaitFor => tab.wait_for(selector, wanted.text.as_deref(), limit).await?,
        Action::Evaluate => {
            let result = tab.evaluate(wanted.script.as_deref().unwrap_or_default(), limit).await?;
            let bytes = result.to_string().len();
            if bytes > MAX_RESULT_BYTES {
                let message = format!(
                    "the result of the script has {bytes} bytes as JSON, at most {MAX_RESULT_BYTES} are allowed; return less"
                );
                return Err(TabError::Page(message).into());
            }
            // A value nested too deeply is an error of this call.
            Json::of_outside(&result).map_err(|error| TabError::Page(format!("the result of the script is refused: {error}")))?;
            output.result = Some(result);
        }
        Action::Screenshot => {
            let image = tab.screenshot(limit).await?;
            let path = wanted.path.clone().unwrap_or_default();
            let facts = keep_image(context, &path, image).map_err(Failure::Tool)?;
            (output.path, output.size) = (Some(path), Some(facts));
        }
    }
    let place = tab.place(limit).await?;
    (output.url, output.title) = (Some(browser.proxy.documents.shown(&place.url)), Some(place.title));
    Ok(output)
}

/// Writes a picture of a page into a document. Returns its size.
fn keep_image(context: &ToolContext, path: &str, image: Vec<u8>) -> Result<u64, ToolError> {
    let mut write = PendingWrite::new(parse_path(path)?, image);
    write.mime_type = Some("image/png".to_owned());
    write.description = Some("A picture of a page".to_owned());
    write.tags = Some(vec!["web".to_owned(), "untrusted".to_owned()]);
    Ok(context.write(write)?.size_bytes)
}

/// Makes the page usable again after `error`, or closes it. Returns what to add to the error's text.
async fn recover(context: &ToolContext, browser: &Browser, tab: OwnedMutexGuard<Tab>, error: &TabError) -> &'static str {
    const CLOSED: &str = "; its page was closed, so navigate again";
    let is_usable = match error {
        TabError::Page(_) | TabError::DevTools(DevToolsError::Refused(_) | DevToolsError::Unreadable) => true,
        TabError::DevTools(DevToolsError::Ended) => return "; navigate again, which starts another browser",
        TabError::DevTools(DevToolsError::Crashed) => false,
        TabError::Late { .. } | TabError::DevTools(DevToolsError::TimedOut) => {
            let _not_loading = tab.stop_loading().await;
            tab.stop_scripts().await
        }
    };
    if is_usable {
        return "";
    }
    drop(tab);
    // A browser that cannot even close a page is of no use any more.
    if browser.close(context.task()).await.is_err() {
        context.run_value::<RunBrowsers>().forget(browser).await;
    }
    CLOSED
}

/// Closes the page of the calling task, and the browser with the last page.
async fn close(context: &ToolContext, browsers: &RunBrowsers, settings: &BrowserSettings) -> Result<BrowserOutput, ToolError> {
    if let Some(browser) = browsers.existing(settings).await {
        // Whether or not it reacts, it ends with its last page.
        let closed = browser.close(context.task()).await;
        if closed.is_err() || browser.is_empty() {
            browsers.end(settings).await;
        }
    }
    Ok(BrowserOutput { success: true, ..BrowserOutput::default() })
}

fn no_page() -> ToolError {
    ToolError::new(
        "no page is open: call this tool with the action \"navigate\", or with a `url`, first. Pages are lost when the browser is closed, \
         was not used for a long time, or the program was started again",
    )
}

fn failed(error: &TabError) -> ToolError {
    ToolError::new(error.to_string())
}

fn invalid(message: String) -> ToolError {
    ToolError::new(message).of_kind(ToolErrorKind::InvalidInput)
}
