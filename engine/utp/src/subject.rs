//! Subjects: the addresses of messages, as `cg.v1r3.PROJECT.CHANNEL.CATEGORY.…`.
//!
//! One type builds and parses them. The wildcards of [`Family`] come from the same type, so a permission cannot name a subject that no
//! message has.

use std::fmt;

use crate::VERSION;

/// Most bytes of a subject.
pub const MAX_SUBJECT_BYTES: usize = 512;

/// First token of every subject.
const PREFIX: &str = "cg";

/// Placeholder of a [`TargetSubject`] for the project of the call.
const PROJECT: &str = "{project_id}";

/// Placeholder of a [`TargetSubject`] for the channel of the call.
const CHANNEL: &str = "{channel_id}";

/// Reason why a text is not a subject of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// It is too long.
    #[error("a subject has at most {MAX_SUBJECT_BYTES} bytes, and this one has {0}")]
    TooLong(usize),
    /// NATS does not allow a token.
    #[error(
        "token {place} of the subject is {token:?}; a token is not empty and has no white space, control character, \".\", \"*\" or \">\""
    )]
    Token {
        /// Its place, from 1.
        place: usize,
        /// The token.
        token: String,
    },
    /// The first token is wrong.
    #[error("the subject begins with {0:?}; expected \"cg\"")]
    Prefix(String),
    /// The version is another one.
    #[error("the subject has version {0:?}; expected \"{VERSION}\"")]
    Version(String),
    /// The tokens after the channel are those of no message.
    #[error(
        "the subject ends with {0:?}; expected cmd.tool.TARGET…, cmd.sys.pmo.internal.TOOL, cmd.sys.report.tool_result, \
         cmd.agent.TARGET.wakeup, cmd.sys.card.get, cmd.sys.card.put or evt.sys.dead_letter"
    )]
    Unknown(String),
    /// The subject is complete, but not one to which a tool's calls may be sent.
    #[error("{0} is not a subject for the calls of a tool; expected cg.{VERSION}.PROJECT.CHANNEL.cmd.tool.TARGET…")]
    NotATool(String),
    /// A token has braces, and is not the placeholder for its place.
    #[error(
        "token {place} of the subject is {token:?}; only token 3 may be \"{{project_id}}\", and only token 4 \"{{channel_id}}\""
    )]
    Placeholder {
        /// Its place, from 1.
        place: usize,
        /// The token.
        token: String,
    },
    /// The subject belongs to another project or channel.
    #[error("the subject belongs to project {project:?} and channel {channel:?}, and the call to {expected}")]
    Foreign {
        /// Its project.
        project: String,
        /// Its channel.
        channel: String,
        /// The address of the caller.
        expected: String,
    },
}

/// One token of a subject: not empty, without white space, control characters, `.`, `*` and `>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(Box<str>);

