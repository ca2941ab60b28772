//! Expected outcome of a mixed turn, derived only from the text of docs/RULES.md.

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Function,
    Note,
    Handoff,
    Delegate,
    Ask,
    Invalid,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [Self::Function, Self::Note, Self::Handoff, Self::Delegate, Self::Ask, Self::Invalid];

    /// Returns true for delegations, questions and the handoff, which act last (rule 3).
    pub(crate) fn acts_last(self) -> bool {
        matches!(self, Self::Delegate | Self::Ask | Self::Handoff)
    }

    /// Returns true for delegations and questions, which block the caller (rule 3).
    pub(crate) fn blocks(self) -> bool {
        matches!(self, Self::Delegate | Self::Ask)
    }
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its result is a success.
    Success,
    /// It is refused, when the turn arrives or when the handoff would act.
    Refused,
}

/// Outcome of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The handoff ended it.
    Ends,
    /// It waits for others first, then its agent is prompted.
    BlocksThenPrompted,
    /// Its agent is prompted.
    Prompted,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) fates: Vec<Fate>,
    pub(crate) next: Next,
}

/// Returns the row of a turn that makes calls of `kinds`, where everything that can succeed does.
pub(crate) fn row(kinds: &[Kind]) -> Row {
    let handoffs = kinds.iter().filter(|kind| **kind == Kind::Handoff).count();
    let any_blocks = kinds.iter().any(|kind| kind.blocks());
    let any_invalid = kinds.contains(&Kind::Invalid);
    // Rule 4: the only handoff of the turn, no other call blocks, every other call ended in success.
    let effective = handoffs == 1 && !any_blocks && !any_invalid;
    let fate = |kind: &Kind| match kind {
        Kind::Function | Kind::Note | Kind::Delegate | Kind::Ask => Fate::Success,
        Kind::Handoff if effective => Fate::Success,
        Kind::Handoff | Kind::Invalid => Fate::Refused,
    };
    // Rule 5: (a) an effective handoff; nothing here terminates (b); (c) whatever is left returns to the agent,
    // once the last result is in.
    let next = match (effective, any_blocks) {
        (true, _) => Next::Ends,
        (false, true) => Next::BlocksThenPrompted,
        (false, false) => Next::Prompted,
    };
    Row { fates: kinds.iter().map(fate).collect(), next }
}

/// Returns every ordered pair and triple of kinds.
pub(crate) fn mixtures() -> Vec<Vec<Kind>> {
    let pairs = Kind::ALL.iter().flat_map(|first| Kind::ALL.iter().map(move |second| vec![*first, *second]));
    let pairs: Vec<Vec<Kind>> = pairs.collect();
    let triples = pairs.iter().flat_map(|pair| Kind::ALL.iter().map(move |third| [pair.as_slice(), &[*third]].concat()));
    pairs.iter().cloned().chain(triples).collect()
}

#[test]
fn there_are_252_mixtures_of_two_or_three_kinds() {
    let all = mixtures();
    assert_eq!(all.len(), 252);
    let ends = all.iter().filter(|kinds| row(kinds).next == Next::Ends).count();
    // One handoff among functions and notes: 2 places × 2 for pairs, 3 places × 2 × 2 for triples.
    assert_eq!(ends, 4 + 12);
}
