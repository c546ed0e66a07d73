use super::{Runs, UnderWay, Watched};
use quorate_types::{ClientId, RequestNumber, Seq};

fn of(request: Option<(u64, Option<u64>)>) -> UnderWay {
    let request = request.map(|(client, number)| (ClientId::new(client), number.map(RequestNumber::new)));
    UnderWay { seq: Seq::new(99), request, bytes: 300 }
}

#[test]
fn another_thread_sees_what_runs_as_long_as_it_does() {
    let watched = Watched::default();
    let seen = watched.clone();
    let watches = || {
        let before = Runs::new(of(None));
        assert_eq!(seen.look(), None, "nobody watches yet");
        drop(before);
        seen.this_thread();
        for what in [of(None), of(Some((0, None))), of(Some((12, Some(7))))] {
            let runs = Runs::new(what);
            assert_eq!(seen.look(), Some(what));
            drop(runs);
            assert_eq!(seen.look(), None);
        }
        std::mem::forget(Runs::new(of(Some((12, Some(7))))));
    };
    std::thread::scope(|scope| scope.spawn(watches).join()).expect("the thread ends");
    assert_eq!(watched.look(), Some(of(Some((12, Some(7))))));
}

#[test]
fn it_is_named_for_people() {
    let texts = [
        (Some((12, Some(7))), "request 7 of client 12, which has 300 bytes, at seq 99"),
        (Some((12, None)), "a request of client 12, which has 300 bytes, at seq 99"),
        (None, "what a deadline brings, at seq 99"),
    ];
    for (request, text) in texts {
        assert_eq!(of(request).to_string(), text);
    }
}
