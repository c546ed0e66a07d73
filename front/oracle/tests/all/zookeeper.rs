//! The client of ZooKeeper without one: against what a real one said, against a stand-in that keeps nodes in memory, and against servers
//! that answer wrongly.

use crate::servers::address_of;
use crate::{behaves, bytes, connect, zookeeper_at};
use bytes::{Buf as _, BufMut as _, Bytes};
use quorate_runtime::{Held, Oracle};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const RECORDED: &str = include_str!("../fixtures/zookeeper.txt");
const REGISTER: &str = "quorate/7/1/1";
/// The recorded answers to the first hello, and to a read of the register when it was there.
const HELLO: usize = 0;
const SYNC: usize = 15;
const READ: usize = 16;

/// The recorded frames, each request with its answer.
fn recorded() -> Vec<(Vec<u8>, Vec<u8>)> {
    let frame = |line: &str, from: char| {
        let digits = line.strip_prefix(from).expect("requests and answers by turns").trim();
        let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
        bytes.collect::<Result<Vec<u8>, _>>().expect("hexadecimal digits")
    };
    let lines: Vec<&str> = RECORDED.lines().filter(|line| !line.starts_with('#')).collect();
    lines.chunks(2).map(|pair| (frame(pair[0], '>'), frame(pair[1], '<'))).collect()
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = address_of(&listener);
    (listener, address)
}

/// Reads a frame, without its length. Nothing: the client is gone.
fn frame(stream: &mut TcpStream) -> Option<Bytes> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).ok()?;
    Some(frame.into())
}

/// The client writes to the last bit what a real server understood, and reads what that answered.
#[test]
fn it_speaks_as_it_did_with_a_real_server() {
    let (listener, address) = listen();
    let server: JoinHandle<()> = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        for (request, answer) in recorded() {
            let asked = frame(&mut stream).expect("a request");
            assert_eq!(asked, request[4..], "it asks what it asked then");
            stream.write_all(&answer).expect("written");
        }
        assert_eq!(frame(&mut stream), None, "and no more");
    });
    let mut oracle = connect(&zookeeper_at(&[address]));
    let mut serve = |swap: Option<Held>| oracle.serve(REGISTER, swap);
    assert_eq!(serve(None), Ok((0, Bytes::new())));
    assert_eq!(serve(Some((0, bytes("first")))), Ok((1, bytes("first"))));
    assert_eq!(serve(Some((0, bytes("late")))), Ok((1, bytes("first"))));
    assert_eq!(serve(Some((1, bytes("second")))), Ok((2, bytes("second"))));
    assert_eq!(serve(Some((1, bytes("late")))), Ok((2, bytes("second"))));
    assert_eq!(serve(None), Ok((2, bytes("second"))));
    drop(oracle);
    server.join().expect("all was as it was then");
}

/// Nodes in memory: how often each was changed, and its value.
type Nodes = Arc<Mutex<BTreeMap<String, (i32, Bytes)>>>;

/// Serves a client as ZooKeeper does, as far as this client asks.
fn stand_in(mut stream: TcpStream, nodes: &Nodes) -> Option<()> {
    let say = |stream: &mut TcpStream, body: &[u8]| {
        let frame = [&(body.len() as u32).to_be_bytes(), body].concat();
        stream.write_all(&frame).ok()
    };
    frame(&mut stream)?;
    say(&mut stream, &recorded()[HELLO].1[4..])?;
    let buffer = |from: &mut Bytes| {
        let length = from.get_i32() as usize;
        from.split_to(length)
    };
    loop {
        let mut request = frame(&mut stream)?;
        let (xid, kind) = (request.get_i32(), request.get_i32());
        let path = String::from_utf8(buffer(&mut request).into()).expect("a path");
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        let mut nodes = nodes.lock().expect("no panic");
        let is_below = parent.is_empty() || nodes.contains_key(&parent);
        let (mut error, mut body) = (0, Vec::new());
        match (kind, nodes.get_mut(&path)) {
            (1, Some(_)) => error = -110,
            (1, None) if !is_below => error = -101,
            (1, None) => drop(nodes.insert(path, (0, buffer(&mut request)))),
            (4, Some((version, value))) => {
                body.put_u32(value.len() as u32);
                body.put_slice(value);
                // What comes before the version, and after it, does not matter to this client.
                body.resize(body.len() + 32, 7);
                body.put_i32(*version);
                body.resize(body.len() + 32, 7);
            }
            (5, Some((version, value))) => {
                let new = buffer(&mut request);
                if *version == request.get_i32() {
                    (*version, *value) = (*version + 1, new);
                } else {
                    error = -103;
                }
            }
            (9, _) => {}
            (4 | 5, None) => error = -101,
            _ => panic!("this client does not ask that: {kind}"),
        }
        let mut answer = Vec::new();
        answer.put_i32(xid);
        answer.put_i64(1);
        answer.put_i32(error);
        answer.extend_from_slice(&body);
        say(&mut stream, &answer)?;
    }
}

/// All that an oracle must do, at a stand-in. The first server of the list is away.
#[test]
fn it_is_an_oracle() {
    let ((listener, address), nodes) = (listen(), Nodes::default());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let nodes = nodes.clone();
            std::thread::spawn(move || stand_in(stream, &nodes));
        }
    });
    let config = zookeeper_at(&["127.0.0.1:1".to_owned(), address]);
    behaves(connect(&config), connect(&config));
}

