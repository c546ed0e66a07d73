//! Requests there and back, and requests that are cut or made of any bytes.

use proptest::prelude::*;
use quorate_zookeeper::jute::{Malformed, Write};
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::Acl;
use quorate_zookeeper::request::{Create, Mode, Reconfig, Request, SetWatches, write_multi_header};

const RIGHTS: Acl<'_> = Acl { perms: 9, scheme: b"digest", id: b"ann:\xff" };

/// One request of each operation.
fn each() -> Vec<Request<'static>> {
    let create = |op, ttl_ms| {
        let acl = Some(vec![Acl::OPEN, RIGHTS]);
        Request::Create(Create { op, path: b"/a", data: Some(b"data"), acl, flags: 3, ttl_ms })
    };
    let read = |op| Request::Read { op, path: b"/a", watch: true };
    let about = |op| Request::About { op, path: b"/a/b" };
    let watch = |op| Request::Watch { op, path: b"/a", kind: 2 };
    let once = [vec![&b"/a"[..], b"/b"], vec![], vec![&b"/c"[..]]];
    let (deletes, checks) =
        (Request::Delete { path: b"/a", version: -1 }, Request::Check { path: b"/", version: 4 });
    vec![
        create(Op::Create, 0),
        create(Op::Create2, 0),
        create(Op::CreateContainer, 0),
        create(Op::CreateTtl, 1 << 40),
        deletes.clone(),
        checks.clone(),
        Request::SetData { path: b"/a", data: None, version: 3 },
        Request::SetAcl { path: b"/a", acl: None, version: 3 },
        read(Op::Exists),
        read(Op::GetData),
        read(Op::GetChildren),
        read(Op::GetChildren2),
        about(Op::GetAcl),
        about(Op::Sync),
        about(Op::GetEphemerals),
        about(Op::GetAllChildrenNumber),
        about(Op::DeleteContainer),
        Request::Multi { op: Op::Multi, list: vec![create(Op::Create2, 0), deletes, checks] },
        Request::Multi { op: Op::MultiRead, list: vec![read(Op::GetData), read(Op::GetChildren)] },
        Request::Reconfig(Reconfig {
            joining: Some(b"server.4=x"),
            leaving: None,
            members: None,
            version: -1,
        }),
        watch(Op::CheckWatches),
        watch(Op::RemoveWatches),
        watch(Op::AddWatch),
        Request::SetWatches(SetWatches { seen_zxid: 5, once: once.clone(), lasting: None }),
        Request::SetWatches(SetWatches { seen_zxid: 5, once, lasting: Some([vec![b"/d"], vec![]]) }),
        Request::Auth { kind: 0, scheme: b"digest", proof: b"ann:secret" },
        Request::Sasl { token: b"token" },
        Request::Plain(Op::Ping),
        Request::Plain(Op::WhoAmI),
        Request::Plain(Op::CloseSession),
    ]
}

#[test]
fn each_request_comes_back_and_none_that_is_cut() {
    let all = each();
    assert!(Op::ALL.iter().all(|op| all.iter().any(|request| request.op() == *op)), "one of each");
    for request in all {
        let mut bytes = Vec::new();
        request.write(&mut bytes);
        assert_eq!(Request::read(request.op(), &bytes), Ok(request.clone()));
        for cut in 0..bytes.len() {
            assert_eq!(Request::read(request.op(), &bytes[..cut]), Err(Malformed), "{request:?} at {cut}");
        }
        bytes.extend_from_slice(b"more");
        assert_eq!(Request::read(request.op(), &bytes), Ok(request), "servers ignore what follows");
    }
}

#[test]
fn a_multi_has_only_what_it_may_have() {
    for multi in [Op::Multi, Op::MultiRead] {
        for op in Op::ALL {
            let mut bytes = Vec::new();
            write_multi_header(op.code(), false, -1, &mut bytes);
            each().iter().filter(|request| request.op() == op).take(1).for_each(|one| one.write(&mut bytes));
            write_multi_header(-1, true, -1, &mut bytes);
            let may = if multi == Op::Multi { op.in_multi() } else { op.in_multi_read() };
            assert_eq!(Request::read(multi, &bytes).is_ok(), may, "{op:?} in {multi:?}");
        }
    }
}

#[test]
fn the_modes_are_those_of_create() {
    let found: Vec<Option<Mode>> = (-1..8).map(Mode::of).collect();
    let all = Mode::ALL.map(Some);
    assert_eq!(found, [&[None], &all[..], &[None]].concat());
    let of = |is: fn(Mode) -> bool| Mode::ALL.map(is).map(u8::from);
    assert_eq!(of(Mode::is_sequential), [0, 0, 1, 1, 0, 0, 1]);
    assert_eq!(of(Mode::is_ephemeral), [0, 1, 0, 1, 0, 0, 0]);
    assert_eq!(of(Mode::has_ttl), [0, 0, 0, 0, 0, 1, 1]);
    assert!(Mode::ALL.iter().zip(0..).all(|(mode, number)| *mode as i32 == number));
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_none(op in 0..Op::ALL.len(), bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let op = Op::ALL[op];
        if let Ok(request) = Request::read(op, &bytes) {
            let mut again = Vec::new();
            request.write(&mut again);
            prop_assert_eq!(Request::read(op, &again), Ok(request));
        }
    }

    /// A list that promises many elements costs no more memory than its bytes.
    #[test]
    fn long_lists_are_read_as_far_as_they_go(count in any::<i32>(), bytes in proptest::collection::vec(0_u8..2, 0..40)) {
        let mut all = Vec::new();
        all.long(0);
        all.int(count);
        all.extend_from_slice(&bytes);
        let _ = Request::read(Op::SetWatches2, &all);
    }
}
