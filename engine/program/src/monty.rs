//! The interpreter `monty`: a part of Python that stops wherever it needs its host.

mod imports;
mod names;

use std::borrow::Cow;
use std::time::Duration;

use monty::{FunctionCall, MontyRun, RunProgress};
use monty_types::{
    CompileOptions, ExcType, MontyException, MontyObject, NameLookupResult, PrintWriter, PrintWriterCallback, ResourceLimits,
    ResourceTracker,
};
use serde_json::{Map, Value};

use crate::value::{LATER, from_json, to_json};
use crate::{Answer, Call, Fault, Finished, Gone, Host, Interpreter, Limits, MAX_PRINTED_BYTES, Named, Program};

/// The functions that a program sees.
const FUNCTIONS: [&str; 6] = ["call", "agent", "ask", "later", "parallel", "document"];

/// Python, as far as `monty` knows it.
pub(crate) struct Monty;

impl Interpreter for Monty {
    fn check(&self, name: &str, source: &str) -> Result<Vec<Named>, Fault> {
        compiled(name, source).map(drop)?;
        imports::check(name, source)?;
        Ok(names::named(source))
    }

    fn run(&self, program: &Program, host: &mut dyn Host) -> Result<Finished, Gone> {
        let mut execution = Execution { program, host, calls: 0, later: Vec::new(), printed: Printed::default() };
        let result = match compiled(&program.name, &program.source) {
            Ok(run) => execution.run(run)?,
            Err(fault) => Err(fault),
        };
        Ok(Finished { result, printed: execution.printed.text() })
    }
}

/// Returns the line and the column of a byte, both from 1.
fn place(source: &str, at: usize) -> (u32, u32) {
    let before = &source[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() as u32 + 1, before[line_start..].chars().count() as u32 + 1)
}

fn compiled(name: &str, source: &str) -> Result<MontyRun, Fault> {
    MontyRun::new(source.to_owned(), name, Vec::new(), CompileOptions::default()).map_err(|error| fault_of(name, &error))
}

/// Returns an exception as a fault at the place in the program where it was raised.
fn fault_of(name: &str, exception: &MontyException) -> Fault {
    let place = exception.traceback().iter().rev().find(|frame| frame.filename == name);
    let mut message = exception.summary();
    if message.contains("'await' expression") {
        message.push_str("; call, agent, ask and parallel return their result without await");
    }
    if exception.exc_type() == ExcType::RuntimeError && exception.message().is_none() {
        message.push_str(" was raised");
    }
    let (line, column) = place.map_or((0, 0), |frame| (frame.start.line, frame.start.column));
    Fault { file: name.to_owned(), line, column, message }
}

/// The text that a program printed, up to a bound.
#[derive(Default)]
struct Printed {
    text: String,
    is_cut: bool,
}

impl Printed {
    fn text(self) -> String {
        if self.is_cut { self.text + "…\n" } else { self.text }
    }
}

impl PrintWriterCallback for Printed {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        let room = MAX_PRINTED_BYTES.saturating_sub(self.text.len());
        let end = output.floor_char_boundary(room);
        self.is_cut |= end < output.len();
        self.text.push_str(&output[..end]);
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.stdout_write(Cow::Borrowed(end.encode_utf8(&mut [0; 4])))
    }
}

/// One execution of a program.
struct Execution<'e> {
    program: &'e Program,
    host: &'e mut dyn Host,
    /// Number of calls and documents so far.
    calls: u32,
    /// Calls that are made later, until they are made.
    later: Vec<Option<Call>>,
    printed: Printed,
}

