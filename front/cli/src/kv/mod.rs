//! `quorate kv`: the key-value service from the command line.

pub(crate) mod etcd;
mod refused;
mod show;

use quorate::client::{BlockingSession, ReadConsistency, ReadOptions, ReadResult};
use quorate::{BlockingClient, Error};
use quorate_command::arguments::parse_time;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use quorate_kv::{Condition, KvCommand, KvQuery, KvReply, Operation, Scan};
use quorate_types::{ReplicaId, Seq, Span};
use show::Show;
pub(crate) use show::{hex, unhex};
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;
use std::time::Duration;

/// The largest request that replicas can be configured to accept, and what stands around it. The replicas' own limit decides.
const FRAME_BYTES_MAX: u32 = 8 << 20;
/// After how long a person learns that the disks are full. If only the leader's disk is full, it has handed over by then.
const FULL_PATIENCE: Span = Span::from_secs(1);

/// Read and write keys, of the key-value service or of the store that clients of etcd use.
///
/// Writes run exactly once. An error says whether a write may have been done all the same.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate kv put greeting hello
  quorate kv get greeting
  cat picture.png | quorate kv put picture -
  quorate kv get picture --raw > picture.png
  quorate kv cas greeting goodbye --if hello
  quorate kv scan --prefix user/ --limit 10
  quorate kv get greeting --weak --replica 2
  quorate kv get greeting --after 17

Reads are strong unless told otherwise: they see every write that was acknowledged before, whoever wrote it, and need a majority.
With --after a read sees what was written or read up to that seq, and perhaps no more; --weak promises nothing but one moment's state.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Put(Put),
    Get(Get),
    Delete(Delete),
    Scan(ScanArgs),
    Cas(Cas),
}

/// What all of them take.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How long to wait for the answer, as in 500ms or 2s
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    timeout: Duration,
    /// Print keys and values in hexadecimal digits
    #[arg(long)]
    hex: bool,
    /// Keys and values on the command line are in hexadecimal digits
    #[arg(long)]
    hex_input: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How to read.
#[derive(Debug, clap::Args)]
struct Reading {
    /// What one replica has, however old, even when no majority is up; with --json the answer says of which seq
    #[arg(long)]
    weak: bool,
    /// Not older than this seq, which a put, delete, cas or get with --json printed: what was written there, or read, is in it. One
    /// replica suffices, and one that is behind waits. Others' newest writes may be missing
    #[arg(long, value_name = "SEQ", conflicts_with = "weak")]
    after: Option<u64>,
    /// Read from this replica only
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..))]
    replica: Option<u16>,
}

/// Give a key a value
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate kv put greeting hello
  cat picture.png | quorate kv put picture -")]
struct Put {
    /// The key
    key: OsString,
    /// The value; - or nothing reads it from standard input
    value: Option<OsString>,
    #[command(flatten)]
    common: Common,
}

/// Print the value of a key; exit code 1 when it has none
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate kv get greeting
  quorate kv get picture --raw > picture.png
  quorate kv get greeting --weak --replica 2")]
struct Get {
    /// The key
    key: OsString,
    /// Print the bytes as they are, without a line end
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    raw: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    common: Common,
}

/// Take the value of a key away
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  quorate kv delete greeting")]
struct Delete {
    /// The key
    key: OsString,
    #[command(flatten)]
    common: Common,
}

/// Print keys and values in order
///
/// A long scan takes several reads, each of which sees the state of its own moment.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate kv scan
  quorate kv scan --prefix user/ --keys-only
  quorate kv scan --start a --end b --limit 100
  quorate kv scan --hex --start 00ff --hex-input")]
struct ScanArgs {
    /// The first key
    #[arg(long, value_name = "KEY")]
    start: Option<OsString>,
    /// The key before which it ends
    #[arg(long, value_name = "KEY")]
    end: Option<OsString>,
    /// Only keys that begin with this
    #[arg(long, value_name = "KEY", conflicts_with_all = ["start", "end"])]
    prefix: Option<OsString>,
    /// The most keys to print
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Keys without values
    #[arg(long)]
    keys_only: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    common: Common,
}

/// Give a key a value if a condition holds of it; exit code 1 when it does not
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate kv cas greeting goodbye --if hello
  quorate kv cas lock me --if-absent")]
struct Cas {
    /// The key
    key: OsString,
    /// Its value from then on; - or nothing reads it from standard input
    value: Option<OsString>,
    #[command(flatten)]
    condition: ConditionArgs,
    #[command(flatten)]
    common: Common,
}

/// What must hold.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct ConditionArgs {
    /// If its value is this one
    #[arg(long = "if", value_name = "VALUE")]
    equals: Option<OsString>,
    /// If it has no value
    #[arg(long)]
    if_absent: bool,
    /// If it has a value
    #[arg(long)]
    if_present: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Put(args) => put(&args),
        Command::Get(args) => get(&args),
        Command::Delete(args) => delete(&args),
        Command::Scan(args) => scan(&args),
        Command::Cas(args) => cas(&args),
    }
}

