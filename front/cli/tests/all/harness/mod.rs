//! Clusters of real processes for tests: started with `quorate dev`, hurt through its control socket, looked at with the
//! program's own commands. Everything ends and is removed when the value is dropped.

pub(crate) mod kv;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Nothing that a test waits for takes longer on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Sets the flag once it is dropped, also by a test that fails: threads that look at it end, and the failure is told.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; none after a signal.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Standard output without the last line end, of a command that succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "out: {}\nerr: {}", self.out, self.err);
        self.out.trim_end_matches('\n').to_owned()
    }

    /// Standard error of a command that failed with this code, and said all of this there.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, says: &[&str]) -> String {
        assert_eq!(self.code, Some(code), "out: {}\nerr: {}", self.out, self.err);
        for part in says {
            assert!(self.err.contains(part), "`{part}` is missing in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

/// The program, with nothing of this process's environment that would change what it does.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.env_remove("QUORATE_CONFIG").env_remove("QUORATE_LOG").stdin(Stdio::null());
    command
}

/// Runs the program with these arguments to its end.
pub(crate) fn quorate(arguments: &[&str]) -> Ran {
    program().args(arguments).output().expect("the program runs").into()
}

/// Asks again until it is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ports that nobody listens on, below those that the system and `quorate dev` give away.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test processes that run at the same time begin at different places.
    let begin = 10_000 + (std::process::id() % 97) as u16 * 100;
    let mut ports = Vec::new();
    while ports.len() < count {
        let port = begin + NEXT.fetch_add(1, Ordering::Relaxed) % 1000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            ports.push(port);
        }
    }
    ports
}

/// Copies a directory with everything in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("a directory can be read") {
        let path = entry.expect("a directory can be read").path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("a file can be copied");
        }
    }
}

/// Replaces a piece of a file that is there once.
#[track_caller]
pub(crate) fn edit(file: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(file).expect("the file can be read");
    assert_eq!(text.matches(old).count(), 1, "`{old}` in {text}");
    fs::write(file, text.replace(old, new)).expect("the file can be written");
}

/// A cluster that `quorate dev` looks after.
pub(crate) struct Cluster {
    directory: PathBuf,
    dev: Option<Child>,
    /// What `dev --json` said when it was ready.
    pub(crate) ready: Value,
    _temporary: Option<tempfile::TempDir>,
}

/// The first line that comes, if one comes in time: a replica whose port another process took never is ready.
fn first_line(out: impl Read + Send + 'static) -> Option<String> {
    let (sender, line) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(out).read_line(&mut line);
        drop(sender.send(read.map(|_| line)));
    });
    line.recv_timeout(PATIENCE * 2).ok()?.ok()
}

