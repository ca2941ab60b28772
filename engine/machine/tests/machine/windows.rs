//! Compactions of seeded tasks, checked by a second implementation of the rule.
//!
//! At four fifths of the window, turns are replaced if they make up at least a tenth of it. Beyond the window, any
//! turns are replaced. At most the newest four stay, as far as half of the window remains free, and the newest always
//! stays. A digest takes at most 2,000 tokens, an eighth of the window and half of the turns that it replaces.

use std::collections::BTreeSet;

use baton_proof::random::Random;
use baton_proof::sim::Work;
use baton_types::entry::{Compacted, Entry, ModelRequested, Notice};
use baton_types::event::Outcome;
use baton_types::limits::{LimitKind, Limits};
use baton_types::message::{Part, Role, request_tokens};
use serde_json::json;

use crate::support::jobs::JobDraft;
use crate::support::script::{Answer, Prompted};
use crate::support::{Sim, agent, call, function, handoff, job, says, turn, write};

/// The most tokens of an answer here.
const OUTPUT: u64 = 100;
/// Tokens of the words round a summary.
const FRAME: u64 = 48;
/// Tokens of the words that ask for a summary.
const ASKING: u64 = 128;

fn worker(window: u64, by_model: bool) -> JobDraft {
    let limits = Limits { context_tokens: Some(window), turns: Some(200), ..Limits::default() };
    let root = agent("root", "work").limits(limits).settings(json!({"max_tokens": OUTPUT}));
    job([if by_model { root.summarises() } else { root }]).tool(function("work"))
}

/// Calls the tool once for each of `lengths`, in turns of about so many tokens. They are tokens of the calls, which no request
/// leaves out. Every summary that is asked for is `summary`.
fn works(draft: &JobDraft, lengths: Vec<usize>, summary: String) -> Sim {
    let mut worked = 0;
    let mut lengths = lengths.into_iter();
    let model = move |prompted: &Prompted<'_>| -> Answer {
        let asked = prompted.request.messages.last().and_then(|message| message.parts.last());
        if matches!(asked, Some(Part::Notice(Notice::Summarise { .. }))) {
            return Ok(says(&summary));
        }
        worked += 1;
        Ok(turn([match lengths.next() {
            None => handoff("done"),
            Some(tokens) => call("work", &format!("{worked} {}", "x".repeat(4 * tokens))),
        }]))
    };
    Sim::new(draft).agent_with("root", model).tool("work", |_| Outcome::success(json!("ok")))
}

/// A request whose length is remembered.
struct Mark {
    turn: u32,
    tokens: u64,
}

/// The rule, applied to the entries of one task.
#[derive(Default)]
struct Rule {
    window: u64,
    by_model: bool,
    base: u64,
    through: u32,
    turns: u32,
    marks: Vec<Mark>,
    /// The turn that was asked for a summary, and the last turn that the summary will replace.
    asked: Option<(u32, u32)>,
    /// Turns that only wrote summaries, which no later request shows.
    summaries: Vec<u32>,
    /// The length that a compaction has just left.
    left: Option<u64>,
    /// The newest turn when that was.
    compacted_at: u32,
    digests: u32,
    /// The most bytes of the digest.
    most_bytes: u64,
    /// Whether lines were left out of the digest, and of the one before it.
    is_cut: bool,
    was_cut: bool,
    /// Which edges of the rule were met.
    met: BTreeSet<&'static str>,
}

impl Rule {
    fn digest(&self, dropped: u64) -> u64 {
        [2_000, self.window / 8, dropped / 2].into_iter().min().unwrap().max(FRAME)
    }

    /// Returns the last turn that is replaced before a request of `input` tokens, and the tokens of the replaced
    /// turns.
    fn plan(&mut self, input: u64, again: bool) -> Option<(u32, u64)> {
        let needed = input + OUTPUT;
        let bound = if again { self.window } else { self.window - self.window / 5 };
        self.meet(needed == bound, "the bound");
        if needed <= bound {
            return None;
        }
        let (mut chosen, mut leaves_half) = (None, false);
        for at in 0..self.marks.len() {
            let Mark { turn, tokens } = self.marks[at];
            // The first remaining turn is replaced as a whole, or stays as a whole.
            if turn <= self.through + 1 {
                continue;
            }
            let dropped = tokens - self.base;
            self.meet(dropped == 2 * FRAME && needed > self.window, "the least that gives way");
            if dropped <= 2 * FRAME {
                continue;
            }
            if !leaves_half {
                let rest = input - dropped + self.digest(dropped) + OUTPUT;
                self.meet(rest == self.window / 2, "half of the window");
                leaves_half = rest <= self.window / 2;
                chosen = Some((turn - 1, dropped));
            }
        }
        let (through, dropped) = chosen?;
        self.meet(needed <= self.window && dropped == self.window / 10, "a tenth of the window");
        self.meet(needed == self.window && dropped <= self.window / 10, "the window");
        (needed > self.window || dropped > self.window / 10).then_some((through, dropped))
    }

    fn meet(&mut self, is_met: bool, edge: &'static str) {
        if is_met {
            self.met.insert(edge);
        }
    }

