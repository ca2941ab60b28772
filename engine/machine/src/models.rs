//! The models of a task, and what their tokens cost.

use baton_types::document::may_be_text;
use baton_types::money::Price;

use crate::prelude::*;

impl Run {
    /// Returns the name of the model for tasks of `agent`: the one that replaces all models of the run, or its own. A program is never
    /// replaced.
    pub(super) fn model_of<'a>(&'a self, agent: &'a Agent) -> &'a str {
        let replacing = self.shared.started.as_ref().and_then(|started| started.model.as_ref());
        replacing.filter(|_| agent.program.is_none()).unwrap_or(&agent.model)
    }

    /// Returns the name of the model for `task`. A person has none.
    pub(super) fn model_name(&self, task: TaskIndex) -> Option<&str> {
        Some(self.model_of(super::agent(&self.configs, self.graph[task].agent()?)))
    }

    /// Iterates over the names of all models that may be asked for `task`: its own, then the fallbacks. A person has none.
    pub(super) fn model_names(&self, task: TaskIndex) -> impl Iterator<Item = &str> {
        let own = self.model_name(task);
        let fallbacks = own.map_or(&[] as &[String], |own| self.configs.job.fallbacks(own));
        own.into_iter().chain(fallbacks.iter().map(String::as_str))
    }

    /// Whether every model that may be asked for `task` takes documents of this type.
    pub(super) fn takes(&self, task: TaskIndex, mime_type: &str) -> bool {
        may_be_text(mime_type) || self.model_names(task).all(|name| self.configs.job.media(name).takes(mime_type))
    }

    /// Returns the model of the open request of `task`: its own, or the fallback in use.
    pub(super) fn asked_model(&self, task: TaskIndex) -> Option<&str> {
        let fallback = self.graph[task].phase.request().and_then(|request| request.fallback.as_deref());
        fallback.or_else(|| self.model_name(task))
    }

    /// Returns the fallback to ask next if the model of the open request of `task` is not available.
    pub(super) fn fallback_of(&self, task: TaskIndex) -> Option<&str> {
        let asked = self.graph[task].phase.request()?.fallback.as_deref();
        let mut left = self.model_names(task).skip(1);
        match asked {
            Some(asked) => left.skip_while(|name| *name != asked).nth(1),
            None => left.next(),
        }
    }

    /// Returns the highest ratio of counted to estimated tokens among the models that may be asked for `task`.
    pub(super) fn counted(&self, task: TaskIndex) -> Counted {
        if self.shared.counted.is_empty() {
            return Counted::default();
        }
        let of_models = self.model_names(task).filter_map(|name| self.shared.counted.get(name));
        of_models.fold(Counted::default(), |highest, of| if of.is_higher_than(highest) { *of } else { highest })
    }

    /// Returns the price of the model of the open request of `task`, as the run's start recorded it; `None` if it is not
    /// known.
    pub(super) fn price(&self, task: TaskIndex) -> Option<&Price> {
        self.price_of(self.asked_model(task)?)
    }

    pub(super) fn price_of(&self, model: &str) -> Option<&Price> {
        self.shared.started.as_ref()?.prices.get(model)
    }

    /// Returns the highest cost of so many tokens among the models with a known price that may be asked for `task`.
    pub(super) fn highest_cost(&self, task: TaskIndex, input: u64, output: u64) -> Money {
        self.prices(task).flatten().map(|price| price.worst_case(input, output)).max().unwrap_or(Money::ZERO)
    }

    /// Iterates over the prices of all models that may be asked for `task`; `None` for a price that is not known.
    fn prices(&self, task: TaskIndex) -> impl Iterator<Item = Option<&Price>> {
        self.model_names(task).map(|model| self.price_of(model))
    }

    /// Returns the highest cost of so many tokens among the models that may be asked for `task`. A model without a known
    /// price costs [`Money::MAX`], so that it fits no limit. A run with a limit of money does not start in that case.
    pub(super) fn worst_price(&self, task: TaskIndex, input: u64, output: u64) -> Money {
        let costs = self.prices(task).map(|price| price.map_or(Money::MAX, |price| price.worst_case(input, output)));
        costs.max().unwrap_or(Money::MAX)
    }

    /// Returns the maximum number of tokens in an answer of `task`, whichever of its models answers.
    pub(super) fn output_tokens(&self, task: TaskIndex) -> u64 {
        let Some(agent) = self.graph[task].agent() else { return 0 };
        let own = self.model_names(task).filter_map(|model| self.own_output_tokens(task, model)).max();
        own.max(Some(super::agent(&self.configs, agent).max_output_tokens)).unwrap_or(0)
    }

    /// Returns the longest answer of `model`, if that is the limit of an answer of `task`: neither the agent nor a limit of
    /// tokens or money bounds it. The answer then leaves three quarters of the window for the request, or as much as the
    /// agent's settings demand.
    pub(super) fn own_output_tokens(&self, task: TaskIndex, model: &str) -> Option<u64> {
        let agent = super::agent(&self.configs, self.graph[task].agent()?);
        if agent.sets_output_limit || self.shared.has_budgets {
            return None;
        }
        let price = self.price_of(model)?;
        let room = price.context_tokens.map_or(u64::MAX, |window| window / 4);
        price.output_tokens.map(|own| own.min(room.max(agent.max_output_tokens)))
    }

    /// Returns the expected tokens of the next request of `task` and of the longest answer to it.
    pub(super) fn needed_tokens(&self, task: TaskIndex) -> u64 {
        self.counted(task).expected(self.graph[task].context_tokens).saturating_add(self.output_tokens(task))
    }

    /// Returns the maximum number of tokens of a request of `task` and its answer together. It is the smallest of the task's
    /// limit, the run's limit and the windows of all models that may be asked. `None` if none of them is known.
    pub(super) fn window(&self, task: TaskIndex) -> Option<u64> {
        let (configs, started) = (&self.configs, self.shared.started.as_ref()?);
        let of_model = |name| configs.job.window(name).or_else(|| started.prices.get(name)?.context_tokens);
        let limits = [self.graph[task].limits().context_tokens, configs.job.limits.context_tokens];
        limits.into_iter().flatten().chain(self.model_names(task).filter_map(of_model)).min()
    }

    /// Whether the length of the requests of `task` is kept: something limits it, or a provider may report a limit.
    pub(super) fn is_measured(&self, task: TaskIndex) -> bool {
        self.window(task).is_some() || self.model_names(task).any(|name| self.configs.job.is_provided(name))
    }
}
