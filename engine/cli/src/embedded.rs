//! Files that are compiled into the program, so that it needs no others.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
