//! When the oracle is asked, and what its answers say.

use crate::visigoth::{Gather, Grant, Here, OracleAnswer, OracleRequest, Register, Wish};
use bytes::Bytes;
use quorate_types::{MembershipId, ReplicaId, Span, Time, Trust, View};

const REPEAT: Span = Span::from_millis(100);

fn ids(numbers: &[u16]) -> Vec<ReplicaId> {
    numbers.iter().copied().map(ReplicaId::new).collect()
}

fn at(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

/// Four members, of which two may be a quorum, in this view; something was decided in an earlier one.
fn here(voters: &[ReplicaId], view: u64, decided: u64) -> Here<'_> {
    let trust = Trust::new(4, 2, 1, 0).expect("four members are enough");
    let (view, decided) = (View::new(view), View::new(decided));
    Here { membership: MembershipId::new(1), view, decided, voters, trust }
}

/// What the oracle says once this was swapped in.
fn answer(version: u64, register: &Register) -> OracleAnswer {
    let value = if version == 0 { Bytes::new() } else { register.encode() };
    OracleAnswer { membership: MembershipId::new(1), version, value }
}

fn granted(gather: &Gather, view: u64) -> Vec<Vec<ReplicaId>> {
    gather.granted(View::new(view)).cloned().collect()
}

#[test]
fn first_it_reads_then_it_swaps() {
    let (mut gather, voters) = (Gather::default(), ids(&[1, 2, 3, 4]));
    let read = OracleRequest { membership: MembershipId::new(1), wish: Wish::Read };
    let first = gather.ask(ids(&[1, 2]), None, here(&voters, 3, 2), at(0), REPEAT);
    assert_eq!(first, Some(read.clone()), "the register is not known");
    assert_eq!(
        gather.ask(ids(&[1, 2]), None, here(&voters, 3, 2), at(99), REPEAT),
        None,
        "it was asked lately"
    );
    assert_eq!(gather.told(answer(0, &Register::default()), here(&voters, 3, 2)), Ok(true));

    let wish =
        gather.ask(ids(&[1, 2]), None, here(&voters, 3, 2), at(99), REPEAT).expect("what it said is news");
    let Wish::Swap(0, value) = wish.wish else { panic!("the rule allows it: {wish:?}") };
    let register = Register::decode(value, &voters, here(&voters, 3, 2).trust).expect("a register");
    assert_eq!(register.grants(), [Grant { view: View::new(3), set: ids(&[1, 2]) }]);

    // A set that misses the granted one is not even asked for; a larger one is, at once.
    assert_eq!(gather.told(answer(1, &register), here(&voters, 4, 2)), Ok(true));
    assert_eq!(gather.ask(ids(&[3, 4]), None, here(&voters, 4, 2), at(99), REPEAT), Some(read));
    let larger = gather.ask(ids(&[2, 3, 4]), None, here(&voters, 4, 2), at(99), REPEAT).expect("another set");
    assert!(matches!(larger.wish, Wish::Swap(1, _)), "it meets the granted one");
}

#[test]
fn late_answers_and_those_of_others_are_dropped() {
    let (mut gather, voters) = (Gather::default(), ids(&[1, 2, 3, 4]));
    let grant = Grant { view: View::new(3), set: ids(&[1, 2]) };
    let trust = here(&voters, 3, 2).trust;
    let register = Register::default().with(grant, View::new(2), &voters, trust).expect("the first one");
    let other = OracleAnswer { membership: MembershipId::new(7), ..answer(2, &register) };
    assert_eq!(gather.told(other, here(&voters, 3, 2)), Ok(false));
    assert_eq!(granted(&gather, 3), Vec::<Vec<ReplicaId>>::new());
    assert_eq!(gather.told(answer(2, &register), here(&voters, 3, 2)), Ok(true));
    assert_eq!(gather.told(answer(0, &register), here(&voters, 3, 2)), Ok(false), "an old version");
    assert_eq!(granted(&gather, 3), [ids(&[1, 2])]);
    assert_eq!(granted(&gather, 4), Vec::<Vec<ReplicaId>>::new());

    let another = Register::default().with(
        Grant { view: View::new(3), set: ids(&[3, 4]) },
        View::new(2),
        &voters,
        trust,
    );
    let why = gather.told(answer(2, &another.expect("a register")), here(&voters, 3, 2));
    assert!(why.is_err(), "one version with two values: there are two oracles");
    assert_eq!(granted(&gather, 3), [ids(&[1, 2])]);

    // A small quorum binds the views after its own one, until something is decided in one of them.
    assert!(!gather.is_bound(here(&voters, 3, 3)));
    assert!(gather.is_bound(here(&voters, 4, 3)));
    assert!(!gather.is_bound(here(&voters, 5, 4)));
}

/// The oracle is away for a long time, and nobody asks for anything.
#[test]
fn it_reads_more_and_more_rarely() {
    let (mut gather, voters) = (Gather::default(), ids(&[1, 2, 3, 4]));
    let reads = |gather: &mut Gather, from: u64, to: u64| {
        let asks = |millis: &u64| gather.read(MembershipId::new(1), at(*millis), REPEAT).is_some();
        (from..to).step_by(50).filter(asks).count()
    };
    assert_eq!(reads(&mut gather, 0, 60_000), 15, "doubled six times, then each 6.4 s");
    // News and a new view are reasons to look at once.
    assert_eq!(reads(&mut gather, 60_000, 60_100), 0);
    assert_eq!(gather.told(answer(0, &Register::default()), here(&voters, 3, 2)), Ok(true));
    assert_eq!(reads(&mut gather, 60_100, 60_150), 1);
    assert_eq!(gather.told(answer(0, &Register::default()), here(&voters, 3, 2)), Ok(true));
    assert_eq!(reads(&mut gather, 60_150, 60_200), 0, "it said nothing new");
    gather.enter();
    assert_eq!(reads(&mut gather, 60_200, 60_250), 1);
}
