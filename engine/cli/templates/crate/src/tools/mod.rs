//! The tools of this crate: a function here, its config of the same name in `tool-configs/`.

mod vowel_count;