/// The reason why a function of the host returns no value.
enum Stop {
    /// An exception that the program can catch.
    Raise(MontyException),
    /// An exception that ends the program.
    Abort(MontyException),
    Gone,
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

fn raise(kind: ExcType, message: impl Into<String>) -> Stop {
    Stop::Raise(MontyException::new(kind, Some(message.into())))
}

impl Execution<'_> {
    /// Runs the program to its end.
    fn run(&mut self, run: MontyRun) -> Result<Answered, Gone> {
        let Limits { seconds, memory_mib, depth, .. } = self.program.limits;
        let limits = ResourceLimits::default()
            .max_duration(Duration::from_secs(seconds.into()))
            .max_memory((memory_mib as usize) << 20)
            .max_recursion_depth(depth as usize);
        let mut progress = run.start(Vec::new(), ResourceTracker::new(limits), PrintWriter::Callback(&mut self.printed));
        loop {
            progress = match progress {
                Ok(RunProgress::Complete(value)) => {
                    let name = &self.program.name;
                    return Ok(
                        to_json(value).map_err(|why| Fault::of_file(name, format!("the value of the last expression {why}")))
                    );
                }
                Ok(RunProgress::FunctionCall(call)) => self.function(call)?,
                Ok(RunProgress::NameLookup(lookup)) => {
                    let value = self.named(&lookup.name);
                    lookup.resume(value, PrintWriter::Callback(&mut self.printed))
                }
                Ok(RunProgress::OsCall(call)) => {
                    let message = "a program has no files, no clock and no environment; document(path) reads a document";
                    let error = MontyException::new(ExcType::PermissionError, Some(message.to_owned()));
                    call.resume(error, PrintWriter::Callback(&mut self.printed))
                }
                Ok(RunProgress::ResolveFutures(futures)) => {
                    let error = MontyException::runtime_error("the program waits for something that never comes");
                    futures.abort(error, PrintWriter::Callback(&mut self.printed))
                }
                Err(exception) => return Ok(Err(fault_of(&self.program.name, &exception))),
            };
        }
    }

    /// Returns the meaning of a name that the program does not define.
    fn named(&self, name: &str) -> NameLookupResult {
        if FUNCTIONS.contains(&name) {
            return NameLookupResult::Value(MontyObject::Function { name: name.to_owned(), docstring: None });
        }
        match self.program.values.get(name) {
            Some(value) => NameLookupResult::Value(from_json(value.clone())),
            None => NameLookupResult::Undefined,
        }
    }

    /// Answers a call of one of the [`FUNCTIONS`].
    fn function(&mut self, mut call: FunctionCall) -> Result<Result<RunProgress, MontyException>, Gone> {
        if !FUNCTIONS.contains(&call.function_name.as_str()) {
            let name = &call.function_name;
            let message = format!("name '{name}' is not defined; call('{name}', …) calls a tool");
            let error = MontyException::new(ExcType::NameError, Some(message));
            return Ok(call.resume(error, PrintWriter::Callback(&mut self.printed)));
        }
        let arguments = Arguments::new(std::mem::take(&mut call.args), std::mem::take(&mut call.kwargs));
        let returned = match call.function_name.as_str() {
            "later" => self.later(arguments),
            "parallel" => self.parallel(arguments),
            "document" => self.document(arguments),
            function => call_of(function, arguments).and_then(|asked| {
                let mut answers = self.make(vec![asked])?;
                let answer = answers.pop().unwrap_or_else(|| Err("there is no answer".to_owned()));
                answer.map(from_json).map_err(|why| raise(ExcType::RuntimeError, why))
            }),
        };
        let print = PrintWriter::Callback(&mut self.printed);
        Ok(match returned {
            Ok(value) => call.resume(value, print),
            Err(Stop::Raise(exception)) => call.resume(exception, print),
            Err(Stop::Abort(exception)) => call.abort(exception, print),
            Err(Stop::Gone) => return Err(Gone),
        })
    }