impl Token {
    /// Takes `text` as a token, if NATS allows it.
    pub fn parse(text: &str) -> Option<Self> {
        let is_allowed = |char: char| !char.is_whitespace() && !char.is_control() && !matches!(char, '.' | '*' | '>');
        (!text.is_empty() && text.len() <= MAX_SUBJECT_BYTES && text.chars().all(is_allowed)).then(|| Self(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One or more tokens with dots between them: the end of a subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suffix(Box<str>);

impl Suffix {
    /// Takes `text` as a suffix, if each of its tokens is one.
    pub fn parse(text: &str) -> Option<Self> {
        let is_allowed = text.len() <= MAX_SUBJECT_BYTES && text.split('.').all(|token| Token::parse(token).is_some());
        is_allowed.then(|| Self(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A project and one of its channels. A project is a tenant: nothing crosses its border.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The project.
    pub project: Token,
    /// The channel.
    pub channel: Token,
}

impl Address {
    /// Takes two texts as project and channel; `None` if one of them is not a token.
    pub fn parse(project: &str, channel: &str) -> Option<Self> {
        Some(Self { project: Token::parse(project)?, channel: Token::parse(channel)? })
    }
}

/// The message that a subject is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A command for a tool service: `cmd.tool.TARGET…`.
    Tool(Suffix),
    /// A command for a built-in tool: `cmd.sys.pmo.internal.TOOL`.
    Builtin(Suffix),
    /// A callback: `cmd.sys.report.tool_result`.
    ToolResult,
    /// A wake-up of a worker: `cmd.agent.TARGET.wakeup`.
    Wakeup(Token),
    /// A request for a card: `cmd.sys.card.get`.
    CardGet,
    /// A request to keep a card: `cmd.sys.card.put`.
    CardPut,
    /// A message that was refused, with the reason: `evt.sys.dead_letter`. The seed has no subject for it.
    DeadLetter,
}

/// A subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Its project and channel.
    pub address: Address,
    /// Its message.
    pub kind: Kind,
}

impl Subject {
    /// Returns the subject of `kind` at `address`.
    pub const fn new(address: Address, kind: Kind) -> Self {
        Self { address, kind }
    }

    /// Reads a subject.
    pub fn parse(text: &str) -> Result<Self, SubjectError> {
        if text.len() > MAX_SUBJECT_BYTES {
            return Err(SubjectError::TooLong(text.len()));
        }
        let tokens: Vec<&str> = text.split('.').collect();
        if let Some((place, token)) = (1..).zip(&tokens).find(|(_, token)| Token::parse(token).is_none()) {
            return Err(SubjectError::Token { place, token: (*token).to_owned() });
        }
        if tokens[0] != PREFIX {
            return Err(SubjectError::Prefix(tokens[0].to_owned()));
        }
        match tokens.get(1) {
            Some(version) if *version == VERSION => {}
            version => return Err(SubjectError::Version(version.copied().unwrap_or_default().to_owned())),
        }
        let [_, _, project, channel, rest @ ..] = tokens.as_slice() else {
            return Err(SubjectError::Unknown(String::new()));
        };
        let unknown = || SubjectError::Unknown(rest.join("."));
        let suffix = |tokens: &[&str]| Suffix::parse(&tokens.join(".")).ok_or_else(unknown);
        let kind = match rest {
            ["cmd", "tool", target @ ..] if !target.is_empty() => Kind::Tool(suffix(target)?),
            ["cmd", "sys", "pmo", "internal", tool @ ..] if !tool.is_empty() => Kind::Builtin(suffix(tool)?),
            ["cmd", "sys", "report", "tool_result"] => Kind::ToolResult,
            ["cmd", "agent", target, "wakeup"] => Kind::Wakeup(Token::parse(target).ok_or_else(unknown)?),
            ["cmd", "sys", "card", "get"] => Kind::CardGet,
            ["cmd", "sys", "card", "put"] => Kind::CardPut,
            ["evt", "sys", "dead_letter"] => Kind::DeadLetter,
            _ => return Err(unknown()),
        };
        Ok(Self { address: Address::parse(project, channel).ok_or_else(unknown)?, kind })
    }

    /// Returns the family of its message.
    pub const fn family(&self) -> Family {
        match &self.kind {
            Kind::Tool(_) => Family::Tool,
            Kind::Builtin(_) => Family::Builtin,
            Kind::ToolResult => Family::ToolResult,
            Kind::Wakeup(_) => Family::Wakeup,
            Kind::CardGet => Family::CardGet,
            Kind::CardPut => Family::CardPut,
            Kind::DeadLetter => Family::DeadLetter,
        }
    }

    /// Checks that a call of `caller` may be sent to this subject: a tool's, in the project and channel of the caller.
    pub fn check_target(&self, caller: &Address) -> Result<(), SubjectError> {
        if !matches!(self.kind, Kind::Tool(_)) {
            return Err(SubjectError::NotATool(self.to_string()));
        }
        if self.address == *caller {
            return Ok(());
        }
        let Address { project, channel } = &self.address;
        let expected = format!("project {:?} and channel {:?}", caller.project.as_str(), caller.channel.as_str());
        Err(SubjectError::Foreign { project: project.to_string(), channel: channel.to_string(), expected })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { project, channel } = &self.address;
        write!(f, "{PREFIX}.{VERSION}.{project}.{channel}.")?;
        match &self.kind {
            Kind::Tool(target) => write!(f, "cmd.tool.{}", target.as_str()),
            Kind::Builtin(tool) => write!(f, "cmd.sys.pmo.internal.{}", tool.as_str()),
            Kind::Wakeup(target) => write!(f, "cmd.agent.{target}.wakeup"),
            Kind::ToolResult | Kind::CardGet | Kind::CardPut | Kind::DeadLetter => f.write_str(self.family().wildcard()),
        }
    }
}

/// A kind of message, without its address and target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Commands for tool services.
    Tool,
    /// Commands for built-in tools.
    Builtin,
    /// Callbacks.
    ToolResult,
    /// Wake-ups.
    Wakeup,
    /// Requests for cards.
    CardGet,
    /// Requests to keep cards.
    CardPut,
    /// Messages that were refused.
    DeadLetter,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 7] =
        [Self::Tool, Self::Builtin, Self::ToolResult, Self::Wakeup, Self::CardGet, Self::CardPut, Self::DeadLetter];

    /// Returns the end of its subjects, with wildcards for what varies.
    const fn wildcard(self) -> &'static str {
        match self {
            Self::Tool => "cmd.tool.>",
            Self::Builtin => "cmd.sys.pmo.internal.>",
            Self::ToolResult => "cmd.sys.report.tool_result",
            Self::Wakeup => "cmd.agent.*.wakeup",
            Self::CardGet => "cmd.sys.card.get",
            Self::CardPut => "cmd.sys.card.put",
            Self::DeadLetter => "evt.sys.dead_letter",
        }
    }

    /// Returns the wildcard of its subjects in all channels of `project`: what a program subscribes to.
    pub fn in_project(self, project: &Token) -> String {
        format!("{PREFIX}.{VERSION}.{project}.*.{}", self.wildcard())
    }

    /// Returns the wildcard of its subjects at `address`.
    pub fn at(self, address: &Address) -> String {
        format!("{PREFIX}.{VERSION}.{}.{}.{}", address.project, address.channel, self.wildcard())
    }
}

/// The `target_subject` of a tool: a subject for its calls, which may have the placeholders `{project_id}` and `{channel_id}` as its
/// third and fourth token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSubject(Box<str>);

impl TargetSubject {
    /// Reads a `target_subject`.
    pub fn parse(text: &str) -> Result<Self, SubjectError> {
        let subject = Subject::parse(text)?;
        let Kind::Tool(target) = &subject.kind else { return Err(SubjectError::NotATool(text.to_owned())) };
        let own = [(3, PROJECT, subject.address.project.as_str()), (4, CHANNEL, subject.address.channel.as_str())];
        let wrong = own.into_iter().find(|(_, placeholder, token)| token.contains(['{', '}']) && token != placeholder);
        if let Some((place, _, token)) = wrong {
            return Err(SubjectError::Placeholder { place, token: token.to_owned() });
        }
        // The tokens before the target are cg, the version, project, channel, cmd and tool.
        if let Some((place, token)) = (7..).zip(target.as_str().split('.')).find(|(_, token)| token.contains(['{', '}'])) {
            return Err(SubjectError::Placeholder { place, token: token.to_owned() });
        }
        Ok(Self(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the subject for a call at `caller`. The project and the channel of the subject must be those of the caller.
    pub fn at(&self, caller: &Address) -> Result<Subject, SubjectError> {
        let subject = self.resolve(caller)?;
        subject.check_target(caller)?;
        Ok(subject)
    }

    fn resolve(&self, caller: &Address) -> Result<Subject, SubjectError> {
        let replaced = |(place, token)| match (place, token) {
            (2, PROJECT) => caller.project.as_str(),
            (3, CHANNEL) => caller.channel.as_str(),
            (_, token) => token,
        };
        let tokens: Vec<&str> = self.0.split('.').enumerate().map(replaced).collect();
        Subject::parse(&tokens.join("."))
    }
}