    fn requested(&mut self, asked: &ModelRequested) {
        let again = asked.turn == self.turns;
        assert!(asked.input_tokens + OUTPUT <= self.window && asked.reserved_tokens == asked.input_tokens + OUTPUT, "{asked:?}");
        match (asked.notice.as_ref(), self.left.take()) {
            (_, Some(left)) => assert_eq!(asked.input_tokens, left, "what a compaction leaves is what is asked next"),
            (Some(Notice::Summarise { through_turn }), None) if !again => {
                // The request itself asks for the summary, and its turns are those that the summary may replace.
                let plan = self.plan(asked.input_tokens, false);
                assert_eq!(plan.map(|plan| plan.0), Some(*through_turn), "{asked:?}");
                let with_asking = asked.input_tokens + OUTPUT + ASKING;
                self.meet(with_asking == self.window, "room for asking");
                assert!(self.by_model && with_asking <= self.window, "{asked:?}");
                self.asked = Some((asked.turn, *through_turn));
            }
            // A crash asks for it again.
            (Some(Notice::Summarise { .. }), None) => assert!(self.asked.is_some()),
            (_, None) => assert_eq!(self.plan(asked.input_tokens, again), None, "{asked:?}"),
        }
        if !again {
            if self.turns == 0 {
                self.base = asked.input_tokens;
            }
            self.turns = asked.turn;
            self.marks.push(Mark { turn: asked.turn, tokens: asked.input_tokens });
            let kept = 4 + usize::from(self.asked.is_some());
            self.marks.drain(..self.marks.len().saturating_sub(kept));
        }
    }

    fn compacted(&mut self, compacted: &Compacted) {
        let mark = self.marks.iter().find(|mark| mark.turn == compacted.through_turn + 1).expect("a turn that is remembered");
        let dropped = mark.tokens - self.base;
        let before = compacted.context_tokens - compacted.summary_tokens + dropped;
        let asked = self.asked.take();
        self.summaries.extend(asked.map(|asked| asked.0));
        if let Some((_, through)) = asked {
            assert_eq!(compacted.through_turn, through, "{compacted:?}");
        } else {
            assert_eq!(self.plan(before, false), Some((compacted.through_turn, dropped)), "{compacted:?}");
            // Only where there is no room to ask for a summary is none asked for.
            assert!(!self.by_model || before + OUTPUT + ASKING > self.window, "{compacted:?}");
        }
        let expected = match &compacted.summary {
            Some(text) => text.len() as u64 / 4 + FRAME,
            None => self.digest(dropped),
        };
        assert_eq!(compacted.summary_tokens, expected, "{compacted:?}");
        assert!(compacted.summary.is_none() || expected < dropped, "a summary is shorter than what it replaces: {compacted:?}");
        self.meet(compacted.summary.is_some() && expected + 1 == dropped, "the longest summary");
        self.meet(asked.is_some() && compacted.summary.is_none(), "a summary that was too long");
        self.meet(compacted.through_turn < self.compacted_at, "a turn that stays twice");
        (self.compacted_at, self.most_bytes) = (self.turns, 4 * (compacted.summary_tokens - FRAME));
        (self.digests, self.was_cut) = (self.digests + 1, self.is_cut);
        self.through = compacted.through_turn;
        self.marks.retain(|mark| mark.turn > compacted.through_turn && Some(mark.turn) != asked.map(|asked| asked.0));
        for mark in &mut self.marks {
            mark.tokens -= before - compacted.context_tokens;
        }
        self.left = Some(compacted.context_tokens);
    }
}

/// Runs `sim` to its end and checks it against the rule; `crashes` decides when another process takes it over.
fn holds(mut sim: Sim, window: u64, by_model: bool, mut crashes: impl FnMut() -> bool) -> Rule {
    let mut rule = Rule { window, by_model, ..Rule::default() };
    sim.begin(Vec::new());
    let mut seen = 0;
    loop {
        for recorded in &sim.timeline[seen..] {
            match &recorded.entry {
                Entry::ModelRequested(asked) => rule.requested(asked),
                Entry::Compacted(compacted) => rule.compacted(compacted),
                _ => {}
            }
        }
        seen = sim.timeline.len();
        if let Some(Work::Prompt { request, turn, .. }) = sim.pending.first() {
            let answers = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
            let gone = rule.summaries.iter().filter(|summary| **summary > rule.through).count();
            assert_eq!(answers + gone, (turn - 1 - rule.through) as usize, "every later turn is there, and no other");
            shown(&request.messages[0].parts, &mut rule);
        }
        if crashes() && !sim.ended {
            sim.crash();
        } else if !sim.step() {
            break;
        }
    }
    sim.assert_over();
    if limit_of_root(&sim) == Some(LimitKind::Context) {
        let input = sim.run.task(&"0".into()).unwrap().context_tokens;
        assert!(input + OUTPUT > window && rule.plan(input, false).is_none(), "it could have gone on with {input}");
    }
    rule
}

fn limit_of_root(sim: &Sim) -> Option<LimitKind> {
    sim.entries().find_map(|entry| if let Entry::TaskEnded(ended) = entry { ended.limit } else { None })
}

