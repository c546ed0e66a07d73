mod few;
mod late;
mod proposed;
mod stays;
mod unbound;

use crate::config::NodeConfig;
use crate::effects::{Effect, Effects, Input, KeeperWork};
use crate::gate::SeatLimits;
use crate::keeping::{BorderConfig, CheckpointMode};
use crate::node::Node;
use crate::reconfigure::LevelConfig;
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use quorate_admit::{AdmissionLimits, KnownMember, Members};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service, SessionLimits,
};
use quorate_log::{Log, LogConfig, LogEffect};
use quorate_order::{OrderConfig, Protocol};
use quorate_reply::ReadLimits;
use quorate_state::checkpoint::{Image, Job};
use quorate_state::transfer::{FetchLimits, ServeLimits};
use quorate_types::{AgreedTime, ClusterId, ConnId, Incarnation, MembershipId, ReplicaId, Span, Time, View};
use quorate_wire::{
    FEATURE_LEVEL, FORMAT_MAX, FRAME_HEADER, Frame, FrameKind, Hello, Member, MemberRole, Membership,
    Memberships, OutFrame, Role, Welcome, members_frame,
};

pub(crate) const CLUSTER: ClusterId = ClusterId::new(77);

pub(crate) struct Nothing;

impl Service for Nothing {
    fn execute(&mut self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn query(&self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
}

pub(crate) fn r(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn life_of(replica: ReplicaId) -> Incarnation {
    Incarnation::new(100 + u64::from(replica.number()))
}

/// r4, which joins a cluster that began with r1 to r3.
pub(crate) fn joins() -> NodeConfig {
    let known =
        |id: u16| KnownMember { replica: r(id), address: format!("r{id}"), incarnation: life_of(r(id)) };
    let members = Members::new(CLUSTER, r(4), (1..=4).map(known).collect());
    NodeConfig {
        signed_only: false,
        administrators: None,
        checks_away: quorate_admit::ChecksAway::NONE,
        served_by_replicas: quorate_admit::ServedByReplicas::ClientsAndOperators,
        members: members.joined(MembershipId::new(2), 3),
        incarnation: life_of(r(4)),
        log_id: 5,
        log: LogConfig::default(),
        instances: 1,
        links: 1,
        placement: crate::Placement::default(),
        merge: crate::MergeConfig { window: 256, held_bytes_max: 1 << 20 },
        order: OrderConfig::new(Protocol::RAFT, r(4), (1..=3).map(r).collect(), 6),
        admission: AdmissionLimits::default(),
        sessions: SessionLimits::default(),
        extra_protection: 0,
        reads: ReadLimits::default(),
        start_time: AgreedTime::ZERO,
        batches_in_flight_max: 2,
        bytes_in_flight_max: 1 << 20,
        frame_bytes_max: 1 << 20,
        handshake_time: Span::from_secs(2),
        seats: SeatLimits::default(),
        borders: BorderConfig {
            mode: CheckpointMode::Full,
            interval_bytes: 1 << 20,
            interval_bytes_max: 1 << 20,
            state_percent: 0,
            ahead_percent: 0,
            full_every: 1,
            every: None,
        },
        log_bytes_max: 1 << 30,
        evidence: Vec::new(),
        chain: Vec::new(),
        sync_delay: Span::ZERO,
        scrub_every: None,
        disk_stall: Span::from_secs(1),
        fetch: FetchLimits::default(),
        serve: ServeLimits::default(),
        level: LevelConfig::made_with(1),
        service: crate::ServiceConfig::default(),
        era: crate::EraConfig::only("a test has one era"),
        seed: 7,
    }
}

/// A node with a fast disk.
pub(crate) struct Host {
    pub(crate) node: Node,
    /// The state at borders.
    pub(crate) images: Vec<Image>,
    /// The borders for which capturing began, and how many objects there were.
    pub(crate) ahead: Vec<(u64, u64)>,
    sent: Vec<(ConnId, FrameKind)>,
}

impl Host {
    fn start(config: NodeConfig) -> Self {
        let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
        Self::restart(restoring, config)
    }

    /// A node with the log of an earlier run.
    pub(crate) fn restart(restoring: Restoring, config: NodeConfig) -> Self {
        let (log_id, log) = (config.log_id, config.log);
        let node = restoring.finish(Log::create(log_id, log), Box::new(Nothing)).expect("it fits together");
        Self::of(node)
    }

    /// The node starts.
    pub(crate) fn of(node: Node) -> Self {
        let mut host = Self { node, images: Vec::new(), ahead: Vec::new(), sent: Vec::new() };
        let mut out = Effects::new();
        host.node.start(Time::ZERO, &mut out);
        host.perform(&mut out);
        host
    }

    pub(crate) fn step(&mut self, input: Input) {
        let mut out = Effects::new();
        self.node.step(Time::ZERO, input, &mut out);
        self.node.step(Time::ZERO, Input::TurnEnd, &mut out);
        self.perform(&mut out);
    }

    fn perform(&mut self, out: &mut Effects) {
        let mut done = Vec::new();
        for effect in out.drain() {
            match effect {
                Effect::Send { conn, frame } => self.sent.push((conn, frame.kind())),
                Effect::Keep(KeeperWork { job: Job::Border { image, .. }, .. }) => self.images.push(image),
                Effect::Keep(KeeperWork { job: Job::Ahead { border, version }, .. }) => {
                    self.ahead.push((border, version.len()));
                }
                Effect::Disk(LogEffect::Write(write)) => done.push(Input::Written(write.id)),
                Effect::Disk(LogEffect::Prepare { segment }) => {
                    done.push(Input::Prepared { segment, result: Ok(()) })
                }
                _ => {}
            }
        }
        done.into_iter().for_each(|input| self.step(input));
    }

    pub(crate) fn hears(&mut self, conn: ConnId, frame: &OutFrame) {
        let payload = frame.to_vec().split_off(FRAME_HEADER).into();
        self.step(Input::Frame { conn, frame: Frame { kind: frame.kind(), payload } });
    }

    /// This replica dials another one, which welcomes it.
    fn dials(&mut self, conn: ConnId, replica: ReplicaId) {
        self.step(Input::Dialed { conn, replica, link: 0 });
        let welcome = Welcome {
            format: FORMAT_MAX,
            feature_level: FEATURE_LEVEL,
            cluster: CLUSTER,
            replica,
            incarnation: life_of(replica),
            view: View::ZERO,
            leader: None,
            era: 1,
            service: quorate_types::ServiceVersion::UNNAMED,
        };
        self.hears(conn, &welcome.frame());
    }

    /// Another replica dials this one.
    pub(crate) fn is_dialed(&mut self, conn: ConnId, replica: ReplicaId) {
        self.step(Input::Accepted { conn, from: None });
        let role = Role::Peer { replica, incarnation: life_of(replica) };
        let hello = Hello::new(CLUSTER, Some(r(4)), role).of_member(0, 9).knowing(MembershipId::new(3));
        self.hears(conn, &hello.frame());
    }

    fn told(&self, conn: ConnId) -> usize {
        self.sent.iter().filter(|sent| **sent == (conn, FrameKind::Members)).count()
    }
}

fn all_four(number: u64) -> Memberships {
    let member = |id: u16| Member {
        replica: r(id),
        role: MemberRole::Voter,
        address: format!("r{id}"),
        incarnation: life_of(r(id)),
        life: 9,
        key: None,
    };
    let members = (1..=4).map(member).collect();
    Memberships::one(Membership::new(MembershipId::new(number), members).expect("a membership"))
}

/// r1 lags: it does not know r4, and no replica that it knows will tell it. r4 connects to it before r4 knows the members itself.
#[test]
fn who_is_connected_hears_of_a_later_membership() {
    let mut host = Host::start(joins());
    let (to_r1, from_r2) = (ConnId::new(1), ConnId::new(2));
    host.dials(to_r1, r(1));
    assert!(host.sent.contains(&(to_r1, FrameKind::Hello)), "{:?}", host.sent);
    assert_eq!(host.told(to_r1), 0, "there was nothing to tell");
    host.is_dialed(from_r2, r(2));
    host.hears(from_r2, &members_frame(&all_four(3)));
    assert_eq!(host.told(to_r1), 1);
    host.hears(from_r2, &members_frame(&all_four(3)));
    host.hears(from_r2, &members_frame(&all_four(2)));
    assert_eq!(host.told(to_r1), 1, "what is known is not told again");
    host.hears(from_r2, &members_frame(&all_four(4)));
    assert_eq!(host.told(to_r1), 2);
}
