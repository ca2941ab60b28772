//! Tools over the web: searched, and read page by page.
//!
//! [`Fetcher`] is the only way from here to the web. It asks public hosts and those that a person allows, and takes answers
//! of bounded size; what comes back is hostile text, and is written into documents that say so.

mod body;
mod browser;
mod engines;
mod fetch;
mod guard;
mod markdown;
mod page;
mod search;

pub use body::Excess;
pub use fetch::{Answer, Bounds, FetchError, Fetcher, Page, Request, Resolver, SystemResolver};
pub use guard::{Allowed, Refusal};

#[cfg(test)]
pub(crate) use fetch::site;