impl Cluster {
    /// Starts one in a directory of its own, with these arguments for `dev` besides. It runs the key-value service, unless they say
    /// which.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let kv: &[&str] = if arguments.contains(&"--service") { &[] } else { &["--service", "kv"] };
        Self::start_as_it_is(&[kv, arguments].concat())
    }

    /// Starts one with nothing but these arguments for `dev`.
    pub(crate) fn start_as_it_is(arguments: &[&str]) -> Self {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let mut cluster = Self {
            directory: temporary.path().join("cluster"),
            dev: None,
            ready: Value::Null,
            _temporary: Some(temporary),
        };
        cluster.start_dev(arguments);
        cluster
    }

    /// Starts the one that is in this directory already.
    pub(crate) fn at(directory: &Path) -> Self {
        Self::at_with(directory, &[])
    }

    /// The same, with these arguments.
    pub(crate) fn at_with(directory: &Path, arguments: &[&str]) -> Self {
        let mut cluster =
            Self { directory: directory.to_owned(), dev: None, ready: Value::Null, _temporary: None };
        cluster.start_dev(arguments);
        cluster
    }

    /// Starts `dev` again on the same directory.
    #[track_caller]
    pub(crate) fn start_dev(&mut self, arguments: &[&str]) {
        assert!(self.dev.is_none(), "it runs");
        let said = File::create(self.directory.with_extension("stderr")).expect("a file for what dev says");
        let mut dev = program()
            .args(["dev", "--json", "--dir"])
            .arg(&self.directory)
            .args(arguments)
            // A group of its own, so that a test can do what Ctrl-C does.
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .expect("dev starts");
        let out = dev.stdout.take().expect("its output is read");
        self.dev = Some(dev);
        let line = first_line(out).unwrap_or_default();
        assert!(!line.is_empty(), "dev did not become ready: {}", self.dev_said());
        self.ready = serde_json::from_str(&line).expect("dev says JSON");
    }

    /// What `dev` wrote to standard error.
    pub(crate) fn dev_said(&self) -> String {
        fs::read_to_string(self.directory.with_extension("stderr")).unwrap_or_default()
    }

    /// Where the cluster is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where replica `id` is.
    pub(crate) fn replica_directory(&self, id: u16) -> PathBuf {
        self.directory.join(format!("replica-{id}"))
    }

    /// All replicas.
    pub(crate) fn ids(&self) -> Vec<u16> {
        let replicas = self.ready["replicas"].as_array().expect("a list");
        replicas.iter().map(|replica| replica["replica"].as_u64().expect("an id") as u16).collect()
    }

    /// The address of replica `id`.
    pub(crate) fn address(&self, id: u16) -> String {
        let replicas = self.ready["replicas"].as_array().expect("a list");
        let replica = replicas.iter().find(|replica| replica["replica"] == id).expect("it is a member");
        replica["address"].as_str().expect("an address").to_owned()
    }

    /// What replica `id` logged.
    pub(crate) fn log(&self, id: u16) -> String {
        fs::read_to_string(self.replica_directory(id).join("log.txt")).unwrap_or_default()
    }

    /// A command about this cluster.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.args(arguments).env("QUORATE_CONFIG", self.directory.join("client.toml"));
        command
    }

    /// Runs a command about this cluster to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().expect("the program runs").into()
    }

    /// Runs one that reads this from standard input.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let mut stdin = child.stdin.take().expect("its input is ours");
        // It may refuse before it has read everything.
        let _ = stdin.write_all(input);
        drop(stdin);
        child.wait_with_output().expect("the program ends").into()
    }

    /// Runs a command that must succeed; what it printed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok()
    }

    /// What `quorate status --json` says, healthy or not.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        let ran = self.run(&["status", "--json"]);
        serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {ran:?}"))
    }

    /// Waits until a majority answers and one of them leads.
    #[track_caller]
    pub(crate) fn wait_for_leader(&self) -> u16 {
        let mut leader = None;
        wait_until("a leader", || {
            let status = self.status();
            leader = status["leader"].as_u64().filter(|_| status["healthy"] == true);
            leader.is_some()
        });
        leader.unwrap_or_default() as u16
    }

    /// Waits until all replicas answer and have executed the same.
    #[track_caller]
    pub(crate) fn wait_until_equal(&self) {
        wait_until("all replicas at the same seq", || {
            let status = self.status();
            let replicas = status["replicas"].as_array().expect("a list");
            let executed: Vec<Option<u64>> =
                replicas.iter().map(|replica| replica["status"]["executed"].as_u64()).collect();
            executed[0].is_some() && executed.iter().all(|other| *other == executed[0])
        });
    }

    /// Asks `dev` on its control socket; actions are kill, pause, resume, restart and list. What it said when all went well.
    pub(crate) fn control(&self, action: &str, replicas: &[u16]) -> Result<Value, String> {
        let mut stream =
            UnixStream::connect(self.directory.join("control.sock")).map_err(|why| why.to_string())?;
        let request = json!({ "action": action, "replicas": replicas });
        writeln!(stream, "{request}").map_err(|why| why.to_string())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).map_err(|why| why.to_string())?;
        let response: Value = serde_json::from_str(&line).map_err(|why| format!("{why}: {line}"))?;
        match response["error"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok(response["done"].clone()),
        }
    }

    /// Ends a replica's process at once.
    #[track_caller]
    pub(crate) fn kill(&self, id: u16) {
        self.control("kill", &[id]).expect("it is killed");
    }

    /// Starts a replica; one that runs is stopped cleanly before.
    #[track_caller]
    pub(crate) fn restart(&self, id: u16) {
        self.control("restart", &[id]).expect("it is started");
    }

    /// The process ids of the replicas that have one.
    pub(crate) fn pids(&self) -> Vec<Pid> {
        let done = self.control("list", &[]).expect("dev answers");
        let replicas = done["replicas"].as_array().expect("a list");
        replicas.iter().filter_map(|r| Pid::from_raw(r["pid"].as_i64()? as i32)).collect()
    }

    /// Does what Ctrl-C does in a terminal, where the replicas get the signal, too; the exit code of `dev`.
    #[track_caller]
    pub(crate) fn ctrl_c(&mut self) -> Option<i32> {
        let dev = self.dev.take().expect("it runs");
        kill_process_group(pid(&dev), Signal::INT).expect("a signal can be sent");
        wait_for_end(dev)
    }

    /// Ends `dev` at once, as a crash of it would.
    pub(crate) fn kill_dev(&mut self) {
        let mut dev = self.dev.take().expect("it runs");
        dev.kill().expect("it can be killed");
        dev.wait().expect("it ends");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Some(mut dev) = self.dev.take() else { return };
        let _ = kill_process(pid(&dev), Signal::TERM);
        let until = Instant::now() + Duration::from_secs(10);
        while dev.try_wait().is_ok_and(|ended| ended.is_none()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        // The replicas end with it.
        let _ = dev.kill();
        let _ = dev.wait();
    }
}

