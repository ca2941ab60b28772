//! `baton answer`: answers a question that waits for a person, in any process, and continues a run that no process executes.

use std::io::Read;

use baton_machine::Question;
use baton_runtime::Delivery;
use baton_types::json::{self, Json};
use clap::Args;
use serde_json::{Value, json};

use crate::app::{Continuation, complete, document, engine, resume_and_finish, run_failure};
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::runs::{self, FoundRun};
use crate::shell::baton;
use crate::style;
use crate::terminal;
use crate::text::{Text, text};
use crate::view::{Asked, RunView};
use crate::{approvals, question};

/// Arguments of `answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The run: its id, the beginning of its id, or @last. Or a question such as Q1: the newest run in which it is open
    #[arg(value_name = "RUN|QUESTION", add = complete::runs())]
    target: String,
    /// The question, such as Q1, unless only one is open. Then the answer: text, JSON, `-` to read it from stdin, or the
    /// number or label of a choice. A reason may follow a choice. Without an answer, the question is shown
    #[arg(value_name = "ANSWER", num_args = 0..=3)]
    words: Vec<String>,
    /// The answer as JSON instead of ANSWER, such as '{"approved": true}'
    #[arg(long, value_name = "JSON")]
    json: Option<String>,
    /// Approve a call with this input, in place of the agent's. @FILE reads it from a file
    #[arg(long, value_name = "JSON|@FILE", conflicts_with = "json")]
    input: Option<String>,
    /// Also approve later calls of this tool in this run whose input meets this condition. The value at the JSON pointer is VALUE
    /// (JSON or text), or begins with TEXT. May be repeated: calls must meet all conditions
    #[arg(long = "also", value_name = "POINTER=VALUE|POINTER=TEXT*", conflicts_with = "json")]
    also: Vec<String>,
    /// File to send with the answer. It is put into the workspace at PATH [default: the file's name]. May be repeated
    #[arg(long = "document", value_name = "FILE[=PATH]")]
    documents: Vec<String>,
    #[command(flatten)]
    continuation: Continuation,
}

