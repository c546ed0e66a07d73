//! Groups in this process, and what strangers send them.

use super::wire::{Fault, Group, HEADER, Head, Kind, TAG};
use super::*;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn plan(rounds: u64) -> Plan {
    Plan {
        rounds,
        every: Duration::from_millis(10),
        message_bytes: 500,
        patience: Duration::from_secs(20),
        wait: Duration::from_secs(20),
    }
}

/// Addresses that are free now.
fn addresses(count: usize) -> Vec<String> {
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port")).collect();
    held.iter().map(|listener| listener.local_addr().expect("an address").to_string()).collect()
}

#[test]
fn a_group_on_this_machine_measures_itself() {
    let heard = AtomicU64::new(0);
    let tell = |round| heard.store(round, Ordering::Relaxed);
    let measured = local(3, &plan(20), &std::env::temp_dir(), tell).expect("it is measured");
    assert_eq!(heard.load(Ordering::Relaxed), 20);
    assert_eq!((measured.members, measured.processes, measured.rounds()), (3, 3, 60));
    assert!(measured.local && measured.strangers == 0, "{measured:?}");
    let [first, second] = &measured.replies[..] else { panic!("{measured:?}") };
    assert_eq!((first.never(), second.never()), (0, 0));
    for share in [0.1, 0.5, 0.9, 1.0] {
        let (first, second) = (first.within(share), second.within(share));
        assert!(first > Some(0.0) && first <= second, "{share}: {first:?} {second:?}");
    }
    let advice = Advice::of(&measured, Wish::default());
    let said = text(&measured, &advice);
    assert!(said.contains("2 of 2 replies") && said.contains("what to choose for u = 2"), "{said}");
    let page = page(&measured, &advice, &quorate_command::machine::Machine::ask(&std::env::temp_dir()));
    assert_eq!(page.matches("<figure>").count(), 2);
    assert!(page.contains("1 of 2 replies") && !page.contains("NaN"), "{page}");
}

/// Strangers talk to the members all the while: nothing panics, and no member counts what they say.
#[test]
fn strangers_are_counted_and_dropped() {
    let addresses = addresses(3);
    let (plan, directory) = (plan(40), std::env::temp_dir());
    let ended = AtomicBool::new(false);
    let measured: Vec<Measured> = std::thread::scope(|scope| {
        let join = |me: &String| {
            let (addresses, plan, directory, me) = (&addresses, &plan, &directory, me.clone());
            scope.spawn(move || join(addresses, &me, b"secret", (plan, directory), |_| ()))
        };
        let members: Vec<_> = addresses.iter().map(join).collect();
        let strangers = scope.spawn(|| {
            let other = Group::new(&addresses, 500, b"another secret");
            let head = |kind| Head { kind, from: 1, to: 0, run: 1, round: 1 };
            let mut long = Group::new(&addresses, 500, b"secret").encode(head(Kind::Ask), &[1; 500]);
            long[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
            let said = [
                b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n".to_vec(),
                vec![0xff; 10_000],
                other.encode(head(Kind::Ask), &[1; 500]),
                Group::new(&addresses, 500, b"secret").encode(head(Kind::Answer), &[]),
                Group::new(&addresses, 500, b"secret").encode(Head { from: 200, ..head(Kind::Done) }, &[]),
                long,
            ];
            for bytes in said.iter().cycle().take_while(|_| !ended.load(Ordering::Relaxed)) {
                // The members may not listen yet, or no more.
                let Ok(mut stream) = TcpStream::connect(&addresses[0]) else { continue };
                let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
                let _ = stream.read(&mut [0; 100]);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let measured =
            members.into_iter().map(|member| member.join().expect("no panic").expect("it measures"));
        let measured = measured.collect();
        ended.store(true, Ordering::Relaxed);
        strangers.join().expect("no panic");
        measured
    });
    assert!(measured[0].strangers > 0, "{measured:?}");
    for one in &measured {
        assert_eq!((one.rounds(), one.replies[1].never()), (40, 0), "{one:?}");
    }
    assert_eq!(measured[1].strangers + measured[2].strangers, 0);
}

#[test]
fn who_is_missing_is_named() {
    let addresses = addresses(2);
    let short = Plan { wait: Duration::from_millis(100), ..plan(1) };
    let directory = std::env::temp_dir();
    let join =
        |me: &str| join(&addresses, me, b"", (&short, &directory), |_| ()).expect_err("nobody is there");
    let why = join(&addresses[0]).to_string();
    assert!(why.starts_with(&addresses[1]) && why.contains("the same --group"), "{why}");
    let why = join("127.0.0.1:1").to_string();
    assert!(why.contains("no address of the group"), "{why}");
}

#[test]
fn only_whole_messages_of_the_group_are_read() {
    let addresses: Vec<String> = ["a:1", "b:1"].map(str::to_owned).to_vec();
    let group = Group::new(&addresses, 40, b"key");
    let head = Head { kind: Kind::Ask, from: 1, to: 0, run: 7, round: 9 };
    let whole = group.encode(head, &[3; 40]);
    assert_eq!(whole.len(), HEADER + 40 + TAG);
    let mut payload = Vec::new();
    let read = |bytes: &[u8], payload: &mut Vec<u8>| group.read(bytes, payload);
    assert_eq!(read(&whole, &mut payload).expect("it is whole"), head);
    assert_eq!(payload, [3; 40]);
    for end in 0..whole.len() {
        assert!(matches!(read(&whole[..end], &mut payload), Err(Fault::Ended)), "{end}");
    }
    for at in 0..whole.len() {
        for bit in [1, 0x80] {
            let mut wrong = whole.clone();
            wrong[at] ^= bit;
            assert!(matches!(read(&wrong, &mut payload), Err(Fault::Garbage(_) | Fault::Ended)), "{at}");
            assert!(payload.capacity() < 1000, "no memory for what is not sent");
        }
    }
    for other in [
        Group::new(&addresses, 40, b"other"),
        Group::new(&addresses, 41, b"key"),
        Group::new(&addresses[..1], 40, b"key"),
    ] {
        assert!(other.read(&whole[..], &mut payload).is_err());
    }
}
