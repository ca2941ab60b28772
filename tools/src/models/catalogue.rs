//! `openrouter_models_sync`: the models of OpenRouter and what they cost, as documents and as a breadcrumb of the project.
//!
//! OpenRouter's list is public (`GET /api/v1/models`, <https://openrouter.ai/docs/api-reference/list-available-models>) and
//! names prices in dollars for one token, as text. The tool writes a table of prices in the form that the program reads. A
//! person must copy the table to that place. So prices count only after a person has looked at them.

use std::time::Duration;

use baton_macros::tool;
use baton_tool::{BreadcrumbAsk, BreadcrumbReply, PendingWrite, ToolContext, ToolError, parse_path};
use baton_types::breadcrumb::{BreadcrumbChange, BreadcrumbQuery, NewBreadcrumb};
use baton_types::id::BreadcrumbId;
use baton_types::json::Json;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::web::{Allowed, Bounds, Fetcher, Request, SystemResolver};

/// The document with all models.
const CATALOGUE: &str = "openrouter-models.json";
/// The schema of the breadcrumb with all models (seed 001). A project has one.
const SCHEMA: &str = "openrouter.models.catalog.v1";
/// The document with their prices, in the form of a table of prices.
const PRICES: &str = "prices.json";
/// Time for which a catalogue counts as fresh (the seed's 24 hours).
const FRESH: Duration = Duration::from_hours(24);
/// The most bytes of a catalogue; OpenRouter's had about half a megabyte in 2025.
const MAX_BYTES: usize = 16 << 20;
/// Prices are written for so many tokens.
const TOKENS: f64 = 1e6;
/// The dearest price for a million tokens that a table takes, in dollars.
const MOST: f64 = 1_000.0;

/// Settings of the tool.
#[derive(Debug, Deserialize)]
struct SyncSettings {
    base_url: String,
}

/// The catalogue as it is kept.
#[derive(Debug, Deserialize, Serialize)]
struct Catalogue {
    last_updated: String,
    source: String,
    models: Vec<CatalogueModel>,
}

/// A model; prices in US dollars for a million tokens.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct CatalogueModel {
    id: String,
    name: String,
    context_length: Option<u64>,
    input: Option<f64>,
    cached_input: Option<f64>,
    output: Option<f64>,
}

/// Output of the tool.
#[derive(Debug, Serialize)]
struct SyncOutput {
    /// Number of models.
    models_count: usize,
    /// Number of models with a price.
    priced_count: usize,
    /// The breadcrumb that holds them.
    catalog_id: String,
    /// The document that holds them.
    models: &'static str,
    /// The document that holds their prices.
    prices: &'static str,
    last_updated: String,
    message: String,
}

/// Fetches the catalogue, unless the one that is there is from the last 24 hours.
#[tool]
async fn openrouter_models_sync(context: &ToolContext, force_refresh: Option<bool>) -> Result<SyncOutput, ToolError> {
    let (catalogue, message) = synced(context, force_refresh).await?;
    let catalog_id = recorded(context, &catalogue).await?;
    Ok(SyncOutput {
        models_count: catalogue.models.len(),
        priced_count: catalogue.models.iter().filter(|model| model.input.is_some() && model.output.is_some()).count(),
        catalog_id,
        models: CATALOGUE,
        prices: PRICES,
        last_updated: catalogue.last_updated,
        message: message.to_owned(),
    })
}

/// Writes the catalogue into the breadcrumb of the project, unless it is there already, and returns the breadcrumb's id.
async fn recorded(context: &ToolContext, catalogue: &Catalogue) -> Result<String, ToolError> {
    let unexpected = || ToolError::new("the answer is that of another operation");
    let query = BreadcrumbQuery { schema_name: Some(SCHEMA.to_owned()), limit: 1, ..BreadcrumbQuery::default() };
    let BreadcrumbReply::Found { records, .. } = context.breadcrumbs(BreadcrumbAsk::Search(query), false).await? else {
        return Err(unexpected());
    };
    let known = records.first().map(Json::value);
    let content = Json::from(json!({
        "last_updated": catalogue.last_updated,
        "source": catalogue.source,
        "models_count": catalogue.models.len(),
        "models": catalogue.models,
    }));
    let ask = match known.as_ref().and_then(|record| record["id"].as_str()) {
        Some(id) if known.as_ref().is_some_and(|record| record["context"]["last_updated"] == catalogue.last_updated) => {
            return Ok(id.to_owned());
        }
        Some(id) => {
            let change = BreadcrumbChange { context: Some(content), ..BreadcrumbChange::default() };
            BreadcrumbAsk::Change { id: BreadcrumbId::new(id), change, expected: None }
        }
        None => BreadcrumbAsk::Create(NewBreadcrumb {
            title: "Models of OpenRouter".to_owned(),
            schema_name: Some(SCHEMA.to_owned()),
            context: content,
            description: Some("Prices in US dollars for a million tokens".to_owned()),
            // The list is too long for a request.
            llm_hints: Some(Json::from(json!({"exclude": ["models"]}))),
            ..NewBreadcrumb::default()
        }),
    };
    match context.breadcrumbs(ask, false).await? {
        BreadcrumbReply::Written { id, .. } => Ok(id.as_str().to_owned()),
        BreadcrumbReply::Found { .. } | BreadcrumbReply::Ticks { .. } => Err(unexpected()),
    }
}

