//! The summary of a run: result, headline, usage, cost, documents and questions.

use std::time::Duration;

use baton_machine::{Spent, Task};
use baton_types::document::DocumentVersion;
use baton_types::entry::{OnDeadline, QuestionEnd};
use baton_types::id::AgentId;
use baton_types::money::Money;
use serde_json::{Map, Value};

use super::approval;
use super::extent::Extent;
use super::tree::approx;
use super::{Asked, NotUsed, RunView};
use crate::question::{CHOICES_SHOWN, choices};
use crate::shell::baton;
use crate::style;
use crate::text::{Text, text};
use crate::words;

impl RunView {
    /// Renders the result of the root: a string as it is, an object by its fields, any other value as JSON. Texts are wrapped at
    /// `width`.
    pub(crate) fn result_lines(&self, width: Option<usize>) -> Vec<Text> {
        let lines = |text: &str| match width {
            Some(width) => words::wrap(text, width),
            None => vec![Text::block(text)],
        };
        match self.result().map(|result| result.output.value()) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => lines(&text),
            Some(Value::Object(fields)) => match (fields.len(), fields.get("summary").or_else(|| fields.get("result"))) {
                (1, Some(Value::String(text))) => lines(text),
                _ => fields_text(fields, width),
            },
            Some(other) => vec![Text::json(&other)],
        }
    }

    /// Renders the end of the run, and the numbers of its agents, tasks, turns and calls, wrapped between words at `width`.
    pub(crate) fn headline(&self, width: usize) -> Vec<Text> {
        let how = match (self.run.ended(), self.status()) {
            (Some(ended), _) if ended.limit.is_some() => {
                let limit = ended.limit.map(|limit| limit.to_string()).unwrap_or_default();
                style::waiting(format!("✗ stopped at a limit: {limit}"))
            }
            (Some(_), "success") => style::good("✓ completed"),
            (Some(ended), status) if status == ended.state.as_str() => style::bad(format!("✗ {status}")),
            (Some(ended), status) => style::bad(format!("✗ {} ({status})", ended.state.as_str().replace('_', " "))),
            (None, "waiting") => style::waiting("? waits for you"),
            (None, "paused") => style::waiting("‖ paused"),
            (None, "quarantined") => style::waiting("‖ quarantined: three processes that executed it died"),
            (None, "queued") => style::waiting("● queued for a worker"),
            (None, "waiting_for_provider") => style::waiting(text!("● waiting for {}", self.providers_away().join(", "))),
            (None, "interrupted") => style::waiting("● interrupted: no process runs it"),
            (None, _) => style::busy("● not finished"),
        };
        let tasks = self.own_tasks();
        let agents: std::collections::BTreeSet<&AgentId> = tasks.iter().filter_map(|task| task.agent()).collect();
        let numbers = format!(
            "{} · {} · {} · {}",
            words::counted(agents.len(), "agent"),
            words::counted(tasks.len(), "task"),
            words::counted(self.run.totals().turns as usize, "turn"),
            words::counted(self.calls, "call"),
        );
        let line = text!("{}   {numbers}", how);
        if line.width() <= width { vec![line] } else { vec![how, text!("  {numbers}")] }
    }

    /// Returns the tasks of this run, without those of earlier runs that it continues.
    fn own_tasks(&self) -> Vec<&Task> {
        let root = self.run.root();
        let below = root.map(|root| self.run.graph().descendants(&root.id)).unwrap_or_default();
        root.into_iter().chain(below).collect()
    }

    /// Returns the providers for which the run stopped.
    pub(crate) fn providers_away(&self) -> Vec<String> {
        let providers: std::collections::BTreeSet<&String> = self.away.values().map(|waited| &waited.provider).collect();
        providers.into_iter().cloned().collect()
    }

    /// Renders a line for each provider for which the run stopped, with the reason of the outage.
    pub(crate) fn outage_lines(&self) -> Vec<Text> {
        let away: std::collections::BTreeSet<_> = self.away.values().map(|waited| (&waited.provider, &waited.reason)).collect();
        let line = |(provider, reason): (&String, &String)| text!("{}     {provider}: {reason}", style::waiting("waiting"));
        away.into_iter().map(line).collect()
    }

    /// Renders the cost of the run: an amount, `$0 (scripted)` if only scripts answered, `?` if a price is unknown.
    pub(crate) fn cost_words(&self) -> String {
        let prices = self.run.started().map(|started| &started.prices);
        let cost = self.used.cost;
        match cost.total() {
            Some(total) if total.is_zero() && self.is_scripted() => format!("{total} (scripted)"),
            None if !cost.known.is_zero() => format!("? ({} plus models without a known price)", cost.known),
            _ if self.models.iter().any(|model| prices.and_then(|prices| prices.get(model)).is_some_and(|it| it.is_estimate)) => {
                format!("≈{cost} (by the job's own prices)")
            }
            _ => cost.to_string(),
        }
    }

    /// Renders the usage of the tasks that called others, alone and with all tasks below: at most `rows` rows, and the number of
    /// the others.
    pub(crate) fn spent_table(&self, rows: usize, width: usize) -> Vec<Text> {
        let spent = self.spent();
        let words = |Spent { usage, cost }: Spent, not_used: NotUsed| {
            format!("{}{} tok{} · {cost}", approx(usage.estimated), words::count(usage.total()), not_used.words())
        };
        let callers = self.own_tasks().into_iter().filter(|task| !self.run.graph().callees(&task.id).is_empty());
        let mut cells: Vec<Vec<Text>> = callers
            .map(|task| {
                let (whole, not_used) = spent[&task.id];
                let alone = words(self.row(&task.id).used, self.not_used(task));
                let below = words(whole, not_used);
                vec![text!("{}", task.holder), text!("({})", task.id), text!("{alone}"), text!("with all tasks below {below}")]
            })
            .collect();
        let more = cells.len().saturating_sub(rows);
        cells.truncate(rows);
        let mut lines = words::columns(cells.clone());
        if lines.iter().any(|line| line.width() > width) {
            let two_lines = |cells: Vec<Text>| {
                let [name, id, alone, below] = <[Text; 4]>::try_from(cells).unwrap_or_default();
                [text!("{} {}", name, id), text!("  {}", alone), text!("  {}", below)].map(|line| line.cut(width))
            };
            lines = cells.into_iter().flat_map(two_lines).collect();
        }
        if more > 0 {
            lines.push(text!("… {}", words::counted(more, "more task")));
        }
        lines
    }

    /// Renders the line with tokens, cost and time.
    pub(crate) fn tokens(&self) -> String {
        let (usage, cached) = (self.used.usage, self.used.usage.cached_tokens);
        let sign = approx(usage.estimated);
        let text = format!("{sign}{} in · {sign}{} out", words::count(usage.input_tokens), words::count(usage.output_tokens));
        let cached = if cached > 0 { format!(" · {} cached", words::count(cached)) } else { String::new() };
        let not_used = self.not_used_by_run().words();
        let elapsed: Duration = self.run.totals().latest.since(self.began);
        format!("{text}{cached}{not_used} · cost {} · {}", self.cost_words(), words::duration(elapsed))
    }

    /// Renders the line with the part of a fork that comes from its original, and its own usage.
    pub(crate) fn recorded(&self) -> Option<String> {
        let of = self.run.started()?.forked_from.as_ref()?;
        let turns = words::counted(self.fork.turns as usize, "turn");
        let Spent { usage, cost } = self.fork.used;
        let sign = approx(usage.estimated);
        let own = if usage.total() == 0 && cost.total() == Some(Money::ZERO) {
            "nothing".to_owned()
        } else {
            format!(
                "{sign}{} in · {sign}{} out · cost {cost}",
                words::count(usage.input_tokens),
                words::count(usage.output_tokens)
            )
        };
        let recorded = self.fork.recorded_turns;
        Some(format!(
            "{recorded} of {turns} from the recording of {}, shared up to entry {}; spent in this fork: {own}",
            of.run, of.seq
        ))
    }

    /// Renders a table of documents: name with version, size, tokens, author, summary.
    pub(crate) fn document_table(documents: &[&DocumentVersion], width: usize) -> Vec<Text> {
        let rows = documents
            .iter()
            .map(|version| {
                vec![
                    text!("{}", version.reference()),
                    text!("{}", words::size(version.content.size_bytes)),
                    text!("≈{} tok", words::count(version.content.token_count)),
                    text!("{}", Self::author(version)),
                    words::preview(&version.content.summary, width),
                ]
                .into_iter()
                .enumerate()
                // A name could fill the whole line, but the other columns are needed too.
                .map(|(column, cell)| if column == 0 { cell.cut((width / 2).max(20)) } else { cell })
                .collect()
            })
            .collect();
        words::columns(rows).iter().map(|line| line.cut(width)).collect()
    }

    /// Renders an open question: its text, everything that the person needs to decide, and its numbered choices.
    pub(crate) fn question_lines(&self, asked: Asked<'_>, width: usize) -> Vec<Text> {
        let all = baton("show").value(self.id()).option("--question", format_args!("Q{}", asked.question.number)).to_string();
        self.question_lines_within(asked, width, Extent::Bounded(&all))
    }

    /// Renders a question with as many lines as `extent` allows.
    pub(crate) fn question_lines_within(&self, asked: Asked<'_>, width: usize, extent: Extent<'_>) -> Vec<Text> {
        let Asked { task, question } = asked;
        let asker = self.holder(&question.asker);
        let call = self.to_approve(task);
        let preview = self.previews.get(&task.id);
        let plain = match call {
            Some(call) => {
                let title = preview.and_then(|preview| preview.title.as_ref());
                let title = title.map(|title| format!(": {title:?}")).unwrap_or_default();
                let takes_another = !question.answer_schema.value()["properties"]["input"].is_null();
                let how = if takes_another { ", as it is or with another input" } else { "" };
                format!(
                    "{asker} wants to call {}{title} (Q{}). It begins only once you approve it{how}:",
                    call.tool, question.number
                )
            }
            None => format!("{asker} asks (Q{}): {}", question.number, question.text),
        };
        let mut wrapped = words::wrap(&plain, width.saturating_sub(4)).into_iter();
        let first = wrapped.next().unwrap_or_default();
        let first = match first.as_str().strip_prefix(asker.as_str()) {
            Some(rest) => text!("{}{rest}", style::name(&asker)),
            None => first,
        };
        let mut lines = vec![text!("{} {}", style::waiting("?"), first)];
        lines.extend(wrapped.map(|line| text!("  {}", line)));
        if let Some(call) = call {
            let shown = approval::call_lines(call, preview, width.saturating_sub(6), extent);
            lines.extend(shown.into_iter().map(|line| text!("    {}", line)));
        }
        if !question.documents.is_empty() {
            let names: Vec<String> = question.documents.iter().map(ToString::to_string).collect();
            lines.push(text!("  attached: {}", names.join(", ")));
        }
        lines.push(style::faint(format!("  chain: {}", self.chain(asked).join(" → "))));
        if let Some(deadline) = task.deadline {
            let on_deadline = match &question.on_deadline {
                OnDeadline::Default(answer) => text!("the answer is {}", words::preview(answer.text(), 60)),
                OnDeadline::Escalate => text!("it is passed on to the next master"),
                OnDeadline::Fail => text!("the asker continues without an answer"),
            };
            lines.push(style::faint(text!("  until {deadline}; after that {}", on_deadline)));
        }
        let choices = choices(&question.answer_schema);
        if !choices.is_empty() {
            let shown = choices.iter().take(CHOICES_SHOWN).enumerate();
            let mut numbered: Vec<String> = shown.map(|(index, choice)| format!("[{}] {}", index + 1, choice.label)).collect();
            if choices.len() > CHOICES_SHOWN {
                numbered.push(format!("… {} more", choices.len() - CHOICES_SHOWN));
            }
            lines.extend(words::wrap(&numbered.join("   "), width.saturating_sub(4)).iter().map(|line| text!("  {}", line)));
        }
        lines
    }
}

