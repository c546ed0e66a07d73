//! Finds a checkpoint on which the replicas agree, fetches it from all of them at once, and writes it.
//!
//! Replicas serve an operator as they serve a replica that lacks a checkpoint (docs/protocols/state.md). So a backup asks nothing new of
//! them: no pause, and no load beyond the configured transfer rate.

use super::NoBackup;
use super::links::{Absent, Links, Said, absent};
use super::new_file::NewFile;
use super::proving::{present, prove};
use super::vouchers::Vouchers;
use quorate::client::{ClientFile, ReadOptions};
use quorate_auth::CheckpointProof;
use quorate_node::System;
use quorate_state::checkpoint::{Files, Image, Job, Keeper, Manifest, Report, Step};
use quorate_state::store::Store;
use quorate_state::transfer::{Effect, Fetch, FetchLimits, Fetched, Input};
use quorate_types::{Digest, ReplicaId, Seq, Time};
use quorate_wire::StateMessage;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the cluster may take to answer which changes are acknowledged.
const READ: Duration = Duration::from_secs(10);
/// How often the replicas are asked for their checkpoints, until one is agreed on and held.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How often they are asked while a checkpoint is fetched: they may make newer ones and delete this one.
const ASK_MEANWHILE: Duration = Duration::from_secs(2);
/// How long to wait for each replica's answer.
const ANSWER: Duration = Duration::from_secs(2);

/// The demands on a backup.
pub struct Wanted {
    /// Whether it must contain every change that is acknowledged by now.
    pub fresh: bool,
    /// The longest time without progress.
    pub patience: Duration,
    /// Where replicas may lie: whether it may be without a proof, if too few of them sign it.
    pub unproved: bool,
}

/// Makes a backup of this cluster in `file`, whose name is `path` in the end.
///
/// # Errors
/// Says why no backup was made.
pub fn make(
    cluster: &ClientFile,
    wanted: &Wanted,
    file: &mut NewFile,
    path: &Path,
    progress: &dyn Fn(Progress),
) -> Result<Made, NoBackup> {
    let cluster = &present(cluster);
    let at_least = if wanted.fresh { Some(acknowledged(cluster)?) } else { None };
    let links = Links::connect(cluster);
    let mut create = Create::new(cluster, links, wanted.patience, progress)?;
    let (seq, digest) = create.agreed(at_least)?;
    // First, since replicas forget what they agreed on once many later borders came.
    let early = proof(cluster, (seq, digest), wanted, progress)?;
    let fetched = create.fetch(seq)?;
    let Fetched { manifest, system, store } = *fetched;
    let image = Image { seq: manifest.seq(), border: manifest.border(), system, objects: store.version() };
    belongs(&image, cluster)?;
    let of = (manifest.seq(), manifest.digest());
    let proof = if of == (seq, digest) { early } else { proof(cluster, of, wanted, progress)? };
    proof.iter().for_each(|proof| file.note(proof.encode()));
    let bytes = write(file, &image, &manifest, path, progress)?;
    let vouched = create.vouchers.of(manifest.seq(), manifest.digest());
    let from: Vec<ReplicaId> = create.sources.iter().copied().collect();
    let absent = std::mem::take(&mut create.links.absent);
    Ok(Made { manifest, image, bytes, proof, vouched, from, absent })
}

/// The proof of a checkpoint; none where no replica lies, and where a backup may be without one.
fn proof(
    cluster: &ClientFile,
    of: (Seq, Digest),
    wanted: &Wanted,
    progress: &dyn Fn(Progress),
) -> Result<Option<CheckpointProof>, NoBackup> {
    if !cluster.faults_of_cluster().may_lie() {
        return Ok(None);
    }
    match prove(cluster, of, wanted.patience, progress) {
        Err(why) if wanted.unproved => {
            progress(Progress::Says(format!("warning: the backup has no proof, since {why}")));
            Ok(None)
        }
        proof => proof.map(Some),
    }
}

/// The progress of a backup, to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It waits for something whose progress is not known.
    Waits(String),
    /// This step of the work has done the first number of bytes, of the second.
    Moves(&'static str, u64, u64),
    /// A message for the operator.
    Says(String),
}

