//! `baton graph`: draws the task graph of a run, or the agents of a job, as Mermaid or DOT text.

use std::collections::VecDeque;
use std::fmt::Write;
use std::path::Path;

use baton_machine::{Phase, Task};
use baton_types::config::Configs;
use baton_types::entry::{FinalState, TaskKind};
use clap::{Args, ValueEnum};
use serde_json::json;

use crate::app::complete;
use crate::exit::{Exit, Failure};
use crate::place::Place;
use crate::text::{Text, escaped};
use crate::view::{RunView, state};
use crate::{job, runs, words};

/// Arguments of `graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// A run (its id, the beginning of its id, or @last), or a job (its folder or name)
    #[arg(value_name = "RUN|JOB", add = complete::runs())]
    target: String,
    /// Language of the graph
    #[arg(long, value_enum, default_value = "mermaid", value_name = "LANGUAGE")]
    format: Language,
    /// Draw every task of a large run. By default, the tasks of a caller beyond the first ones are counted in one box
    #[arg(long)]
    all: bool,
}

/// Number of tasks above which a drawing is folded. Mermaid draws texts of up to 50,000 characters.
const FOLD_FROM: usize = 150;

/// Number of a caller's tasks that have boxes of their own in a folded drawing.
const MAX_SIBLINGS: usize = 12;

/// Languages for drawings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    /// For Markdown
    Mermaid,
    /// For Graphviz
    Dot,
}

/// A drawing of boxes and arrows.
#[derive(Debug, Default)]
struct Drawing {
    boxes: Vec<Box>,
    arrows: Vec<Arrow>,
}

/// One box.
#[derive(Debug)]
struct Box {
    id: String,
    label: String,
    look: Look,
}

/// One arrow between two boxes, given by their indices.
#[derive(Debug)]
struct Arrow {
    from: usize,
    to: usize,
    label: String,
    /// Whether the caller still waits for the callee.
    waiting: bool,
}

/// Style of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Plain,
    Root,
    Done,
    Failed,
    Waiting,
}

/// Prints the drawing.
pub(crate) async fn run(args: &GraphArgs, place: &Place) -> Result<Exit, Failure> {
    let is_folder = place.current.join(&args.target).is_dir();
    let drawing = if !is_folder && runs::is_run(place, &args.target).await? {
        let view = runs::find_to_read(place, &args.target).await?.view().await?;
        // Programs read every task.
        let is_whole = args.all || !place.screen.is_text() || view.run.graph().iter().count() <= FOLD_FROM;
        of_run(&view, if is_whole { usize::MAX } else { FOLD_FROM })
    } else {
        match job::load(place, Path::new(&args.target)) {
            Ok(job) => of_job(&job.configs),
            Err(Failure::NotFound { name, known, .. }) => return Err(Failure::NotFound { what: "run or job", name, known }),
            Err(failure) => return Err(failure),
        }
    };
    if place.screen.is_text() {
        place.screen.text(&Text::block(&match args.format {
            Language::Mermaid => drawing.mermaid(),
            Language::Dot => drawing.dot(),
        }))?;
    } else {
        let nodes: Vec<_> = drawing.boxes.iter().map(|shape| json!({"id": shape.id, "label": shape.label})).collect();
        let edges: Vec<_> = drawing
            .arrows
            .iter()
            .map(|arrow| json!({"caller": drawing.boxes[arrow.from].id, "callee": drawing.boxes[arrow.to].id, "label": arrow.label, "waiting": arrow.waiting}))
            .collect();
        place.screen.json(&json!({"nodes": nodes, "edges": edges}))?;
    }
    Ok(Exit::Done)
}