/// The id of a process of ours.
pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Whether a process is still there.
pub(crate) fn is_alive(pid: Pid) -> bool {
    // A process that ended and that nobody has asked about yet still has an entry, with state Z.
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

#[track_caller]
fn wait_for_end(mut child: Child) -> Option<i32> {
    let mut code = None;
    wait_until("the end of a process", || match child.try_wait() {
        Ok(Some(status)) => {
            code = status.code();
            true
        }
        _ => false,
    });
    code
}

/// A cluster made with `quorate init`, whose replicas a test runs itself.
pub(crate) struct Made {
    directory: tempfile::TempDir,
}

impl Made {
    /// With these members; the smallest segments that are allowed, so that a start is quick.
    pub(crate) fn new(members: &[(u16, String)]) -> Self {
        Self::with_instances(members, 1)
    }

    /// Four members on free ports, of which one may lie.
    pub(crate) fn byzantine() -> Self {
        Self::byzantine_of(4)
    }

    /// So many members on free ports, of which a third may lie.
    pub(crate) fn byzantine_of(count: usize) -> Self {
        let members: Vec<(u16, String)> =
            (1..).zip(free_ports(count)).map(|(id, port)| (id, format!("127.0.0.1:{port}"))).collect();
        Self::with(&members, &["--fault-model", "byzantine"])
    }

    fn with_instances(members: &[(u16, String)], instances: u16) -> Self {
        Self::with(members, &["--instances", &instances.to_string()])
    }

    fn with(members: &[(u16, String)], more: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let list: Vec<String> = members.iter().map(|(id, address)| format!("{id}={address}")).collect();
        let made = Self { directory };
        let path = made.path();
        let path = path.to_str().expect("UTF-8");
        let init = ["init", "--service", "kv", "--dir", path, "--members", &list.join(",")];
        // Many tests run at once, and each port is one test's.
        quorate(&[&init[..], more, &["--health-port", "0"]].concat()).ok();
        for (id, _) in members {
            edit(&made.config(*id), "mode = \"group\"", "mode = \"group\"\nsegment_mib = 20");
        }
        made
    }

    /// Three members on free ports.
    pub(crate) fn three() -> Self {
        Self::three_with(1)
    }

    /// The same, with so many instances.
    pub(crate) fn three_with(instances: u16) -> Self {
        let members: Vec<(u16, String)> =
            (1..).zip(free_ports(3)).map(|(id, port)| (id, format!("127.0.0.1:{port}"))).collect();
        Self::with_instances(&members, instances)
    }

    /// Three members on free ports that have keys, for an era in which one may lie.
    pub(crate) fn three_with_keys() -> Self {
        let members: Vec<(u16, String)> =
            (1..).zip(free_ports(3)).map(|(id, port)| (id, format!("127.0.0.1:{port}"))).collect();
        Self::with(&members, &["--signing"])
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("made")
    }

    /// The configuration of a replica.
    pub(crate) fn config(&self, id: u16) -> PathBuf {
        self.path().join(format!("replica-{id}/replica.toml"))
    }

    /// The data directory of a replica.
    pub(crate) fn data(&self, id: u16) -> PathBuf {
        self.path().join(format!("replica-{id}/data"))
    }
}

/// One `quorate serve`, run by the test itself.
pub(crate) struct Server {
    child: Option<Child>,
    log: tempfile::NamedTempFile,
}

impl Server {
    /// Starts it, and does not wait.
    pub(crate) fn start(config: &Path) -> Self {
        Self::start_with(config, &[])
    }

    /// The same, with more arguments.
    pub(crate) fn start_with(config: &Path, more: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().expect("a temporary file");
        let out = || log.as_file().try_clone().expect("a file can be shared");
        let child = program()
            .args(["serve", "--config"])
            .arg(config)
            .args(more)
            .stdout(out())
            .stderr(out())
            .spawn()
            .expect("serve starts");
        Self { child: Some(child), log }
    }

    /// What it wrote so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    /// Waits until it said this.
    #[track_caller]
    pub(crate) fn wait_until_it_says(&self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(Instant::now() < until, "it never said `{text}`, but: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(pid(child), signal).expect("a signal can be sent");
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Ran {
        let code = wait_for_end(self.child.take().expect("it runs"));
        Ran { code, out: String::new(), err: self.log() }
    }

    /// Asks it to stop, and waits for its end.
    #[track_caller]
    pub(crate) fn stop(self) -> Ran {
        self.signal(Signal::TERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