/// Sends the answer to the run, or prints the question if no answer was given.
pub(crate) async fn run(args: &AnswerArgs, place: &Place) -> Result<Exit, Failure> {
    let (found, mut view, words) = find(args, place).await?;
    approvals::look(&mut view, &found.store).await;
    let (number, typed) = match words.as_slice() {
        [first, rest @ ..] if number(first).is_some() => (number(first), rest),
        typed => (None, typed),
    };
    let asked = choose(&view, number)?;
    let Asked { task, question: Question { number, answer_schema: schema, .. } } = asked;
    let typed = match typed {
        [] => None,
        [answer] => Some((*answer).to_owned()),
        // Two words of the shell: a choice and the reason for it.
        [choice, reason] if question::choices(schema).iter().any(|offered| offered.label.eq_ignore_ascii_case(choice)) => {
            Some(format!("{choice} {reason}"))
        }
        [first, ..] if words.len() == typed.len() => {
            return Err(Failure::Usage(format!("{first} is not a question; questions are named Q1, Q2, …")));
        }
        _ => return Err(Failure::Usage("put an answer of several words in quotes".to_owned())),
    };
    let typed = typed.as_deref();
    let answer = if args.input.is_some() || !args.also.is_empty() {
        Some(approval(args, typed, schema, place)?)
    } else {
        given(args, typed, schema)?
    };
    let Some(answer) = answer else {
        // Without an answer, the question is printed with an example of an answer.
        for line in view.question_lines(asked, terminal::width()) {
            place.screen.tell(&line);
        }
        let example = question::example(Some(schema));
        return Err(Failure::Usage(format!(
            "no answer was given; for example: {} {example}",
            baton("answer").value(found.id()).value(format_args!("Q{number}"))
        )));
    };
    let documents = args.documents.iter().map(|text| document(place, text)).collect::<Result<_, _>>()?;
    let out = args.continuation.ending.target(place)?;
    let delivered = engine(&found.store)?
        .answer(found.id(), task.id.clone(), &terminal::person(), Json::from(&answer), documents)
        .await
        .map_err(run_failure)?;
    let run = found.id();
    // A pause lasts until a person ends it.
    let resumes = matches!(delivered, Delivery::Queued) && !args.continuation.no_resume && !view.run.totals().paused;
    if place.screen.is_text() {
        let answer = Text::block(&answer_text(&answer));
        // A continued run prints its own result, and the process that runs it may still refuse an answer from the inbox.
        match delivered {
            Delivery::Queued if resumes => {
                place.screen.tell(&text!("the answer to Q{number} is in the inbox: {}", answer));
            }
            Delivery::Queued => {
                place.screen.text(&text!("the answer to Q{number} is in the inbox, until the run continues: {}", answer))?;
            }
            Delivery::Sent => place.screen.text(&text!("the answer to Q{number} is in the inbox: {}", answer))?,
            Delivery::Done => place.screen.text(&text!("Q{number} answered: {}", answer))?,
        }
        let open = view.questions_for_person().count() - 1;
        if open > 0 && !resumes {
            place.screen.tell(&text!("{open} more open   → {}", baton("show").value(run)));
        }
        match delivered {
            Delivery::Queued if resumes => {}
            Delivery::Queued => place.screen.tell(&text!("{}       {}", style::faint("next:"), baton("resume").value(run))),
            Delivery::Sent => place.screen.tell(&text!("the process that runs it has not taken the answer yet")),
            Delivery::Done => place.screen.tell(&text!("the process that runs it continues with the answer")),
        }
    } else if !resumes {
        let state = delivered.as_str();
        place
            .screen
            .json(&json!({"run": run, "question": format!("Q{number}"), "task": task.id, "answer": answer, "delivery": state}))?;
    }
    if resumes { resume_and_finish(&found, &args.continuation, out.as_ref(), place).await } else { Ok(Exit::Done) }
}

fn answer_text(answer: &Value) -> String {
    answer.as_str().map_or_else(|| answer.to_string(), str::to_owned)
}

/// Finds the run, and returns it with the words that do not name it.
async fn find<'a>(args: &'a AnswerArgs, place: &Place) -> Result<(FoundRun, RunView, Vec<&'a str>), Failure> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    if number(&args.target).is_none() {
        let found = runs::find(place, &args.target).await?;
        let view = found.view().await?;
        return Ok((found, view, words));
    }
    // `Q1` alone means the newest run in which that question is open.
    let wanted = number(&args.target);
    let store = place.existing_store()?.ok_or_else(|| Failure::not_found("question", &args.target, []))?;
    for record in store.runs().await.map_err(Failure::of_store)? {
        let found = FoundRun { store: std::sync::Arc::clone(&store), record };
        if runs::is_over(&found.record.status) {
            continue;
        }
        let view = match found.view().await {
            Ok(view) => view,
            Err(failure) => {
                let reason = failure.to_string();
                let reason = reason.lines().next().unwrap_or_default();
                place.screen.tell(&text!("{} run {} is skipped: {reason}", style::waiting("warning:"), found.id()));
                continue;
            }
        };
        if view.questions_for_person().any(|asked| Some(asked.question.number) == wanted) {
            return Ok((found, view, std::iter::once(args.target.as_str()).chain(words).collect()));
        }
    }
    Err(Failure::not_found("open question", &args.target, []))
}

/// Returns the number in `Q1` or `q1`.
fn number(text: &str) -> Option<u32> {
    text.strip_prefix(['Q', 'q'])?.parse().ok()
}

