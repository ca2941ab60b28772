//! Prices of models: the table that comes with the engine, a job's own prices, and the money limits that can rely on
//! them.
//!
//! Prices are read once, when a run starts, and recorded there: what tables say later changes no run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use baton_types::config::{
    Configs, MasterRule, ModelSpec, MoneyHolder, MoneyLimit, PERSON_MODEL, PROGRAM_MODEL, Place, ProvidedModel, RUN_SCRIPT,
};
use baton_types::id::AgentId;
use baton_types::money::{Money, Price};

use crate::fault::{Fault, FaultKind, Faults};
use crate::form::{PriceForm, PriceTableForm};
use crate::loader::Loader;
use crate::reader::{Spot, Text, pointer};
use crate::shape::PRICES;
use crate::source::{Role, Sources};

/// Prices are per this number of tokens.
const TOKENS: f64 = 1e6;

/// The table that comes with the engine. Its rows name their source and the day on which they were read there.
const EMBEDDED: &str = include_str!("prices.json");

/// Prices by the names of models, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceTable {
    version: String,
    prices: BTreeMap<String, Price>,
}

impl PriceTable {
    /// Returns the table that comes with the engine.
    pub fn embedded() -> &'static Self {
        static TABLE: LazyLock<PriceTable> = LazyLock::new(|| {
            PriceTable::load("prices.json", EMBEDDED.as_bytes())
                .unwrap_or_else(|faults| panic!("the table of prices that comes with the engine is broken:\n{faults}"))
        });
        &TABLE
    }

    /// Reads a table, or reports every fault; `file` is its path as shown in messages.
    pub fn load(file: &str, content: &[u8]) -> Result<Self, Faults> {
        let mut sources = Sources::default();
        sources.add(Role::Prices, file, content);
        let mut loader = Loader::new(&sources, &[]);
        let source = sources.of(Role::Prices).next().expect("the source was just added");
        let table = loader.read(source).and_then(|read| {
            let form: PriceTableForm = loader.form(&PRICES, &read.text, &read.value)?;
            Some(Self::of(&form, &read.text, &mut loader.faults))
        });
        Faults::none_of(loader.faults)?;
        Ok(table.expect("a table without faults was read"))
    }

    fn of(form: &PriceTableForm, text: &Text<'_>, faults: &mut Vec<Fault>) -> Self {
        let mut prices = BTreeMap::new();
        for (row, price) in form.prices.iter().enumerate() {
            let rates = PriceForm { input: price.input, cached_input: price.cached_input, output: price.output };
            let source = format!("{} ({})", price.source, price.as_of);
            let price_of =
                Price { context_tokens: price.context_tokens, output_tokens: price.output_tokens, ..rates.price(source) };
            for (place, name) in price.models.iter().enumerate() {
                if prices.insert(name.clone(), price_of.clone()).is_some() {
                    let place = pointer(&["prices", &row.to_string(), "models", &place.to_string()]);
                    let message = format!("the model \"{name}\" has two prices");
                    faults.push(text.fault(FaultKind::SameId, &place, Spot::Value, message));
                }
            }
        }
        Self { version: form.version.clone(), prices }
    }

    /// Returns the same table with the rows of `other`, which count where both have one.
    pub fn with(mut self, other: Self) -> Self {
        self.prices.extend(other.prices);
        self
    }

    /// Returns the date of the table.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the price of the model named `model`. A dated version has the price of its undated name, unless it has
    /// a row.
    pub fn price(&self, model: &str) -> Option<&Price> {
        self.prices.get(model).or_else(|| self.prices.get(undated(model)?))
    }
}

/// Returns a model's name without the date at its end, which vendors write as `-20260131` or `-2026-01-31`.
fn undated(model: &str) -> Option<&str> {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let (name, last) = model.rsplit_once('-')?;
    if digits(last, 8) {
        return Some(name);
    }
    let (name, month) = name.rsplit_once('-')?;
    let (name, year) = name.rsplit_once('-')?;
    (digits(last, 2) && digits(month, 2) && digits(year, 4)).then_some(name)
}

impl PriceForm {
    /// Returns the price of one token of each kind.
    pub(crate) fn price(&self, source: String) -> Price {
        let rate = |for_a_million: f64| Money::from_usd(for_a_million / TOKENS);
        let input = rate(self.input);
        Price {
            input,
            cached_input: self.cached_input.map_or(input, rate),
            output: rate(self.output),
            source,
            context_tokens: None,
            output_tokens: None,
            is_estimate: false,
        }
    }
}