impl Asked<'_> {
    /// Renders the way in which the question closed.
    pub(crate) fn ending(&self) -> Text {
        match self.question.closed.as_deref() {
            None => text!("open"),
            Some(QuestionEnd::Answered { by, answer, recorded }) => {
                text!("{}, answered by {}", words::preview(answer.text(), 80), words::answerer(by, recorded.as_ref()))
            }
            Some(QuestionEnd::Expired { default }) if default.is_null() => text!("expired"),
            Some(QuestionEnd::Expired { default }) => {
                text!("{} (the default, after the deadline)", words::preview(default.text(), 80))
            }
            Some(QuestionEnd::Escalated { to, .. }) => text!("passed on to {to}"),
            Some(QuestionEnd::Failed { reason }) => text!("no answer: {}", words::preview(reason, 80)),
        }
    }
}

/// Renders a result of several fields, one per line if all values are simple. Texts are wrapped at `width`.
fn fields_text(fields: Map<String, Value>, width: Option<usize>) -> Vec<Text> {
    if fields.values().any(|value| value.is_array() || value.is_object()) {
        return vec![Text::json(&Value::Object(fields))];
    }
    let value_text = |value: &Value| value.as_str().map_or_else(|| text!("{value}"), Text::block);
    let names = fields.keys().map(|name| text!("{name}").width()).max().unwrap_or(0) + 2;
    let Some(width) = width.filter(|width| *width >= 2 * names) else {
        let rows = fields.iter().map(|(name, value)| vec![text!("{name}"), value_text(value)]).collect();
        return words::columns(rows);
    };
    let field = |(name, value): (&String, &Value)| {
        let mut lines = words::wrap(value_text(value).as_str(), width - names).into_iter();
        let first = text!("{}{}", text!("{name}").padded(names), lines.next().unwrap_or_default());
        let rest: Vec<Text> = lines.map(|line| text!("{}{}", Text::default().padded(names), line)).collect();
        std::iter::once(first).chain(rest).map(Text::trimmed_end).collect::<Vec<_>>()
    };
    fields.iter().flat_map(field).collect()
}