/// A backup that was made.
pub struct Made {
    /// The manifest on which the replicas agree.
    pub manifest: Manifest,
    /// The image of that manifest.
    pub image: Image,
    /// The length of the file.
    pub bytes: u64,
    /// Its proof, which stands in the file; only where replicas may lie.
    pub proof: Option<CheckpointProof>,
    /// The replicas that vouch for it.
    pub vouched: Vec<ReplicaId>,
    /// The replicas that sent parts of it.
    pub from: Vec<ReplicaId>,
    /// The replicas that could not be asked.
    pub absent: Vec<Absent>,
}

/// A seq up to which all changes lie that are acknowledged by now. A strong read returns it, whatever the service makes of the query.
///
/// Where replicas may lie, a change is acknowledged once f+1 executed it, and of those that answer a read f may be further than the others; then
/// the seq of the answer is of before. An ordered read comes after every acknowledged change, and f+1 say that they executed that far: a
/// second one tells what they said.
fn acknowledged(cluster: &ClientFile) -> Result<Seq, NoBackup> {
    let (builder, may_lie) = (cluster.builder(), cluster.faults_of_cluster().may_lie());
    let builder = if may_lie { builder.configure(|config| config.ordered_reads = true) } else { builder };
    let client = builder.timeout(READ).build_blocking();
    let client = client.map_err(|why| NoBackup::new(format!("can not ask the replicas: {why}")))?;
    let failed = |why| {
        NoBackup::new(format!(
            "can not find out which writes were acknowledged: {why}. With --fresh a majority of the replicas must be up and one \
             of them lead: see `quorate status`. Without it, the newest checkpoint that is there already is taken"
        ))
    };
    let read = || client.read(Vec::new(), ReadOptions::STRONG).map_err(failed);
    if may_lie {
        read()?;
    }
    Ok(read()?.seq.max(Seq::new(1)))
}

struct Create<'a> {
    links: Links,
    vouchers: Vouchers,
    /// The replicas that sent parts of the checkpoint.
    sources: BTreeSet<ReplicaId>,
    patience: Duration,
    progress: &'a dyn Fn(Progress),
    started: Instant,
}

impl<'a> Create<'a> {
    fn new(
        cluster: &ClientFile,
        links: Links,
        patience: Duration,
        progress: &'a dyn Fn(Progress),
    ) -> Result<Self, NoBackup> {
        let vouchers = Vouchers::new(cluster.members.iter().map(|(replica, _)| *replica));
        let sources = BTreeSet::new();
        let create = Self { links, vouchers, sources, patience, progress, started: Instant::now() };
        create.check_majority()?;
        Ok(create)
    }

    fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn check_majority(&self) -> Result<(), NoBackup> {
        let (present, needed) = (self.links.present().len(), self.vouchers.needed());
        if present >= needed {
            return Ok(());
        }
        Err(NoBackup::new(format!(
            "{present} of the replicas can be asked, and {needed} must agree on what is backed up:{}\nStart them, or run this where \
             they can be reached",
            absent(&self.links.absent)
        )))
    }

    /// Asks all replicas for their checkpoints until one is agreed on and held by one of them: of this seq or later; or the newest, if no
    /// seq is given.
    fn agreed(&mut self, at_least: Option<Seq>) -> Result<(Seq, Digest), NoBackup> {
        let (least, until) = (at_least.unwrap_or(Seq::new(1)), Instant::now() + self.patience);
        loop {
            // The leader makes a border if no later one is agreed.
            self.ask(least.previous());
            self.listen();
            if let Some(offer) = self.vouchers.offers(least).first() {
                return Ok((offer.seq, offer.digest));
            }
            self.check_majority()?;
            if let Some((seq, said)) = self.vouchers.differ(least) {
                let said: Vec<String> =
                    said.iter().map(|(who, digest)| format!("{who} {digest:?}")).collect();
                return Err(NoBackup::new(format!(
                    "the replicas do not agree on the state at seq {} ({}): there is nothing that could be backed up. See \
                     `quorate status` and docs/operations/divergence.md",
                    seq.number(),
                    said.join(", ")
                )));
            }
            let agreed = self.vouchers.newest(least);
            if Instant::now() >= until {
                return Err(self.no_checkpoint(agreed, least));
            }
            (self.progress)(Progress::Waits(match agreed {
                Some(seq) => format!("waiting until the checkpoint of seq {} is written", seq.number()),
                None => format!("waiting for a checkpoint of seq {} or later", least.number()),
            }));
            std::thread::sleep(ASK_AGAIN);
        }
    }