/// Returns the money limit in `text`.
pub(crate) fn money_limit(text: &Text<'_>, holder: MoneyHolder) -> MoneyLimit {
    let place = if holder == MoneyHolder::Session { "/session_limits/cost_usd" } else { "/limits/cost_usd" };
    let Fault { file, line, column, pointer, source_line, width, .. } =
        text.fault(FaultKind::UnkeepableLimit, place, Spot::Key, "");
    MoneyLimit { holder, place: Place { file, line, column, pointer, source_line, width } }
}

/// Returns the fault of a limit that cannot be enforced.
fn unkeepable(limit: &MoneyLimit, message: String) -> Fault {
    let Place { file, line, column, pointer, source_line, width } = limit.place.clone();
    Fault { line, column, pointer, source_line, width, ..Fault::of_file(FaultKind::UnkeepableLimit, file, message) }
}

/// Returns the place where a person sets the price of `model`.
fn where_prices_go(model: &str) -> String {
    format!(
        "a price for \"{model}\" of your own, in ~/.config/baton/models.json or prices.json (a job's does not count), or \"tokens\" instead"
    )
}

/// An agent, and whether it answers a question, where it can neither delegate nor use more than `pure` tools.
type Working<'c> = (&'c AgentId, bool);

/// Returns the prices of the models that a run may use: `stand_in` alone if given, else those of the job. A program
/// `brings` some models itself, which then replace the job's of that name.
///
/// A price that the person sets for a model counts first, then the table's. A price that only the job sets is an estimate.
/// A script costs what the job sets, or nothing. Unknown prices are absent.
pub fn prices<'t>(
    configs: &Configs,
    stand_in: Option<&str>,
    brings: impl Fn(&str) -> bool,
    table: impl Fn() -> &'t PriceTable,
) -> BTreeMap<String, Price> {
    let used = configs.agents.values().map(|agent| agent.model.as_str());
    let all = used.chain(configs.job.models.keys().map(String::as_str));
    let mut named: BTreeSet<&str> = stand_in.map_or_else(|| all.collect(), |name| BTreeSet::from([name]));
    named.extend(configs.agents.values().filter(|agent| agent.program.is_some()).map(|agent| agent.model.as_str()));
    named.extend(summary_model(configs, stand_in));
    let fallbacks = named.iter().flat_map(|name| configs.job.fallbacks(name)).map(String::as_str);
    let names: BTreeSet<&str> = named.iter().copied().chain(fallbacks).collect();
    // A reseller names a model `vendor/model` and has its own prices, so these rows name the provider too.
    let listed = |name: &str, provided: &ProvidedModel| {
        let full = format!("{}:{}", provided.provider, provided.model);
        [name, &full, &provided.model].into_iter().find_map(|name| table().price(name)).cloned()
    };
    let price = |name: &str| match configs.job.model(name) {
        Some(ModelSpec::Scripted { price: Some(price), .. }) => Some(price),
        Some(ModelSpec::Scripted { price: None, .. }) if !brings(name) => Some(Price::scripted()),
        Some(ModelSpec::Provided(provided)) if provided.price.is_some() || !brings(name) => {
            let of_person = configs.job.own_prices.get(&format!("{}:{}", provided.provider, provided.model)).cloned();
            let (of_job, set) = match provided.price.clone() {
                Some(price) if price.is_estimate => (Some(price), None),
                set => (None, set),
            };
            let listed = listed(name, &provided);
            let limits = listed.as_ref().map_or((None, None), |listed| (listed.context_tokens, listed.output_tokens));
            let with_limits = |price: Price| Price { context_tokens: limits.0, output_tokens: limits.1, ..price };
            set.or(of_person).map(with_limits).or(listed).or(of_job)
        }
        _ if name == PROGRAM_MODEL => Some(Price::scripted()),
        _ if name == PERSON_MODEL && brings(name) => Some(Price::person()),
        _ => table().price(name).cloned(),
    };
    names.into_iter().filter_map(|name| Some((name.to_owned(), price(name)?))).collect()
}

