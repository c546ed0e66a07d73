//! How the tour is told: steps with a line before, and what happened in plain words; or, for programs, one document at the end.

use super::{Args, Event};
use quorate_command::print;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How wide the text is.
const COLUMNS: usize = 78;
const INDENT: &str = "   ";
/// The column in which commands are explained.
const WIDE: usize = 32;
/// The time in which a word is read.
const WORD: Duration = Duration::from_millis(190);

/// The tour, as far as it is told.
pub(super) struct Tale {
    /// Nothing is printed before the end.
    json: bool,
    /// There are no pauses.
    fast: bool,
    /// The terminal can print bold letters.
    bold: bool,
    told: Mutex<Told>,
    events: Mutex<Sender<Event>>,
}

#[derive(Default)]
struct Told {
    steps: Vec<Value>,
    now: Option<Step>,
    /// How many words were printed since the last pause.
    words: usize,
    /// Nothing more is told.
    closed: bool,
}

struct Step {
    name: &'static str,
    said: Vec<String>,
    since: Instant,
}

impl Tale {
    pub(super) fn new(args: &Args, events: Sender<Event>) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            json: args.json,
            fast: args.fast || args.json,
            bold: std::io::stdout().is_terminal() && !plain,
            told: Mutex::default(),
            events: Mutex::new(events),
        }
    }

    fn told<T>(&self, with: impl FnOnce(&mut Told) -> T) -> T {
        with(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prints some lines. Who does not listen any more ends the tour.
    fn print(&self, told: &mut Told, text: &str) {
        told.words += text.split_whitespace().count();
        if !told.closed && !self.json && !print::line(text).unwrap_or(false) {
            let _ = self.events.lock().unwrap_or_else(PoisonError::into_inner).send(Event::Stop);
        }
    }

    /// What stands above all.
    pub(super) fn greet(&self, text: &str) {
        self.told(|told| self.print(told, &wrapped(text, "")));
    }

    /// Begins a step, and says what will be done.
    pub(super) fn begin(&self, name: &'static str, title: &str, before: &str) {
        self.told(|told| {
            let number = told.steps.len() + 1;
            let (on, off) = if self.bold { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
            self.print(told, &format!("\n{on}{number}. {title}{off}\n{}", wrapped(before, INDENT)));
            told.now = Some(Step { name, said: Vec::new(), since: Instant::now() });
        });
    }

    /// Says what happened.
    pub(super) fn say(&self, text: impl Into<String>) {
        let text = text.into();
        self.told(|told| {
            self.print(told, &wrapped(&format!("-> {text}"), INDENT));
            told.now.iter_mut().for_each(|step| step.said.push(text.clone()));
        });
    }

    /// Ends a step, with its numbers or with the reason why it failed, and lets people read.
    pub(super) fn end(&self, ended: Result<&Value, String>) {
        let words = self.told(|told| {
            let Some(step) = told.now.take() else { return 0 };
            let mut document = match ended {
                Ok(numbers) => numbers.clone(),
                Err(why) => {
                    self.print(told, &wrapped(&format!("-> THIS FAILED: {why}"), INDENT));
                    json!({ "error": why })
                }
            };
            document["step"] = json!(step.name);
            document["done"] = json!(document["error"].is_null());
            document["said"] = json!(step.said);
            document["took_ms"] = json!(step.since.elapsed().as_millis() as u64);
            told.steps.push(document);
            std::mem::take(&mut told.words)
        });
        if !self.fast {
            std::thread::sleep(WORD * u32::try_from(words).unwrap_or(0));
        }
    }

    /// Lets nothing more be told, and gives the steps so far.
    pub(super) fn close(&self) -> Vec<Value> {
        self.told(|told| {
            told.closed = true;
            told.steps.clone()
        })
    }
}

/// The text in lines that are not too wide. Later lines begin under the words of the first one.
fn wrapped(text: &str, indent: &str) -> String {
    let more = if text.starts_with("-> ") { format!("{indent}   ") } else { indent.to_owned() };
    let (mut lines, mut line) = (Vec::new(), indent.to_owned());
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.len() + 1 + word.len() > COLUMNS {
            lines.push(std::mem::replace(&mut line, more.clone()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

/// What to type next, and what that is.
fn next(kept: Option<&Path>) -> Vec<(String, &'static str)> {
    let mut next = vec![
        ("quorate dev".to_owned(), "a cluster that stays until Ctrl-C"),
        ("quorate kv put greeting hello".to_owned(), "in another terminal; `kv get` reads it"),
        ("etcdctl put greeting hello".to_owned(), "the same keys, with what `dev` prints for it"),
        ("quorate chaos --help".to_owned(), "these faults and more, whenever you like"),
        (
            "quorate init --dir prod --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000".to_owned(),
            "a cluster on machines of your own",
        ),
    ];
    if let Some(path) = kept {
        next.insert(
            0,
            (format!("quorate dev --dir {}", path.display()), "goes on with this cluster and its data"),
        );
    }
    next
}

/// The same, for programs.
pub(super) fn next_json(kept: Option<&Path>) -> Vec<Value> {
    next(kept).into_iter().map(|(command, what)| json!({ "command": command, "what": what })).collect()
}

/// The last words.
pub(super) fn farewell(kept: Option<&Path>) -> String {
    let mut text = match kept {
        Some(path) => format!(
            "\nThe cluster is stopped; its directory {} stays.\n\nWhat to type next:\n",
            path.display()
        ),
        None => "\nThe cluster is stopped, and its directory is removed.\n\nWhat to type next:\n".to_owned(),
    };
    for (command, what) in next(kept) {
        // Long commands have their explanation below.
        let gap =
            if command.len() < WIDE { " ".repeat(WIDE - command.len()) } else { format!("\n  {:WIDE$}", "") };
        let _ = writeln!(text, "  {command}{gap}{what}");
    }
    if let Some(program) = std::env::args().next().filter(|program| program.contains('/')) {
        let _ = writeln!(text, "Here `quorate` is {program}.");
    }
    text.push_str(
        "To read: README.md, docs/cli.md (all commands), docs/choosing.md (which faults to survive).",
    );
    text
}
