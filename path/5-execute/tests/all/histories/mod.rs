//! Random histories on several replicas of each kind of service, with images, restarts from them, and what must be equal.

pub(crate) mod services;

use crate::support::{Ask, Replica, Seen, commands, empty, open};
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_execute::{Executor, ImageParts, Outcomes, SessionLimits};
use quorate_types::{AgreedTime, SessionId, Span};
use quorate_wire::ReplyStatus;
use services::Kind;

/// Replicas of each kind. The first copies nothing ahead.
const REPLICAS: usize = 3;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A batch, so many nanoseconds later, with a request of these commands and one of the earlier requests again.
    Batch { later: u64, commands: Vec<[u8; 4]>, again: usize },
    /// A replica copies so many bytes ahead.
    Prepare { replica: usize, bytes: usize },
    /// All take their image, and compare.
    Border,
    /// A replica begins anew from the image of one of the last borders, and executes what came later. Whether it takes images
    /// at the borders on the way.
    Restart { replica: usize, back: usize, images: bool },
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let command = (0..6u8, 0..60u8, prop_oneof![6 => 0..40u16, 1 => 1000..9000u16]);
    let command = command.prop_map(|(what, key, amount)| {
        let [a, b] = amount.to_le_bytes();
        [what, key, a, b]
    });
    let step = prop_oneof![
        8 => (0..20u64, vec(command, 0..12), 0..8usize)
            .prop_map(|(later, commands, again)| Step::Batch { later, commands, again }),
        6 => (1..REPLICAS, 0..600usize).prop_map(|(replica, bytes)| Step::Prepare { replica, bytes }),
        2 => Just(Step::Border),
        2 => (1..REPLICAS, 0..3usize, any::<bool>())
            .prop_map(|(replica, back, images)| Step::Restart { replica, back, images }),
    ];
    vec(step, 1..50)
}

fn limits() -> SessionLimits {
    SessionLimits { ttl: Span::from_nanos(200), window: 20, ..SessionLimits::default() }
}

/// The replicas of one kind, and their common past.
struct Group {
    kind: Kind,
    replicas: Vec<Replica>,
    /// Images that one of the replicas took, and how many batches came before them.
    borders: Vec<(usize, ImageParts)>,
}

/// All of it, and the one history.
struct World {
    groups: Vec<Group>,
    batches: Vec<(u64, Vec<Ask>)>,
    asked: Vec<Ask>,
    session: SessionId,
    number: u64,
    time: u64,
}

/// Plays the steps; says what differed.
pub(crate) fn play(steps: &[Step]) -> Result<(), String> {
    let mut world = World::new();
    for step in steps {
        match step {
            Step::Batch { later, commands, again } => world.batch(*later, commands, *again)?,
            Step::Prepare { replica, bytes } => {
                for group in &mut world.groups {
                    let done = group.replicas[*replica].executor.prepare_image(*bytes);
                    assert!(done || group.kind == Kind::Tracked, "only tracked services are copied ahead");
                }
            }
            Step::Border => world.border()?,
            Step::Restart { replica, back, images } => world.restart(*replica, *back, *images)?,
        }
    }
    world.border()?;
    for replica in 1..REPLICAS {
        world.restart(replica, 0, false)?;
    }
    // What is left after a restart behaves as what never stopped, also for those who ask again.
    for again in 0..4 {
        world.batch(1, &[[services::APPEND, 7, 9, 0]], again)?;
    }
    world.border()
}

impl World {
    fn new() -> Self {
        let groups = Kind::ALL.map(|kind| Group {
            kind,
            replicas: (0..REPLICAS).map(|_| Replica::with(kind.service(), limits())).collect(),
            borders: vec![],
        });
        let session = SessionId { index: 0, generation: 1 };
        let (batches, asked) = (vec![], vec![]);
        Self { groups: groups.into(), batches, asked, session, number: 0, time: 0 }
    }