/// Refuses limits of money that cannot be kept: a task that they hold may run on a model that `prices` lacks, or for which
/// only the job names a price.
pub fn check_money(configs: &Configs, stand_in: Option<&str>, prices: &BTreeMap<String, Price>) -> Result<(), Faults> {
    let prices: BTreeMap<&str, &Price> =
        prices.iter().filter(|(_, price)| !price.is_estimate).map(|(name, price)| (name.as_str(), price)).collect();
    let prices = &prices;
    let mut faults = Vec::new();
    for limit in &configs.money_limits {
        let unpriced = held_by(configs, &limit.holder).into_iter().find_map(|agent| {
            let of = configs.agents.get(agent)?;
            let model = stand_in.filter(|_| of.program.is_none()).unwrap_or(&of.model);
            let fallbacks = configs.job.fallbacks(model).iter().map(String::as_str);
            let unpriced = std::iter::once(model).chain(fallbacks).find(|model| !prices.contains_key(model));
            Some((agent, unpriced?))
        });
        if let Some((agent, model)) = unpriced {
            let message =
                format!("\"cost_usd\" cannot be enforced: agent \"{agent}\" may run on \"{model}\", whose price is not known");
            faults.push(unkeepable(limit, message).expected(where_prices_go(model)));
        } else if let Some(model) = unpriced_summaries(configs, stand_in, limit, prices) {
            let message = format!("\"cost_usd\" cannot be enforced: \"{model}\" makes summaries, and its price is not known");
            faults.push(unkeepable(limit, message).expected(where_prices_go(model)));
        }
    }
    Faults::none_of(faults)
}

/// Returns the model that summarizes tools' texts. A script given at the start replaces it, a model given there does not.
fn summary_model<'c>(configs: &'c Configs, stand_in: Option<&str>) -> Option<&'c str> {
    configs.job.summary_model.as_deref().filter(|_| stand_in != Some(RUN_SCRIPT))
}

/// Returns the model that summarizes tools' texts in tasks under `limit`, if its price is not known.
fn unpriced_summaries<'c>(
    configs: &'c Configs,
    stand_in: Option<&str>,
    limit: &MoneyLimit,
    prices: &BTreeMap<&str, &Price>,
) -> Option<&'c str> {
    let model = summary_model(configs, stand_in).filter(|model| !prices.contains_key(model))?;
    let writes = |agent: &&AgentId| configs.agents.get(*agent).is_some_and(|agent| agent.tools.values().any(|tool| tool.writes));
    held_by(configs, &limit.holder).iter().any(writes).then_some(model)
}

/// Returns the agents that may work on a task which `holder` holds, or below one.
fn held_by<'c>(configs: &'c Configs, holder: &'c MoneyHolder) -> BTreeSet<&'c AgentId> {
    let mut open: Vec<Working<'_>> = match holder {
        MoneyHolder::Run | MoneyHolder::Session => vec![(&configs.job.root, false)],
        MoneyHolder::Agent(agent) => vec![(agent, false)],
        MoneyHolder::Tool(tool) => {
            let askers = configs.agents.values().filter(|agent| agent.tools.contains_key(tool));
            let asked = || askers.flat_map(|asker| masters(configs, &asker.id)).collect();
            let called = configs.tools.get(tool).and_then(|tool| tool.agent.as_ref());
            called.map_or_else(asked, |agent| vec![(agent, false)])
        }
    };
    let mut seen: BTreeSet<Working<'_>> = BTreeSet::new();
    while let Some((id, answers)) = open.pop() {
        let Some(agent) = configs.agents.get(id).filter(|_| seen.insert((id, answers))) else { continue };
        for tool in agent.tools.values().filter(|tool| tool.tool_type.behavior().creates_task) {
            match &tool.agent {
                Some(callee) if !answers => open.push((callee, false)),
                Some(_) => {}
                None => open.extend(masters(configs, id)),
            }
        }
    }
    seen.into_iter().map(|(agent, _)| agent).collect()
}

/// Returns the agents that may answer the questions of `asker`.
fn masters<'c>(configs: &'c Configs, asker: &AgentId) -> Vec<Working<'c>> {
    if configs.agents.get(asker).is_none_or(|agent| agent.master == MasterRule::Person) {
        return Vec::new();
    }
    let calls_it = |agent: &&std::sync::Arc<baton_types::config::Agent>| {
        agent.tools.values().any(|tool| tool.agent.as_ref().is_some_and(|callee| callee == asker))
    };
    configs.agents.values().filter(calls_it).map(|agent| (&agent.id, true)).collect()
}