    fn make(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>, Stop> {
        let first = self.calls + 1;
        self.count(calls.len())?;
        Ok(self.host.make(first, calls)?)
    }

    /// Counts calls. More than the limit end the program.
    fn count(&mut self, calls: usize) -> Result<(), Stop> {
        let most = self.program.limits.calls;
        let counted = u32::try_from(calls).ok().and_then(|calls| self.calls.checked_add(calls));
        let Some(counted) = counted.filter(|counted| *counted <= most) else {
            return Err(Stop::Abort(MontyException::runtime_error(format!("a program makes {most} calls at most"))));
        };
        self.calls = counted;
        Ok(())
    }

    /// `later(function, …)`: a call for `parallel`.
    fn later(&mut self, mut arguments: Arguments) -> Result<MontyObject, Stop> {
        let Some(MontyObject::Function { name, .. }) = arguments.positional.next() else {
            return Err(raise(ExcType::TypeError, "later takes call, agent or ask first, and then what that function takes"));
        };
        let number = self.later.len();
        if number >= self.program.limits.calls as usize {
            return Err(Stop::Abort(MontyException::runtime_error("too many calls are made later")));
        }
        self.later.push(Some(call_of(&name, arguments)?));
        let number = MontyObject::Int(i64::try_from(number).unwrap_or(i64::MAX));
        Ok(MontyObject::NamedTuple { type_name: LATER.to_owned(), field_names: vec!["number".to_owned()], values: vec![number] })
    }

    /// `parallel(calls, return_errors=False)`: the results of calls that are made at the same time.
    fn parallel(&mut self, mut arguments: Arguments) -> Result<MontyObject, Stop> {
        let Some(MontyObject::List(calls) | MontyObject::Tuple(calls)) = arguments.take("calls") else {
            return Err(raise(ExcType::TypeError, "parallel takes a list of calls, each made by later(function, …)"));
        };
        let returns_errors = matches!(arguments.take("return_errors"), Some(MontyObject::Bool(true)));
        arguments.end("parallel")?;
        let mut made = Vec::with_capacity(calls.len());
        for (position, call) in calls.into_iter().enumerate() {
            let waiting = match call {
                MontyObject::NamedTuple { type_name, values, .. } if type_name == LATER => match values.first() {
                    Some(MontyObject::Int(number)) => usize::try_from(*number).ok().and_then(|number| self.later.get_mut(number)),
                    _ => None,
                },
                _ => None,
            };
            let Some(waiting) = waiting else {
                let message = format!("item {position} of parallel is not a call that later(function, …) has made");
                return Err(raise(ExcType::TypeError, message));
            };
            let Some(call) = waiting.take() else {
                return Err(raise(ExcType::ValueError, format!("item {position} of parallel has been called already")));
            };
            made.push(call);
        }
        if made.is_empty() {
            return Ok(MontyObject::List(Vec::new()));
        }
        let mut values = Vec::with_capacity(made.len());
        for (position, answer) in self.make(made)?.into_iter().enumerate() {
            values.push(match answer {
                Ok(value) => from_json(value),
                Err(why) if returns_errors => from_json(serde_json::json!({ "error": why })),
                Err(why) => return Err(raise(ExcType::RuntimeError, format!("item {position} of parallel: {why}"))),
            });
        }
        Ok(MontyObject::List(values))
    }

    /// `document(path)`: the text of a document.
    fn document(&mut self, mut arguments: Arguments) -> Result<MontyObject, Stop> {
        let path = arguments.text("document", "path")?;
        arguments.end("document")?;
        self.count(1)?;
        let answer = self.host.document(&path)?;
        answer.map(from_json).map_err(|why| raise(ExcType::RuntimeError, why))
    }
}

/// The value of a program, or its fault.
type Answered = Result<Value, Fault>;

/// Arguments of a call, as they are taken one after the other.
struct Arguments {
    positional: std::vec::IntoIter<MontyObject>,
    named: Vec<(String, MontyObject)>,
}

impl Arguments {
    fn new(positional: Vec<MontyObject>, named: Vec<(MontyObject, MontyObject)>) -> Self {
        let named = named.into_iter().filter_map(|(name, value)| match name {
            MontyObject::String(name) => Some((name, value)),
            _ => None,
        });
        Self { positional: positional.into_iter(), named: named.collect() }
    }

