//! Published.
