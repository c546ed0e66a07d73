//! The simulator by itself: `sim [--seed N] [--first N] [--count N] [--jobs N] [--trace main|all] [--html FILE] [--log FILE]
//! [--shrink] [--json] [--planted] [--plant BUG]`. `quorate sim` takes the same words.

use quorate_sim::Level;
use quorate_sim::command::{Options, execute};
use std::io::{self, Write as _};
use std::process::ExitCode;

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} takes a value"));
        let number = |text: String| text.parse::<u64>().map_err(|why| format!("{text}: {why}"));
        match word.as_str() {
            "--seed" => options.seed = Some(number(value()?)?),
            "--first" => options.first = number(value()?)?,
            "--count" => options.count = number(value()?)?,
            "--jobs" => options.jobs = number(value()?)? as usize,
            "--trace" => options.trace = Some(if value()? == "all" { Level::All } else { Level::Main }),
            "--html" => options.html = Some(value()?.into()),
            "--log" => options.log = Some(value()?.into()),
            "--shrink" => options.shrink = true,
            "--json" => options.json = true,
            "--planted" => options.planted = true,
            "--plant" => quorate_types::plant(Some(&value()?)),
            other => return Err(format!("{other} is no option of this program")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let mut told = 0;
    let done = execute(&options, &mut io::stdout().lock(), |progress| {
        let tenth = progress.done * 10 / progress.total.max(1);
        if tenth > told {
            told = tenth;
            let _ = writeln!(
                io::stderr(),
                "{} of {} seeds, {:.0} per second, {} failures",
                progress.done,
                progress.total,
                progress.rate,
                progress.failures
            );
        }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}
