//! Names of things: one newtype per kind of id, so that a task is never mistaken for a call.

use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

thread_local! {
    /// The buffer of [`with_buffer`].
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Largest buffer that a thread keeps, in bytes.
const KEPT_BUFFER_BYTES: usize = 16 * 1024;

/// Calls `f` with an empty buffer that the thread reuses. This saves an allocation where bytes are only hashed or copied. A nested call
/// gets a buffer of its own.
fn with_buffer<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut buffer = BUFFER.take();
    let result = f(&mut buffer);
    buffer.clear();
    buffer.shrink_to(KEPT_BUFFER_BYTES);
    BUFFER.set(buffer);
    result
}

/// Declares an id that is a shared, immutable string. Cloning one costs an atomic increment.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps `text` without checking it; configuration ids are checked by [`is_valid_id`] when loaded.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                *self.0 == *other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                *self.0 == **other
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id! {
    /// One execution of a job. Given by the shell; unique within a store.
    RunId
}
text_id! {
    /// The `job_id` of a `job.json`.
    JobId
}
text_id! {
    /// The owner of long-term memories: a job, or a project whose jobs share them. See [`MemoryId::of_job`].
    MemoryId
}
text_id! {
    /// A project, as breadcrumbs name it; a job outside of any project is one by itself.
    ProjectId
}
text_id! {
    /// A breadcrumb. Given by its creator; unique within a store.
    BreadcrumbId
}
text_id! {
    /// The `agent_id` of an agent config: at most 55 characters, so that `route_to_<agent_id>` is a valid tool id.
    AgentId
}
text_id! {
    /// A person, as the shell knows them: a login name, most often.
    PersonName
}
text_id! {
    /// A program that acts on runs from outside, by the name that it gives itself.
    ProgramId
}
text_id! {
    /// The `tool_id` of a tool config: at most 64 characters.
    ToolId
}
text_id! {
    /// A task: `0` for the root, else the id of the call that created it. A run that continues another one has the root `1`,
    /// and so on.
    ///
    /// Ids are paths of call positions (`0/2.1/1.3`: the third call of the first turn of the task that the first
    /// call of the root's second turn created), so two runs that do the same thing name their tasks alike.
    TaskId
}
text_id! {
    /// A call: the task that makes it, then `turn.position`, both counted from 1 (`0/2.1`). A call that the code of another
    /// call makes has that call's id and a name (`0/2.1:fetch`). It belongs to the same task. The engine's call for the acceptance of
    /// a result has the position 0 and a name (`0/2.1/3.0:accept`).
    ///
    /// With the run id it is the call's idempotency key.
    CallId
}

impl MemoryId {
    /// Returns the memory of the job `job` in `folder`; without a folder, that of a job that a program made.
    ///
    /// A name alone is not enough: a job that somebody sent may have any name, and must not read the memories of another job.
    /// So the folder belongs to the key. No folder and id give the key of another pair, because ids have no spaces.
    pub fn of_job(job: &JobId, folder: Option<&Path>) -> Self {
        match folder {
            Some(folder) => Self::new(format!("job {job} in {}", unmistakable(folder))),
            None => Self::new(format!("job {job}")),
        }
    }

    /// Returns the memory that the jobs of the project in `folder` share.
    pub fn of_project(folder: &Path) -> Self {
        Self::new(format!("project {}", unmistakable(folder)))
    }
}

/// Returns a text that no other path has: the path, or the hash of one that is not Unicode.
fn unmistakable(path: &Path) -> String {
    path.to_str().map_or_else(|| format!("blake3 {}", ContentHash::of(path.as_os_str().as_encoded_bytes())), str::to_owned)
}

impl ProjectId {
    /// Returns the project of the jobs that could share `memory`: the project itself, or a job without one.
    pub fn of(memory: &MemoryId) -> Self {
        Self::new(memory.as_str())
    }
}

impl TaskId {
    /// Returns the root task of a run that continues no other run.
    pub fn root() -> Self {
        Self::new("0")
    }

    /// Returns the root task of the run that continues a run with this root.
    pub fn next_root(&self) -> Self {
        let number: u64 = self.0.parse().unwrap_or_default();
        Self::new((number + 1).to_string())
    }

