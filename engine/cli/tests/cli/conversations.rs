//! Questions on a terminal while the machine is busy. They are answered here, elsewhere, late, twice and wrongly, postponed, and
//! interrupted once and twice, in a window whose size changes.
//!
//! `BATON_TERMINAL_ROUNDS=200` runs as many rounds, spread over the shapes. Without it, each shape runs once.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::screens::{CTRL_C, CURSOR_BACK, Screen};
use crate::support::{Folder, Process, in_repository};

/// The text that is drawn while a question is asked.
const ASKED: &str = "Ctrl-C stops";

/// Starts a process that keeps a processor busy until the value is dropped.
fn busy() -> Process {
    Process(Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap())
}

/// One round: a job, a store of its own, and the question of the job.
struct Round<'a> {
    folder: &'a Folder,
    job: &'a str,
    store: String,
    /// The question's number, and the answer that the person types.
    question: &'a str,
    answer: &'a str,
}

impl Round<'_> {
    /// Starts the job on a terminal, and waits until the question is asked there.
    fn asked(&self) -> Screen {
        let mut screen = self.open(&["run", self.job]);
        screen.shows(ASKED);
        screen
    }

    fn open(&self, arguments: &[&str]) -> Screen {
        Screen::open(self.folder, &[arguments, &["--store", &self.store]].concat())
    }

    /// Answers in another terminal.
    fn answer_elsewhere(&self) {
        self.folder.baton(&["answer", "@last", self.question, self.answer, "--store", &self.store, "--no-resume"]).exits(0);
    }

    /// Types the answer on `screen`.
    fn answer(&self, screen: &mut Screen) {
        screen.types(&format!("{}\r", self.answer));
    }

    /// Ends the round: checks that the program exits with `code`, restores the terminal, and leaves the run in `status`.
    fn ends(&self, screen: Screen, code: i32, status: &str) {
        let (exit, drawn) = screen.ends();
        assert_eq!(exit, Some(code), "{}: {drawn}", self.job);
        assert!(drawn.contains(CURSOR_BACK), "the cursor stays hidden: {drawn:?}");
        let listed = self.folder.baton(&["ps", "--output", "json", "--store", &self.store]).exits(0).json();
        assert_eq!(listed[0]["status"], status, "{drawn}");
    }
}

type Shape = fn(&Round<'_>);

/// The actions of a person, from the moment when the question is on the screen.
const SHAPES: &[(&str, Shape)] = &[
    ("answered here", |round| {
        let mut screen = round.asked();
        round.answer(&mut screen);
        round.ends(screen, 0, "completed");
    }),
    ("answered elsewhere", |round| {
        let screen = round.asked();
        round.answer_elsewhere();
        round.ends(screen, 0, "completed");
    }),
    ("answered elsewhere, and late here", |round| {
        let mut screen = round.asked();
        round.answer_elsewhere();
        round.answer(&mut screen);
        round.ends(screen, 0, "completed");
    }),
    ("answered twice", |round| {
        let mut screen = round.asked();
        screen.types(&format!("{0}\r{0}\r", round.answer));
        round.ends(screen, 0, "completed");
    }),
    ("answered wrongly, then right", |round| {
        let mut screen = round.asked();
        screen.types("neither\r");
        screen.shows("is not one of");
        round.answer(&mut screen);
        round.ends(screen, 0, "completed");
    }),
    ("put off, and answered later", |round| {
        let mut screen = round.asked();
        screen.types("l\r");
        round.ends(screen, 3, "waiting");
        let mut screen = round.open(&["resume", "@last"]);
        screen.shows(ASKED);
        round.answer(&mut screen);
        round.ends(screen, 0, "completed");
    }),
    ("Ctrl-C once", |round| {
        let mut screen = round.asked();
        screen.types(CTRL_C);
        round.ends(screen, 130, "waiting");
        round.answer_elsewhere();
        round.ends(round.open(&["resume", "@last"]), 0, "completed");
    }),
    ("Ctrl-C twice", |round| {
        let mut screen = round.asked();
        screen.types(&CTRL_C.repeat(2));
        let (exit, drawn) = screen.ends();
        assert_eq!(exit, Some(130), "{drawn}");
        assert!(drawn.contains(CURSOR_BACK) && drawn.contains("baton resume"), "{drawn:?}");
        let mut screen = round.open(&["resume", "@last"]);
        screen.shows(ASKED);
        round.answer(&mut screen);
        round.ends(screen, 0, "completed");
    }),
    ("the window resized", |round| {
        let mut screen = round.asked();
        screen.resize(20, 80);
        screen.shows_again(ASKED);
        screen.types(&round.answer[..1]);
        screen.resize(60, 160);
        screen.shows_again(ASKED);
        screen.types(&format!("{}\r", &round.answer[1..]));
        round.ends(screen, 0, "completed");
    }),
];

#[test]
fn a_question_on_a_busy_machine_is_answered_as_the_person_means_it() {
    let rounds = std::env::var("BATON_TERMINAL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds: usize = rounds.unwrap_or(SHAPES.len());
    let folder = Folder::new();
    folder.baton(&["init", "demo"]).exits(0);
    let jobs = [
        ("demo/jobs/sales", "Q1", "1"),
        (&*in_repository("examples/ask-the-master"), "Q4", "revenue"),
        (&*in_repository("examples/four-eyes"), "Q1", "yes"),
    ];
    let _busy = [busy(), busy()];
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= rounds {
                break;
            }
            // The combinations of shapes and jobs all occur after enough rounds.
            let (job, question, answer) = jobs[(number + number / SHAPES.len()) % jobs.len()];
            let (name, shape) = SHAPES[number % SHAPES.len()];
            let round = Round { folder: &folder, job, store: format!("store-{number}.db"), question, answer };
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shape(&round)));
            match result {
                Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
                Err(_) => eprintln!("round {number} ({name}, {job}) went wrong"),
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let done = done.into_inner();
    println!("{done} of {rounds} rounds went right");
    assert_eq!(done, rounds);
}