    /// Takes the next argument: by its position, or by its name.
    fn take(&mut self, name: &str) -> Option<MontyObject> {
        self.positional.next().or_else(|| {
            let at = self.named.iter().position(|(named, _)| named == name)?;
            Some(self.named.remove(at).1)
        })
    }

    fn text(&mut self, function: &str, name: &str) -> Result<String, Stop> {
        match self.take(name) {
            Some(MontyObject::String(text)) => Ok(text),
            Some(_) => Err(raise(ExcType::TypeError, format!("{function} takes a string as {name}"))),
            None => Err(raise(ExcType::TypeError, format!("{function} needs {name}"))),
        }
    }

    /// Takes all arguments that are left and have names, as JSON.
    fn rest(&mut self, function: &str) -> Result<Map<String, Value>, Stop> {
        self.no_more_positions(function)?;
        let named = std::mem::take(&mut self.named).into_iter();
        named.map(|(name, value)| json(function, &name, value).map(|value| (name, value))).collect()
    }

    fn no_more_positions(&mut self, function: &str) -> Result<(), Stop> {
        match self.positional.next() {
            None => Ok(()),
            Some(_) => Err(raise(ExcType::TypeError, format!("{function} takes its other arguments by their names"))),
        }
    }

    /// Checks that there are no more arguments.
    fn end(&mut self, function: &str) -> Result<(), Stop> {
        self.no_more_positions(function)?;
        match self.named.first() {
            None => Ok(()),
            Some((name, _)) => Err(raise(ExcType::TypeError, format!("{function} has no argument {name}"))),
        }
    }
}

fn json(function: &str, name: &str, value: MontyObject) -> Result<Value, Stop> {
    to_json(value).map_err(|why| raise(ExcType::TypeError, format!("{name} of {function} {why}")))
}

/// Adds the arguments that are left to `input`.
fn add_rest(function: &str, input: &mut Map<String, Value>, mut arguments: Arguments) -> Result<(), Stop> {
    for (name, value) in arguments.rest(function)? {
        if input.contains_key(&name) {
            return Err(raise(ExcType::TypeError, format!("{function} has two values for {name}")));
        }
        input.insert(name, value);
    }
    Ok(())
}

/// Returns the call that `call`, `agent` or `ask` makes with `arguments`.
fn call_of(function: &str, mut arguments: Arguments) -> Result<Call, Stop> {
    match function {
        "call" => {
            let tool = arguments.text(function, "tool")?;
            let mut input = Map::new();
            if let Some(whole) = arguments.positional.next() {
                match json(function, "the input", whole)? {
                    Value::Object(object) => input = object,
                    _ => return Err(raise(ExcType::TypeError, "call takes the tool, and its input by names or as a dict")),
                }
            }
            add_rest(function, &mut input, arguments)?;
            Ok(Call::Tool { tool, input })
        }
        "agent" => {
            let name = arguments.text(function, "name")?;
            let request = arguments.text(function, "request")?;
            let documents = arguments.take("documents").map(|documents| json(function, "documents", documents)).transpose()?;
            let schema = arguments.take("schema").map(|schema| json(function, "schema", schema)).transpose()?;
            let mut input = Map::from_iter([("request".to_owned(), Value::String(request))]);
            input.extend(documents.filter(|documents| !documents.is_null()).map(|documents| ("documents".to_owned(), documents)));
            add_rest(function, &mut input, arguments)?;
            Ok(Call::Agent { name, input, schema: schema.filter(|schema| !schema.is_null()) })
        }
        "ask" => {
            let question = arguments.text(function, "question")?;
            let mut input = Map::from_iter([("question".to_owned(), Value::String(question))]);
            add_rest(function, &mut input, arguments)?;
            Ok(Call::Ask { input })
        }
        other => Err(raise(ExcType::TypeError, format!("{other} cannot be called here; later takes call, agent or ask"))),
    }
}
