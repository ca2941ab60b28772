//! Recorded exchanges with real providers, as they were on the wire, through the codecs.
//!
//! What comes out is compared with a second, plain reading of the same bytes ([`plain`]), which shares no code with the
//! codecs. The recordings are not part of the repository: without them the test says so, and passes.

mod back;
mod plain;
mod tape;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use baton_models::ModelError;
use baton_models::wire::{Answer, Dialect, MAX_ANSWER_BYTES, WireError, fault_of};
use tape::{Exchange, Kind, Tape};

/// Streams of at most so many bytes are cut in two at each of their bytes; longer ones in pieces of every size below, unless
/// `BATON_CUT_EVERYWHERE` is set: it takes time by the square of their lengths.
const CUT_EVERYWHERE: usize = 2 << 10;
const PIECES: [usize; 8] = [1, 2, 3, 5, 7, 13, 61, 509];

/// What was seen of one provider.
#[derive(Default)]
struct Row {
    files: usize,
    exchanges: usize,
    whole: usize,
    streams: usize,
    faults: usize,
    calls: usize,
    rechunked: usize,
    cuts: usize,
    mismatches: usize,
    half_calls: usize,
}

#[test]
fn every_recorded_exchange_is_read_as_it_was_said() {
    let Some(tapes) = tape::all() else {
        println!("there are no recordings at {}: nothing was read", tape::folder().display());
        return;
    };
    assert!(!tapes.is_empty(), "{} holds no recordings", tape::folder().display());
    let (mut rows, mut others): (BTreeMap<String, Row>, BTreeMap<String, usize>) = Default::default();
    let mut wrong = Vec::new();
    for tape in &tapes {
        let row = rows.entry(tape.provider.clone()).or_default();
        row.files += 1;
        for exchange in &tape.exchanges {
            row.exchanges += 1;
            match exchange.kind() {
                Kind::Whole(dialect) => whole(dialect, exchange, row, &mut wrong),
                Kind::Stream(dialect) => stream(dialect, exchange, row, &mut wrong),
                Kind::Fault => fault(tape, exchange, row, &mut wrong),
                Kind::Other(what) => *others.entry(what).or_default() += 1,
            }
        }
    }
    println!("{}", table(&rows));
    for (what, count) in &others {
        println!("{count:>4} {what}: no answer of a model");
    }
    let seen: usize =
        rows.values().map(|row| row.whole + row.streams + row.faults).sum::<usize>() + others.values().sum::<usize>();
    assert_eq!(seen, rows.values().map(|row| row.exchanges).sum::<usize>(), "every exchange is of some kind");
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(rows.values().map(|row| row.half_calls).sum::<usize>(), 0);
}