/// Returns question `number`, or the only open question if there is no number.
fn choose(view: &RunView, number: Option<u32>) -> Result<Asked<'_>, Failure> {
    let is_named = |asked: &Asked<'_>| Some(asked.question.number) == number;
    let open: Vec<Asked<'_>> = view.questions_for_person().collect();
    match (number, open.as_slice()) {
        (Some(number), _) => {
            if let Some(asked) = open.iter().copied().find(is_named) {
                return Ok(asked);
            }
            match view.questions().find(is_named) {
                Some(closed) if !closed.is_open() => {
                    Err(Failure::Refused(format!("question Q{number} is closed: {}", closed.ending().as_str())))
                }
                Some(_) => Err(Failure::Refused(format!("question Q{number} is for an agent, not for a person"))),
                None => Err(Failure::not_found(
                    "question",
                    format!("Q{number}"),
                    view.questions().map(|known| format!("Q{}", known.question.number)),
                )),
            }
        }
        (None, [only]) => Ok(*only),
        (None, []) => Err(Failure::Refused("no question of this run waits for a person".to_owned())),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|asked| format!("Q{}", asked.question.number)).collect();
            Err(Failure::Usage(format!("several questions are open: {}; choose one", names.join(", "))))
        }
    }
}

/// Returns the answer that approves a call, with its `--input` and `--also`.
fn approval(args: &AnswerArgs, typed: Option<&str>, schema: &Json, place: &Place) -> Result<Value, Failure> {
    if schema.value()["properties"]["class"].is_null() {
        return Err(Failure::Usage(
            "--input and --also are for the approval of a call whose input may change, and no other answer takes them".to_owned(),
        ));
    }
    let unfit = |reason: String| Failure::Usage(format!("the answer does not fit the question: {reason}"));
    let mut answer = question::read_answer(schema, typed.unwrap_or("yes")).map_err(unfit)?;
    if answer["approved"] != true {
        return Err(Failure::Usage("--input and --also approve the call, so the answer must be yes".to_owned()));
    }
    if let Some(input) = &args.input {
        let text = match input.strip_prefix('@') {
            Some(file) => {
                let file = place.current.join(file);
                std::fs::read_to_string(&file).map_err(|error| Failure::file(&file, error))?
            }
            None => input.clone(),
        };
        answer["input"] = json::read(&text).map_err(|error| Failure::of_json("--input", &error))?;
    }
    if !args.also.is_empty() {
        answer["class"] = args.also.iter().map(|text| condition(text)).collect::<Result<Value, _>>()?;
    }
    question::check(schema, &answer).map_err(unfit)?;
    Ok(answer)
}

/// Reads a condition on the input of later calls.
fn condition(text: &str) -> Result<Value, Failure> {
    let Some((pointer, value)) = text.split_once('=').filter(|(pointer, _)| pointer.starts_with('/')) else {
        return Err(Failure::Usage(format!(
            "--also {text} cannot be read as a condition; write it like --also '/path=drafts/*'"
        )));
    };
    if let Some(prefix) = value.strip_suffix('*') {
        return Ok(json!({"pointer": pointer, "prefix": prefix}));
    }
    let value = json::read_or_text(value).map_err(|error| Failure::of_json(&format!("--also {text}"), &error))?;
    Ok(json!({"pointer": pointer, "equals": value}))
}

/// Reads the answer from the command line, and checks it against the question's schema.
fn given(args: &AnswerArgs, typed: Option<&str>, schema: &Json) -> Result<Option<Value>, Failure> {
    let unfit = |reason: String| Failure::Usage(format!("the answer does not fit the question: {reason}"));
    if let Some(text) = &args.json {
        let value = json::read(text).map_err(|error| Failure::of_json("--json", &error))?;
        question::check(schema, &value).map_err(unfit)?;
        return Ok(Some(value));
    }
    match typed {
        None => Ok(None),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            question::read_answer(schema, &text).map(Some).map_err(unfit)
        }
        Some(text) => question::read_answer(schema, text).map(Some).map_err(unfit),
    }
}
