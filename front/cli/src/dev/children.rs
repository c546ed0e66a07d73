//! The replicas of `dev`: processes of this program that it starts, pauses, kills and watches.

use super::logs;
use super::program::Program;
use super::rot::rot;
use crate::control::{Action, ChildReport, Damage, Done, Life};
use quorate::program::hurt::{Hurt, JUMP_MS_MAX, MIB_MAX};
use quorate::program::{Supervised, slow};
use quorate_command::cluster::dir_option;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{REPLICA_FILE, replica_directory};
use quorate_runtime::Jumps;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{OpenOptions, metadata};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The size at which a log is moved away.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// How long a replica may take to stop cleanly.
const STOP: Duration = Duration::from_secs(5);

/// One replica.
pub(super) struct Replica {
    id: u16,
    /// The program that runs it, if that is not this one.
    program: Option<Program>,
    config: PathBuf,
    log: PathBuf,
    /// The file that tells the replica how to lie, if it may.
    lies: Option<PathBuf>,
    /// The file that tells it how slow to be.
    slow: PathBuf,
    /// The file that tells it what else is done to it, and what that is now.
    hurt_file: PathBuf,
    hurt: Hurt,
    /// Whether it keeps anything on its disk.
    on_disk: bool,
    /// What commands need to be about this cluster.
    dir: String,
    child: Option<Child>,
    life: Life,
    /// Where its log ended when it was started, in bytes.
    began: u64,
    /// The last error in its log, once it ended on its own.
    error: Option<String>,
}

/// A replica that ended on its own.
pub(super) struct Death {
    pub(super) replica: u16,
    pub(super) status: ExitStatus,
    pub(super) log: PathBuf,
    /// The last lines of its log.
    pub(super) tail: String,
    /// The last error there.
    pub(super) error: Option<String>,
}

impl Replica {
    fn start(&mut self) -> Outcome<()> {
        let log = || OpenOptions::new().create(true).append(true).open(&self.log);
        let doing = format!("write {}", self.log.display());
        let (out, error) = (log().doing(&doing)?, log().doing(&doing)?);
        (self.began, self.error) = (metadata(&self.log).map_or(0, |facts| facts.len()), None);
        // From the main thread only: the child ends with the thread that started it.
        let child = self
            .command()?
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(error)
            .spawn()
            .doing(format_args!("start replica {}", self.id))?;
        self.child = Some(child);
        self.life = Life::Running;
        Ok(())
    }

    fn command(&self) -> Outcome<Command> {
        if let Some(program) = &self.program {
            let mut command = program.command();
            let (parent, slow, hurt) = (std::process::id(), self.slow.clone(), self.hurt_file.clone());
            Supervised { parent: Some(parent), slow: Some(slow), hurt: Some(hurt) }
                .tell(&mut command)
                .arg(&self.config);
            return Ok(command);
        }
        let mut command = Command::new(std::env::current_exe().doing("find this program's own file")?);
        command
            .arg("serve")
            .arg("--config")
            .arg(&self.config)
            .arg(format!("--die-with-parent={}", std::process::id()))
            .arg("--slow")
            .arg(&self.slow)
            .arg("--hurt")
            .arg(&self.hurt_file)
            .args(self.lies.iter().flat_map(|file| ["--lies".as_ref(), file.as_os_str()]));
        Ok(command)
    }