    /// Whether it is the root task of a run.
    pub fn is_root(&self) -> bool {
        !self.0.contains('/')
    }

    /// Returns the id of the call at `position` (from 1) of this task's turn `turn` (from 1).
    pub fn call(&self, turn: u32, position: u32) -> CallId {
        with_buffer(|id| {
            write!(id, "{self}/{turn}.{position}").expect("writing to memory does not fail");
            CallId::new(std::str::from_utf8(id).expect("only texts were written"))
        })
    }

    /// Returns the id of the call by which the engine asks whether the result of this task's turn `turn` is accepted. `number` counts
    /// these calls in the turn, from 1.
    pub fn acceptance(&self, turn: u32, number: u32) -> CallId {
        let call = self.call(turn, 0);
        if number <= 1 { call.inner(ACCEPTANCE) } else { call.inner(&format!("{ACCEPTANCE}.{number}")) }
    }
}

impl TaskId {
    /// Returns the call that this task answers: the call with its id, or the one whose later attempt or question it is
    /// (`0/2.1/retry.2`). Meaningless for the root.
    pub fn originating_call(&self) -> CallId {
        let mut id = CallId(Arc::clone(&self.0));
        while !id.is_well_formed()
            && let Some((above, _)) = id.0.rsplit_once('/')
        {
            id = CallId::new(above);
        }
        id
    }
}

impl CallId {
    /// Returns the task that this call creates, if its tool creates one: it bears the call's id.
    pub fn created_task(&self) -> TaskId {
        TaskId(Arc::clone(&self.0))
    }

    /// Returns the task of the attempt numbered `number`, from 1, where a failed delegation is tried again.
    pub fn attempt(&self, number: u32) -> TaskId {
        if number <= 1 { self.created_task() } else { TaskId::new(format!("{self}/retry.{number}")) }
    }

    /// Returns the question whether this call may begin: the first, or a later one about a call that has changed since.
    pub fn approval(&self, number: u32) -> TaskId {
        if number <= 1 { TaskId::new(format!("{self}/approval")) } else { TaskId::new(format!("{self}/approval.{number}")) }
    }

    /// Returns the question about the outcome of this call.
    pub fn outcome(&self) -> TaskId {
        TaskId::new(format!("{self}/outcome"))
    }

    /// Returns the task that makes this call.
    pub fn task(&self) -> TaskId {
        TaskId::new(self.task_text())
    }

    /// Returns the text of [`CallId::task`].
    pub fn task_text(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(task, _)| task)
    }

    /// Returns the turn and the position of this call, both from 1; `None` for a call that code made, and if the text is not a
    /// call id.
    pub fn position(&self) -> Option<(u32, u32)> {
        turn_and_position(self.0.rsplit_once('/')?.1)
    }

    /// Returns the call named `name` that the code of this call makes. See [`is_call_name`].
    pub fn inner(&self, name: &str) -> Self {
        Self::new(format!("{self}:{name}"))
    }

    /// Returns the call whose code made this call, and its name there; `None` for a call that a model made.
    pub fn outer(&self) -> Option<(Self, &str)> {
        let (outer, name) = self.0.rsplit_once(':')?;
        // Colons are in no other part of an id.
        (!name.contains('/')).then(|| (Self::new(outer), name))
    }

    /// Returns the number of calls whose code led to this call: 0 for a call that a model made.
    pub fn nesting(&self) -> usize {
        self.0.rsplit_once('/').map_or(0, |(_, call)| call.matches(':').count())
    }

    /// Whether the engine makes this call, to ask whether a result is accepted. No call of a model has the position 0.
    pub fn is_acceptance(&self) -> bool {
        // Most calls are those of models, and this is asked of each.
        if !self.0.as_bytes().contains(&b':') {
            return false;
        }
        let place = self.0.rsplit_once('/').map_or("", |(_, place)| place);
        let of_turn = place.split_once(':').filter(|(_, name)| !name.contains(':'));
        of_turn.and_then(|(turn, _)| turn_and_position(turn)).is_some_and(|(_, position)| position == 0)
    }

    /// Whether the text is the id of a call, of a model, of code or of the engine.
    pub fn is_well_formed(&self) -> bool {
        let place = self.0.rsplit_once('/').map_or("", |(_, place)| place);
        turn_and_position(place.split_once(':').map_or(place, |(of_model, _)| of_model)).is_some()
    }
}