impl Common {
    fn show(&self) -> Show {
        Show { hex: self.hex }
    }
    fn client(&self) -> Outcome<BlockingClient> {
        let cluster = Cluster::find(&self.cluster)?;
        refused::refuse_dead(&cluster.members, self.timeout)?;
        let builder = cluster.client();
        let builder = builder.timeout(self.timeout).frame_bytes_max(FRAME_BYTES_MAX);
        let builder = builder.configure(|config| config.full_patience = Some(FULL_PATIENCE));
        builder.build_blocking().doing("start a client")
    }
    /// A key or value from the command line.
    fn input(&self, text: &OsString, what: &str) -> Outcome<Vec<u8>> {
        let bytes = text.as_bytes();
        if !self.hex_input {
            return Ok(bytes.to_vec());
        }
        show::unhex(bytes).ok_or_else(|| {
            Failure::usage(format!("with --hex-input, {what} is an even number of hexadecimal digits"))
        })
    }
    fn value(&self, text: Option<&OsString>) -> Outcome<Vec<u8>> {
        match text.filter(|text| *text != "-") {
            Some(text) => self.input(text, "a value"),
            None => {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes).doing("read the value from standard input")?;
                Ok(bytes)
            }
        }
    }
    /// Runs one command in a session of its own. Gives the reply, and the seq of the write.
    fn write(&self, command: &KvCommand<'_>) -> Outcome<(Vec<u8>, u64)> {
        let client = self.client()?;
        let session = client.open_session().map_err(|why| not_done(&why))?;
        is_ours(&client)?;
        let call = |bytes: &[u8]| {
            let replies = session.call_one(bytes)?;
            Ok::<_, Error>(replies.first().unwrap_or_default().to_vec())
        };
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        let mut reply = match call(&bytes) {
            // Full disks take deletes, and the etcd store knows one only in its own form.
            Err(Error::DiskFull { outcome_unknown: false })
                if matches!(command, KvCommand::One(Operation::Delete { .. })) =>
            {
                etcd::refusal()
            }
            reply => reply.map_err(|why| wrote(&why))?,
        };
        if let Some(bytes) = etcd::command(command).filter(|_| etcd::is_refusal(&reply)) {
            let translated = call(&bytes).map_err(|why| wrote(&why))?;
            reply = etcd::reply(command, &translated)?;
        }
        // Not older than this, a read sees the write.
        let seq = client.newest().number();
        close(session);
        Ok((reply, seq))
    }
}

/// Whether the cluster runs a service with keys, as far as it says.
fn is_ours(client: &BlockingClient) -> Outcome<()> {
    match client.client().service() {
        None | Some("kv" | "etcd") => Ok(()),
        Some(other) => Err(Failure::new(format!(
            "not done: this cluster runs the service {other}, and `quorate kv` is for the services kv and etcd"
        ))),
    }
}

/// Closes a session whose outcome is known; if that fails, the session expires.
fn close(session: BlockingSession) {
    let _ = session.close();
}

fn wrote(why: &Error) -> Failure {
    if why.is_outcome_unknown() {
        return Failure::new(format!(
            "outcome unknown: {why}. Read the key before you write again; `quorate status` says how the cluster is"
        ));
    }
    match why {
        Error::ReplyForgotten => Failure::new(format!("done, but {why}")),
        _ => not_done(why),
    }
}

fn not_done(why: &Error) -> Failure {
    Failure::new(format!("not done: {why}. `quorate status` says how the cluster is"))
}

fn decode(bytes: &[u8]) -> Outcome<KvReply<'_>> {
    match KvReply::decode(bytes) {
        Ok(KvReply::Error(why)) => Err(Failure::new(format!("not done: {why}"))),
        Ok(reply) => Ok(reply),
        Err(_) => Err(unexpected()),
    }
}

fn unexpected() -> Failure {
    Failure::new("the answer is not one of the key-value service: does this cluster run another service?")
}

fn put(args: &Put) -> Outcome {
    let common = &args.common;
    let (key, value) = (common.input(&args.key, "a key")?, common.value(args.value.as_ref())?);
    let (reply, seq) = common.write(&KvCommand::One(Operation::Put { key: &key, value: &value }))?;
    let KvReply::Put { replaced } = decode(&reply)? else {
        return Err(unexpected());
    };
    let text = if common.json {
        serde_json::json!({ "done": true, "replaced": replaced, "seq": seq }).to_string()
    } else {
        "ok".to_owned()
    };
    print::line(text)?;
    Ok(ExitCode::SUCCESS)
}

fn delete(args: &Delete) -> Outcome {
    let common = &args.common;
    let key = common.input(&args.key, "a key")?;
    let (reply, seq) = common.write(&KvCommand::One(Operation::Delete { key: &key }))?;
    let KvReply::Deleted { existed } = decode(&reply)? else {
        return Err(unexpected());
    };
    let text = match (common.json, existed) {
        (true, _) => serde_json::json!({ "done": true, "existed": existed, "seq": seq }).to_string(),
        (false, true) => "ok".to_owned(),
        (false, false) => "ok (it had no value)".to_owned(),
    };
    print::line(text)?;
    Ok(ExitCode::SUCCESS)
}

