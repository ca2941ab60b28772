//! Seed 004, section 4: subjects.

use baton_utp::subject::{Address, Family, Kind, Subject, SubjectError, Suffix, TargetSubject, Token};

fn acme() -> Address {
    Address::parse("acme", "main").expect("both are tokens")
}

fn suffix(text: &str) -> Suffix {
    Suffix::parse(text).expect("a suffix")
}

/// Returns every kind of subject, with its text.
fn all() -> Vec<(Kind, &'static str)> {
    vec![
        (Kind::Tool(suffix("search")), "cg.v1r3.acme.main.cmd.tool.search"),
        (Kind::Tool(suffix("search.web.v2")), "cg.v1r3.acme.main.cmd.tool.search.web.v2"),
        (Kind::Builtin(suffix("fork_join")), "cg.v1r3.acme.main.cmd.sys.pmo.internal.fork_join"),
        (Kind::Builtin(suffix("skills.load")), "cg.v1r3.acme.main.cmd.sys.pmo.internal.skills.load"),
        (Kind::ToolResult, "cg.v1r3.acme.main.cmd.sys.report.tool_result"),
        (Kind::Wakeup(Token::parse("lead").expect("a token")), "cg.v1r3.acme.main.cmd.agent.lead.wakeup"),
        (Kind::CardGet, "cg.v1r3.acme.main.cmd.sys.card.get"),
        (Kind::CardPut, "cg.v1r3.acme.main.cmd.sys.card.put"),
        (Kind::DeadLetter, "cg.v1r3.acme.main.evt.sys.dead_letter"),
    ]
}

#[test]
fn the_subject_of_a_tool_command_has_project_channel_and_target() {
    let subject = Subject::new(acme(), Kind::Tool(suffix("search.web")));
    assert_eq!(subject.to_string(), "cg.v1r3.acme.main.cmd.tool.search.web");
}

#[test]
fn the_subject_of_a_builtin_tool_is_below_pmo_internal() {
    let subject = Subject::parse("cg.v1r3.acme.main.cmd.sys.pmo.internal.delegate_async").expect("a subject");
    assert_eq!(subject.kind, Kind::Builtin(suffix("delegate_async")));
}

#[test]
fn every_subject_is_parsed_as_it_was_built() {
    for (kind, text) in all() {
        let subject = Subject::new(acme(), kind);
        assert_eq!(subject.to_string(), text);
        assert_eq!(Subject::parse(text).as_ref(), Ok(&subject));
    }
}

#[test]
fn a_text_that_is_no_subject_is_refused_with_the_token() {
    let faults = [
        ("", "token 1 of the subject is \"\""),
        ("cg.v1r3.acme.main.cmd.tool.", "token 7 of the subject is \"\""),
        ("cg.v1r3..main.cmd.tool.a", "token 3 of the subject is \"\""),
        ("cg.v1r3.acme.main.cmd.tool.a b", "token 7 of the subject is \"a b\""),
        ("cg.v1r3.acme.main.cmd.tool.a\u{a0}b", "token 7"),
        ("cg.v1r3.acme.*.cmd.tool.a", "token 4 of the subject is \"*\""),
        ("cg.v1r3.acme.main.cmd.tool.>", "token 7 of the subject is \">\""),
        ("cg.v1r3.acme.main.cmd.tool.a\n", "token 7"),
        ("ch.v1r3.acme.main.cmd.tool.a", "begins with \"ch\"; expected \"cg\""),
        ("cg.v1r4.acme.main.cmd.tool.a", "has version \"v1r4\"; expected \"v1r3\""),
        ("cg", "has version \"\""),
        ("cg.v1r3.acme", "ends with \"\""),
        ("cg.v1r3.acme.main.cmd.tool", "ends with \"cmd.tool\""),
        ("cg.v1r3.acme.main.cmd.sys.pmo.internal", "ends with \"cmd.sys.pmo.internal\""),
        ("cg.v1r3.acme.main.cmd.agent.lead", "ends with \"cmd.agent.lead\""),
        ("cg.v1r3.acme.main.cmd.agent.lead.wakeup.now", "ends with"),
        ("cg.v1r3.acme.main.cmd.sys.card.drop", "ends with"),
    ];
    for (text, expected) in faults {
        let error = Subject::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    let long = format!("cg.v1r3.acme.main.cmd.tool.{}", "a".repeat(512));
    assert_eq!(Subject::parse(&long), Err(SubjectError::TooLong(539)));
}

/// Whether `pattern`, which may have the wildcards `*` and `>`, covers `subject`. It follows the rules of NATS.
fn covers(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for expected in pattern.split('.') {
        match (expected, tokens.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (expected, Some(token)) if expected == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

#[test]
fn the_wildcard_of_a_family_covers_its_subjects_and_no_others() {
    let project = Token::parse("acme").expect("a token");
    for (kind, text) in all() {
        let subject = Subject::new(acme(), kind);
        for family in Family::ALL {
            let is_own = family == subject.family();
            for pattern in [family.at(&acme()), family.in_project(&project)] {
                assert_eq!(covers(&pattern, text), is_own, "{pattern} and {text}");
            }
            let other = Address::parse("other", "main").expect("tokens");
            assert!(!covers(&family.at(&other), text) && !covers(&family.in_project(&other.project), text));
        }
    }
}

#[test]
fn a_target_subject_belongs_to_the_caller() {
    let at = |text: &str| TargetSubject::parse(text).expect(text).at(&acme());
    for text in [
        "cg.v1r3.acme.main.cmd.tool.search",
        "cg.v1r3.{project_id}.{channel_id}.cmd.tool.search",
        "cg.v1r3.acme.{channel_id}.cmd.tool.search",
    ] {
        assert_eq!(at(text).expect(text).to_string(), "cg.v1r3.acme.main.cmd.tool.search");
    }
    assert!(matches!(at("cg.v1r3.other.main.cmd.tool.search"), Err(SubjectError::Foreign { .. })));
    assert!(matches!(at("cg.v1r3.acme.side.cmd.tool.search"), Err(SubjectError::Foreign { .. })));
}

#[test]
fn a_target_subject_is_that_of_a_tool() {
    for (kind, text) in all() {
        assert_eq!(TargetSubject::parse(text).is_ok(), matches!(kind, Kind::Tool(_)), "{text}");
    }
    for text in [
        "cg.v1r3.{channel_id}.main.cmd.tool.a",
        "cg.v1r3.acme.{trace_id}.cmd.tool.a",
        "cg.v1r3.acme.main.cmd.tool.{agent_id}",
        "cg.v1r3.x{project_id}.main.cmd.tool.a",
    ] {
        assert!(matches!(TargetSubject::parse(text), Err(SubjectError::Placeholder { .. })), "{text}");
    }
}