fn turn_and_position(place: &str) -> Option<(u32, u32)> {
    // `split_once` prepares a search, which costs more than to look at these few bytes.
    let dot = place.bytes().position(|byte| byte == b'.')?;
    Some((place[..dot].parse().ok()?, place[dot + 1..].parse().ok()?))
}

/// The name of the calls by which the engine asks for acceptance.
const ACCEPTANCE: &str = "accept";

/// The most bytes of the name of a call that code makes.
pub const MAX_CALL_NAME_LENGTH: usize = 64;

/// Whether code may give this name to a call that it makes: 1 to 64 letters of ASCII, digits, `.`, `_`, `-` and `%`.
pub fn is_call_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-%".contains(&byte);
    (1..=MAX_CALL_NAME_LENGTH).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// The most characters an id of a tool may have (the limit of OpenAI's and Anthropic's function names).
pub const MAX_ID_LENGTH: usize = 64;

/// Names of tools that models see: the characters that providers accept.
pub const TOOL_NAME_PATTERN: &str = "^[A-Za-z][A-Za-z0-9_-]*$";

/// The most characters an agent id may have: `route_to_` and the id make a tool id.
pub const MAX_AGENT_ID_LENGTH: usize = MAX_ID_LENGTH - ROUTE_PREFIX.len();

/// Tools that delegate to an agent are named by this prefix and the agent's id.
pub const ROUTE_PREFIX: &str = "route_to_";

/// Pattern of every configuration id in the JSON Schemas.
pub const ID_PATTERN: &str = "^[a-z][a-z0-9]*([_-][a-z0-9]+)*$";

/// Whether `text` matches [`ID_PATTERN`] and [`MAX_ID_LENGTH`].
pub fn is_valid_id(text: &str) -> bool {
    text.len() <= MAX_ID_LENGTH
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.split(['_', '-']).all(|part| {
            !part.is_empty() && part.chars().all(|character| character.is_ascii_lowercase() || character.is_ascii_digit())
        })
}

/// The BLAKE3 hash of a content, in hexadecimal. Contents are stored once under their hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// Hashes `content`.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }

    /// Hashes the bytes that `write` appends. Its buffer is empty at first, and the thread reuses it.
    pub fn of_written(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        with_buffer(|content| {
            write(content);
            Self::of(content)
        })
    }

    /// Hashes this hash followed by `content`: the running hash of a sequence that only grows.
    pub fn extended(&self, content: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(content);
        Self(*hasher.finalize().as_bytes())
    }

    /// Hashes `content` with the key `secret`: who does not have it can make no such hash.
    pub fn keyed(secret: &[u8; 32], content: &[u8]) -> Self {
        Self(*blake3::keyed_hash(secret, content).as_bytes())
    }

    /// Returns the 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the hash as 64 hexadecimal digits in `digits`. Blake3's own conversion takes ten times as long, and every
    /// entry and request holds hashes.
    fn hex<'d>(&self, digits: &'d mut [u8; 64]) -> &'d str {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for (byte, pair) in self.0.iter().zip(digits.chunks_exact_mut(2)) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        std::str::from_utf8(digits).expect("hexadecimal digits are ASCII")
    }

    /// Returns a hash from its 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns a hash from its 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hex(&mut [0; 64]))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", &self.to_string()[..8])
    }
}

impl Serialize for ContentHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.hex(&mut [0; 64]))
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| serde::de::Error::custom("expected 64 hexadecimal digits"))
    }
}

impl schemars::JsonSchema for ContentHash {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ContentHash".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$", "description": "A BLAKE3 hash." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_knows_its_task_and_the_task_it_creates() {
        let call = TaskId::root().call(2, 1).created_task().call(3, 4);
        assert_eq!(call.as_str(), "0/2.1/3.4");
        assert_eq!(call.task().as_str(), "0/2.1");
        assert_eq!(call.position(), Some((3, 4)));
    }

    #[test]
    fn a_long_hash_leaves_no_bytes_behind() {
        let text = vec![b'a'; 2 * KEPT_BUFFER_BYTES];
        assert_eq!(ContentHash::of_written(|form| form.extend_from_slice(&text)), ContentHash::of(&text));
        assert_eq!(ContentHash::of_written(|_| ()), ContentHash::of(b""));
    }

