//! Content blocks (being written).
/// being written
pub fn content_block() {}
/// being written
pub fn message_blocks() {}
