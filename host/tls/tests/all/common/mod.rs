//! Clusters of certificates in temporary directories, and two sessions that talk through memory.

use quorate_tls::{
    Authority, Credentials, Issued, Session, TlsFiles, Trouble, Validity, write_private, write_public,
};
use quorate_types::{ClusterId, Holder, Name, ReplicaId};
use std::io::IoSlice;
use std::path::Path;
use std::time::{Duration, SystemTime};

pub(crate) const CLUSTER: ClusterId = ClusterId::new(0x0011_2233);

pub(crate) fn replica(number: u16) -> Holder {
    Holder::Replica(ReplicaId::new(number))
}

pub(crate) fn client(name: &str) -> Holder {
    Holder::Client(Name::parse(name).expect("a name"))
}

pub(crate) fn authority(cluster: ClusterId) -> (Authority, Issued) {
    let files = Authority::create(cluster, Validity::days(10)).expect("an authority");
    (Authority::read(&files).expect("an authority"), files)
}

/// Puts the files of a holder into a directory.
pub(crate) fn put(directory: &Path, trusted: &str, issued: &Issued) -> TlsFiles {
    let files = TlsFiles { ca: "ca.pem".into(), certificate: "own.pem".into(), key: "own.key".into() };
    let files = files.relative_to(directory);
    write_public(&files.ca, trusted).expect("it can be written");
    write_public(&files.certificate, &issued.certificate).expect("it can be written");
    write_private(&files.key, &issued.key).expect("it can be written");
    files
}

pub(crate) fn credentials(trusted: &str, issued: &Issued) -> Credentials {
    let directory = tempfile::tempdir().expect("a directory");
    Credentials::load(&put(directory.path(), trusted, issued)).expect("credentials")
}

/// From so many hours ago for so many hours.
pub(crate) fn hours(from: i64, until: i64) -> Validity {
    let at = |hours: i64| {
        let span = Duration::from_secs(3600 * hours.unsigned_abs());
        if hours < 0 { SystemTime::now() - span } else { SystemTime::now() + span }
    };
    Validity { from: at(from), until: at(until) }
}

/// What both sides got, or why not.
pub(crate) struct Talk {
    pub(crate) dialer: Result<Vec<u8>, Trouble>,
    pub(crate) acceptor: Result<Vec<u8>, Trouble>,
}

/// Lets both talk until neither has anything left to send. Each says `words`; what is on the way comes in pieces of `piece` bytes.
pub(crate) fn talk(dialer: &mut Session, acceptor: &mut Session, words: &[u8], piece: usize) -> Talk {
    let mut talk = Talk { dialer: Ok(Vec::new()), acceptor: Ok(Vec::new()) };
    let mut left = [words, words];
    loop {
        let mut moved = false;
        for at in [0, 1] {
            let (sender, receiver, got) = if at == 0 {
                (&mut *dialer, &mut *acceptor, &mut talk.acceptor)
            } else {
                (&mut *acceptor, &mut *dialer, &mut talk.dialer)
            };
            let taken = sender.write(&[IoSlice::new(left[at])]);
            left[at] = &left[at][taken..];
            let mut sent = Vec::new();
            while sender.wants_send() {
                sender.send(&mut sent).expect("memory takes it");
            }
            moved |= !sent.is_empty() || taken > 0;
            for bytes in sent.chunks(piece) {
                let Ok(plain) = got else { break };
                if let Err(trouble) = receiver.receive(bytes, |part| plain.extend_from_slice(part)) {
                    *got = Err(trouble);
                }
            }
        }
        if !moved {
            return talk;
        }
    }
}
