//! Programs of others that are installed here. What is missing is said before anything starts, with the way to install it.

use quorate_command::failure::{Failure, Outcome};
use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ETCD_VARIABLE: &str = "ETCD";
const ZOOKEEPER_VARIABLE: &str = "ZOOKEEPER";
/// How to get them.
pub(super) const INSTALL_ETCD: &str = "install it (Debian and Ubuntu: `apt-get install etcd-server`; otherwise unpack a release of etcd, which has the program \
     `etcd`), and name the program with --program or the environment variable ETCD";
pub(super) const INSTALL_ZOOKEEPER: &str = "unpack a release of Apache ZooKeeper (apache-zookeeper-VERSION-bin.tar.gz), and name its folder `lib` with --jars or the \
     environment variable ZOOKEEPER";
pub(super) const INSTALL_JAVA: &str = "install a Java runtime (Debian and Ubuntu: `apt-get install default-jre-headless`), so that `java` is in PATH";

/// An etcd.
#[derive(Debug)]
pub(super) struct Etcd {
    pub(super) program: PathBuf,
    pub(super) version: String,
}

/// A ZooKeeper.
#[derive(Debug)]
pub(super) struct ZooKeeper {
    pub(super) jars: PathBuf,
    pub(super) version: String,
}

/// The etcd that was named, or the one of the environment, or the one in PATH.
pub(super) fn etcd(named: Option<&Path>) -> Outcome<Etcd> {
    let (program, by) = match (named, env::var_os(ETCD_VARIABLE).filter(|name| !name.is_empty())) {
        (Some(named), _) => (named.to_owned(), "--program".to_owned()),
        (None, Some(named)) => (named.into(), format!("the environment variable {ETCD_VARIABLE}")),
        (None, None) => ("etcd".into(), "PATH".to_owned()),
    };
    let shown = program.display();
    let ran = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
    let ran = ran.map_err(|why| match why.kind() {
        ErrorKind::NotFound => Failure::usage(format!("there is no etcd {shown} (by {by}): {INSTALL_ETCD}")),
        _ => Failure::usage(format!("can not run {shown} (by {by}): {why}; {INSTALL_ETCD}")),
    })?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let version = version_of_etcd(&said).ok_or_else(|| {
        Failure::usage(format!(
            "{shown} (by {by}) is no etcd: `{shown} --version` does not say \"etcd Version\"; {INSTALL_ETCD}"
        ))
    })?;
    Ok(Etcd { program, version })
}

/// The version in what `etcd --version` prints.
pub(super) fn version_of_etcd(said: &str) -> Option<String> {
    let version = said.lines().find_map(|line| line.strip_prefix("etcd Version:"))?.trim();
    (!version.is_empty()).then(|| version.to_owned())
}

/// The ZooKeeper that was named, or the one of the environment; and a Java to run it.
pub(super) fn zookeeper(named: Option<&Path>) -> Outcome<ZooKeeper> {
    let by_variable = env::var_os(ZOOKEEPER_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let jars = named.map(Path::to_owned).or(by_variable);
    let jars = jars.ok_or_else(|| Failure::usage(format!("no ZooKeeper is named: {INSTALL_ZOOKEEPER}")))?;
    let version = jars_version(&jars)?;
    let ran = Command::new("java").arg("-version").stdin(Stdio::null()).output();
    let ran = ran.map_err(|why| {
        Failure::usage(format!("can not run java, which ZooKeeper needs: {why}; {INSTALL_JAVA}"))
    })?;
    // It says so on standard error.
    let said = String::from_utf8_lossy(&ran.stderr);
    let java = said.lines().next().unwrap_or("a Java of unknown version").trim();
    Ok(ZooKeeper { jars, version: format!("{version}, {java}") })
}

/// The version of the ZooKeeper whose jars lie there.
pub(super) fn jars_version(jars: &Path) -> Outcome<String> {
    let shown = jars.display();
    let entries = jars.read_dir().map_err(|why| {
        Failure::usage(format!(
            "can not read the folder {shown} with ZooKeeper's jars: {why}; {INSTALL_ZOOKEEPER}"
        ))
    })?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let version = |name: String| {
        let version = name.strip_prefix("zookeeper-")?.strip_suffix(".jar")?;
        version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
    };
    names.filter_map(version).max().ok_or_else(|| {
        Failure::usage(format!("there is no zookeeper-VERSION.jar in {shown}: {INSTALL_ZOOKEEPER}"))
    })
}