    fn no_checkpoint(&self, agreed: Option<Seq>, least: Seq) -> NoBackup {
        let (seconds, least) = (self.patience.as_secs(), least.number());
        NoBackup::new(match agreed {
            Some(seq) => format!(
                "a majority agrees on the state at seq {}, but after {seconds} s no replica that can be asked has written it: \
                 see `quorate status` for a full or slow disk, or wait longer with --timeout",
                seq.number()
            ),
            None => format!(
                "after {seconds} s no majority has agreed on a checkpoint of seq {least:#} or later: see `quorate status`. A new \
                 checkpoint needs a leader"
            ),
        })
    }

    fn ask(&mut self, after: Seq) {
        let message = StateMessage::WantBorder { seq: after, digest: Digest::new([0; Digest::BYTES]) };
        for replica in self.links.present() {
            if self.links.send(replica, &message) {
                self.links.mark(replica);
            }
        }
    }

    /// Takes the replicas' answers.
    fn listen(&mut self) {
        let mut waited: BTreeSet<ReplicaId> = self.links.present().into_iter().collect();
        let until = Instant::now() + ANSWER;
        while !waited.is_empty() {
            let Some((from, said)) = self.links.next(until.saturating_duration_since(Instant::now())) else {
                return;
            };
            match said {
                Said::State(message) => self.heard(from, &message),
                Said::Mark | Said::Gone(_) => _ = waited.remove(&from),
            }
        }
    }

    fn heard(&mut self, from: ReplicaId, message: &StateMessage) {
        if let StateMessage::Digest { seq, digest, held } = message {
            self.vouchers.heard(from, *seq, *digest, *held);
        }
    }

    /// Fetches a checkpoint, or a later one if it replaces the first meanwhile.
    fn fetch(&mut self, at_least: Seq) -> Result<Box<Fetched>, NoBackup> {
        let nothing = Store::new().version();
        let mut fetch = Fetch::new(self.now(), at_least, nothing, FetchLimits::default());
        let mut inputs: Vec<Input> = self.links.present().into_iter().map(Input::Connected).collect();
        inputs.push(Input::Offers(self.vouchers.offers(at_least)));
        let (mut received, mut moved, mut asked) = (0, Instant::now(), Instant::now());
        loop {
            while let Some(input) = inputs.pop() {
                let mut effects = Vec::new();
                fetch.step(self.now(), input, &mut effects);
                for effect in effects {
                    if let Some(done) = self.on_effect(effect, at_least, &mut inputs) {
                        return Ok(done);
                    }
                }
            }
            let progress = fetch.progress();
            if progress.received > received {
                (received, moved) = (progress.received, Instant::now());
            }
            self.show(&progress);
            if self.links.present().is_empty() {
                let absent = absent(&self.links.absent);
                return Err(NoBackup::new(format!(
                    "all connections to the replicas ended:{absent}\nTry again"
                )));
            }
            if moved.elapsed() >= self.patience {
                return Err(NoBackup::new(format!(
                    "nothing came from the replicas for {} s: see `quorate status`, then try again",
                    self.patience.as_secs()
                )));
            }
            if asked.elapsed() >= ASK_MEANWHILE {
                asked = Instant::now();
                // A border after seq 0 is agreed already, so the leader makes no other for this.
                self.ask(Seq::ZERO);
            }
            self.wait(&fetch, at_least, &mut inputs);
        }
    }

