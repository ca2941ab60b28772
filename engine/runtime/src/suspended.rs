//! Suspended calls: the keys by which results are delivered.
//!
//! A key names its run and its call, and proves that its bearer was given it: the proof is a hash of both with the secret of the
//! store. So the key of a call is known before its code starts, stays the same after any number of restarts, and is kept nowhere.
//! The timeline does not have it, and neither has an export. The call with the same id in a fork has another key.

use baton_types::id::{CallId, ContentHash, RunId};

/// The hexadecimal digits of a proof: 128 bits.
const PROOF_DIGITS: usize = 32;

/// Secret with which a store proves its keys.
pub(crate) type Secret = [u8; 32];

/// Returns the key of `call` in `run`: `RUN:CALL:PROOF`, of characters that shells and addresses take as they are.
pub(crate) fn key(secret: &Secret, run: &RunId, call: &CallId) -> String {
    let call_text = call.as_str().replace('/', "_");
    let proof = ContentHash::keyed(secret, format!("{run}\n{call}").as_bytes());
    format!("{run}:{call_text}:{}", &proof.to_string()[..PROOF_DIGITS])
}

/// Returns the run and the call that `key` names, whether or not it proves anything.
pub(crate) fn named(key: &str) -> Option<(RunId, CallId)> {
    let (rest, _proof) = key.rsplit_once(':')?;
    let (run, call) = rest.split_once(':')?;
    let call = CallId::new(call.replace('_', "/"));
    call.is_well_formed().then(|| (RunId::new(run), call))
}

/// Whether `given` is `expected`. Takes the same time wherever they differ.
pub(crate) fn is_same(given: &str, expected: &str) -> bool {
    // The time of a comparison of hashes does not depend on the texts.
    ContentHash::of(given.as_bytes()) == ContentHash::of(expected.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_call_and_proves_its_store_and_its_run() {
        let (run, call) = (RunId::from("7cs00dse34"), CallId::from("0/2.1/1.3"));
        let key_of = |secret: u8, run: &RunId| key(&[secret; 32], run, &call);
        let own = key_of(1, &run);
        assert!(own.starts_with("7cs00dse34:0_2.1_1.3:"), "{own}");
        assert_eq!(named(&own), Some((run.clone(), call.clone())));
        assert!(is_same(&own, &key_of(1, &run)));
        assert!(!is_same(&own, &key_of(2, &run)) && !is_same(&own, &key_of(1, &RunId::from("7cs00dse35"))));
        for no_key in ["", "a", "a:b", "a:b:c", "::", "7cs00dse34:0:00"] {
            assert_eq!(named(no_key), None, "{no_key}");
        }
    }
}