    #[test]
    fn nested_hashes_are_independent() {
        let outer = ContentHash::of_written(|form| {
            form.extend_from_slice(b"before ");
            let inner = ContentHash::of_written(|form| form.extend_from_slice(b"inner"));
            assert_eq!(inner, ContentHash::of(b"inner"));
            assert_eq!(TaskId::root().call(2, 1).as_str(), "0/2.1");
            form.extend_from_slice(b"after");
        });
        assert_eq!(outer, ContentHash::of(b"before after"));
    }

    #[test]
    fn only_two_numbers_are_a_place() {
        for text in ["", ".", "1", "1.", ".1", "1.2.3", "a.1", "-1.2", "4294967296.1", "1.é"] {
            assert_eq!(turn_and_position(text), None, "{text:?}");
        }
        assert_eq!(turn_and_position("4294967295.0"), Some((u32::MAX, 0)));
    }

    #[test]
    fn a_call_of_code_belongs_to_the_task_of_the_outer_call() {
        let outer = TaskId::root().call(2, 1);
        let inner = outer.inner("1.2").inner("b");
        assert_eq!(inner.as_str(), "0/2.1:1.2:b");
        assert_eq!((inner.task(), inner.position(), inner.nesting()), (TaskId::root(), None, 2));
        assert_eq!(inner.outer(), Some((outer.inner("1.2"), "b")));
        assert_eq!((outer.outer(), outer.nesting()), (None, 0));
        let below = inner.created_task().call(1, 1);
        assert_eq!((below.outer(), below.task()), (None, inner.created_task()));
        for task in [inner.created_task(), inner.attempt(2), inner.approval(1), inner.approval(2), inner.outcome()] {
            assert_eq!(task.originating_call(), inner, "{task}");
        }
        assert!(is_call_name("step_1.a%20b") && !is_call_name("") && !is_call_name("a/b") && !is_call_name("a:b"));
    }

    #[test]
    fn a_call_for_acceptance_belongs_to_a_turn_and_to_no_other_call() {
        let task = TaskId::root().call(2, 1).created_task();
        let (first, second) = (task.acceptance(3, 1), task.acceptance(3, 2));
        assert_eq!((first.as_str(), second.as_str()), ("0/2.1/3.0:accept", "0/2.1/3.0:accept.2"));
        assert!(first.is_acceptance() && second.is_acceptance() && first.is_well_formed());
        assert_eq!(
            (first.task(), first.position(), first.created_task().originating_call()),
            (task.clone(), None, first.clone())
        );
        for other in [task.call(3, 1), task.call(3, 1).inner("accept"), first.inner("fetch"), first.created_task().call(1, 1)] {
            assert!(!other.is_acceptance(), "{other}");
        }
    }

    #[test]
    fn attempts_and_questions_of_a_call_lead_back_to_it() {
        let call = TaskId::root().call(2, 1);
        assert_eq!(call.attempt(1), call.created_task());
        let second = call.attempt(2);
        assert_eq!(second.as_str(), "0/2.1/retry.2");
        assert_eq!(second.originating_call(), call);
        assert_eq!(second.call(1, 3).task(), second);
        assert_eq!(TaskId::from("0/2.1/retry.2/1.1/escalated/escalated").originating_call().as_str(), "0/2.1/retry.2/1.1");
        assert_eq!(TaskId::root().originating_call().as_str(), "0");
    }

    #[test]
    fn a_run_that_continues_another_has_the_next_root() {
        let second = TaskId::root().next_root();
        assert_eq!((second.as_str(), second.next_root().as_str()), ("1", "2"));
        assert!(second.is_root() && !second.call(1, 1).created_task().is_root());
    }

    #[test]
    fn ids_follow_the_pattern() {
        for good in ["a", "write_file", "json-transform", "a1-b2_c3"] {
            assert!(is_valid_id(good), "{good}");
        }
        for bad in ["", "A", "1a", "a__b", "a-", "_a", "a.b", "ä", &"a".repeat(65)] {
            assert!(!is_valid_id(bad), "{bad}");
        }
    }
}