fn cas(args: &Cas) -> Outcome {
    let common = &args.common;
    let (key, value) = (common.input(&args.key, "a key")?, common.value(args.value.as_ref())?);
    let equals = args.condition.equals.as_ref().map(|text| common.input(text, "a value")).transpose()?;
    let condition = match &equals {
        Some(value) => Condition::Equals(value),
        None if args.condition.if_absent => Condition::Absent,
        None => Condition::Present,
    };
    let (reply, seq) = common.write(&KvCommand::Swap { key: &key, condition, value: &value })?;
    let current = match decode(&reply)? {
        KvReply::Swapped => {
            let json = || serde_json::json!({ "done": true, "swapped": true, "seq": seq }).to_string();
            print::line(if common.json { json() } else { "ok".to_owned() })?;
            return Ok(ExitCode::SUCCESS);
        }
        KvReply::NotSwapped { current } => current,
        _ => return Err(unexpected()),
    };
    let show = common.show();
    if common.json {
        let mut json = serde_json::json!({ "done": true, "swapped": false, "seq": seq });
        show.insert(&mut json, "current", current);
        print::line(json.to_string())?;
        return Ok(ExitCode::FAILURE);
    }
    let current = current.map_or("no value".to_owned(), |value| format!("the value {}", show.text(value)));
    Err(Failure::new(format!("not done: the key has {current}")))
}

fn options(reading: &Reading) -> ReadOptions {
    ReadOptions {
        consistency: match (reading.weak, reading.after) {
            (true, _) => ReadConsistency::Weak,
            (false, Some(_)) => ReadConsistency::Session,
            (false, None) => ReadConsistency::Strong,
        },
        after: Seq::new(reading.after.unwrap_or(0)),
        replica: reading.replica.map(ReplicaId::new),
        timeout: None,
    }
}

fn read(client: &BlockingClient, query: &KvQuery<'_>, reading: &Reading) -> Outcome<ReadResult> {
    let ask = |bytes: Vec<u8>| client.read(bytes, options(reading)).map_err(|why| cannot_read(&why, reading));
    let mut bytes = Vec::new();
    query.encode(&mut bytes);
    let result = ask(bytes)?;
    if !etcd::is_refusal(&result.body) {
        return Ok(result);
    }
    let result = ask(etcd::query(query))?;
    Ok(ReadResult { body: etcd::answer(query, &result.body)?.into(), ..result })
}

fn cannot_read(why: &Error, reading: &Reading) -> Failure {
    let hint = if reading.weak || reading.after.is_some() || reading.replica.is_some() {
        ""
    } else {
        "; with --weak one replica suffices, and may be behind"
    };
    Failure::new(format!("can not read: {why}{hint}. `quorate status` says how the cluster is"))
}

fn get(args: &Get) -> Outcome {
    let common = &args.common;
    let key = common.input(&args.key, "a key")?;
    let result = read(&common.client()?, &KvQuery::Get { key: &key }, &args.reading)?;
    let KvReply::Value(value) = decode(&result.body)? else { return Err(unexpected()) };
    let show = common.show();
    if common.json {
        let mut json = serde_json::json!({ "seq": result.seq.number() });
        show.insert(&mut json, "value", value);
        print::line(json.to_string())?;
        return Ok(if value.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let Some(value) = value else {
        return Err(Failure::new(format!("the key {} has no value", show.text(&key))));
    };
    if args.raw {
        print::bytes(value)?
    } else {
        print::line(show.text(value))?
    };
    Ok(ExitCode::SUCCESS)
}

fn scan(args: &ScanArgs) -> Outcome {
    let common = &args.common;
    let input = |text: &Option<OsString>| text.as_ref().map(|text| common.input(text, "a key")).transpose();
    let (mut start, end) = match input(&args.prefix)? {
        Some(prefix) => {
            let end = after_prefix(&prefix);
            (prefix, end)
        }
        None => (input(&args.start)?.unwrap_or_default(), input(&args.end)?.unwrap_or_default()),
    };
    let (client, show) = (common.client()?, common.show());
    let mut left = args.limit;
    loop {
        let query = KvQuery::Scan(Scan { start: &start, end: &end, limit: left.unwrap_or(0) });
        let result = read(&client, &query, &args.reading)?;
        let KvReply::Entries { entries, next } = decode(&result.body)? else { return Err(unexpected()) };
        let mut out = String::new();
        for (key, value) in &entries {
            let value = Some(*value).filter(|_| !args.keys_only);
            out.push_str(&show.entry(key, value, common.json));
        }
        let more = left.as_ref().is_none_or(|left| *left > entries.len() as u64);
        left = left.map(|left| left.saturating_sub(entries.len() as u64));
        let heard = print::bytes(out.as_bytes())?;
        match next {
            // A page without entries that names where to go on would be asked for again and again.
            Some(next) if heard && more && next > start.as_slice() => start = next.to_vec(),
            _ => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// The first key behind all keys with this prefix; empty when there is none.
fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    end
}
