//! The invariants of a run, by name, and what a checker found broken.

/// The invariants, in the order of `docs/RULES.md`, which has the tests of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// A blocked task waits for something that can still come.
    BlockedTaskCanWake,
    /// The commit that ends a task gives its caller the result.
    EndingWakesTheCaller,
    /// Every task but the root has one caller, and nothing waits in a cycle.
    TasksFormATree,
    /// A call has at most one result, and exactly one before its agent is asked again.
    EveryCallHasOneResult,
    /// Entries are numbered without gaps, and their times never step back.
    TimelineHasNoGaps,
    /// The state is the fold of the timeline.
    StateIsTheFold,
    /// A request is a pure function of the timeline.
    RequestsAreReproducible,
    /// A provider accepts the order of messages in a request.
    RequestsAreValid,
    /// One turn of a task is open at a time, and a commit with an older epoch is refused.
    OneOwnerOneTurn,
    /// Nothing happens in a task after its end.
    EndedStaysEnded,
    /// A task ends only when every task below it has ended.
    CalleesEndFirst,
    /// No effect happens twice. A call with an unknown outcome is reported and not repeated.
    NoEffectTwice,
    /// Acknowledged entries survive any crash. Proven by the tests of the store and of recovery.
    AcknowledgedIsDurable,
    /// Versions of a document run from 1, each with the one before as its base.
    VersionsFormAChain,
    /// No task reads, writes or calls what its agent was not granted.
    OnlyTheGrantedIsUsed,
    /// An attached document arrives once, at its pinned version.
    HandedOverArrivesOnce,
    /// Everything begun has ended or is in progress, and everything used is settled.
    BooksBalance,
    /// No request begins beyond a limit of its task or of a task above it.
    LimitsHold,
    /// Nothing begins below a cancelled task.
    CancelledStaysQuiet,
    /// Every run ends once faults stop. Proven by the simulation.
    EveryRunEnds,
    /// The row of its tool's type decides what a call does.
    TypeDecidesBehaviour,
    /// Every question has exactly one end.
    EveryQuestionHasOneEnd,
    /// No secret is stored, printed, logged or sent elsewhere. Proven by the tests of secrets.
    NoSecretIsKept,
    /// The next step after a call is never read from its content.
    ContentControlsNothing,
    /// A delegation whose config asks for acceptance succeeds only with a recorded yes for exactly its result.
    ResultsAreAccepted,
}

impl Invariant {
    /// All of them, in order.
    pub const ALL: [Self; 25] = [
        Self::BlockedTaskCanWake,
        Self::EndingWakesTheCaller,
        Self::TasksFormATree,
        Self::EveryCallHasOneResult,
        Self::TimelineHasNoGaps,
        Self::StateIsTheFold,
        Self::RequestsAreReproducible,
        Self::RequestsAreValid,
        Self::OneOwnerOneTurn,
        Self::EndedStaysEnded,
        Self::CalleesEndFirst,
        Self::NoEffectTwice,
        Self::AcknowledgedIsDurable,
        Self::VersionsFormAChain,
        Self::OnlyTheGrantedIsUsed,
        Self::HandedOverArrivesOnce,
        Self::BooksBalance,
        Self::LimitsHold,
        Self::CancelledStaysQuiet,
        Self::EveryRunEnds,
        Self::TypeDecidesBehaviour,
        Self::EveryQuestionHasOneEnd,
        Self::NoSecretIsKept,
        Self::ContentControlsNothing,
        Self::ResultsAreAccepted,
    ];

    /// Returns the name by which reports and `docs/RULES.md` call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BlockedTaskCanWake => "blocked_task_can_wake",
            Self::EndingWakesTheCaller => "ending_wakes_the_caller",
            Self::TasksFormATree => "tasks_form_a_tree",
            Self::EveryCallHasOneResult => "every_call_has_one_result",
            Self::TimelineHasNoGaps => "timeline_has_no_gaps",
            Self::StateIsTheFold => "state_is_the_fold",
            Self::RequestsAreReproducible => "requests_are_reproducible",
            Self::RequestsAreValid => "requests_are_valid",
            Self::OneOwnerOneTurn => "one_owner_one_turn",
            Self::EndedStaysEnded => "ended_stays_ended",
            Self::CalleesEndFirst => "callees_end_first",
            Self::NoEffectTwice => "no_effect_twice",
            Self::AcknowledgedIsDurable => "acknowledged_is_durable",
            Self::VersionsFormAChain => "versions_form_a_chain",
            Self::OnlyTheGrantedIsUsed => "only_the_granted_is_used",
            Self::HandedOverArrivesOnce => "handed_over_arrives_once",
            Self::BooksBalance => "books_balance",
            Self::LimitsHold => "limits_hold",
            Self::CancelledStaysQuiet => "cancelled_stays_quiet",
            Self::EveryRunEnds => "every_run_ends",
            Self::TypeDecidesBehaviour => "type_decides_behaviour",
            Self::EveryQuestionHasOneEnd => "every_question_has_one_end",
            Self::NoSecretIsKept => "no_secret_is_kept",
            Self::ContentControlsNothing => "content_controls_nothing",
            Self::ResultsAreAccepted => "results_are_accepted",
        }
    }
}

impl std::fmt::Display for Invariant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// An entry of a timeline that breaks an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The broken invariant.
    pub invariant: Invariant,
    /// The number of the entry after which it is broken.
    pub seq: u64,
    /// The fault, with names.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at entry {}: {}", self.invariant, self.seq, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::Invariant;

    #[test]
    fn the_page_of_rules_lists_every_invariant_in_order() {
        let page = include_str!("../../../docs/RULES.md");
        let (_, invariants) = page.split_once("| name | holds after every commit |").unwrap();
        let listed: Vec<&str> = invariants.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        assert_eq!(listed, Invariant::ALL.map(Invariant::name));
    }
}
