//! Injected faults, and their numbers.

use crate::random::Random;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A process dies between two steps; a commit of it that was under way may or may not take hold.
    Crash,
    /// A process dies after its commit, with some of its effects begun.
    CrashAmidEffects,
    /// The store refuses a batch: nothing of it is written.
    StoreError,
    /// The store writes a batch and the answer is lost.
    LostAnswer,
    /// A process sleeps past its lease, and another may take the run over.
    Sleep,
    /// A process that slept wakes up and continues as if nothing had happened.
    Wake,
    /// A commit of an epoch that is over was tried.
    StaleCommit,
    /// An answer of a model or a tool comes twice.
    Duplicate,
    /// An answer comes after its call or task was stopped.
    Late,
    /// The answer to nothing that was asked.
    Foreign,
    /// Messages in a mailbox come in another order.
    Reorder,
    /// The clock jumps an hour forward.
    Forward,
    /// The clock jumps an hour back.
    Back,
    /// Somebody cancels a task.
    Cancel,
    /// Somebody answers a question, perhaps with nonsense.
    Answer,
    /// Two commands race for the same task or question.
    Race,
    /// Somebody pauses the run.
    Pause,
    /// A paused run continues.
    Unpause,
    /// A process gets a stop. It makes no request any more, and releases the run when nothing is in progress.
    Stop,
    /// Somebody sends a message into a task.
    Steer,
    /// A provider is away for a while, and the request stays open.
    Away,
    /// A process stops because a provider is away.
    Outage,
    /// Somebody delivers a result, perhaps for a call that is not suspended.
    Deliver,
    /// A process does not renew its lease in time, and works on: its run is taken from it.
    LostLease,
    /// Another process was faster to take the run over.
    Raced,
    /// The bus loses a message.
    LostMessage,
    /// The bus stores a message twice.
    DoubledMessage,
    /// The bus delivers a message late.
    DelayedMessage,
    /// The acknowledgement of a message is lost.
    LostAcknowledgement,
    /// A message comes again, since it was not acknowledged in time.
    Redelivery,
    /// The bus loses everything.
    EmptyBus,
    /// A tool service gets the command of a call that it has executed.
    RepeatedCommand,
    /// A tool service dies after the effect of a call, and before its callback.
    ServiceCrash,
    /// A callback names an epoch that is over, or not there yet.
    StaleCallback,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 34] = [
        Self::Crash,
        Self::CrashAmidEffects,
        Self::StoreError,
        Self::LostAnswer,
        Self::Sleep,
        Self::Wake,
        Self::StaleCommit,
        Self::Duplicate,
        Self::Late,
        Self::Foreign,
        Self::Reorder,
        Self::Forward,
        Self::Back,
        Self::Cancel,
        Self::Answer,
        Self::Race,
        Self::Pause,
        Self::Unpause,
        Self::Stop,
        Self::Steer,
        Self::Away,
        Self::Outage,
        Self::Deliver,
        Self::LostLease,
        Self::Raced,
        Self::LostMessage,
        Self::DoubledMessage,
        Self::DelayedMessage,
        Self::LostAcknowledgement,
        Self::Redelivery,
        Self::EmptyBus,
        Self::RepeatedCommand,
        Self::ServiceCrash,
        Self::StaleCallback,
    ];

    /// Returns a fault that may come at any step; the others affect work in progress.
    pub(super) fn any(random: &mut Random, straight: bool) -> Self {
        use Fault::{
            Answer, Back, Cancel, Crash, Deliver, Duplicate, EmptyBus, Foreign, Forward, LostLease, Outage, Pause, Race, Sleep,
            Steer, Stop, Unpause, Wake,
        };
        // Actions of people change the result, so a straight job has none.
        let disturbing = [
            Crash, Crash, Sleep, Wake, Wake, LostLease, Duplicate, Foreign, Forward, Back, Pause, Unpause, Outage, Stop, EmptyBus,
        ];
        let by_people = [Cancel, Answer, Answer, Race, Steer, Deliver, Deliver];
        let choice = random.below(disturbing.len() + if straight { 0 } else { by_people.len() });
        disturbing.get(choice).copied().unwrap_or_else(|| by_people[choice - disturbing.len()])
    }
}

/// Number of injected faults of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Default for Faults {
    fn default() -> Self {
        Self([0; Fault::ALL.len()])
    }
}

impl Faults {
    /// Counts one more.
    pub fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Returns the number of injected faults of this kind.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// Returns the number of all faults.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds what another run counted.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }
}