/// What a server does instead of an answer.
#[derive(Clone)]
enum Instead {
    /// Says this, with its length before it.
    Says(Vec<u8>),
    /// Says these bytes as they are.
    Raw(Vec<u8>),
    /// Closes the connection.
    Closes,
    /// Says nothing.
    Hangs,
    /// Says the right thing, but one byte after the other with long pauses.
    Drips,
}

/// A server that is as the recorded one for a client that reads the register, but once, instead of one answer, does something else. The
/// next connection is served well.
fn spoiled(at: usize, instead: Instead) -> String {
    let (listener, address) = listen();
    std::thread::spawn(move || {
        let mut instead = Some(instead);
        for mut stream in listener.incoming().flatten() {
            for (number, step) in [HELLO, SYNC, READ].into_iter().enumerate() {
                let Some(request) = frame(&mut stream) else { break };
                let mut answer = recorded()[step].1.clone();
                if number > 0 {
                    // The numbers of requests begin with each connection.
                    answer[4..8].copy_from_slice(&request[..4]);
                }
                let done = match instead.take_if(|_| step == at) {
                    None => stream.write_all(&answer),
                    Some(Instead::Says(body)) => {
                        stream.write_all(&[&(body.len() as u32).to_be_bytes(), &body[..]].concat())
                    }
                    Some(Instead::Raw(bytes)) => stream.write_all(&bytes),
                    Some(Instead::Closes) => break,
                    Some(Instead::Hangs) => {
                        // Until the client leaves.
                        frame(&mut stream);
                        break;
                    }
                    Some(Instead::Drips) => answer.iter().try_for_each(|byte| {
                        std::thread::sleep(Duration::from_millis(100));
                        stream.write_all(&[*byte])
                    }),
                };
                if done.is_err() {
                    break;
                }
            }
        }
    });
    address
}

fn serve(oracle: &mut dyn Oracle) -> Result<Held, String> {
    oracle.serve(REGISTER, None)
}

/// The answer to a request, with another number, error or rest.
fn answer(xid: i32, error: i32, rest: &[u8]) -> Instead {
    let mut body = Vec::new();
    body.put_i32(xid);
    body.put_i64(1);
    body.put_i32(error);
    body.extend_from_slice(rest);
    Instead::Says(body)
}

/// Whatever comes instead of an answer is an error that names the server and the reason; the next question, on a connection of its own, is
/// answered. So nothing of an old connection counts later.
#[test]
fn a_wrong_answer_is_an_error_and_passes() {
    let below_zero = [&0u32.to_be_bytes()[..], &[0; 32], &(-3i32).to_be_bytes(), &[0; 32]].concat();
    let long_value = [&900u32.to_be_bytes()[..], &[0; 68]].concat();
    let no_session = [&[0; 8][..], &recorded()[HELLO].1[12..]].concat();
    let mut cases = vec![
        (HELLO, Instead::Says(no_session), "lost its quorum"),
        (HELLO, Instead::Says(vec![0; 3]), "too short"),
        (SYNC, answer(7, 0, &[]), "another request"),
        (SYNC, answer(1, -112, &[]), "with error -112"),
        (SYNC, answer(1, -4, &[]), "with error -4"),
        (READ, answer(1, 0, &[]), "another request"),
        (READ, answer(2, -102, &[]), "let everybody"),
        (READ, answer(2, 0, &below_zero), "below zero"),
        (READ, answer(2, 0, &long_value), "too short"),
        (READ, Instead::Raw(vec![0x7f; 64]), "no ZooKeeper"),
        (READ, Instead::Raw(vec![0xff; 64]), "no ZooKeeper"),
        (READ, Instead::Drips, "in time"),
    ];
    for at in [HELLO, SYNC, READ] {
        cases.push((at, Instead::Closes, "closed the connection"));
        cases.push((at, Instead::Hangs, "in time"));
    }
    for (at, instead, why) in cases {
        let address = spoiled(at, instead);
        let mut oracle = connect(&zookeeper_at(std::slice::from_ref(&address)));
        let said = serve(&mut *oracle).expect_err(why);
        assert!(said.starts_with(&address) && said.contains(why), "{said}, not: {why}");
        assert_eq!(serve(&mut *oracle), Ok((2, bytes("second"))), "after: {said}");
    }
}

/// An answer that ends anywhere is an error, or was long enough.
#[test]
fn an_answer_that_ends_early_is_too_short() {
    for at in [HELLO, SYNC, READ] {
        let mut body = recorded()[at].1[4..].to_vec();
        if at != HELLO {
            body[..4].copy_from_slice(&(if at == SYNC { 1i32 } else { 2 }).to_be_bytes());
        }
        let read = |length: usize| {
            let address = spoiled(at, Instead::Says(body[..length].to_vec()));
            serve(&mut *connect(&zookeeper_at(&[address])))
        };
        let done: Vec<_> = (0..=body.len()).map(read).collect();
        let enough = done.iter().position(Result::is_ok).expect("the whole is right");
        assert!(enough > 0 && done[enough..].iter().all(|held| *held == Ok((2, bytes("second")))));
        assert!(done[..enough].iter().flat_map(Result::as_ref).next().is_none());
        let short = |held: &Result<Held, String>| {
            held.as_ref().is_err_and(|why| why.contains("too short") || why.contains("no session"))
        };
        assert!(done[..enough].iter().all(short), "{done:?}");
    }
}
