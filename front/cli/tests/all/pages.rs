//! Pages that people paste from, README.md and docs/quickstart.md: each command in them is run, in order, as it stands.
//!
//! A block of `sh` is one script. A comment before it may say something else: `<!-- run: no -->`; `<!-- run: until TEXT -->` for what keeps
//! running, once it has printed that; `<!-- run: where PROGRAM -->` for what is skipped without that program. What a line prints has the text
//! in it that stands behind `# -> ` at its end.

use crate::harness::{PATIENCE, pid, wait_until};
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// How a block is run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    Not,
    ToItsEnd,
    Until(String),
    Where(String),
}

/// A block of commands.
#[derive(Debug)]
struct Block {
    line: usize,
    way: Way,
    text: String,
}

fn way(comment: &str) -> Option<Way> {
    let said = comment.trim().strip_prefix("<!-- run: ")?.strip_suffix(" -->")?;
    Some(match said.split_once(' ') {
        None if said == "no" => Way::Not,
        Some(("until", text)) => Way::Until(text.to_owned()),
        Some(("where", program)) => Way::Where(program.to_owned()),
        _ => panic!("what does {comment:?} mean?"),
    })
}

/// The blocks of a page, in order.
fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut next, mut inside) = (Vec::new(), None, None::<Block>);
    for (number, line) in page.lines().enumerate() {
        match &mut inside {
            Some(_) if line == "```" => blocks.extend(inside.take()),
            Some(block) => block.text += &format!("{line}\n"),
            None if line == "```sh" => {
                let way = next.take().unwrap_or(Way::ToItsEnd);
                inside = Some(Block { line: number + 1, way, text: String::new() });
            }
            None => next = way(line).or_else(|| next.take().filter(|_| line.trim().is_empty())),
        }
    }
    blocks
}

/// A block as a script that fails at the first line that fails, or does not print what it should.
fn script(block: &str) -> String {
    let mut script = "set -eu -o pipefail\n".to_owned();
    for line in block.lines() {
        script += &match line.split_once("# -> ") {
            Some((command, text)) => format!(
                "out=$( {{ {}; }} 2>&1 ) || {{ printf '%s\\n' \"$out\"; exit 98; }}\nprintf '%s\\n' \"$out\"\n\
                 [[ \"$out\" == *'{}'* ]] || {{ echo 'the line above should print: {}'; exit 99; }}\n",
                command.trim(),
                text.trim(),
                text.trim()
            ),
            None => format!("{line}\n"),
        };
    }
    script
}

/// A directory in which a reader works, and what keeps running there.
struct Reader {
    directory: tempfile::TempDir,
    path: String,
    running: Vec<Child>,
}

impl Reader {
    fn new() -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_quorate"));
        let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients");
        let mut path = vec![program.parent().expect("a folder").to_owned(), clients];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let path = std::env::join_paths(path).expect("no colons").into_string().expect("UTF-8");
        Self { directory: tempfile::tempdir().expect("a directory"), path, running: Vec::new() }
    }

    fn bash(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir(self.directory.path()).env("PATH", &self.path);
        command.env_remove("QUORATE_CONFIG").stdin(Stdio::null());
        command
    }

    fn has(&self, program: &str) -> bool {
        self.bash(&format!("command -v {program}")).output().is_ok_and(|found| found.status.success())
    }

    /// Starts what keeps running, and waits until it has printed this.
    fn starts(&mut self, block: &Block, text: &str) {
        let out = self.directory.path().join(format!("printed-{}.txt", self.running.len()));
        let printed = File::create(&out).expect("created");
        let script = format!("exec {}", block.text.trim());
        let child = self.bash(&script).stdout(printed.try_clone().expect("cloned")).stderr(printed).spawn();
        self.running.push(child.expect("bash runs"));
        let said = || fs::read_to_string(&out).unwrap_or_default();
        wait_until(&format!("line {}: it says {text:?}", block.line), || said().contains(text));
    }

    fn reads(&mut self, page: &str) {
        for block in blocks(page) {
            match &block.way {
                Way::Not => {}
                Way::Until(text) => self.starts(&block, text),
                Way::Where(program) if !self.has(program) => {
                    quorate_skipped::skipped(format!(
                        "{program} is not installed, a page's commands for it are not run"
                    ));
                }
                Way::ToItsEnd | Way::Where(_) => {
                    let began = Instant::now();
                    let ran = self.bash(&script(&block.text)).output().expect("bash runs");
                    let (out, err) =
                        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
                    assert!(
                        ran.status.success(),
                        "line {}: {}\n{}\n{out}\n{err}",
                        block.line,
                        ran.status,
                        block.text
                    );
                    assert!(began.elapsed() < PATIENCE, "line {}: it took long", block.line);
                }
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = kill_process(pid(child), Signal::INT);
        }
        for child in &mut self.running {
            let _ = child.wait();
        }
    }
}

fn page(path: &str) -> String {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&file).expect("it is there")
}

#[test]
fn the_readme_works_as_it_stands() {
    // The blocks before need a checkout.
    let text = page("README.md");
    let from = text.find("## Five minutes").expect("a section");
    Reader::new().reads(&text[from..]);
}

#[test]
fn ten_minutes_work_as_they_stand() {
    Reader::new().reads(&page("docs/quickstart.md"));
}

#[test]
fn the_readme_and_the_book_show_the_same_program() {
    let program = |text: &str| {
        let from = text.find("```rust").expect("a program");
        text[from..][..text[from..].find("\n```\n").expect("its end")].to_owned()
    };
    assert_eq!(program(&page("README.md")), program(&page("docs/services.md")));
}

#[test]
fn a_line_that_fails_or_prints_something_else_is_noticed() {
    let mut reader = Reader::new();
    reader.reads(
        "```sh\necho one   # -> one\nx=2\necho \"$x\"   # -> 2\n```\n\n<!-- run: no -->\n```sh\nfalse\n```\n",
    );
    for wrong in ["echo one   # -> two", "false", "false   # -> ", "echo \"$nothing\""] {
        let reads =
            std::panic::AssertUnwindSafe(|| reader.reads(&format!("```sh\n{wrong}\necho last\n```\n")));
        assert!(std::panic::catch_unwind(reads).is_err(), "{wrong}");
    }
    assert_eq!(blocks("<!-- run: until x y -->\n\n```sh\na\n```\n")[0].way, Way::Until("x y".into()));
}
