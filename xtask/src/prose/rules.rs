//! The rules of the prose lint: each finds one habit that makes a text hard to read, and names its cure.

use std::collections::BTreeSet;

use super::text::{Form, Kind, Passage, Token};

/// A rule, by the habit that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// A doc comment that opens with a relative clause: "What …", "Whoever …".
    Opener,
    /// A function's doc comment that does not begin with a third-person verb.
    Verb,
    /// A speech verb for a technical act: a function that "says".
    Speech,
    /// A posture verb: a rule that "stands".
    Posture,
    /// A word of the old dialect: "nobody", "whoever", "unless said".
    Dialect,
    /// A message that negates a noun: "it is no file".
    Negation,
    /// A sentence of too many words, or a line of the README that is too wide.
    Length,
    /// A reference to a rule or a document that the repository does not have.
    Reference,
}

impl Rule {
    /// All rules, in the order of their counts in the output.
    pub(super) const ALL: [Self; 8] =
        [Self::Opener, Self::Verb, Self::Speech, Self::Posture, Self::Dialect, Self::Negation, Self::Length, Self::Reference];

    /// Returns the rule's name in the output.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Opener => "opener",
            Self::Verb => "verb",
            Self::Speech => "speech",
            Self::Posture => "posture",
            Self::Dialect => "dialect",
            Self::Negation => "negation",
            Self::Length => "length",
            Self::Reference => "reference",
        }
    }

    /// Returns the advice that a finding ends with.
    pub(super) const fn cure(self) -> &'static str {
        match self {
            Self::Opener => "begin with a noun, or a third-person verb for a function; \"Whether\" only for a bool",
            Self::Verb => "begin with a third-person verb: Returns, Sets, Sends, …",
            Self::Speech => "use the technical verb (returns, reports, sets, sends, logs, renders); only people and models say",
            Self::Posture => "use the plain verb (is, exists, continues, is replaced, must match, releases)",
            Self::Dialect => "use the plain word (no person → the positive case; default: …; in addition)",
            Self::Negation => "negate the verb (is not a file, does not hold JSON)",
            Self::Length => "make one claim a sentence",
            Self::Reference => "name a rule of docs/RULES.md or an item of the code",
        }
    }
}

/// Something that a rule found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Line in the file, from 1.
    pub(super) line: usize,
    /// The rule.
    pub(super) rule: Rule,
    /// The words that it found.
    pub(super) text: String,
}

/// Longest sentence in words: of the README and of help texts.
const SHORT: usize = 30;
/// Longest sentence in words: of all other prose.
const LONG: usize = 40;

/// Words that no doc comment may open with.
const OPENERS: [&str; 10] = ["what", "whatever", "who", "whoever", "whom", "whose", "how", "where", "those", "whichever"];
/// Verbs that belong to people and models.
const SPEECH: [&str; 8] = ["says", "said", "tells", "told", "hears", "heard", "worded", "untold"];
/// Nouns that may say: a speech verb is theirs if one of them is among the few words before it, or right after it.
const SPEAKERS: [&str; 32] = [
    "model",
    "models",
    "model's",
    "agent",
    "agents",
    "agent's",
    "person",
    "person's",
    "people",
    "user",
    "users",
    "operator",
    "operators",
    "reader",
    "readers",
    "assistant",
    "caller",
    "callers",
    "analyst",
    "lead",
    "reviewer",
    "reviewers",
    "somebody",
    "someone",
    "stranger",
    "strangers",
    "author",
    "authors",
    "child",
    "master",
    "maintainer",
    "you",
];
/// Number of words before a speech verb among which its speaker may be.
const REACH: usize = 4;
/// Posture verbs, and phrases of them.
const POSTURE: [&[&str]; 20] = [
    &["stands"],
    &["stand"],
    &["lie"],
    &["stood"],
    &["lies"],
    &["lay"],
    &["gives", "way"],
    &["give", "way"],
    &["gave", "way"],
    &["lets", "go"],
    &["let", "go"],
    &["held", "to"],
    &["goes", "on"],
    &["go", "on"],
    &["went", "on"],
    &["going", "on"],
    &["gone", "on"],
    &["stand", "for"],
    &["takes", "hold"],
    &["stands", "for"],
];
/// Words and phrases of the old dialect.
const DIALECT: [&[&str]; 12] = [
    &["nobody"],
    &["nobody's"],
    &["whoever"],
    &["whomever"],
    &["whosever"],
    &["unless", "said"],
    &["unless", "told"],
    &["put", "down"],
    &["hand", "by", "hand"],
    &["thereof"],
    &["nought"],
    &["astray"],
];
/// Names of documents that are not in the repository.
const FOREIGN: [&str; 6] = ["DESIGN §", "DESIGN.md", "RELIABILITY", "SEED-NOTES", "turn rule ", "UX.md"];

/// Everything that a rule needs to know of the repository.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Identifiers of the code and names on the rules page.
    pub(super) known: BTreeSet<String>,
}

/// Returns the findings of all rules in `passage`. `is_short` is true for the README and for help texts.
pub(super) fn judge(passage: &Passage, is_short: bool, names: &Names) -> Vec<Finding> {
    let mut findings = Vec::new();
    opener(passage, &mut findings);
    for sentence in passage.sentences() {
        phrases(sentence, &mut findings);
        length(sentence, if is_short { SHORT } else { LONG }, &mut findings);
    }
    references(passage, names, &mut findings);
    findings
}

/// Returns the findings in a message of the code. Its length is not judged, since prompts and page templates are messages too.
pub(super) fn judge_message(message: &Passage) -> Vec<Finding> {
    let mut findings = Vec::new();
    for sentence in message.sentences() {
        phrases(sentence, &mut findings);
        negations(sentence, &mut findings);
    }
    findings
}

