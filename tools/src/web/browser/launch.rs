//! The browser of a run: how it is found, started, shared and ended.
//!
//! A run has one browser, which its first call starts. It is a value of the run, so it ends with the run. Its process is one that the
//! engine guards, so it ends when the engine is killed, and its profile is in the folder of the process, which is removed with it. It ends
//! earlier when its last page is closed, and when it was not used for [`IDLE`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use baton_tool::{RunProgram, ToolContext, ToolError};
use baton_types::id::TaskId;
use rustix::process::geteuid;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep_until};

use super::super::SystemResolver;
use super::devtools::{DevTools, DevToolsError};
use super::proxy::Proxy;
use super::settings::{BrowserSettings, OPEN, SHORT};
use super::tab::Tab;

/// Names of browsers that are looked for in `PATH`.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// Time for the start of a browser.
const START: Duration = Duration::from_secs(30);
/// Time after which an unused browser ends.
const IDLE: Duration = Duration::from_mins(15);
/// The most pages of a run. Beyond them, the page that was used longest ago is closed.
const MAX_TABS: usize = 8;
/// Number of bytes at the end of the browser's messages that an error shows.
const MESSAGE_BYTES: usize = 1_000;
/// Part of a message by which a missing browser is known.
const NOT_FOUND: &str = "baton: no browser was found";

/// Executes the first program that exists among the first arguments. The browser reads commands from file 3 and writes to file 4. These become
/// the two pipes of this process; only a shell can do that without `unsafe`.
const SCRIPT: &str = r#"exec 3<&0 4>&1 </dev/null >/dev/null
count=$1; shift
while [ "$count" -gt 0 ]; do
  name=$1; shift; count=$((count - 1))
  if command -v "$name" >/dev/null 2>&1; then shift "$count"; exec "$name" "$@"; fi
done
echo "$NOT_FOUND" >&2
exit 127"#;

/// The arguments of every browser.
const ARGUMENTS: [&str; 22] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-crash-reporter",
    "--disable-breakpad",
    "--disable-notifications",
    "--disable-quic",
    // Containers often have little of this memory.
    "--disable-dev-shm-usage",
    "--password-store=basic",
    "--use-mock-keychain",
    "--mute-audio",
    // Services of the browser itself, such as updates, have a proxy that does not exist. Pages have another one.
    "--proxy-server=http://none.invalid:1",
    "--proxy-bypass-list=<-loopback>",
    // The proxy of pages resolves all names.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    // UDP would go past the proxy.
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
];

/// The browsers of a run, by the settings of the tool that started them: other settings may allow other hosts.
#[derive(Default)]
pub(super) struct RunBrowsers(Arc<tokio::sync::Mutex<BTreeMap<String, Arc<Browser>>>>);

/// A running browser.
pub(super) struct Browser {
    pub(super) devtools: DevTools,
    pub(super) proxy: Proxy,
    /// The context of all pages, with their proxy and their cookies.
    pages: String,
    tabs: Mutex<BTreeMap<TaskId, Tabbed>>,
    used: Mutex<Instant>,
    _program: RunProgram,
}

/// A page with the moment of its last use.
struct Tabbed {
    tab: Arc<tokio::sync::Mutex<Tab>>,
    target: String,
    used: Instant,
}

impl RunBrowsers {
    /// Returns the browser for these settings, which is started if none runs.
    pub(super) async fn running(&self, context: &ToolContext, settings: &BrowserSettings) -> Result<Arc<Browser>, ToolError> {
        let mut browsers = self.0.lock().await;
        let key = settings.key();
        if let Some(browser) = browsers.get(&key).filter(|browser| !browser.devtools.has_ended()) {
            *lock(&browser.used) = Instant::now();
            return Ok(Arc::clone(browser));
        }
        // Ended before the next one starts.
        browsers.remove(&key);
        context.progress("starting the browser");
        let browser = Arc::new(Browser::start(context, settings).await?);
        browsers.insert(key.clone(), Arc::clone(&browser));
        tokio::spawn(end_when_idle(Arc::downgrade(&self.0), key, Arc::downgrade(&browser)));
        Ok(browser)
    }

    /// Returns the browser for these settings, if one runs.
    pub(super) async fn existing(&self, settings: &BrowserSettings) -> Option<Arc<Browser>> {
        let browsers = self.0.lock().await;
        let browser = browsers.get(&settings.key()).filter(|browser| !browser.devtools.has_ended())?;
        *lock(&browser.used) = Instant::now();
        Some(Arc::clone(browser))
    }

