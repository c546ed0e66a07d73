//! `quorate faults`: shows which faults the cluster survives, and lets it survive others while it works. docs/operations/faults.md has the
//! procedure. Tests: tests/all/faults.rs.

use crate::admin::{self, Signing};
use crate::member::{self, Asked, View};
use quorate::client::{Authentication, ClientFile};
use quorate_command::admin::{Admin, Answer};
use quorate_command::cluster::{CLIENT_FILE, Cluster, ClusterArgs};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::ordering::{FaultsWord, ModelArgs, ModelWord, protocol_word};
use quorate_command::print;
use quorate_order::Protocol;
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{AdminCommand, Era, EraFaults, FaultsRequest, FrameKind};
use serde::Deserialize;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a switch may take: the end is ordered, replicas write the state and start again, and agree on something.
const SWITCH: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// Show which faults the cluster survives, and have it survive others while it works.
///
/// The command ends an era of the cluster, and another one begins, with another fault model and perhaps another protocol. Replicas start
/// again by themselves with the state that they agreed on, and clients go on. What the configurations say of faults and protocol counts no
/// more from then on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate faults show
  quorate faults set byzantine                          one of four, two of seven ... may lie from then on
  quorate faults set visigoth --faults u=2,s=2,o=1      two are faulty, one of them lies
  quorate faults set crash                              back; where replicas may lie, administrators sign it

What it takes: docs/operations/faults.md")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(ShowArgs),
    Set(SetArgs),
}

/// Show the era, its faults and its protocol.
#[derive(Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Survive other faults from now on. One change at a time, of this, of the members or of the instances.
#[derive(Debug, clap::Args)]
struct SetArgs {
    /// Which faults
    #[arg(value_name = "MODEL", value_enum)]
    model: ModelWord,
    /// How many, where fewer are wanted than the members allow; with visigoth all numbers, as u=2,s=2,o=1 [default: as many as they allow]
    #[arg(long, value_name = "COUNT|NUMBERS")]
    faults: Option<FaultsWord>,
    /// How replicas agree [default: raft with crash faults, otherwise mod-smart]
    #[arg(long, value_parser = protocol_word())]
    protocol: Option<Protocol>,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Show(args) => show(&args),
        Command::Set(args) => set(&args),
    }
}

/// The era, as a replica's status says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Said {
    number: u64,
    protocol: String,
    model: String,
    faults: u32,
    may_lie: bool,
    began: Option<u64>,
    ends: Option<u64>,
}

/// The era of a cluster.
struct Look {
    /// The latest one that enough replicas say alike.
    said: Said,
    /// How many replicas are in it, and how many there are.
    there: (usize, usize),
    raw: Value,
}

impl Look {
    fn at(cluster: &Cluster) -> Outcome<Self> {
        let answers = Admin::new(cluster)?.ask_all();
        let read = |answer: &Answer| {
            let raw = answer.status.as_ref().ok()?.raw["era"].clone();
            Some((Said::deserialize(&raw).ok()?, raw))
        };
        let all: Vec<(Said, Value)> = answers.iter().filter_map(read).collect();
        let words: Vec<Said> = all.iter().map(|(said, _)| said.clone()).collect();
        let latest = admin::believed(&words, cluster.truth()).max_by_key(|said| said.number).cloned();
        let said = latest.ok_or_else(|| {
            Failure::new(
                "not enough replicas say the same of the era: do they run, and a program that knows of eras?",
            )
        })?;
        let there = words.iter().filter(|other| other.number == said.number).count();
        let raw = all.into_iter().find(|(other, _)| *other == said).map_or(Value::Null, |(_, raw)| raw);
        Ok(Self { said, there: (there, answers.len()), raw })
    }

    fn text(&self) -> String {
        let Said { number, protocol, model, faults, may_lie, began, ends } = &self.said;
        let survives = match (faults, may_lie) {
            (1, true) => "1 fault, which may be a lie".to_owned(),
            (1, false) => "1 fault".to_owned(),
            (_, true) => format!("{faults} faults, which may be lies"),
            (_, false) => format!("{faults} faults"),
        };
        let since = began.map_or(String::new(), |seq| format!(", since seq {seq}"));
        let mut text = format!(
            "era {number}{since}: {model}, ordered by {protocol}; it survives {survives}\n{} of {} replicas are in it",
            self.there.0, self.there.1
        );
        if let Some(next) = ends {
            text += &format!("\nit is over, and era {next} begins");
        }
        text
    }
}

/// Whether enough replicas say that they are in this era, or in a later one.
pub(crate) fn is_in(cluster: &Cluster, number: u64) -> bool {
    Look::at(cluster).is_ok_and(|look| look.said.number >= number)
}