fn opener(passage: &Passage, findings: &mut Vec<Finding>) {
    let [first, rest @ ..] = passage.tokens.as_slice() else { return };
    if !passage.first || !matches!(passage.kind, Kind::Doc | Kind::ModuleDoc) {
        return;
    }
    let word = first.word();
    let second = rest.first().map(Token::word).unwrap_or_default();
    let is_predicate = ["-> bool", ": bool", "<bool>", "AtomicBool", "<bool,"].iter().any(|form| passage.item.contains(form));
    let is_headless = OPENERS.contains(&word.as_str())
        || (word == "that" && matches!(second.as_str(), "of" | "which"))
        || (word == "whether" && !is_predicate);
    let is_function = passage.kind == Kind::Doc && is_function(&passage.item);
    let rule = if is_headless {
        Rule::Opener
    } else if is_function
        && first.form == Form::Word
        && !word.ends_with('s')
        && word != "see"
        && !(word == "whether" && is_predicate)
    {
        Rule::Verb
    } else {
        return;
    };
    findings.push(Finding { line: first.line, rule, text: excerpt(&passage.tokens, 0) });
}

fn is_function(item: &str) -> bool {
    let mut words = item.split_whitespace().skip_while(|word| {
        matches!(*word, "pub" | "pub(crate)" | "pub(super)" | "const" | "async" | "unsafe" | "extern" | "default")
            || word.starts_with("pub(")
    });
    words.next() == Some("fn")
}

fn phrases(sentence: &[Token], findings: &mut Vec<Finding>) {
    let words: Vec<String> = sentence.iter().map(Token::word).collect();
    for at in 0..words.len() {
        let is_at = |phrase: &&[&str]| {
            phrase.iter().enumerate().all(|(offset, part)| words.get(at + offset).is_some_and(|word| word == part))
                // A phrase does not reach over a comma.
                && sentence[at..at + phrase.len() - 1].iter().all(|token| !token.ends_clause())
        };
        let before = &words[at.saturating_sub(REACH)..at];
        let after = &words[(at + 1).min(words.len())..(at + 4).min(words.len())];
        let has_speaker = before.iter().any(|word| SPEAKERS.contains(&word.as_str()))
            || (words[at] != "says" && words[at] != "tells" && after.iter().any(|word| SPEAKERS.contains(&word.as_str())));
        let is_quoting = sentence.get(at + 1).is_some_and(|next| next.form == Form::Quote);
        let rule = if SPEECH.contains(&words[at].as_str()) && !has_speaker && !is_quoting {
            Rule::Speech
        } else if POSTURE.iter().any(is_at) {
            Rule::Posture
        } else if DIALECT.iter().any(is_at) || (words[at] == "beside" && sentence[at].ends_clause()) {
            Rule::Dialect
        } else {
            continue;
        };
        findings.push(Finding { line: sentence[at].line, rule, text: excerpt(sentence, at) });
    }
}

/// Finds "is no X", but neither "there is no X" nor "is no longer".
fn negations(sentence: &[Token], findings: &mut Vec<Finding>) {
    let words: Vec<String> = sentence.iter().map(Token::word).collect();
    for (at, three) in words.windows(3).enumerate() {
        let is_negation = matches!(three[0].as_str(), "is" | "are" | "was" | "were" | "be")
            && match three[1].as_str() {
                "no" => !matches!(three[2].as_str(), "longer" | "more" | "later"),
                "none" | "nothing" => three[2] == "that" || three[2] == "of",
                _ => false,
            };
        let is_existence = at > 0 && words[at - 1] == "there";
        if is_negation && !is_existence {
            findings.push(Finding { line: sentence[at].line, rule: Rule::Negation, text: excerpt(sentence, at) });
        }
    }
}

fn length(sentence: &[Token], limit: usize, findings: &mut Vec<Finding>) {
    let count = sentence.iter().filter(|token| token.form != Form::Word || !token.word().is_empty()).count();
    if count > limit {
        let text = format!("{count} words, at most {limit}: {}", excerpt(sentence, 0));
        findings.push(Finding { line: sentence[0].line, rule: Rule::Length, text });
    }
}

fn references(passage: &Passage, names: &Names, findings: &mut Vec<Finding>) {
    let text = passage.tokens.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ");
    let line = passage.tokens.first().map_or(1, |token| token.line);
    findings.extend(
        FOREIGN
            .iter()
            .filter(|name| text.contains(**name))
            .filter(|name| {
                **name != "turn rule "
                    || text.split("turn rule ").nth(1).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
            .map(|name| Finding { line, rule: Rule::Reference, text: (*name).trim().to_owned() }),
    );
    for token in &passage.tokens {
        let is_code = token.text.len() >= 4
            && token.form == Form::Word
            && matches!(token.word().as_bytes(), [b't', b'-', b'a'..=b'z', b'0'..=b'9', ..] if token.text.contains("T-"));
        let is_unknown = token.code().is_some_and(|code| is_rule_name(code) && !names.known.contains(code));
        if is_code || is_unknown {
            findings.push(Finding { line: token.line, rule: Rule::Reference, text: token.text.clone() });
        }
    }
}

/// Returns true for a name that reads like a rule or a test: four or more words in snake case.
fn is_rule_name(code: &str) -> bool {
    code.matches('_').count() >= 3
        && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !code.starts_with('_')
}

/// Returns the words around `at`.
fn excerpt(tokens: &[Token], at: usize) -> String {
    let shown = &tokens[at.saturating_sub(3)..(at + 5).min(tokens.len())];
    shown.iter().map(|token| token.text.as_str()).collect::<Vec<_>>().join(" ")
}