    fn signal(&self, signal: Signal) -> Outcome<()> {
        let pid = self.child.as_ref().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?));
        let Some(pid) = pid else { return Ok(()) };
        kill_process(pid, signal).doing(format_args!("send a signal to replica {}", self.id))
    }

    /// The exit status, once the process has ended.
    fn reap(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        Some(status)
    }

    fn is_up(&self) -> bool {
        self.child.is_some()
    }

    /// The reason why this action can not be done to the replica now.
    fn objection(&self, action: Action) -> Option<String> {
        let (id, dir) = (self.id, &self.dir);
        match (action, self.life) {
            (
                Action::Kill
                | Action::Pause
                | Action::Resume
                | Action::Lie(_)
                | Action::Slow(_)
                | Action::ClockJump(_),
                Life::Killed | Life::Ended,
            ) => Some(format!("replica {id} is down: start it again with `quorate chaos restart {id}{dir}`")),
            (Action::Pause, Life::Paused) => {
                Some(format!("replica {id} is paused already: let it go on with `quorate chaos resume {id}{dir}`"))
            }
            (Action::Lie(_), _) if self.program.is_some() => Some(
                "the replicas of a service of your own do not lie: only `quorate serve` has the tricks. See what the cluster does about a liar \
                 with `quorate dev --service kv --fault-model byzantine --dir DIR`"
                    .into(),
            ),
            (Action::Lie(_), _) if self.lies.is_none() => Some(
                "replicas lie only where that is survived: make another cluster with `quorate dev --fault-model byzantine --dir DIR`"
                    .into(),
            ),
            (Action::Slow(ms), _) if ms > slow::MS_MAX => {
                Some(format!("a replica is at most {} ms late: {ms} ms are more", slow::MS_MAX))
            }
            (Action::CorruptDisk(_) | Action::FillDisk(_), _) if !self.on_disk => Some(
                "the replicas of this cluster keep nothing on their disks (`--durability memory`): make another cluster with \
                 `quorate dev --durability group --dir DIR`"
                    .into(),
            ),
            (Action::FillDisk(Some(mib)), _) if mib > MIB_MAX => {
                Some(format!("a full disk has at most {MIB_MAX} MiB left: {mib} MiB are more"))
            }
            (Action::FillDisk(None), _) if self.hurt.disk_mib.is_none() => {
                Some(format!("the disk of replica {id} is not full"))
            }
            (Action::ClockJump(ms), _) if ms.unsigned_abs() > JUMP_MS_MAX.unsigned_abs() => {
                Some(format!("a clock jumps by at most {JUMP_MS_MAX} ms at once: {ms} ms are more"))
            }
            (Action::ClockJump(ms), _) if self.jumped(ms).unsigned_abs() > Jumps::MS_MAX.unsigned_abs() => Some(format!(
                "all jumps of a clock together are at most {} ms: start `quorate dev` again, and it has jumped by nothing",
                Jumps::MS_MAX
            )),
            (Action::Resume, Life::Running) => Some(format!("replica {id} is not paused")),
            _ => None,
        }
    }

    /// By how many milliseconds the clock will have jumped with one more jump.
    fn jumped(&self, ms: i64) -> i64 {
        self.hurt.clock_ms.saturating_add(ms)
    }

    /// Does something else to the replica.
    fn hurt(&mut self, change: impl FnOnce(&mut Hurt)) -> Outcome<()> {
        let mut hurt = self.hurt.clone();
        change(&mut hurt);
        hurt.tell(&self.hurt_file).map_err(refused)?;
        self.hurt = hurt;
        Ok(())
    }

    /// Carries out the action, and says which bytes it changed.
    fn act(&mut self, action: Action) -> Outcome<Option<Damage>> {
        let done = match action {
            Action::CorruptDisk(what) => return rot(self.id, self.place(), what).map(Some),
            // What concerns several replicas at once.
            Action::List | Action::Partition | Action::Heal => Ok(()),
            Action::FillDisk(left) => self.hurt(|hurt| hurt.disk_mib = left),
            Action::ClockJump(ms) => {
                let all = self.jumped(ms);
                self.hurt(|hurt| hurt.clock_ms = all)
            }
            Action::Lie(how) => self.lies.as_ref().map_or(Ok(()), |file| how.tell(file)),
            Action::Slow(ms) => slow::tell(ms, &self.slow).map_err(refused),
            Action::Kill | Action::Pause | Action::Resume | Action::Restart => self.live(action),
        };
        done.map(|()| None)
    }

    /// The directory of the replica.
    fn place(&self) -> &Path {
        self.config.parent().unwrap_or(Path::new("."))
    }

    /// Starts, ends, stops or continues the process.
    fn live(&mut self, action: Action) -> Outcome<()> {
        match action {
            Action::Kill => {
                // Before the signal, so that its end does not count as one of its own.
                self.life = Life::Killed;
                self.signal(Signal::KILL)?;
                let ended = self.child.take().map(|mut child| child.wait());
                ended.transpose().doing(format_args!("wait for the end of replica {}", self.id)).map(|_| ())
            }
            Action::Pause => {
                self.life = Life::Paused;
                self.signal(Signal::STOP)
            }
            Action::Resume => {
                self.life = Life::Running;
                self.signal(Signal::CONT)
            }
            _ => {
                self.ask_to_stop();
                self.stop_until(Instant::now() + STOP);
                self.start()
            }
        }
    }

    fn ask_to_stop(&mut self) {
        // One that ended meanwhile can not be signalled, which is as good.
        let _ = self.signal(Signal::TERM);
        if self.life == Life::Paused {
            let _ = self.signal(Signal::CONT);
        }
        self.life = Life::Killed;
    }

    fn stop_until(&mut self, until: Instant) {
        while self.is_up() && self.reap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn report(&self) -> ChildReport {
        let (pid, apart) = (self.child.as_ref().map(Child::id), self.hurt.apart.clone());
        ChildReport { replica: self.id, pid, life: self.life, apart, error: self.error.clone() }
    }

    /// Moves the content of a log that is too long. The file stays, since the child holds it open and appends to it.
    fn bound_log(&self) {
        let long = metadata(&self.log).is_ok_and(|facts| facts.len() > LOG_BYTES_MAX);
        if long && std::fs::copy(&self.log, self.log.with_extension("old.txt")).is_ok() {
            let _ = OpenOptions::new().write(true).open(&self.log).and_then(|file| file.set_len(0));
        }
    }
}

