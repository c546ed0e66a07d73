//! A service with secrets that no replica knows alone: what is stored is the same at all replicas, what each says of it is its own.

use quorate::client::{Client, Combiner, Error, ReadOptions};
use quorate::{
    CheckpointError, CheckpointSink, CheckpointSource, ClientId, Context, LocalCluster, Options, OwnReplies,
    ReplicaId, ReplySink, Service,
};
use quorate_order::Protocol;
use quorate_types::FaultModel;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// Keeps sealed shares by name: of each secret one for each replica, which that replica alone can open. Opening is subtracting a key here.
struct Vault {
    secrets: BTreeMap<u8, Vec<u8>>,
    /// Which replica this is, from 0, and the key that only it has.
    me: u8,
    key: u8,
    lies: bool,
}

/// The key that replica `at` has.
const fn key_of(at: u8) -> u8 {
    at.wrapping_mul(91).wrapping_add(17)
}

impl Service for Vault {
    /// `name, shares`: keeps them. `name`: gives them.
    fn execute(&mut self, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        match command {
            [name] => reply.write(self.secrets.get(name).map_or(&[][..], Vec::as_slice)),
            [name, shares @ ..] => drop(self.secrets.insert(*name, shares.to_vec())),
            [] => {}
        }
    }

    fn query(&self, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let known = query.first().and_then(|name| self.secrets.get(name));
        reply.write(known.map_or(&[][..], Vec::as_slice));
    }

    fn own_replies(&self) -> Option<&dyn OwnReplies> {
        Some(self)
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        for (name, shares) in &self.secrets {
            out.write(&[*name, shares.len() as u8])?;
            out.write(shares)?;
        }
        Ok(())
    }

    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
}

impl OwnReplies for Vault {
    /// The share opened, behind those that are sealed.
    fn own(&self, reply: &[u8], own: &mut Vec<u8>) {
        own.extend_from_slice(reply);
        if let Some(sealed) = reply.get(usize::from(self.me)) {
            let share = sealed.wrapping_sub(self.key);
            own.extend([self.me, if self.lies { share ^ 0x55 } else { share }]);
        }
    }
}

/// A line through the secret: two points of it tell the rest. A third one shows whether they are sound.
#[derive(Debug)]
struct Line;

/// What is sealed, and the point that was opened.
fn parts(reply: &[u8]) -> Option<(&[u8], u8, u8)> {
    match reply {
        [sealed @ .., at, share] => Some((sealed, *at, *share)),
        _ => None,
    }
}

impl Combiner for Line {
    fn same(&self, one: &[u8], other: &[u8]) -> bool {
        parts(one).map(|parts| parts.0) == parts(other).map(|parts| parts.0)
    }

    fn combine(&self, replies: &[&[u8]]) -> Option<Vec<u8>> {
        let Some(points) = replies.iter().map(|reply| parts(reply)).collect::<Option<Vec<_>>>() else {
            return Some(Vec::new()); // nothing was kept
        };
        // Points lie at 1, 2, 3 and 4; the secret is where the line begins.
        let lines =
            (0..=255u8).flat_map(|slope| points.iter().map(move |point| (slope, secret_of(point, slope))));
        let sound = |(slope, secret): &(u8, u8)| {
            points.iter().filter(|point| secret_of(point, *slope) == *secret).count() >= 3
        };
        lines.into_iter().find(sound).map(|(_, secret)| vec![secret])
    }
}

fn secret_of((_, at, share): &(&[u8], u8, u8), slope: u8) -> u8 {
    share.wrapping_sub(slope.wrapping_mul(at + 1))
}

/// The shares of a secret, each sealed for its replica.
fn sealed(secret: u8, slope: u8) -> Vec<u8> {
    (0..4u8).map(|at| secret.wrapping_add(slope.wrapping_mul(at + 1)).wrapping_add(key_of(at))).collect()
}

#[test]
fn no_replica_knows_the_secret_and_a_liar_does_not_spoil_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let next = AtomicU8::new(0);
    let service = move || {
        let me = next.fetch_add(1, Ordering::Relaxed) % 4;
        Box::new(Vault { secrets: BTreeMap::new(), me, key: key_of(me), lies: me == 2 }) as Box<dyn Service>
    };
    let byzantine = |config: &mut quorate::Config| {
        (config.fault_model, config.protocol) = (FaultModel::Byzantine, Protocol::MOD_SMART);
    };
    let mut cluster =
        LocalCluster::start_with(directory.path(), 4, service, byzantine, |_| Options::default())
            .expect("it starts");
    let builder = Client::builder().members(cluster.members()).client_id(ClientId::new(9)).combiner(Line);
    assert!(builder.clone().build().is_err(), "with crash faults there is nothing to compare");
    let builder = builder.fault_model(FaultModel::Byzantine);
    let client = builder.clone().timeout(Duration::from_secs(60)).build_blocking().expect("a client");
    let session = client.open_session().expect("a session");
    let secrets = [(1u8, 42u8), (2, 200), (3, 0)];
    for (name, secret) in secrets {
        let put = [&[name][..], &sealed(secret, name.wrapping_mul(77) | 1)].concat();
        session.call_one(&put).expect("it is kept");
    }
    for (name, secret) in secrets {
        let replies = session.call_one(&[name]).expect("it is given");
        assert_eq!(replies.first(), Some(&[secret][..]), "{name}");
        let read = client.read(vec![name], ReadOptions::default()).expect("it is read");
        assert_eq!(read.body[..], [secret], "reads do the same");
    }
    // Of the three that are left one lies.
    assert_eq!(cluster.stop(ReplicaId::new(2)), None);
    let hasty = builder.timeout(Duration::from_secs(3)).build_blocking().expect("a client");
    let why = hasty.open_session().and_then(|session| session.call_one(&[1]));
    let late = matches!(why, Err(Error::DeadlineExceeded { .. }));
    assert!(late, "two sound shares do not show who lies: {why:?}");
}