    /// Ends the browser for these settings.
    pub(super) async fn end(&self, settings: &BrowserSettings) {
        self.0.lock().await.remove(&settings.key());
    }
}

impl RunBrowsers {
    /// Ends `browser`, whatever its settings.
    pub(super) async fn forget(&self, browser: &Browser) {
        self.0.lock().await.retain(|_, running| !std::ptr::eq(&raw const **running, browser));
    }
}

/// Ends a browser that was not used for [`IDLE`].
async fn end_when_idle(browsers: Weak<tokio::sync::Mutex<BTreeMap<String, Arc<Browser>>>>, key: String, browser: Weak<Browser>) {
    loop {
        let Some(until) = browser.upgrade().map(|browser| *lock(&browser.used) + IDLE) else { return };
        sleep_until(until).await;
        let Some(browsers) = browsers.upgrade() else { return };
        let mut browsers = browsers.lock().await;
        let Some(browser) = browser.upgrade() else { return };
        if lock(&browser.used).elapsed() >= IDLE {
            if browsers.get(&key).is_some_and(|current| Arc::ptr_eq(current, &browser)) {
                browsers.remove(&key);
            }
            return;
        }
    }
}

impl Browser {
    async fn start(context: &ToolContext, settings: &BrowserSettings) -> Result<Self, ToolError> {
        let failed = |reason: &dyn std::fmt::Display| ToolError::new(format!("the browser cannot be started: {reason}"));
        let resolver = Arc::new(SystemResolver);
        let proxy = Proxy::start(settings.allowed()?, resolver).await.map_err(|error| failed(&error))?;
        let names: Vec<&str> = settings.browser.as_deref().map_or_else(|| NAMES.to_vec(), |name| vec![name]);
        let mut program =
            context.start_program("sh", |folder, command| arrange(folder, command, &names)).map_err(|error| failed(&error))?;
        let (input, output, messages) = pipes(&mut program).map_err(|error| failed(&error))?;
        let devtools = DevTools::connect(input, output);
        let ended = tokio::spawn(last_message(messages));
        match set_up(&devtools, proxy.address).await {
            Ok(pages) => {
                let (tabs, used) = (Mutex::default(), Mutex::new(Instant::now()));
                Ok(Self { devtools, proxy, pages, tabs, used, _program: program })
            }
            Err(DevToolsError::Ended) => Err(not_started(&ended.await.unwrap_or_default(), &names)),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Returns the page of a task, for one call at a time.
    pub(super) async fn tab(&self, task: &TaskId) -> Option<OwnedMutexGuard<Tab>> {
        let tab = {
            let mut tabs = lock(&self.tabs);
            let tabbed = tabs.get_mut(task)?;
            tabbed.used = Instant::now();
            Arc::clone(&tabbed.tab)
        };
        let tab = tab.lock_owned().await;
        // It may have crashed, or been closed meanwhile.
        self.devtools.has_target(&tab.target).then_some(tab)
    }

    /// Opens a page for a task, in place of the one that it has.
    pub(super) async fn open(&self, task: &TaskId) -> Result<OwnedMutexGuard<Tab>, DevToolsError> {
        self.close(task).await?;
        let oldest = {
            let tabs = lock(&self.tabs);
            let oldest = tabs.iter().min_by_key(|(_, tabbed)| tabbed.used).map(|(task, _)| task.clone());
            oldest.filter(|_| tabs.len() >= MAX_TABS)
        };
        if let Some(oldest) = oldest {
            self.close(&oldest).await?;
        }
        let tab = match Tab::open(&self.devtools, &self.pages).await {
            // The browser may have had a process in reserve that is gone.
            Err(DevToolsError::Crashed) => Tab::open(&self.devtools, &self.pages).await?,
            opened => opened?,
        };
        let target = tab.target.clone();
        let tab = Arc::new(tokio::sync::Mutex::new(tab));
        let opened = Arc::clone(&tab).lock_owned().await;
        lock(&self.tabs).insert(task.clone(), Tabbed { tab, target, used: Instant::now() });
        self.close_others().await?;
        Ok(opened)
    }

    /// Closes the page of a task, if it has one.
    pub(super) async fn close(&self, task: &TaskId) -> Result<(), DevToolsError> {
        let Some(tabbed) = lock(&self.tabs).remove(task) else { return Ok(()) };
        self.devtools.forget_target(&tabbed.target);
        self.close_target(&tabbed.target).await
    }

    /// Whether no task has a page.
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.tabs).is_empty()
    }