/// The file that a replica reads can not be written.
fn refused(why: std::io::Error) -> Failure {
    Failure::new(why.to_string())
}

/// All replicas.
pub(super) struct Children {
    replicas: Vec<Replica>,
}

impl Children {
    /// The replicas of the cluster in `directory`, not started yet. `may_lie`: whether they can be told to lie; `on_disk`: whether they keep
    /// anything there; `program`: what runs them, if that is not this program. At first they do not lie, are not slow, and nothing else is done
    /// to them.
    pub(super) fn new(
        directory: &Path,
        ids: impl Iterator<Item = u16>,
        (may_lie, on_disk): (bool, bool),
        program: Option<&Program>,
    ) -> Self {
        let replica = |id| {
            let place = replica_directory(directory, id);
            let (config, log) = (place.join(REPLICA_FILE), place.join("log.txt"));
            let [lies, slow, hurt_file] = ["lies", "slow", "hurt"].map(|name| place.join(name));
            for told_before in [&lies, &slow, &hurt_file] {
                let _ = std::fs::remove_file(told_before);
            }
            let lies = Some(lies).filter(|_| may_lie && program.is_none());
            let (hurt, child, life, error) = (Hurt::default(), None, Life::Killed, None);
            let dir = dir_option(directory);
            let program = program.cloned();
            Replica {
                id,
                program,
                config,
                log,
                lies,
                slow,
                hurt_file,
                hurt,
                on_disk,
                dir,
                child,
                life,
                began: 0,
                error,
            }
        };
        Self { replicas: ids.map(replica).collect() }
    }

    /// Starts all.
    pub(super) fn start(&mut self) -> Outcome<()> {
        self.replicas.iter_mut().try_for_each(Replica::start)
    }