    /// Waits for the next message, or until the fetch's deadline.
    fn wait(&mut self, fetch: &Fetch, at_least: Seq, inputs: &mut Vec<Input>) {
        let due = fetch.deadline().map_or(ASK_MEANWHILE, |at| {
            Duration::from_nanos(at.since(self.now()).nanos()).min(ASK_MEANWHILE)
        });
        match self.links.next(due) {
            None => inputs.push(Input::Deadline),
            Some((from, Said::State(message @ StateMessage::Digest { .. }))) => {
                self.heard(from, &message);
                inputs.push(Input::Offers(self.vouchers.offers(at_least)));
            }
            Some((from, Said::State(message))) => {
                if matches!(message, StateMessage::Manifest { .. } | StateMessage::Chunk { .. }) {
                    self.sources.insert(from);
                }
                inputs.push(Input::Receive { from, message });
            }
            Some((_, Said::Mark)) => {}
            Some((from, Said::Gone(_))) => inputs.push(Input::Disconnected(from)),
        }
    }

    fn on_effect(&mut self, effect: Effect, at_least: Seq, inputs: &mut Vec<Input>) -> Option<Box<Fetched>> {
        match effect {
            Effect::Send { to, message } => {
                if !self.links.send(to, &message) {
                    inputs.push(Input::Disconnected(to));
                }
            }
            Effect::NotHeld { source, seq, digest } => {
                self.vouchers.not_held(source, seq, digest);
                inputs.push(Input::Offers(self.vouchers.offers(at_least)));
            }
            Effect::Lied { source, seq, lie, .. } => self.say(format!(
                "warning: {source} sent wrong bytes of the checkpoint of seq {} ({lie:?}); the others are asked",
                seq.number()
            )),
            Effect::Stalled { source } => {
                self.say(format!("{source} does not send what it was asked for; the others are asked"));
            }
            Effect::StartedOver { seq, .. } => self.say(format!(
                "warning: what came of the checkpoint of seq {} changed in this machine's memory; beginning anew",
                seq.number()
            )),
            Effect::Begun { .. } => (self.progress)(Progress::Waits("fetching the manifest".to_owned())),
            // A backup that is interrupted begins anew: there is no place to keep its parts.
            Effect::Grew(_) => {}
            Effect::Done(fetched) => return Some(fetched),
        }
        None
    }

    fn say(&self, text: String) {
        (self.progress)(Progress::Says(text));
    }

    fn show(&self, progress: &quorate_state::transfer::Progress) {
        if progress.manifest {
            (self.progress)(Progress::Moves("fetching", progress.bytes_done, progress.bytes_total));
        }
    }
}

/// Whether the image belongs to this cluster, as the connections do.
fn belongs(image: &Image, cluster: &ClientFile) -> Result<(), NoBackup> {
    let system = System::decode(&image.system)
        .map_err(|why| NoBackup::new(format!("what the replicas agree on can not be used: {why}")))?;
    if system.cluster == cluster.cluster {
        return Ok(());
    }
    let (found, expected) = (system.cluster, cluster.cluster);
    Err(NoBackup::new(format!("what the replicas agree on is of cluster {found}, not of {expected}")))
}

/// Writes the file. Returns its length.
fn write(
    file: &mut NewFile,
    image: &Image,
    manifest: &Manifest,
    path: &Path,
    progress: &dyn Fn(Progress),
) -> Result<u64, NoBackup> {
    let all = manifest.total_bytes();
    let written = write_image(file, image, &mut |done| progress(Progress::Moves("writing", done, all)));
    written.map_err(|why| NoBackup::new(format!("can not write {}: {why}", path.display())))?;
    Ok(file.bytes())
}

/// Writes an image as a checkpoint. `worked` hears how many bytes are done. Returns the checkpoint's length.
///
/// # Errors
/// The reason, in words.
pub fn write_image(files: &mut dyn Files, image: &Image, worked: &mut dyn FnMut(u64)) -> Result<u64, String> {
    let (mut keeper, _) = Keeper::open(files, false).map_err(|why| why.to_string())?;
    keeper.submit(Job::Install { image: image.clone() });
    let mut done = 0;
    worked(done);
    loop {
        let step = keeper.step(files);
        for report in keeper.reports() {
            match report {
                Report::Written { bytes, .. } => return Ok(bytes),
                Report::NoRoom { .. } => return Err("there is no room left on that disk".into()),
                Report::Failed { what, .. } => return Err(what),
                _ => {}
            }
        }
        match step {
            Step::Worked { bytes, .. } => done += bytes,
            Step::Idle => return Err("it ended too early".into()),
        }
        worked(done);
    }
}
