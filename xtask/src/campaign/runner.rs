//! Runs the steps of a campaign: their output goes to a log, their progress to the terminal.

use super::table::{Step, What};
use crate::commands::{Done, built};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often the progress of a running step is shown.
const NEWS: Duration = Duration::from_secs(30);
/// How many bytes at the end of the log are read.
const TAIL_BYTES: u64 = 8 << 10;
/// How many lines of a failed step are shown.
const TAIL_LINES: usize = 30;

pub(super) fn run(root: &Path, name: &str, steps: &[&Step]) -> Done {
    let folder = root.join("target/campaigns");
    let trouble = |what: &Path, e: std::io::Error| format!("campaign: {}: {e}", what.display());
    std::fs::create_dir_all(&folder).map_err(|e| trouble(&folder, e))?;
    // What the sample of before recorded: the simulator writes new files only.
    let _ = std::fs::remove_file(folder.join("sample.hashes"));
    let path = folder.join(format!("{name}.log"));
    let mut log = File::create(&path).map_err(|e| trouble(&path, e))?;
    println!("log: {}", path.display());
    let begin = Instant::now();
    for (at, step) in steps.iter().enumerate() {
        let line = step.line();
        println!("{} of {}: {line}", at + 1, steps.len());
        let begin = Instant::now();
        let ended = writeln!(log, "\n> {line}").and_then(|()| start(root, step, &log));
        let status = ended.and_then(|child| wait(child, &path)).map_err(|e| format!("{line}: {e}"))?;
        if !status.success() {
            let lines = last_lines(&path, TAIL_LINES).join("\n");
            return Err(format!(
                "{lines}\n\nthis step failed, {status}; try it again by itself:\n  {line}\nall that it printed: {}",
                path.display()
            ));
        }
        println!("  ok, {}", spoken(begin.elapsed()));
    }
    println!("{name}: all clean, {}", spoken(begin.elapsed()));
    Ok(())
}

fn start(root: &Path, step: &Step, log: &File) -> std::io::Result<Child> {
    let words = step.words();
    let program = match step.what {
        What::Debug => built(root).map_err(std::io::Error::other)?.into_os_string(),
        _ => std::env::var_os("CARGO").unwrap_or_else(|| words[0].into()),
    };
    let mut command = Command::new(program);
    command.args(&words[1..]).envs(step.variables()).current_dir(root).stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log.try_clone()?).spawn()
}

/// Waits for the process to end, and now and then shows the last line that it printed.
fn wait(mut child: Child, log: &Path) -> std::io::Result<ExitStatus> {
    let (begin, mut told) = (Instant::now(), Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(100));
        if told.elapsed() >= NEWS {
            told = Instant::now();
            let last: String = last_lines(log, 1).concat().chars().take(100).collect();
            println!("  {}: {last}", spoken(begin.elapsed()));
        }
    }
}

/// The last lines of a file that are not blank.
pub(super) fn last_lines(path: &Path, count: usize) -> Vec<String> {
    let bytes = match tail(path) {
        Ok(bytes) => bytes,
        Err(e) => return vec![format!("{}: {e}", path.display())],
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| (*line).to_string()).collect()
}

fn tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(end.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn spoken(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds if seconds < 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
