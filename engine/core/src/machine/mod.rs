//! One run as a value (being written).
/// One run.
#[derive(Debug)]
pub struct Run {}