    /// Closes pages that belong to no task: the first one of the browser, and windows that pages opened.
    pub(super) async fn close_others(&self) -> Result<(), DevToolsError> {
        let mut answer = self.devtools.call(None, "Target.getTargets", json!({}), SHORT).await?;
        let Value::Array(targets) = answer["targetInfos"].take() else { return Ok(()) };
        let pages = targets.iter().filter(|info| info["type"] == "page").filter_map(|info| info["targetId"].as_str());
        for target in pages {
            let is_known = self.devtools.has_target(target) || lock(&self.tabs).values().any(|tabbed| tabbed.target == target);
            if !is_known {
                self.close_target(target).await?;
            }
        }
        Ok(())
    }

    async fn close_target(&self, target: &str) -> Result<(), DevToolsError> {
        match self.devtools.call(None, "Target.closeTarget", json!({ "targetId": target }), SHORT).await {
            // It is gone already.
            Err(DevToolsError::Refused(_)) => Ok(()),
            closed => closed.map(drop),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prepares a browser that has started. Returns the context of its pages, whose connections all go through `proxy`.
async fn set_up(devtools: &DevTools, proxy: SocketAddr) -> Result<String, DevToolsError> {
    // Reports further windows, and pages that crash.
    devtools.call(None, "Target.setDiscoverTargets", json!({ "discover": true }), START).await?;
    let context = json!({ "proxyServer": format!("http://{proxy}"), "proxyBypassList": "<-loopback>", "disposeOnDetach": true });
    let context = devtools.call(None, "Target.createBrowserContext", context, OPEN).await?;
    let context = context["browserContextId"].as_str().unwrap_or_default().to_owned();
    let downloads = json!({ "behavior": "deny", "browserContextId": context });
    devtools.call(None, "Browser.setDownloadBehavior", downloads, OPEN).await?;
    Ok(context)
}

/// Sets the arguments and variables of a browser that works in `folder`.
fn arrange(folder: &Path, command: &mut Command, names: &[&str]) {
    command.args(["-c", SCRIPT, "sh"]).arg(names.len().to_string()).args(names).args(ARGUMENTS);
    let mut profile = std::ffi::OsString::from("--user-data-dir=");
    profile.push(folder.join("profile"));
    command.arg(profile);
    // As root, Chromium refuses to start with its sandbox.
    if geteuid().is_root() {
        command.arg("--no-sandbox");
    }
    command.arg("about:blank");
    // Nothing of it is written outside of its folder. The folder for temporary files is relative: Chromium makes a socket there, whose path
    // must be short.
    command.env("HOME", folder).env("TMPDIR", ".").env("NOT_FOUND", NOT_FOUND);
}

/// Returns the ends of its pipes: for commands, for answers, and for what it prints.
fn pipes(program: &mut RunProgram) -> std::io::Result<(pipe::Sender, pipe::Receiver, pipe::Receiver)> {
    let present = |end: Option<OwnedFd>| end.ok_or_else(|| std::io::Error::other("the browser has no pipes"));
    let input = pipe::Sender::from_owned_fd(present(program.stdin.take())?)?;
    let output = pipe::Receiver::from_owned_fd(present(program.stdout.take())?)?;
    let messages = pipe::Receiver::from_owned_fd(present(program.stderr.take())?)?;
    Ok((input, output, messages))
}

/// Reads what a browser prints, to its end. Returns the end of it.
async fn last_message(mut messages: pipe::Receiver) -> String {
    let (mut kept, mut chunk) = (Vec::new(), vec![0; 4_096]);
    while let Ok(read @ 1..) = messages.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..read]);
        let excess = kept.len().saturating_sub(MESSAGE_BYTES);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// Returns the error of a browser that ended at its start, by what it printed.
fn not_started(message: &str, names: &[&str]) -> ToolError {
    if message.contains(NOT_FOUND) {
        return ToolError::new(format!(
            "no browser was found (looked for {} in PATH). Install Chromium, for instance with `apt-get install chromium`, or set \
             `browser` in the settings of this tool to the path of Chromium or Chrome",
            names.join(", ")
        ));
    }
    ToolError::new(format!("the browser ended at its start: {message}"))
}
