//! Cards: those of calls are a view of the timeline, and those that services wrote are records of the store.
//!
//! A card that a service wrote is a record with the card's id as its idempotency key. So the store judges in one transaction whether the same
//! card was there, and another card with its id is refused. The record ends after a month.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_breadcrumb::Author;
use baton_runtime::{Engine, RunError};
use baton_store::{Creation, StoreError};
use baton_types::breadcrumb::{NewBreadcrumb, Viewer, Visibility};
use baton_types::id::{BreadcrumbId, ContentHash, RunId, TaskId};
use baton_types::json::Json;
use baton_utp::MAX_CARD_BYTES;
use baton_utp::card::Card;
use baton_utp::error_code::ErrorCode;
use baton_utp::exchange::{CardGet, CardGetReply, CardPut, CardPutReply, ExchangeError, Kept};
use baton_utp::id::CardId;
use baton_utp::view::Cards;

use crate::Bus;

/// Schema of the records.
const SCHEMA: &str = "utp.card.v1";

/// Time after which a card that a service wrote is removed. Its result is on the timeline by then.
const KEPT_FOR: Duration = Duration::from_hours(24 * 30);

impl Bus {
    /// Answers a request for a card.
    pub(crate) async fn get_card(&self, engine: &Engine, message: &[u8]) -> CardGetReply {
        let found = match CardGet::read(message) {
            Err(error) => Err(bad_request(&error)),
            Ok(CardGet { card_id }) => match self.card(engine, &card_id).await {
                Ok(Some(card)) => Ok(card),
                Ok(None) => Err(error(ErrorCode::parse("not_found"), format!("there is no card {:?}", card_id.as_str()))),
                Err(failed) => Err(error(Some(ErrorCode::UPSTREAM_UNAVAILABLE), failed.to_string())),
            },
        };
        let too_long = |card: &Card| serde_json::to_vec(card).map_or(true, |text| text.len() > MAX_CARD_BYTES);
        match found {
            Ok(card) if too_long(&card) => {
                let message = format!("the card {:?} has more than {MAX_CARD_BYTES} bytes", card.card_id.as_str());
                CardGetReply::Error(error(ErrorCode::parse("too_large"), message))
            }
            Ok(card) => CardGetReply::Card(Box::new(card)),
            Err(error) => CardGetReply::Error(error),
        }
    }

    /// Answers a request to keep a card.
    pub(crate) async fn put_card(&self, engine: &Engine, message: &[u8]) -> CardPutReply {
        match CardPut::read(message) {
            Err(error) => CardPutReply::Error(bad_request(&error)),
            Ok(CardPut { card }) => self.keep(engine, card).await.map_or_else(CardPutReply::Error, CardPutReply::Kept),
        }
    }

    async fn keep(&self, engine: &Engine, card: Card) -> Result<Kept, ExchangeError> {
        if card.project_id != self.0.project {
            let message = format!("project_id is {:?}; expected {:?}", card.project_id.as_str(), self.0.project.as_str());
            return Err(error(Some(ErrorCode::BAD_REQUEST), message));
        }
        if card.card_id.named_task().is_some() {
            let message = format!("{:?} has the form of a card of a timeline; choose another card_id", card.card_id.as_str());
            return Err(error(Some(ErrorCode::BAD_REQUEST), message));
        }
        let unavailable = |failed: &dyn std::fmt::Display| error(Some(ErrorCode::UPSTREAM_UNAVAILABLE), failed.to_string());
        let turn = &card.metadata.agent_turn_id;
        let run = match turn.named() {
            Some((run, _)) => engine.store().run(&run).await.map_err(|failed| unavailable(&failed))?,
            None => None,
        };
        if run.is_none() {
            return Err(error(ErrorCode::parse("not_found"), format!("there is no work {:?}", turn.as_str())));
        }
        let now = engine.now();
        let context = Json::of(&Card { created_at: None, ..card.clone() }).map_err(|failed| unavailable(&failed))?;
        let new = NewBreadcrumb {
            title: format!("Result of {}", card.metadata.tool_call_id.as_ref().map_or("", |call| call.as_str())),
            schema_name: Some(SCHEMA.to_owned()),
            context,
            visibility: Visibility::Private,
            ttl: Some(now.plus(KEPT_FOR)),
            ..NewBreadcrumb::default()
        };
        let creation = Creation {
            id: record_of(&self.0.keeper, &card.card_id),
            new,
            by: Author::of(self.0.keeper.clone()),
            key: Some(card.card_id.as_str().to_owned()),
            at: now,
        };
        match engine.store().breadcrumbs().create(creation).await {
            Ok(written) => Ok(Kept { card_id: card.card_id, created: !written.repeated }),
            Err(StoreError::Breadcrumb(refused)) => {
                let kept = self.kept(engine, &card.card_id).await.map_err(|failed| unavailable(&failed))?;
                match kept.map(|kept| Card { created_at: None, ..kept } == Card { created_at: None, ..card.clone() }) {
                    Some(true) => Ok(Kept { card_id: card.card_id, created: false }),
                    Some(false) => {
                        let message = format!("there is another card {:?}, and cards never change", card.card_id.as_str());
                        Err(error(ErrorCode::parse("conflict"), message))
                    }
                    None => Err(error(Some(ErrorCode::BAD_REQUEST), refused.to_string())),
                }
            }
            Err(failed) => Err(unavailable(&failed)),
        }
    }

