//! Number of attempted attacks, and the attacks with an effect that they should not have.

/// Extent of the trials of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A sample for the everyday tests.
    Everyday,
    /// Everything.
    Full,
}

/// The outcome of one area.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Attacks that were tried.
    pub tried: usize,
    /// A sentence for each attack that had an effect.
    pub escaped: Vec<String>,
}

impl Tally {
    /// Counts one attack; `escape` describes its effect, if it had one.
    pub fn count(&mut self, escape: Option<String>) {
        self.tried += 1;
        self.escaped.extend(escape);
    }
}
