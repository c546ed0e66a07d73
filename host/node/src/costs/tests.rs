use super::*;

const LIAR: ConnId = ConnId::new(1);
const HONEST: ConnId = ConnId::new(2);

/// A lane that reads every member that has something, where each byte costs this many nanoseconds. Gives how long each member had the lane.
fn share(costs: [u64; 2], suspect: bool, turns: usize) -> [Span; 2] {
    let (mut costs_of, mut now) = (Costs::default(), Time::from_nanos(1 << 40));
    let mut times = [Span::ZERO; 2];
    for _ in 0..turns {
        for (at, conn) in [LIAR, HONEST].into_iter().enumerate() {
            if !costs_of.may(now, conn) {
                continue;
            }
            let mut had = costs_of.begin(conn);
            let before = now;
            while had.may_have_more() {
                let bytes = costs_of.piece(conn);
                let took = Span::from_nanos(bytes as u64 * costs[at]);
                now = now.plus(took);
                costs_of.read(conn, &mut had, bytes, took);
            }
            times[at] = times[at].plus(now.since(before));
            costs_of.served(now, conn, had, suspect && at == 0);
        }
        costs_of.turned();
    }
    times
}

/// 150 bytes cost 50 microseconds where a signature fails, and a hundredth of that where votes are counted.
#[test]
pub(crate) fn signatures_that_fail_are_the_senders_loss() {
    let [liar, honest] = share([330, 3], false, 1000);
    assert!(liar.nanos() <= honest.nanos() * 11 / 10, "{liar:?} against {honest:?}");
}

#[test]
fn evidence_makes_the_share_small() {
    let [liar, honest] = share([330, 3], true, 1000);
    assert!(liar.nanos() * 12 <= honest.nanos(), "{liar:?} against {honest:?}");
}

/// No other member has anything to be read.
#[test]
fn whoever_is_alone_waits_for_nobody() {
    let (mut costs, now) = (Costs::default(), Time::from_nanos(1 << 40));
    let mut had = costs.begin(LIAR);
    costs.read(LIAR, &mut had, 1 << 20, Span::from_millis(100));
    costs.served(now, LIAR, had, false);
    assert!(!costs.may(now, LIAR) && costs.may(now, HONEST));
    costs.turned();
    assert!(!costs.may(now, LIAR), "its own turn is no other's");
    costs.turned();
    assert!(costs.may(now, LIAR));
    assert_eq!(costs.opens_in(now, LIAR), Span::ZERO);
}

#[test]
fn who_is_suspected_waits_although_it_is_alone() {
    let (mut costs, now) = (Costs::default(), Time::from_nanos(1 << 40));
    let mut had = costs.begin(LIAR);
    costs.read(LIAR, &mut had, 4096, Span::from_millis(1));
    costs.served(now, LIAR, had, true);
    costs.turned();
    assert!(!costs.may(now, LIAR));
    assert_eq!(costs.opens_in(now, LIAR), Span::from_millis(15));
    assert!(costs.may(now.plus(Span::from_millis(15)), LIAR));
    costs.forget(LIAR);
    assert!(costs.may(now, LIAR));
}

/// A member whose bytes are cheap is read as before: much at once.
#[test]
fn what_is_cheap_is_read_in_large_pieces() {
    let mut costs = Costs::default();
    for _ in 0..10 {
        let (mut had, mut bytes) = (costs.begin(HONEST), 0);
        while had.may_have_more() {
            costs.read(HONEST, &mut had, PIECE_MAX, Span::from_nanos(100_000));
            bytes += PIECE_MAX;
        }
        assert_eq!((bytes, costs.piece(HONEST)), (TURN_BYTES, PIECE_MAX));
        costs.served(Time::from_nanos(1 << 40), HONEST, had, false);
        costs.turned();
        assert!(costs.may(Time::from_nanos(1 << 40), HONEST));
    }
}