    /// Returns a card: one that a service wrote, or one that a timeline has.
    pub(crate) async fn card(&self, engine: &Engine, id: &CardId) -> Result<Option<Card>, RunError> {
        match self.kept(engine, id).await? {
            Some(card) => Ok(Some(card)),
            None => self.derived(engine, id).await,
        }
    }

    /// Returns a card that a service wrote.
    pub(crate) async fn kept(&self, engine: &Engine, id: &CardId) -> Result<Option<Card>, RunError> {
        let record = record_of(&self.0.keeper, id);
        let found = engine.store().breadcrumbs().find(&record, &self.0.keeper, engine.now()).await?;
        // The store checks its rows, so a record that holds no card was not made here.
        Ok(found.and_then(|found| {
            let card = Card::read_result(found.context.text().as_bytes()).ok()?;
            Some(Card { created_at: Some(found.created_at), ..card })
        }))
    }

    /// Returns a card that the timeline of a run has.
    async fn derived(&self, engine: &Engine, id: &CardId) -> Result<Option<Card>, RunError> {
        let Some((run, task)) = id.named_task() else { return Ok(None) };
        let Some(record) = engine.store().run(&run).await? else { return Ok(None) };
        let targets = self.targets(engine, &run).await?;
        let mut cards = Cards::new(run.clone(), self.0.project.clone(), targets);
        for recorded in self.entries(engine, &run, &task, record.last_seq).await? {
            if let Some(card) = cards.add(&recorded).into_iter().find(|card| card.card_id == *id) {
                return Ok(Some(card));
            }
        }
        Ok(None)
    }

    /// Returns the subjects of the tools of a run that services execute.
    async fn targets(&self, engine: &Engine, run: &RunId) -> Result<BTreeMap<baton_types::id::ToolId, String>, RunError> {
        let configs = engine.pinned_configs(&engine.started(run).await?).await?;
        let tools =
            configs.tools.values().filter_map(|tool| Some((tool.id.clone(), self.target(tool.service()?).ok()?.to_string())));
        Ok(tools.collect())
    }

    /// Returns the entries of a task.
    pub(crate) async fn entries(
        &self,
        engine: &Engine,
        run: &RunId,
        task: &TaskId,
        through: u64,
    ) -> Result<Vec<std::sync::Arc<baton_types::entry::Recorded>>, RunError> {
        Ok(engine.store().task_entries(run, task, through).await?)
    }
}

/// Returns the id of the record that holds a card.
fn record_of(keeper: &Viewer, id: &CardId) -> BreadcrumbId {
    let hash = ContentHash::of(format!("{}\n{}", keeper.project, id.as_str()).as_bytes()).to_string();
    BreadcrumbId::new(format!("card-{}", &hash[..32]))
}

fn error(code: Option<ErrorCode>, message: String) -> ExchangeError {
    ExchangeError { code: code.unwrap_or(ErrorCode::INTERNAL_ERROR), message }
}

fn bad_request(refused: &baton_utp::read::PayloadError) -> ExchangeError {
    error(Some(ErrorCode::BAD_REQUEST), refused.to_string())
}
