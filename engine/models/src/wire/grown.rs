//! The bytes of a conversation, extended by new messages: a turn costs only what is new since the previous one.

use std::collections::HashMap;
use std::sync::Arc;

use baton_types::document::Content;
use baton_types::id::ContentHash;
use baton_types::message::Message;

use super::content::{Ids, Said};
use super::{Dialect, Features};

/// A conversation as the items of a request's list, with commas between them.
///
/// Messages are known again by their allocation: it is kept here, so no other can take its place.
#[derive(Debug)]
pub struct Grown {
    dialect: Dialect,
    features: Features,
    vendor: String,
    messages: Vec<Worded>,
    bytes: Vec<u8>,
    ids: Ids,
}

/// An encoded message.
#[derive(Debug)]
struct Worded {
    message: Arc<Message>,
    /// Number of bytes up to and including it.
    end: usize,
    /// Number of call ids up to and including it.
    ids: usize,
}

impl Grown {
    /// Returns an empty conversation. `vendor` gets its reasoning blocks back.
    pub fn new(dialect: Dialect, features: Features, vendor: &str) -> Self {
        let (messages, bytes, ids) = (Vec::new(), Vec::new(), Ids::new(features.has_short_ids));
        Self { dialect, features, vendor: vendor.to_owned(), messages, bytes, ids }
    }

    /// Whether it is encoded in this dialect.
    pub fn is_for(&self, dialect: Dialect, features: Features, vendor: &str) -> bool {
        self.dialect == dialect && self.features == features && self.vendor == vendor
    }

    /// Returns the number of leading `messages` that are encoded already.
    pub fn known(&self, messages: &[Arc<Message>]) -> usize {
        self.messages.iter().zip(messages).take_while(|(worded, message)| Arc::ptr_eq(&worded.message, message)).count()
    }

    /// Extends the conversation to `messages`; `contents` has the documents of new ones. Returns the number of bytes
    /// encoded for that.
    pub fn grow(&mut self, messages: &[Arc<Message>], contents: &HashMap<ContentHash, Content>) -> usize {
        let known = self.known(messages);
        self.messages.truncate(known);
        let (end, ids) = self.messages.last().map_or((0, 0), |last| (last.end, last.ids));
        self.bytes.truncate(end);
        self.ids.truncate(ids);
        for message in &messages[known..] {
            let said = Said::of(message, &self.vendor, &mut self.ids, contents, self.features.frames);
            for item in said.map(|said| self.dialect.word(&said, &self.vendor, self.features)).unwrap_or_default() {
                if !self.bytes.is_empty() {
                    self.bytes.push(b',');
                }
                serde_json::to_writer(&mut self.bytes, &item).expect("a JSON tree always serialises");
            }
            self.messages.push(Worded { message: Arc::clone(message), end: self.bytes.len(), ids: self.ids.len() });
        }
        self.bytes.len() - end
    }

    /// Returns the items.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