    fn batch(&mut self, later: u64, list: &[[u8; 4]], again: usize) -> Result<(), String> {
        self.time += later;
        let mut asks = vec![];
        if self.number == 0 {
            asks.push(open(1, self.time));
        }
        self.number += 1;
        let list: Vec<&[u8]> = list.iter().map(<[u8; 4]>::as_slice).collect();
        let lowest = self.number.saturating_sub(6);
        let ask = commands(self.session, self.number, lowest, &list);
        asks.push(ask.clone());
        asks.extend(self.asked.iter().rev().nth(again).cloned());
        self.asked.push(ask);
        asks.push(empty(SessionId { index: 5, generation: 1 }, 1, 1));
        let seen = self.everywhere(&asks)?;
        self.batches.push((self.time, asks));
        // A session that expired is followed by another one.
        if let Some(Seen { status: ReplyStatus::SessionOpened, session, .. }) = seen.first()
            && *session != self.session
        {
            self.session = *session;
            self.asked.clear();
        } else if seen
            .iter()
            .any(|seen| seen.session == self.session && seen.status == ReplyStatus::SessionExpired)
        {
            self.number = 0;
            self.session = SessionId { generation: self.session.generation + 1, ..self.session };
            self.asked.clear();
        }
        Ok(())
    }

    /// What all replicas of all kinds answered.
    fn everywhere(&mut self, asks: &[Ask]) -> Result<Vec<Seen>, String> {
        let mut first: Option<Vec<Seen>> = None;
        for group in &mut self.groups {
            for (at, replica) in group.replicas.iter_mut().enumerate() {
                let seen = replica.run(self.time, asks);
                if *first.get_or_insert_with(|| seen.clone()) != seen {
                    return Err(format!("replica {at} of {:?} answers otherwise", group.kind));
                }
            }
        }
        Ok(first.unwrap_or_default())
    }

    fn border(&mut self) -> Result<(), String> {
        let mut systems = vec![];
        for group in &mut self.groups {
            let kind = group.kind;
            let digests: Vec<_> = group.replicas.iter_mut().map(Replica::digest).collect();
            if let Some(at) = digests.iter().position(|digest| *digest != digests[0]) {
                return Err(format!("the image of replica {at} of {kind:?} differs"));
            }
            let image = group.replicas[0].image();
            let now = group.replicas[1].executor.objects().map(|objects| objects.root());
            if now != Some(image.objects.root()) {
                return Err(format!("the objects of {kind:?} are not those of the image"));
            }
            systems.push((image.system.clone(), group.replicas[0].checkpoint()));
            group.borders.push((self.batches.len(), image));
        }
        if systems.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err("the kinds differ".into());
        }
        // A tracked service's copy holds exactly what one in the store has there.
        let root = |kind| {
            let group = self.groups.iter().find(|group| group.kind == kind)?;
            group.borders.last().map(|(_, image)| image.objects.root())
        };
        match root(Kind::InStore) == root(Kind::Tracked) {
            true => Ok(()),
            false => Err("a tracked service's copy is not its state".into()),
        }
    }

    fn restart(&mut self, replica: usize, back: usize, images: bool) -> Result<(), String> {
        for group in &mut self.groups {
            let Some(at) = group.borders.len().checked_sub(back + 1) else { continue };
            let (from, image) = &group.borders[at];
            // Limits come with the image.
            let limits = SessionLimits { window: 3, ..SessionLimits::default() };
            let mut executor = Executor::new(group.kind.service(), limits, AgreedTime::ZERO);
            executor
                .restore_image(&image.system, &image.objects)
                .map_err(|why| format!("an image of {:?} is refused: {why}", group.kind))?;
            let mut again = Replica { executor, out: Outcomes::new() };
            for (count, (time, asks)) in self.batches.iter().enumerate().skip(*from) {
                again.run(*time, asks);
                if let Some((_, image)) =
                    group.borders.iter().find(|(at, _)| *at == count + 1).filter(|_| images)
                    && again.digest() != (image.system.clone(), image.objects.root())
                {
                    return Err(format!("the image of {:?} after a restart differs", group.kind));
                }
            }
            group.replicas[replica] = again;
        }
        Ok(())
    }
}
