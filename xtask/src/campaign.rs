//! `cargo xtask campaign`: long runs by name. The tests run a little of everything; a campaign runs one thing for long. `table.rs` has the
//! campaigns.

mod runner;
mod table;

use crate::commands::Done;
use serde_json::{Value, json};
use std::path::Path;
use table::{BUILD, Campaign, Step, TABLE, What};

const HELP: &str = "cargo xtask campaign [NAME] [--sample] [--json]

  without a name   list the campaigns, what each covers, and how long it takes
  NAME             run this one, with a log under target/campaigns
  --sample         run a few seconds of each (or of NAME alone), as the gate does
  --json           list them as JSON";

/// What to run.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Help,
    List { json: bool },
    Run { name: Option<String>, sample: bool },
}

pub(crate) fn campaign(root: &Path, args: &[String]) -> Done {
    match asked(args)? {
        Asked::Help => println!("{HELP}"),
        Asked::List { json: false } => print!("{}", listed()),
        Asked::List { json: true } => println!("{:#}", as_json()),
        Asked::Run { name, sample } => {
            let chosen = chosen(name.as_deref())?;
            let steps = steps(&chosen, sample);
            if steps.is_empty() {
                println!("{} has no sample: the tests run a little of it", chosen[0].name);
                return Ok(());
            }
            return runner::run(root, name.as_deref().unwrap_or("sample"), &steps);
        }
    }
    Ok(())
}

fn asked(args: &[String]) -> Result<Asked, String> {
    let (mut name, mut sample, mut json) = (None, false, false);
    for arg in args {
        match arg.as_str() {
            "--sample" => sample = true,
            "--json" => json = true,
            "--help" | "-h" | "help" => return Ok(Asked::Help),
            option if option.starts_with('-') => {
                return Err(format!("campaign: there is no {option}\n\n{HELP}"));
            }
            _ if name.is_some() => return Err(format!("campaign: one name at a time\n\n{HELP}")),
            word => name = Some(word.to_string()),
        }
    }
    match (name, sample, json) {
        (None, false, json) => Ok(Asked::List { json }),
        (_, _, true) => Err(format!("campaign: --json is for the list alone\n\n{HELP}")),
        (name, sample, false) => Ok(Asked::Run { name, sample }),
    }
}

/// The campaign with this name, or all.
fn chosen(name: Option<&str>) -> Result<Vec<&'static Campaign>, String> {
    let Some(name) = name else { return Ok(TABLE.iter().collect()) };
    let found: Vec<&Campaign> = TABLE.iter().filter(|campaign| campaign.name == name).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let close: Vec<&str> = TABLE.iter().map(|campaign| campaign.name).filter(|n| n.contains(name)).collect();
    let close = if close.is_empty() { String::new() } else { format!("; there is {}", close.join(", ")) };
    Err(format!("campaign: there is no campaign {name:?}{close}\n`cargo xtask campaign` lists them"))
}

fn steps(chosen: &[&'static Campaign], sample: bool) -> Vec<&'static Step> {
    let steps = chosen.iter().flat_map(|campaign| if sample { campaign.sample } else { campaign.steps });
    let steps: Vec<&'static Step> = steps.collect();
    let needs = steps.iter().any(|step| step.what == What::Debug);
    needs.then_some(&BUILD).into_iter().chain(steps).collect()
}

/// The table as text.
fn listed() -> String {
    let wide = |of: fn(&Campaign) -> &str| TABLE.iter().map(|row| of(row).len()).max().unwrap_or(0);
    let (names, times) = (wide(|row| row.name), wide(|row| row.usual));
    let mut text = String::new();
    for row in TABLE {
        text += &format!("{:names$}  {:times$}  {}\n", row.name, row.usual, row.covers);
    }
    text + "\nTimes are of two cores, once everything is built. `cargo xtask campaign NAME` runs one, `--sample` a little of each.\n"
}

fn as_json() -> Value {
    let command = |step: &Step| {
        let variables: serde_json::Map<String, Value> =
            step.variables().into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        json!({ "environment": variables, "command": step.words().join(" ") })
    };
    let row = |row: &Campaign| {
        json!({
            "name": row.name,
            "covers": row.covers,
            "usual": row.usual,
            "steps": row.steps.iter().map(command).collect::<Vec<_>>(),
            "sample": row.sample.iter().map(command).collect::<Vec<_>>(),
        })
    };
    TABLE.iter().map(row).collect()
}

#[cfg(test)]
mod tests;
