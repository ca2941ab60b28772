//! Search engines: what each is asked, and what it answers.
//!
//! * `SearXNG`: `GET /search?format=json`, <https://docs.searxng.org/dev/search_api.html>
//! * Brave: `GET /res/v1/web/search`, <https://api-dashboard.search.brave.com/documentation>
//! * Tavily: `POST /search`, <https://docs.tavily.com/documentation/api-reference/endpoint/search>

use std::sync::Arc;

use baton_tool::{ToolContext, ToolError};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::page::refused;
use super::{Allowed, Answer, Bounds, Fetcher, Request, SystemResolver};

/// The longest snippet that is kept.
const MAX_SNIPPET_CHARACTERS: usize = 1_000;

/// A search engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Engine {
    /// A metasearch engine that people run themselves.
    Searxng,
    /// Brave Search.
    Brave,
    /// Tavily.
    Tavily,
}

impl Engine {
    pub(super) const ALL: [Self; 3] = [Self::Searxng, Self::Brave, Self::Tavily];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Searxng => "searxng",
            Self::Brave => "brave",
            Self::Tavily => "tavily",
        }
    }

    /// Returns the environment variable that the engine needs: its key, or its address.
    pub(super) const fn variable(self) -> &'static str {
        match self {
            Self::Searxng => "SEARXNG_URL",
            Self::Brave => "BRAVE_API_KEY",
            Self::Tavily => "TAVILY_API_KEY",
        }
    }
}

/// A way to an engine.
pub(super) struct Way {
    pub(super) engine: Engine,
    base: Url,
    key: Option<String>,
    /// Whether a person said where the engine is, which may then be anywhere.
    is_named: bool,
}

/// Something found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Found {
    /// The page's title.
    pub(super) title: String,
    /// Address of the page.
    pub(super) url: String,
    /// Excerpt that the engine shows.
    pub(super) snippet: String,
}

impl Way {
    /// Returns the way to `engine`, or to the first configured one. `base_url` comes from the tool's settings.
    pub(super) fn find(context: &ToolContext, engine: Option<Engine>, base_url: Option<&str>) -> Result<Self, ToolError> {
        let engine = engine.or_else(|| base_url.map(|_| Engine::Searxng));
        let engine = engine.or_else(|| Engine::ALL.into_iter().find(|engine| context.secret(engine.variable()).is_ok()));
        let Some(engine) = engine else {
            let variables = Engine::ALL.map(Engine::variable).join(", ");
            return Err(ToolError::new(format!(
                "no search engine is set up: set one of {variables} in the environment or in the project's .env, or `engine` and \
                 `base_url` in the job's tools/search_web.json"
            )));
        };
        let secret = context.secret(engine.variable()).ok().map(|secret| secret.trim().to_owned());
        let missing = || {
            let (name, variable) = (engine.name(), engine.variable());
            ToolError::new(format!("{name} needs {variable} in the environment, or in the file .env of the project"))
        };
        let named = base_url.map(str::to_owned);
        let (base, key) = match engine {
            Engine::Searxng => (named.clone().or_else(|| secret.clone()).ok_or_else(missing)?, None),
            Engine::Brave => ("https://api.search.brave.com".to_owned(), Some(secret.ok_or_else(missing)?)),
            Engine::Tavily => ("https://api.tavily.com".to_owned(), Some(secret.ok_or_else(missing)?)),
        };
        let base = if engine == Engine::Searxng { base } else { named.clone().unwrap_or(base) };
        // The address may be a secret, so it is not repeated.
        let base = Url::parse(&base)
            .map_err(|error| ToolError::new(format!("the address of {} cannot be used: {error}", engine.name())))?;
        Ok(Self { engine, base, key, is_named: named.is_some() || engine == Engine::Searxng })
    }

    /// Returns at most `count` results for `query`.
    pub(super) async fn search(&self, query: &str, count: usize, language: Option<&str>) -> Result<Vec<Found>, ToolError> {
        let request = self.request(query, count, language)?;
        let allowed = if self.is_named { Allowed::only(&request.url) } else { Allowed::default() };
        let failed = |error| ToolError::new(format!("{}: {}", self.engine.name(), refused(error).message));
        let mut fetcher = Fetcher::new(allowed, Bounds::default(), Arc::new(SystemResolver)).map_err(failed)?;
        let answer = fetcher.answer(request).await.map_err(failed)?;
        self.read(&answer, count)
    }