/// Draws a run, with about `most` boxes at most: breadth first, the tasks that need attention first.
fn of_run(view: &RunView, most: usize) -> Drawing {
    let mut drawing = Drawing::default();
    let mut waiting: VecDeque<(Option<usize>, &Task)> = view.run.root().map(|root| (None, root)).into_iter().collect();
    while let Some((from, task)) = waiting.pop_front() {
        let look = match task.phase {
            Phase::Ended(FinalState::Completed) => Look::Done,
            Phase::Ended(_) => Look::Failed,
            Phase::Waiting(_) => Look::Waiting,
            Phase::Ready(_) | Phase::Asking(_) | Phase::Acting(_) => Look::Plain,
        };
        let name = match &task.question {
            Some(question) => format!("Q{} to {}", question.number, task.holder),
            None => task.holder.to_string(),
        };
        let (request, state) = (words::preview(&view.row(&task.id).request, 40), state(&task.phase));
        let label =
            if task.kind == TaskKind::Question { format!("asks: {}", request.as_str()) } else { request.as_str().to_owned() };
        let at = drawing.add(Box { id: task.id.to_string(), label: escaped(&format!("{name} · {state}")), look });
        drawing.arrows.extend(from.map(|from| Arrow { from, to: at, label, waiting: task.is_live() }));
        let mut callees = view.run.graph().callees(&task.id);
        let room = most.saturating_sub(drawing.boxes.len() + waiting.len());
        let shown = if most == usize::MAX { callees.len() } else { callees.len().min(MAX_SIBLINGS).min(room) };
        if shown < callees.len() {
            callees.sort_by_key(|callee| view.urgency(callee).unwrap_or(u8::MAX));
            let folded: Vec<&Task> = callees.split_off(shown);
            let below = folded.iter().flat_map(|callee| view.run.graph().descendants(&callee.id));
            let folded: Vec<&Task> = folded.iter().copied().chain(below).collect();
            let number = words::counted(folded.len(), if shown == 0 { "task" } else { "more task" });
            let label = format!("… {number} · {}", view.tally(folded.iter().copied()).join(", "));
            let fold = drawing.add(Box { id: format!("{} …", task.id), label, look: Look::Plain });
            let waiting = folded.iter().any(|task| task.is_live());
            drawing.arrows.push(Arrow { from: at, to: fold, label: String::new(), waiting });
        }
        waiting.extend(callees.into_iter().map(|callee| (Some(at), callee)));
    }
    drawing
}

fn of_job(configs: &Configs) -> Drawing {
    let agents: Vec<_> = configs.agents.keys().collect();
    let mut drawing = Drawing::default();
    for (id, agent) in &configs.agents {
        let look = if *id == configs.job.root { Look::Root } else { Look::Plain };
        drawing.boxes.push(Box {
            id: id.to_string(),
            label: escaped(&format!("{id} · {}", agent.program.as_ref().map_or(&agent.model, |program| &program.file))),
            look,
        });
    }
    for (from, agent) in configs.agents.values().enumerate() {
        for tool in agent.tools.values() {
            if let Some(to) = tool.agent.as_ref().and_then(|called| agents.iter().position(|known| *known == called)) {
                drawing.arrows.push(Arrow { from, to, label: String::new(), waiting: false });
            }
        }
    }
    drawing
}

impl Drawing {
    /// Adds a box; returns its index.
    fn add(&mut self, shape: Box) -> usize {
        self.boxes.push(shape);
        self.boxes.len() - 1
    }

    fn mermaid(&self) -> String {
        let mut text = "graph TD\n".to_owned();
        for (index, shape) in self.boxes.iter().enumerate() {
            // Mermaid reads `#` entities and quotes inside labels. Text of a request must not end the label.
            let label = shape.label.replace('#', "#35;").replace('"', "#quot;");
            let class = match shape.look {
                Look::Plain => "",
                Look::Root => ":::root",
                Look::Done => ":::done",
                Look::Failed => ":::failed",
                Look::Waiting => ":::waiting",
            };
            let _infallible = writeln!(text, "  t{index}[\"{label}\"]{class}");
        }
        for Arrow { from, to, label, waiting } in &self.arrows {
            let line = if *waiting { "-.->" } else { "-->" };
            let label = label.replace('#', "#35;").replace('"', "#quot;").replace('|', "#124;");
            let label = if label.is_empty() { label } else { format!("|\"{label}\"|") };
            let _infallible = writeln!(text, "  t{from} {line}{label} t{to}");
        }
        text + "  classDef root stroke-width:3px\n  classDef done stroke:#2a7\n  classDef failed stroke:#c33\n  classDef waiting stroke:#c90,stroke-dasharray:4\n"
    }

    fn dot(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let mut text = "digraph baton {\n  rankdir=TB; node [shape=box];\n".to_owned();
        for shape in &self.boxes {
            let color = match shape.look {
                Look::Plain => "black",
                Look::Root => "blue",
                Look::Done => "darkgreen",
                Look::Failed => "red",
                Look::Waiting => "orange",
            };
            let _infallible = writeln!(text, "  {} [label={}, color={color}];", quoted(&shape.id), quoted(&shape.label));
        }
        for Arrow { from, to, label, waiting } in &self.arrows {
            let style = if *waiting { "dashed" } else { "solid" };
            let (from, to) = (quoted(&self.boxes[*from].id), quoted(&self.boxes[*to].id));
            let _infallible = writeln!(text, "  {from} -> {to} [label={}, style={style}];", quoted(label));
        }
        text + "}\n"
    }
}
