//! What must hold of every run, by number, and what a checker found broken.

/// The invariants. Those that no timeline can show say where they are proven instead: see [`Invariant::proven_by`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// A blocked task waits for something that can still come.
    I1,
    /// The commit that ends a task gives its caller the result.
    I2,
    /// Delegations and questions form a forest, and nothing waits in a circle.
    I3,
    /// Every call has at most one result, and exactly one before its task asks its model again.
    I4,
    /// Entries are numbered without gaps, in the order of what they tell of.
    I5,
    /// The state is the fold of the timeline.
    I6,
    /// Requests are a pure function of the timeline.
    I7,
    /// Requests are ones a provider takes.
    I8,
    /// One turn of a task runs at a time; nothing of an older epoch takes hold.
    I9,
    /// What has ended stays as it ended.
    I10,
    /// A task ends only when nothing below it lives.
    I11,
    /// No effect happens twice; what is in doubt is said and not repeated.
    I12,
    /// What was acknowledged survives any crash.
    I13,
    /// Versions of a document run from 1, each made from the one before.
    I14,
    /// Nobody reads, writes or calls what was not granted.
    I15,
    /// What is handed over arrives once, at the version it was pinned to.
    I16,
    /// What was begun is what ended and what is under way; what was used is what was settled.
    I17,
    /// Limits hold at all times, on a task and on all above it.
    I18,
    /// Nothing begins below what was cancelled.
    I19,
    /// Once faults stop, every run ends.
    I20,
    /// What a tool does is the row of its type.
    I21,
    /// Every question has one end.
    I22,
    /// No secret stands in anything that is kept or sent elsewhere.
    I23,
    /// What happens after a call is never read from its content.
    I24,
}

impl Invariant {
    /// All of them, in order.
    pub const ALL: [Self; 24] = [
        Self::I1,
        Self::I2,
        Self::I3,
        Self::I4,
        Self::I5,
        Self::I6,
        Self::I7,
        Self::I8,
        Self::I9,
        Self::I10,
        Self::I11,
        Self::I12,
        Self::I13,
        Self::I14,
        Self::I15,
        Self::I16,
        Self::I17,
        Self::I18,
        Self::I19,
        Self::I20,
        Self::I21,
        Self::I22,
        Self::I23,
        Self::I24,
    ];

    /// Where it is proven, if no timeline can break it: such an invariant is about the world round the timeline.
    pub const fn proven_by(self) -> Option<&'static str> {
        match self {
            Self::I13 => Some("the tests of the store and of recovery: acknowledged is durable"),
            Self::I20 => Some("the simulation: every run ends once its faults stop"),
            Self::I23 => Some("the tests of secrets: their bytes are looked for wherever the engine writes"),
            _ => None,
        }
    }
}

impl std::fmt::Display for Invariant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// One thing that a timeline says and must not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it breaks.
    pub invariant: Invariant,
    /// The entry after which it is broken.
    pub seq: u64,
    /// What is wrong, with names.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at entry {}: {}", self.invariant, self.seq, self.what)
    }
}
