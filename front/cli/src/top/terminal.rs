//! The terminal: a screen of its own while this program shows something, and as it was before when it ends, however it ends.

use super::layout::Size;
use super::line::Line;
use quorate_command::failure::{Doing as _, Outcome};
use quorate_command::print;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

/// Another screen, without a cursor; lines that are too long do not go on in the next one.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// What a terminal has that does not say.
const USUAL: Size = Size { columns: 80, lines: 24 };

/// How the terminal was; none while it is as it was.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

/// How the terminal was before. Without keys nothing of its input is changed.
struct Before(Option<Termios>);

/// The terminal, until this is dropped.
pub(super) struct Terminal {
    colours: bool,
}

impl Terminal {
    /// Whether standard output is a terminal that can show a screen.
    pub(super) fn is_there() -> bool {
        io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
    }

    /// Whether keys can be read.
    pub(super) fn has_keys() -> bool {
        io::stdin().is_terminal()
    }

    /// Takes the terminal. A panic, in whatever thread, gives it back before it says what happened.
    ///
    /// # Errors
    /// When the terminal can not be changed.
    pub(super) fn take() -> Outcome<Self> {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            told(panic);
        }));
        let terminal = Self { colours: !plain };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Makes the terminal ours, at the beginning or after a stop.
    pub(super) fn enter(&self) -> Outcome<()> {
        let stdin = io::stdin();
        let before = if Self::has_keys() { Some(tcgetattr(&stdin).doing("ask the terminal")?) } else { None };
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            tcsetattr(&stdin, OptionalActions::Now, &raw).doing("change the terminal")?;
        }
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Before(before));
        print::bytes(ENTER.as_bytes()).map(drop)
    }

    /// Gives it back for as long as this program is stopped.
    pub(super) fn leave(&self) {
        give_back();
    }

    /// The size of its screen now.
    pub(super) fn size() -> Size {
        let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or(USUAL, |size| Size { columns: size.ws_col.into(), lines: size.ws_row.into() })
    }

    /// Shows these lines, which fit. `false` when there is no terminal any more.
    ///
    /// # Errors
    /// When it can not be written to.
    pub(super) fn show(&self, lines: &[Line]) -> Outcome<bool> {
        // Another thread has failed, and says so on the screen that was there before.
        if BEFORE.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Ok(true);
        }
        let shown: Vec<String> =
            lines.iter().map(|line| line.for_terminal(self.colours) + "\x1b[K").collect();
        print::bytes(format!("\x1b[H{}\x1b[J", shown.join("\r\n")).as_bytes())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Makes the terminal as it was, if it is not. Nothing can be done where that fails.
fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(Before(before)) = before else { return };
    let mut out = io::stdout();
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    if let Some(before) = before {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}