/// More bytes than a line of a digest has here.
const LINE_BYTES: u64 = 300;

/// Checks that a digest is no longer than its counted size, and covers every turn that it replaces, unless it notes a
/// lack of room.
fn shown(opening: &[Part], rule: &mut Rule) {
    let Some(text) = opening.iter().find_map(|part| if let Part::Summary { text, .. } = part { Some(text) } else { None }) else {
        return;
    };
    if rule.by_model || text.is_empty() {
        return;
    }
    let (bytes, most) = (text.len() as u64, rule.most_bytes);
    assert!(bytes <= most, "{bytes} bytes of at most {most}");
    rule.is_cut = text.starts_with("(earlier lines are left out)");
    if rule.is_cut {
        assert_eq!(text.matches("(earlier").count(), 1, "{text}");
        assert!(rule.was_cut || bytes + LINE_BYTES > most, "nothing had to be left out: {text}");
        rule.meet(true, "a digest that was cut");
    } else {
        assert_eq!(text.lines().count(), rule.through as usize, "a line for each turn: {text}");
        rule.meet(rule.digests > 1, "a second digest that is whole");
    }
}

#[test]
fn older_turns_give_way_by_the_rule_whatever_the_results_are() {
    let mut met = BTreeSet::new();
    for seed in 0..120 {
        let mut random = Random::seeded(seed);
        let (window, by_model) = (1_500 + 10 * random.below(400) as u64, random.once_in(3));
        let lengths = |random: &mut Random| match random.below(8) {
            0..=3 => random.below(60),
            4..=6 => 100 + random.below(400),
            _ => random.below(window as usize / 2),
        };
        let results = (0..40).map(|_| lengths(&mut random)).collect();
        let summary = "word".repeat(random.below(60) + 1);
        let sim = works(&worker(window, by_model), results, summary);
        met.append(&mut holds(sim, window, by_model, || random.once_in(12)).met);
    }
    // Long and short turns by turns: some stay in two compactions after each other.
    for seed in 0..200 {
        let mut random = Random::seeded(seed);
        let window = 4_000;
        let lengths = [1_150 + random.below(100), 20 + random.below(60), 500 + random.below(300), 700 + random.below(300)];
        let results = (0..20).map(|_| *random.pick(&lengths)).collect();
        let by_model = random.once_in(2);
        let sim = works(&worker(window, by_model), results, "word".to_owned());
        met.append(&mut holds(sim, window, by_model, || false).met);
    }
    // Each edge once exactly: results one token longer from run to run, before and after the turns that may be
    // replaced.
    for tokens in 0..300 {
        for results in [[tokens, 900], [tokens, 1_300], [60, 700 + tokens], [90, 1_000 + tokens]] {
            let window = 1_500;
            met.append(&mut holds(works(&worker(window, false), results.to_vec(), String::new()), window, false, || false).met);
        }
        for results in [vec![300, 500 + tokens], vec![300, 800 + tokens]] {
            met.append(&mut holds(works(&worker(1_500, true), results, "word".to_owned()), 1_500, true, || false).met);
        }
    }
    // Summaries one token longer from run to run.
    for words in 250..350 {
        let sim = works(&worker(1_500, true), vec![300, 700], "word".repeat(words));
        met.append(&mut holds(sim, 1_500, true, || false).met);
    }
    let edges = ["the bound", "the window", "half of the window", "a tenth of the window", "the least that gives way"];
    let kinds = [
        "room for asking",
        "a digest that was cut",
        "a second digest that is whole",
        "a turn that stays twice",
        "the longest summary",
        "a summary that was too long",
    ];
    for edge in edges.into_iter().chain(kinds) {
        assert!(met.contains(edge), "{edge} was never met: {met:?}");
    }
}

#[test]
fn the_documents_of_a_request_count_after_older_turns_were_replaced() {
    let (window, document) = (4_000, 1_200);
    let mut turns = 0;
    let sim = Sim::new(&worker(window, false))
        .agent_with("root", move |prompted| {
            assert!(request_tokens(prompted.request) + OUTPUT < window, "{} in a turn", request_tokens(prompted.request));
            turns += 1;
            Ok(turn([if turns <= 30 { call("work", &format!("{turns} {}", "x".repeat(1_000))) } else { handoff("done") }]))
        })
        .tool("work", |_| Outcome::success(json!("ok")))
        .start_with(vec![write("a.md", &"word".repeat(document))]);
    sim.assert_over();
    let left =
        sim.entries().filter_map(|entry| if let Entry::Compacted(left) = entry { Some(left.context_tokens) } else { None });
    let left: Vec<u64> = left.collect();
    assert!(left.len() > 2 && left.iter().all(|left| *left > document as u64), "{left:?}");
    let shown = |part: &Part| matches!(part, Part::Document(version) if version.path.as_str() == "a.md");
    assert_eq!(sim.request("0").messages[0].parts.iter().filter(|part| shown(part)).count(), 1, "the request stays as it was");
    assert_eq!(limit_of_root(&sim), None);
}
