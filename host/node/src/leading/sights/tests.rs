use super::Sights;
use crate::node::tests::r;
use quorate_types::{InstanceId, ReplicaId};
use quorate_wire::Sight;

fn sight(of: &[u16]) -> Sight {
    of.iter().map(|instance| InstanceId::new(*instance)).collect()
}

fn sights(of: &[(u16, &[u16])]) -> Sights {
    Sights { others: of.iter().map(|(id, heard)| (r(*id), sight(heard))).collect(), ..Sights::default() }
}

fn present(count: u16) -> Sight {
    (1..=count).map(InstanceId::new).collect()
}

#[test]
fn who_lacks_a_leader_that_another_one_hears_is_blind() {
    let sights = sights(&[(2, &[1, 2, 7]), (3, &[1])]);
    for (own, count, expected) in
        [(&[1, 2][..], 2, false), (&[1], 2, true), (&[1], 1, false), (&[1, 2], 3, false), (&[], 3, true)]
    {
        assert_eq!(sights.is_blind(&sight(own), &present(count)), expected, "{own:?} of {count}");
    }
}

#[test]
fn the_best_hears_the_most_and_leads_already_and_has_the_lowest_number() {
    let sights = sights(&[(1, &[1, 2]), (3, &[1, 2, 3]), (4, &[1, 2, 3]), (5, &[5, 6, 7, 8])]);
    let best = |me: u16, own: &[u16], lacks: u16, leader: u16| {
        let (able, leads) = (|other| other != r(lacks), |other| other == r(leader));
        sights.best((r(me), &sight(own)), &present(4), able, leads).map(ReplicaId::number)
    };
    assert_eq!(best(2, &[1], 0, 0), Some(3), "instances that are none count for nothing");
    assert_eq!(best(2, &[1], 3, 0), Some(4), "the first one is not able");
    assert_eq!(best(2, &[1], 0, 4), Some(4), "it leads already");
    assert_eq!(best(2, &[1], 0, 1), Some(3), "who leads and hears fewer is not better");
    assert_eq!(best(6, &[1, 2, 3], 0, 3), Some(3), "as many here, and a leader with a lower number");
    assert_eq!(best(6, &[1, 2, 3], 0, 0), None, "as many here, and no leader");
    assert_eq!(best(2, &[1, 2, 3], 0, 3), None, "as many here, and a higher number");
    assert_eq!(best(6, &[1, 2, 3, 4], 0, 3), None, "all are heard here");
    assert!(sights.hears_all(r(9), &present(4)), "it said nothing");
    assert!(!sights.hears_all(r(3), &present(4)));
    assert!(sights.hears_all(r(3), &present(3)));
}

/// Which replicas hear which; a replica hears itself.
struct Links {
    replicas: u16,
    heard: Vec<bool>,
}

impl Links {
    fn new(replicas: u16, heard: impl Fn(u16, u16) -> bool) -> Self {
        let all = (1..=replicas).flat_map(|from| (1..=replicas).map(move |to| (from, to)));
        Self { replicas, heard: all.map(|(from, to)| from == to || heard(from, to)).collect() }
    }

    fn hears(&self, to: u16, from: u16) -> bool {
        self.heard[usize::from((from - 1) * self.replicas + to - 1)]
    }

    fn joined(&self, one: u16, other: u16) -> bool {
        self.hears(one, other) && self.hears(other, one)
    }

    /// The replicas that reach a majority.
    fn able(&self) -> Vec<u16> {
        let reached = |one: u16| (1..=self.replicas).filter(|other| self.joined(one, *other)).count();
        (1..=self.replicas).filter(|one| reached(*one) > usize::from(self.replicas) / 2).collect()
    }

    /// What a replica says if these lead.
    fn sight(&self, by: u16, leaders: &[u16]) -> Sight {
        let heard = (1..).zip(leaders).filter(|(_, leader)| self.hears(by, **leader)).map(|(id, _)| id);
        let heard: Vec<u16> = heard.filter(|_| self.able().contains(&by)).collect();
        sight(&heard)
    }

    /// The replica to which each leader hands over.
    fn round(&self, leaders: &[u16]) -> Vec<u16> {
        let present = present(leaders.len() as u16);
        let next = |leader: &u16| {
            let (me, own) = (r(*leader), self.sight(*leader, leaders));
            let others = (1..=self.replicas).filter(|other| other != leader && self.joined(*other, *leader));
            let others = others.map(|other| (r(other), self.sight(other, leaders))).collect();
            let sights = Sights { others, ..Sights::default() };
            let able = |other: ReplicaId| self.able().contains(&other.number());
            let leads =
                |other: ReplicaId| leaders.iter().any(|at| *at == other.number() && self.hears(*leader, *at));
            let blind = sights.is_blind(&own, &present);
            let best = sights.best((me, &own), &present, able, leads).filter(|_| blind);
            best.map_or(*leader, ReplicaId::number)
        };
        leaders.iter().map(next).collect()
    }

    /// After how many rounds all leaders hear each other.
    fn rounds(&self, mut leaders: Vec<u16>) -> usize {
        let apart =
            |leaders: &[u16]| leaders.iter().any(|one| leaders.iter().any(|other| !self.hears(*one, *other)));
        let mut rounds = 0;
        while apart(&leaders) && rounds < 20 {
            leaders = self.round(&leaders);
            rounds += 1;
        }
        rounds
    }

    /// The most rounds that this many leaders need, wherever they begin.
    fn most_rounds(&self, instances: u32) -> usize {
        let able = self.able();
        let starts = 0..able.len().pow(instances);
        let leader = |start: usize, at: u32| able[start / able.len().pow(at) % able.len()];
        starts
            .map(|start| self.rounds((0..instances).map(|at| leader(start, at)).collect()))
            .max()
            .unwrap_or(0)
    }
}

#[test]
fn leaders_in_a_ring_gather() {
    let ring = |from: u16, to: u16| [1, 4].contains(&((from + 5 - to) % 5));
    assert!(Links::new(5, ring).most_rounds(4) <= 2);
}

#[test]
fn leaders_gather_whatever_is_cut() {
    // Of three replicas, each direction of a link may be cut.
    for cut in 0..1 << 9 {
        let links = Links::new(3, |from, to| cut >> ((from - 1) * 3 + to - 1) & 1 == 0);
        assert!(links.most_rounds(3) <= 2, "{cut:b}: {}", links.most_rounds(3));
    }
    // Of five replicas, each link may be cut.
    for cut in 0..1u32 << 10 {
        let pair = |one: u16, other: u16| one.min(other) * (9 - one.min(other)) / 2 + one.max(other) - 6;
        let links = Links::new(5, |from, to| cut >> pair(from, to) & 1 == 0);
        assert!(links.most_rounds(3) <= 3, "{cut:b}: {}", links.most_rounds(3));
    }
}
