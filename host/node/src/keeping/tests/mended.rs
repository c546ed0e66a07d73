//! Rot that was found is mended.

use super::{Alone, Digest, In, Report, Seq, StateMessage, digest, holds, r, written};
use quorate_log::{Rot, ScrubOk};
use quorate_state::checkpoint::RotAt;
use quorate_types::RecordId;

const TEN: Seq = Seq::new(10);

fn rot(place: RotAt) -> In {
    In::Kept(Report::Rot { seq: TEN, digest: digest(10), file: "10.full".into(), place })
}

fn chunk(from: u16, digest: Digest) -> In {
    let message = StateMessage::Chunk { seq: TEN, digest, chunk: 3, bytes: vec![1].into() };
    In::Heard { from: r(from), message }
}

#[test]
fn a_rotten_part_comes_from_a_member_that_has_the_same_checkpoint() {
    let mut alone = Alone::new();
    alone.agreed_border(10);
    assert_eq!(alone.step(rot(RotAt::Part(3))), ["alarm", "to r2: [3] of q10?"]);
    assert_eq!(alone.keeping.status(alone.now).rotten, 1);
    assert!(alone.step(chunk(3, digest(10))).is_empty(), "it was not asked");
    assert!(alone.step(chunk(2, digest(11))).is_empty(), "of another checkpoint");
    assert_eq!(alone.step(chunk(2, digest(10))), ["Repair"]);
    assert_eq!(alone.step(In::Kept(Report::NotRepaired { seq: TEN, chunk: 3 })), ["to r2: [3] of q10?"]);
    alone.step(chunk(2, digest(10)));
    let repaired = Report::Repaired { seq: TEN, place: RotAt::Part(3) };
    assert_eq!(alone.step(In::Kept(repaired)), ["notice"]);
    let status = alone.keeping.status(alone.now);
    assert_eq!((status.rotten, status.repaired), (0, 1));
}

#[test]
fn a_checkpoint_of_which_nothing_is_left_is_replaced_by_the_next_one() {
    let mut alone = Alone::new();
    alone.agreed_border(10);
    assert_eq!(alone.step(rot(RotAt::Whole)), ["alarm", "to r2: border?"]);
    assert_eq!(alone.keeping.status(alone.now).durable_seq, 0);
    assert_eq!(alone.passes(2), ["to r2: border?"], "whoever was asked may not have led");
    alone.border(20);
    assert_eq!(alone.step(written(20, digest(20)))[0], "notice");
    assert_eq!(alone.keeping.status(alone.now).rotten, 0);
    assert!(alone.step(holds(2, 20, digest(20))).contains(&"release".into()));
}

#[test]
fn behind_a_rotten_segment_the_log_is_trimmed_at_the_newest_checkpoint() {
    let records = RecordId::new(1)..RecordId::new(9);
    let mut alone = Alone::new();
    assert_eq!(alone.step(In::Scrub), ["Scrub", "read segment 0"]);
    alone.keeping.reads(0, records.clone());
    assert_eq!(alone.step(In::Scrub), ["Scrub"], "the log is being read");
    let sound = Ok(ScrubOk { records: records.clone(), end: 9 });
    assert_eq!(alone.step(In::Scrubbed { segment: 0, result: sound }), ["read segment 1"]);
    alone.keeping.reads(1, records);
    let result = Err(Rot { offset: 5, why: "a block".into() });
    let said = alone.step(In::Scrubbed { segment: 1, result });
    assert_eq!(said, ["alarm", "to r2: border?", "read segment 2"]);
    assert_eq!(alone.keeping.rotten_segment(), Some(1));
    let said = alone.agreed_border(10);
    assert_eq!(said[said.len() - 1], "trim q10", "it is the newest, and what lies before it is of no use");
    alone.keeping.log_begins(2);
    assert_eq!(alone.keeping.rotten_segment(), None);
}