    fn request(&self, query: &str, count: usize, language: Option<&str>) -> Result<Request, ToolError> {
        let mut url = self.base.clone();
        let path = match self.engine {
            Engine::Searxng | Engine::Tavily => "/search",
            Engine::Brave => "/res/v1/web/search",
        };
        url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let (mut method, mut body) = (Method::GET, None);
        match self.engine {
            Engine::Searxng => {
                url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
                if let Some(language) = language {
                    url.query_pairs_mut().append_pair("language", language);
                }
            }
            Engine::Brave => {
                url.query_pairs_mut().append_pair("q", query).append_pair("count", &count.min(20).to_string());
                if let Some(language) = language {
                    url.query_pairs_mut().append_pair("search_lang", language);
                }
                headers.insert(HeaderName::from_static("x-subscription-token"), self.secret_header("")?);
            }
            Engine::Tavily => {
                method = Method::POST;
                headers.insert(AUTHORIZATION, self.secret_header("Bearer ")?);
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                body = Some(json!({"query": query, "max_results": count.min(20)}).to_string().into_bytes());
            }
        }
        Ok(Request { method, url, headers, body })
    }

    fn secret_header(&self, prefix: &str) -> Result<HeaderValue, ToolError> {
        let text = format!("{prefix}{}", self.key.as_deref().unwrap_or_default());
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            ToolError::new(format!("the key in {} has characters that are not allowed in a header", self.engine.variable()))
        })?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Returns the results in an answer. An engine's error message is not repeated: it may hold the key.
    fn read(&self, answer: &Answer, count: usize) -> Result<Vec<Found>, ToolError> {
        let (name, variable) = (self.engine.name(), self.engine.variable());
        let status = answer.status.as_u16();
        let why = match (status, self.engine) {
            (200..=299, _) => None,
            (300..=399, _) => Some("sends requests elsewhere: correct its address".to_owned()),
            (403, Engine::Searxng) => {
                Some("does not answer in JSON: its settings must list json under search.formats".to_owned())
            }
            (401 | 403, _) => Some(format!("refused the key in {variable}")),
            (429, _) => Some("reports a rate limit: try again later, or less often".to_owned()),
            (402 | 432 | 433, _) => Some("reports that the plan of the key is used up".to_owned()),
            _ => Some(format!("failed with status {status}")),
        };
        if let Some(why) = why {
            return Err(ToolError::new(format!("{name} {why}")));
        }
        let body: Value = serde_json::from_slice(&answer.body)
            .map_err(|_| ToolError::new(format!("{name} answered with something other than JSON")))?;
        let results = match self.engine {
            Engine::Searxng | Engine::Tavily => &body["results"],
            Engine::Brave if body.get("web").is_none() => return Ok(Vec::new()),
            Engine::Brave => &body["web"]["results"],
        };
        let results = results.as_array().ok_or_else(|| ToolError::new(format!("{name} answered without results")))?;
        let field = |result: &Value, key: &str| plain(result[key].as_str().unwrap_or_default());
        let snippet = if self.engine == Engine::Brave { "description" } else { "content" };
        let found = results.iter().filter_map(|result| {
            let url = super::page::linkable(result["url"].as_str()?)?;
            Some(Found { title: field(result, "title"), url, snippet: field(result, snippet) })
        });
        Ok(found.take(count).collect())
    }
}

/// Returns the words of a title or a snippet, which may be HTML.
fn plain(text: &str) -> String {
    let mut words = String::new();
    for token in html5gum::Tokenizer::new(text) {
        if let Ok(html5gum::Token::String(piece)) = token {
            words.push_str(&String::from_utf8_lossy(&piece));
        }
    }
    let seen = super::markdown::of_text(&words, MAX_SNIPPET_CHARACTERS * 4).text;
    seen.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_SNIPPET_CHARACTERS).collect()
}