#[test]
fn every_recorded_answer_goes_back_to_its_vendor_item_by_item() {
    let Some(tapes) = tape::all() else {
        println!("there are no recordings at {}: nothing was read", tape::folder().display());
        return;
    };
    let mut rows: BTreeMap<String, back::Row> = BTreeMap::new();
    for tape in &tapes {
        back::of_tape(tape, rows.entry(tape.provider.clone()).or_default());
    }
    println!("{}", back::table(&rows));
    let differ: Vec<&str> = rows.values().flat_map(|row| &row.differ).map(String::as_str).collect();
    assert!(rows.values().any(|row| row.equal > 0), "nothing was sent back");
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

/// A whole body.
fn whole(dialect: Dialect, exchange: &Exchange, row: &mut Row, wrong: &mut Vec<String>) {
    row.whole += 1;
    let body = exchange.body();
    match dialect.decode(body) {
        Ok(answer) => {
            row.calls += answer.calls.len();
            compare(exchange, &answer, &plain::whole(dialect, exchange.text()), row, wrong);
        }
        Err(error) => mismatch(exchange, &error.to_string(), row, wrong),
    }
    // A body that was cut is no answer. (At every byte it would take minutes.)
    for at in (0..body.len() - 1).step_by(97) {
        row.cuts += 1;
        if dialect.decode(&body[..at]).is_ok() {
            mismatch(exchange, &format!("a body of {} bytes counts when it is cut after {at}", body.len()), row, wrong);
        }
    }
}

/// A stream: as it came, in all kinds of pieces, and cut.
fn stream(dialect: Dialect, exchange: &Exchange, row: &mut Row, wrong: &mut Vec<String>) {
    row.streams += 1;
    let body = exchange.body();
    let answer = match decoded(dialect, &[body]) {
        Ok(answer) => answer,
        Err(error) => return mismatch(exchange, &error.to_string(), row, wrong),
    };
    row.calls += answer.calls.len();
    compare(exchange, &answer, &plain::stream(dialect, exchange.text()), row, wrong);
    let mut same = |pieces: &[&[u8]], what: &str| {
        row.rechunked += 1;
        let again = decoded(dialect, pieces);
        if again.as_ref() != Ok(&answer) {
            mismatch(exchange, &format!("in {what}: {again:?}"), row, wrong);
        }
    };
    for size in PIECES {
        same(&body.chunks(size).collect::<Vec<_>>(), &format!("pieces of {size}"));
    }
    if body.len() <= CUT_EVERYWHERE || std::env::var_os("BATON_CUT_EVERYWHERE").is_some() {
        for at in 1..body.len() {
            same(&[&body[..at], &body[at..]], &format!("two pieces, cut at {at}"));
        }
    }
    let returned = exchange.text().replace('\n', "\r\n");
    same(&returned.as_bytes().chunks(1).collect::<Vec<_>>(), "single bytes, with CR LF");
    cut(dialect, exchange, &answer, row, wrong);
}

/// The connection breaks after each event, and in the middle of the next.
fn cut(dialect: Dialect, exchange: &Exchange, answer: &Answer, row: &mut Row, wrong: &mut Vec<String>) {
    let end = if dialect == Dialect::Ollama { "\n" } else { "\n\n" };
    let mut decoder = dialect.decoder(MAX_ANSWER_BYTES);
    for event in exchange.text().split_inclusive(end) {
        let mut half = decoder.clone();
        let in_the_middle = half.push(&event.as_bytes()[..event.len() / 2]).and_then(|()| half.finish());
        decoder.push(event.as_bytes()).expect("the stream was read before");
        for cut in [in_the_middle, decoder.clone().finish()] {
            row.cuts += 1;
            // Once the model has stopped nothing of its turn is missing; before that there is no turn.
            if let Ok(cut) = cut
                && (cut.calls != answer.calls || cut.text != answer.text || cut.finish != answer.finish)
            {
                row.half_calls += 1;
                mismatch(exchange, &format!("a stream that was cut counts: {cut:?}"), row, wrong);
            }
        }
    }
    let complete = decoder.is_complete();
    if !complete {
        mismatch(exchange, "the whole stream is not complete", row, wrong);
    }
}

/// An envelope of an error, which says what the provider said and means what its status means.
fn fault(tape: &Tape, exchange: &Exchange, row: &mut Row, wrong: &mut Vec<String>) {
    row.faults += 1;
    let fault = fault_of(exchange.body());
    let said = plain::fault(exchange.text());
    let shown: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    if fault.message != shown {
        mismatch(exchange, &format!("said {shown:?}, read {:?}", fault.message), row, wrong);
    }
    let status = exchange.then.status;
    let error = ModelError::of_fault(&tape.provider, Some(status), &fault, None);
    let too_long = exchange.text().contains("exceed_context_size_error");
    let no_model =
        ["nonexistent", "no-such", "dall-e-3"].iter().any(|name| fault.message.contains(name)) && tape.provider != "llamacpp";
    let fits = match status {
        400 | 404 if no_model => matches!(error, ModelError::NoModel { .. }),
        400 if too_long => matches!(error, ModelError::ContextExceeded { .. }),
        401 => matches!(error, ModelError::KeyRefused { .. }),
        400 | 404 | 501 => matches!(error, ModelError::Rejected { .. }),
        500 => matches!(error, ModelError::Unavailable { .. }),
        _ => false,
    };
    if !fits || error.is_retryable() != (status == 500) {
        mismatch(exchange, &format!("status {status} became {error:?}"), row, wrong);
    }
}

fn decoded(dialect: Dialect, pieces: &[&[u8]]) -> Result<Answer, WireError> {
    let mut decoder = dialect.decoder(MAX_ANSWER_BYTES);
    for piece in pieces {
        decoder.push(piece)?;
    }
    decoder.finish()
}

/// The codec's reading against the plain one.
fn compare(exchange: &Exchange, answer: &Answer, plain: &plain::Reading, row: &mut Row, wrong: &mut Vec<String>) {
    let read = plain::Reading::of(answer);
    if read != *plain {
        mismatch(exchange, &format!("\n  read  {read:?}\n  plain {plain:?}"), row, wrong);
    }
    let turn = answer.clone().into_turn("provider", "vendor");
    if let Some(call) = turn.calls.iter().find(|call| call.malformed.is_some() && !answer_is_cut(answer)) {
        mismatch(exchange, &format!("the arguments of a whole call cannot be read: {call:?}"), row, wrong);
    }
}

fn answer_is_cut(answer: &Answer) -> bool {
    answer.finish_reason() == baton_types::model::FinishReason::Length
}

fn mismatch(exchange: &Exchange, what: &str, row: &mut Row, wrong: &mut Vec<String>) {
    row.mismatches += 1;
    wrong.push(format!("{}: {what}", exchange.place));
}

fn table(rows: &BTreeMap<String, Row>) -> String {
    let mut table = String::from(
        "provider    files  exchanges  whole  streams  errors  calls  re-chunkings    cuts  mismatches  half calls\n",
    );
    for (provider, row) in rows {
        let _ = writeln!(
            table,
            "{provider:<10}  {:>5}  {:>9}  {:>5}  {:>7}  {:>6}  {:>5}  {:>12}  {:>6}  {:>10}  {:>10}",
            row.files,
            row.exchanges,
            row.whole,
            row.streams,
            row.faults,
            row.calls,
            row.rechunked,
            row.cuts,
            row.mismatches,
            row.half_calls
        );
    }
    table
}
