//! The models of a task, and what their tokens cost.

use baton_types::money::{Money, Price};

use super::graph::TaskIndex;
use super::{Run, task_limits};

impl Run {
    /// The name of the model that answers for `task`: the one that replaces all, or its agent's. A person has none.
    pub(super) fn model_name(&self, task: TaskIndex) -> Option<&str> {
        let started = self.shared.started.as_ref()?;
        let agent = self.graph[task].agent()?;
        Some(started.model.as_ref().unwrap_or_else(|| &super::agent(&self.configs, agent).model))
    }

    /// The names of all models that may be asked for `task`; of none for a person.
    pub(super) fn model_names(&self, task: TaskIndex) -> impl Iterator<Item = &str> {
        let own = self.model_name(task);
        let fallbacks = own.map_or(&[] as &[String], |own| self.configs.job.fallbacks(own));
        own.into_iter().chain(fallbacks.iter().map(String::as_str))
    }

    /// The model that is asked for the open request of `task`: its own, or the one that it fell back to.
    pub(super) fn asked_model(&self, task: TaskIndex) -> Option<&str> {
        let fallback = self.graph[task].phase.request().and_then(|request| request.fallback.as_deref());
        fallback.or_else(|| self.model_name(task))
    }

    /// The model to ask next when the one that is asked for the open request of `task` is not available.
    pub(super) fn fallback_of(&self, task: TaskIndex) -> Option<&str> {
        let asked = self.graph[task].phase.request()?.fallback.as_deref();
        let mut left = self.model_names(task).skip(1);
        match asked {
            Some(asked) => left.skip_while(|name| *name != asked).nth(1),
            None => left.next(),
        }
    }

    /// The price of the tokens of the open request of `task`, if it is known: as the run's start recorded it.
    pub(super) fn price(&self, task: TaskIndex) -> Option<&Price> {
        self.price_of(self.asked_model(task)?)
    }

    fn price_of(&self, model: &str) -> Option<&Price> {
        self.shared.started.as_ref()?.prices.get(model)
    }

    /// The prices of a turn of `task`, by each model that may be asked for it.
    pub(super) fn prices(&self, task: TaskIndex) -> impl Iterator<Item = Option<&Price>> {
        self.model_names(task).map(|model| self.price_of(model))
    }

    /// What so many tokens cost at most where `task` asks, whichever of its models answers. Without a price nothing is known to
    /// fit: the start has refused that, and it is not taken for free here.
    pub(super) fn worst_price(&self, task: TaskIndex, input: u64, output: u64) -> Money {
        let costs = self.prices(task).map(|price| price.map_or(Money::MAX, |price| price.worst_case(input, output)));
        costs.max().unwrap_or(Money::MAX)
    }

    /// The most tokens of an answer of `task`.
    pub(super) fn output_tokens(&self, task: TaskIndex) -> u64 {
        self.graph[task].agent().map_or(0, |agent| super::agent(&self.configs, agent).max_output_tokens)
    }

    /// Tokens of the next request of `task` and the longest answer to it.
    pub(super) fn needed_tokens(&self, task: TaskIndex) -> u64 {
        self.graph[task].context_tokens.saturating_add(self.output_tokens(task))
    }

    /// The most tokens that a request of `task` and its answer may have together: what its limits, those of the run and the
    /// windows of all models that may be asked allow.
    pub(super) fn window(&self, task: TaskIndex) -> Option<u64> {
        let (configs, started) = (&self.configs, self.shared.started.as_ref()?);
        let of_model = |name| configs.job.window(name).or_else(|| started.prices.get(name)?.context_tokens);
        let limits = [task_limits(configs, &self.graph[task]).context_tokens, configs.job.limits.context_tokens];
        limits.into_iter().flatten().chain(self.model_names(task).filter_map(of_model)).min()
    }

    /// Whether the length of the requests of `task` is kept: something limits it, or a provider may say that it does.
    pub(super) fn is_measured(&self, task: TaskIndex) -> bool {
        self.window(task).is_some() || self.model_names(task).any(|name| self.configs.job.is_provided(name))
    }
}