    /// Carries out the action for those of these replicas that allow it.
    ///
    /// # Errors
    /// When no replica allows it, or the system refuses.
    pub(super) fn act(&mut self, action: Action, replicas: &[u16]) -> Outcome<Done> {
        if let Some(unknown) = replicas.iter().find(|id| !self.replicas.iter().any(|r| r.id == **id)) {
            let own: Vec<String> = self.replicas.iter().map(|replica| replica.id.to_string()).collect();
            return Err(Failure::new(format!(
                "there is no replica {unknown} that this `quorate dev` started: it looks after {} only. One that was added later was started \
                 by hand, so end or start its process by hand; `quorate status --json` has its pid",
                own.join(", ")
            )));
        }
        match action {
            Action::Partition => self.part(replicas)?,
            Action::Heal => self.heal()?,
            _ => {}
        }
        let (mut changed, mut damage) = (Vec::new(), Vec::new());
        let mut objection = None;
        for replica in self.replicas.iter_mut().filter(|replica| replicas.contains(&replica.id)) {
            match replica.objection(action) {
                Some(why) => objection = objection.or(Some(why)),
                None => {
                    damage.extend(replica.act(action)?);
                    changed.push(replica.id);
                }
            }
        }
        match objection {
            Some(why) if changed.is_empty() => Err(Failure::new(why)),
            _ => Ok(Done { changed, replicas: self.reports(), damage }),
        }
    }

    /// Parts these replicas from the others.
    fn part(&mut self, side: &[u16]) -> Outcome<()> {
        let (these, others): (Vec<u16>, Vec<u16>) =
            self.replicas.iter().map(|replica| replica.id).partition(|id| side.contains(id));
        if these.is_empty() || others.is_empty() {
            return Err(Failure::new(format!(
                "a partition has two sides, and replicas {side:?} leave one empty: name some of the {} replicas, not all",
                self.replicas.len()
            )));
        }
        let far = |id: u16| if these.contains(&id) { others.clone() } else { these.clone() };
        self.replicas.iter_mut().try_for_each(|replica| {
            let apart = far(replica.id);
            replica.hurt(|hurt| hurt.apart = apart)
        })
    }

    /// Ends the partition.
    fn heal(&mut self) -> Outcome<()> {
        if self.replicas.iter().all(|replica| replica.hurt.apart.is_empty()) {
            return Err(Failure::new(
                "there is no partition: all replicas reach each other, as far as they run",
            ));
        }
        self.replicas.iter_mut().try_for_each(|replica| replica.hurt(|hurt| hurt.apart.clear()))
    }

    /// The state of all replicas.
    pub(super) fn reports(&self) -> Vec<ChildReport> {
        self.replicas.iter().map(Replica::report).collect()
    }

    /// The replicas that ended on their own since the last call.
    pub(super) fn deaths(&mut self) -> Vec<Death> {
        let mut deaths = Vec::new();
        for replica in &mut self.replicas {
            let asked = !matches!(replica.life, Life::Running | Life::Paused);
            let Some(status) = replica.reap() else { continue };
            if !asked {
                replica.life = Life::Ended;
                replica.error = logs::last_error(&replica.log, replica.began);
                let (log, tail, error) =
                    (replica.log.clone(), logs::tail(&replica.log), replica.error.clone());
                deaths.push(Death { replica: replica.id, status, log, tail, error });
            }
        }
        deaths
    }

    /// Number of running processes.
    pub(super) fn up(&self) -> usize {
        self.replicas.iter().filter(|replica| replica.is_up()).count()
    }

    /// The replicas that ended on their own, and were not started again.
    pub(super) fn ended(&self) -> Vec<u16> {
        let ended = self.replicas.iter().filter(|replica| replica.life == Life::Ended);
        ended.map(|replica| replica.id).collect()
    }

    /// Moves logs that are too long.
    pub(super) fn bound_logs(&self) {
        self.replicas.iter().for_each(Replica::bound_log);
    }

    /// Stops all replicas; those that do not stop in time are killed.
    pub(super) fn stop(&mut self) {
        self.replicas.iter_mut().for_each(Replica::ask_to_stop);
        let until = Instant::now() + STOP;
        self.replicas.iter_mut().for_each(|replica| replica.stop_until(until));
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.stop();
    }
}
