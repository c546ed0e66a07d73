//! Requests as they come, good and bad, and what is answered.

use super::*;

fn text(request: Request, heard: &Heard) -> String {
    String::from_utf8(answer(request, heard)).unwrap()
}

fn ask(head: &[u8], heard: &Heard) -> String {
    text(parse(head), heard)
}

fn well() -> Heard {
    Heard::Lacks(vec![])
}

#[test]
fn probes_are_understood() {
    let live = Request::Probe { wish: Wish::Live, bodiless: false };
    let ready = Request::Probe { wish: Wish::Ready, bodiless: false };
    assert_eq!(parse(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"), live);
    assert_eq!(parse(b"GET /readyz?verbose HTTP/1.0\r\n\r\n"), ready);
    assert_eq!(parse(b"HEAD /readyz HTTP/1.1\r\n\r\n"), Request::Probe { wish: Wish::Ready, bodiless: true });
}

#[test]
fn everything_else_has_its_status() {
    let cases: [(&[u8], u16); 10] = [
        (b"", 400),
        (b"\r\n\r\n", 400),
        (b"GET /livez\r\n\r\n", 400),
        (b"GET  /livez HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01 a b\r\n\r\n", 400),
        (b"GET /livez HTTP/2.0\r\n\r\n", 505),
        (b"POST /livez HTTP/1.1\r\n\r\n", 405),
        (b"get /livez HTTP/1.1\r\n\r\n", 405),
        (b"GET /metric HTTP/1.1\r\n\r\n", 404),
        (b"GET /../livez HTTP/1.1\r\n\r\n", 404),
    ];
    for (head, status) in cases {
        assert_eq!(parse(head), Request::Refused(status), "{}", head.escape_ascii());
        let answer = ask(head, &well());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert_eq!(answer.contains("\r\nAllow: GET, HEAD\r\n"), status == 405, "{answer}");
    }
}

#[test]
fn a_replica_that_starts_is_alive_and_not_ready() {
    let (live, ready) = (b"GET /livez HTTP/1.1\r\n\r\n", b"GET /readyz HTTP/1.1\r\n\r\n");
    assert!(ask(live, &Heard::Starts).starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(ask(ready, &Heard::Starts).starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    assert!(ask(ready, &Heard::Starts).ends_with("\r\n\r\nstarts\n"));
}

#[test]
fn a_silent_lane_is_neither_and_one_that_lacks_something_is_alive() {
    let (live, ready) = (b"GET /livez HTTP/1.1\r\n\r\n", b"GET /readyz HTTP/1.1\r\n\r\n");
    assert!(ask(live, &Heard::Silence).starts_with("HTTP/1.1 503 "));
    assert!(ask(ready, &Heard::Silence).starts_with("HTTP/1.1 503 "));
    let lacks = Heard::Lacks(vec!["knows no leader".into(), "its state is not the agreed one".into()]);
    assert!(ask(live, &lacks).starts_with("HTTP/1.1 200 "));
    assert!(ask(ready, &lacks).ends_with("\r\n\r\nknows no leader\nits state is not the agreed one\n"));
    assert!(ask(ready, &well()).ends_with("\r\n\r\nok\n"));
}

#[test]
fn a_full_disk_may_be_left_out() {
    let (ready, but) =
        (b"GET /readyz HTTP/1.1\r\n\r\n", b"GET /readyz?verbose&exclude=disk HTTP/1.1\r\n\r\n");
    let full = Heard::Lacks(vec![FULL.into()]);
    assert!(ask(ready, &full).starts_with("HTTP/1.1 503 "));
    assert!(ask(but, &full).starts_with("HTTP/1.1 200 "));
    let more = Heard::Lacks(vec!["knows no leader".into(), FULL.into()]);
    assert!(ask(but, &more).ends_with("\r\n\r\nknows no leader\n"));
    assert!(ask(but, &Heard::Starts).starts_with("HTTP/1.1 503 "));
}

#[test]
fn the_length_is_that_of_the_body_and_head_has_none() {
    let got = ask(b"GET /readyz HTTP/1.1\r\n\r\n", &Heard::Starts);
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{got}");
    let bare = ask(b"HEAD /readyz HTTP/1.1\r\n\r\n", &Heard::Starts);
    assert_eq!(bare, format!("{head}\r\n\r\n"));
}

#[test]
fn a_lane_that_is_gone_is_silent() {
    let poll = Poll::new().unwrap();
    let waker = Arc::new(Waker::new(poll.registry(), WAKER).unwrap());
    let (mailbox, completions) = Mailbox::new(waker);
    drop(completions);
    assert_eq!(hear(Some(&mailbox)), Heard::Silence);
    assert_eq!(hear(None), Heard::Starts);
}