/// Returns the catalogue and a summary for people. A fetched one becomes two documents.
async fn synced(context: &ToolContext, force_refresh: Option<bool>) -> Result<(Catalogue, &'static str), ToolError> {
    if force_refresh != Some(true)
        && let Some(known) = fresh(context).await
    {
        return Ok((known, "the catalogue is less than 24 hours old, so it was not fetched again"));
    }
    let settings: SyncSettings = context.settings()?;
    let failed = |reason: String| ToolError::new(format!("the model catalogue of OpenRouter cannot be loaded: {reason}"));
    let base = settings.base_url.trim_end_matches('/');
    let url = Url::parse(&format!("{base}/models")).map_err(|error| failed(format!("base_url: {error}")))?;
    context.progress(&format!("asking {url}"));
    // The address is a deliberate setting, so it may be anywhere.
    let bounds = Bounds { bytes: MAX_BYTES, ..Bounds::default() };
    let mut fetcher = Fetcher::new(Allowed::only(&url), bounds, std::sync::Arc::new(SystemResolver))
        .map_err(|error| failed(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let request = Request { method: Method::GET, url: url.clone(), headers, body: None };
    let answer = fetcher.answer(request).await.map_err(|error| failed(error.to_string()))?;
    if !answer.status.is_success() {
        return Err(failed(format!("it answered with status {}", answer.status.as_u16())));
    }
    let body: Value = serde_json::from_slice(&answer.body).map_err(|error| failed(format!("it is not JSON: {error}")))?;
    let models = models(&body).ok_or_else(|| failed("it has no list of models in data".to_owned()))?;
    let catalogue = Catalogue { last_updated: context.now().to_string(), source: url.into(), models };
    keep(context, CATALOGUE, &json!(catalogue), "The models of OpenRouter; prices in US dollars for a million tokens")?;
    keep(context, PRICES, &table(&catalogue), "Prices of the models of OpenRouter, as a table")?;
    Ok((catalogue, "the catalogue was fetched; its prices take effect once prices.json is in ~/.config/baton/"))
}

/// Returns the existing catalogue, if it is fresh.
async fn fresh(context: &ToolContext) -> Option<Catalogue> {
    context.document(PRICES).ok()?;
    let text = context.read_text(CATALOGUE).await.ok()?;
    let known: Catalogue = serde_json::from_str(&text).ok()?;
    let written = context.document(CATALOGUE).ok()?.at;
    // Its own date counts where it is older: a job may bring a catalogue along.
    let limit = context.now().since(written) < FRESH;
    let said = known.last_updated.parse::<jiff::Timestamp>().ok()?;
    let now = context.now().to_string().parse::<jiff::Timestamp>().ok()?;
    let is_new = said <= now && now.duration_since(said).unsigned_abs() < FRESH;
    (limit && is_new).then_some(known)
}

/// Returns the models in OpenRouter's answer; what is no model is left out.
fn models(body: &Value) -> Option<Vec<CatalogueModel>> {
    let read = |model: &Value| {
        let id = model["id"].as_str().filter(|id| !id.is_empty() && id.len() <= 100)?;
        let price = |key: &str| rate(&model["pricing"][key]);
        Some(CatalogueModel {
            id: id.to_owned(),
            name: model["name"].as_str().unwrap_or(id).chars().take(200).collect(),
            context_length: model["context_length"].as_u64(),
            input: price("prompt"),
            cached_input: price("input_cache_read"),
            output: price("completion"),
        })
    };
    let mut models: Vec<_> = body["data"].as_array()?.iter().filter_map(read).collect();
    models.sort_by(|a, b| a.id.cmp(&b.id));
    models.dedup_by(|a, b| a.id == b.id);
    Some(models)
}

/// Dollars for a million tokens. A router that cannot say beforehand names -1.
fn rate(price: &Value) -> Option<f64> {
    let price = price.as_str().map_or_else(|| price.as_f64(), |text| text.trim().parse().ok())?;
    // Back to the decimals that were meant: 0.0000003 × 10⁶ is 0.3, not 0.29999999999999998.
    let rate = (price * TOKENS * 1e9).round() / 1e9;
    (0.0..=MOST).contains(&rate).then_some(rate)
}

/// Windows that a table of prices can tell.
const WINDOWS: std::ops::RangeInclusive<u64> = 256..=1_000_000_000;

/// Returns the prices in the form of `prices.json`.
fn table(catalogue: &Catalogue) -> Value {
    let day = catalogue.last_updated.get(..10).unwrap_or_default();
    let row = |model: &CatalogueModel| {
        let (input, output) = (model.input?, model.output?);
        let mut row = json!({"models": [format!("openrouter:{}", model.id)], "input": input, "output": output,
            "source": "https://openrouter.ai/api/v1/models", "as_of": day});
        if let Some(cached) = model.cached_input {
            row["cached_input"] = json!(cached);
        }
        if let Some(window) = model.context_length.filter(|window| WINDOWS.contains(window)) {
            row["context_tokens"] = json!(window);
        }
        Some(row)
    };
    json!({"version": day, "prices": catalogue.models.iter().filter_map(row).collect::<Vec<_>>()})
}

fn keep(context: &ToolContext, path: &str, content: &Value, description: &str) -> Result<(), ToolError> {
    let text = serde_json::to_string_pretty(content).unwrap_or_default() + "\n";
    let mut write = PendingWrite::new(parse_path(path)?, text.into_bytes());
    write.description = Some(description.to_owned());
    write.tags = Some(vec!["web".to_owned(), "prices".to_owned()]);
    context.write(write).map(drop)
}

#[cfg(test)]
mod tests {
    use baton_config::PriceTable;
    use baton_types::money::Money;

    use super::*;
    use crate::web::site::{Piece, Site};

    /// Returns a catalogue in the form that OpenRouter's documentation shows.
    fn catalogue() -> String {
        let model = |id: &str, pricing: Value| {
            json!({"id": id, "name": format!("The model {id}"), "created": 1_741_818_122,
            "context_length": 131_072, "architecture": {"modality": "text->text"}, "pricing": pricing, "supported_parameters": ["tools"]})
        };
        json!({"data": [
            model("google/gemini-2.5-flash", json!({"prompt": "0.0000003", "completion": "0.0000025", "input_cache_read": "0.000000075", "image": "0.001238"})),
            model("meta-llama/llama-3.3-70b:free", json!({"prompt": "0", "completion": "0"})),
            model("openrouter/auto", json!({"prompt": "-1", "completion": "-1"})),
            model("broken/price", json!({"prompt": "free"})),
            {"name": "no id"}, "no model"
        ]})
        .to_string()
    }

    fn context(site: &Site) -> baton_tool::testing::TestContext {
        ToolContext::for_test().with_settings(json!({"base_url": format!("http://127.0.0.1:{}/api/v1/", site.port)}))
    }

    #[tokio::test]
    async fn a_catalogue_becomes_a_table_of_prices_that_the_program_reads() {
        let site = Site::start(|_| vec![Piece::text("200 OK", "application/json", &catalogue())]).await;
        let context = context(&site).build();
        let (known, _) = synced(&context, None).await.unwrap();
        assert_eq!(known.models.len(), 4);
        assert!(site.requests()[0].starts_with("GET /api/v1/models HTTP/1.1"));
        let prices = context.read("prices.json").await.unwrap();
        let table = PriceTable::load("prices.json", &prices).unwrap_or_else(|faults| panic!("{faults}"));
        let price = table.price("openrouter:google/gemini-2.5-flash").unwrap();
        assert_eq!(price.input, Money::from_usd(0.3 / 1e6));
        assert_eq!(price.cached_input, Money::from_usd(0.075 / 1e6));
        assert_eq!(price.context_tokens, Some(131_072));
        assert_eq!(price.output, Money::from_usd(2.5 / 1e6));
        assert_eq!(table.price("openrouter:meta-llama/llama-3.3-70b:free").unwrap().output, Money::ZERO);
        assert_eq!(table.price("openrouter:openrouter/auto"), None, "what is not known is not nothing");
    }

    #[tokio::test]
    async fn a_catalogue_of_the_last_day_is_not_fetched_again() {
        let site = Site::start(|_| vec![Piece::text("200 OK", "application/json", &catalogue())]).await;
        let known = |day: &str| json!({"last_updated": format!("{day}T00:00:00Z"), "source": "x", "models": []}).to_string();
        for (day, force, fetched) in
            [("2026-01-01", None, 0), ("2026-01-01", Some(true), 1), ("2025-12-30", None, 2), ("2026-01-02", Some(false), 3)]
        {
            let context =
                context(&site).with_document("openrouter-models.json", known(day)).with_document("prices.json", "{}").build();
            synced(&context, force).await.unwrap();
            assert_eq!(site.connections(), fetched, "{day} {force:?}");
        }
        let without_prices = context(&site).with_document("openrouter-models.json", known("2026-01-01")).build();
        synced(&without_prices, None).await.unwrap();
        assert_eq!(site.connections(), 4);
    }

    #[tokio::test]
    async fn what_is_no_catalogue_is_told_and_changes_nothing() {
        for (status, body, told) in [
            ("503 Busy", "", "it answered with status 503"),
            ("200 OK", "<html>", "it is not JSON: expected value at line 1 column 1"),
            ("200 OK", "{}", "it has no list of models in data"),
        ] {
            let site = Site::start(move |_| vec![Piece::text(status, "application/json", body)]).await;
            let context = context(&site).build();
            let error = synced(&context, None).await.unwrap_err();
            assert_eq!(error.message, format!("the model catalogue of OpenRouter cannot be loaded: {told}"));
            assert!(context.take_effects().writes.is_empty());
        }
    }
}
