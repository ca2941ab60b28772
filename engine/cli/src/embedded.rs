//! Files that the program carries, so that it needs nothing beside it.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