fn show(args: &ShowArgs) -> Outcome {
    let look = Look::at(&Cluster::find(&args.cluster)?)?;
    print::line(if args.json { look.raw.to_string() } else { look.text() })?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for the end of the era. Gives the number of the next one; the text, if administrators are to sign it elsewhere.
fn begin(
    args: &SetArgs,
    cluster: &Cluster,
    request: &FaultsRequest,
    lies: bool,
) -> Outcome<Result<u64, String>> {
    let asked = Asked { frame: &|| request.frame(), reply: FrameKind::FaultsReply };
    let unknown = |text: &str| {
        Failure::new(format!("the replicas answered `{text}`, which this program does not understand"))
    };
    if !lies {
        let text = member::ask_leader(cluster, &asked, Instant::now() + SWITCH)?;
        let number = text.strip_prefix("begun ").and_then(|number| number.parse().ok());
        return number.map(Ok).ok_or_else(|| unknown(&text));
    }
    let text = admin::drafted_text(cluster, &asked)?;
    let mut words = text.split(' ').skip(1);
    let number = words.next().and_then(|word| word.parse().ok());
    let era = words.next().and_then(|word| crate::kv::unhex(word.as_bytes()));
    let era = era.and_then(|bytes| Era::decode(bytes.into()).ok());
    let (number, era) = number.zip(era).ok_or_else(|| unknown(&text))?;
    let next = era.number;
    let done = admin::carry_out(cluster, &args.signing, (number, AdminCommand::Era(era)), "")?;
    Ok(if args.signing.is_later() { Err(done) } else { Ok(next) })
}

fn set(args: &SetArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let chosen = ModelArgs::of(args.model, args.faults);
    let model = chosen.model()?.unwrap_or_default();
    let faults = EraFaults { model, most: chosen.count() };
    let request = FaultsRequest { protocol: args.protocol.map(|protocol| protocol.row().number), faults };
    let said = Look::at(&cluster)?.said;
    if said.model == model.to_string() && args.protocol.is_none() && args.faults.is_none() {
        return Err(Failure::new(format!(
            "the cluster survives {model} faults already (`quorate faults show`): add --faults or --protocol to change how many, or how replicas agree"
        )));
    }
    let lies = said.may_lie;
    let number = match begin(args, &cluster, &request, lies)? {
        Ok(number) => number,
        Err(later) => {
            print::line(later)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let until = Instant::now() + SWITCH;
    loop {
        std::thread::sleep(LOOK);
        let next = Cluster {
            era: number,
            fault_model: model,
            faults: faults.most,
            weighted: false,
            ..cluster.clone()
        };
        if let Ok(look) = Look::at(&next)
            && look.said.number >= number
            && look.there.0 >= next.majority()
            && let Ok(view) = View::of(&next)
            && view.leader.is_some()
        {
            write_client_file(&next, &args.cluster, &view)?;
            let done = format!(
                "{}\nclient.toml says so: give it to clients that know no replica of the era before",
                look.text()
            );
            let mut document = look.raw;
            document["done"] = json!(done);
            print::line(if args.json { document.to_string() } else { done })?;
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "the end of the era was ordered, and era {number} does not work yet: it needs a quorum of the members. `quorate faults show` \
                 shows how it stands; it goes on by itself"
            )));
        }
    }
}

/// Writes the era into `client.toml`, with the members and, where replicas may lie, their keys.
fn write_client_file(cluster: &Cluster, args: &ClusterArgs, view: &View) -> Outcome<()> {
    let mut file = cluster.file();
    file.learners = Vec::new();
    file.members = view.addresses();
    let key = |member: &member::Member| {
        Some((ReplicaId::new(member.replica), ClientFile::parse_key(member.key.as_deref()?)?))
    };
    let keys: std::collections::BTreeMap<_, _> = view.members.iter().filter_map(key).collect();
    if keys.len() == file.members.len() {
        file.keys = keys;
    }
    let lies = cluster.fault_model.may_lie();
    file.membership = (lies && file.keys.len() == file.members.len()).then_some(MembershipId::FIRST);
    if !lies {
        file.authentication = Authentication::Links;
    }
    let path = args.config.clone().unwrap_or_else(|| cluster.directory.join(CLIENT_FILE));
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(()) };
    let mut document: toml::Table = toml::from_str(&text).doing(format_args!("read {}", path.display()))?;
    let now: toml::Table = toml::from_str(&file.to_toml()).doing("write the era")?;
    for name in ["era", "fault_model", "faults", "weighted", "authentication", "membership", "members"] {
        match now.get(name) {
            Some(value) => drop(document.insert(name.into(), value.clone())),
            None => drop(document.remove(name)),
        }
    }
    let text = toml::to_string(&document).doing(format_args!("write {}", path.display()))?;
    let text = format!(
        "# Where the cluster is, for clients: `quorate --config` and QUORATE_CONFIG name this file.\n{text}"
    );
    std::fs::write(&path, text).doing(format_args!("write {}", path.display()))
}
