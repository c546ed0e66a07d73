//! `quorate man`: the manual pages, made from what `--help` says, for packages and for whoever built the program.

use quorate_command::failure::{Doing as _, Outcome};
use quorate_command::print;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[cfg(test)]
mod tests;

/// Write the manual pages: one for each command.
///
/// They hold what `--help` says. The page of `quorate kv put` is `quorate-kv-put.1`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate man --dir ~/.local/share/man/man1
  man quorate-kv-put")]
pub(crate) struct Args {
    /// Where to write them; files of the same names are replaced
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// Writes the pages of `program` and of all commands in it.
pub(crate) fn run(args: &Args, program: clap::Command) -> Outcome {
    let count = write(&args.dir, program)?;
    print::line(format!("{count} pages are in {}", args.dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for the program and for each command that `--help` shows. Gives their number.
///
/// # Errors
/// When the system refuses.
fn write(directory: &Path, program: clap::Command) -> Outcome<usize> {
    std::fs::create_dir_all(directory).doing(format_args!("make {}", directory.display()))?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut waiting = vec![program];
    let mut count = 0;
    while let Some(command) = waiting.pop() {
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        waiting.extend(shown.map(|below| below.clone().disable_help_subcommand(true)));
        let man = clap_mangen::Man::new(command);
        let mut page = Vec::new();
        let file = directory.join(man.get_filename());
        man.render(&mut page).doing(format_args!("make {}", file.display()))?;
        std::fs::write(&file, page).doing(format_args!("write {}", file.display()))?;
        count += 1;
    }
    Ok(count)
}
