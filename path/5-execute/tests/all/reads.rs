//! Reads that only some replicas answer, at places of their own in the order of commands. They leave nothing behind here. Under deterministic
//! multithreading they do: the first test keeps the example of that, since it says why reads run on versions of the state.

use crate::ordered::{AHEAD, Cells, Clients, Hints, Says, Workers, deliver, finals, limits};
use quorate_execute::{Execution, Executor, InOrder, InStore, Parallel};
use quorate_types::{AgreedTime, Random};

/// An instruction of a thread.
#[derive(Clone, Copy)]
enum Step {
    /// It touches nothing that threads share.
    Local,
    /// It reads the variable, which all own together at first.
    Read,
    /// It gives the variable this value. That takes the variable for the thread alone, and so needs the sequential part of a round.
    Write(u8),
}

/// Two threads under DMP-O (Devietti et al., ASPLOS 2009). In each round a thread may run so many instructions: in parallel as long as it
/// owns what it touches, and then one thread after the other. Gives the variable's value at the end.
fn deterministic_threads(threads: [&[Step]; 2], quantum: usize) -> u8 {
    let (mut value, mut owner, mut at) = (0, None, [0, 0]);
    while (0..2).any(|thread| at[thread] < threads[thread].len()) {
        let mut left = [quantum; 2];
        for sequential in [false, true] {
            for thread in 0..2 {
                while left[thread] > 0 && at[thread] < threads[thread].len() {
                    match threads[thread][at[thread]] {
                        Step::Local => {}
                        Step::Read if owner.is_none_or(|owner| owner == thread) => {}
                        Step::Write(to) if owner == Some(thread) => value = to,
                        _ if !sequential => break,
                        Step::Read => owner = None,
                        Step::Write(to) => (value, owner) = (to, Some(thread)),
                    }
                    at[thread] += 1;
                    left[thread] -= 1;
                }
            }
        }
    }
    value
}

/// The example of Eve's chapter 5 (figure 5.1): a read at another place than on the other replica changes which of two writes is the last.
#[test]
fn a_read_moves_the_writes_of_deterministic_threads() {
    let read = [Step::Read; 6];
    let (write, other) = ([Step::Write(1)], [Step::Local, Step::Write(2)]);
    let (read_last, read_first) = ([&write[..], &read].concat(), [&read[..], &write].concat());
    assert_eq!(deterministic_threads([&write, &other], 6), 2, "nobody reads");
    assert_eq!(deterministic_threads([&read_last, &other], 6), 2, "it reads behind its write");
    assert_eq!(deterministic_threads([&read_first, &other], 6), 1, "its read ends its part of the round");
}

fn stage() -> InOrder {
    let service = InStore::new(Parallel::new(Cells { hints: Hints::Wrong(20) }));
    let executor = Executor::new(Box::new(service), limits(), AgreedTime::ZERO);
    InOrder::new(executor, AHEAD, Box::new(Says(0, 100_000))).ok().expect("it is parallel")
}

/// Reads the whole state, as far as it is final.
fn read(stage: &mut InOrder, from: u8) -> Vec<u8> {
    let mut answer = Vec::new();
    stage.state_mut().query(&[from], &mut answer).expect("it fits");
    answer
}

/// Two replicas run the same commands. One of them answers reads meanwhile, and its threads take their time otherwise.
#[test]
fn reads_leave_nothing_behind() {
    let mut answered = 0;
    for seed in 0..40 {
        let (mut clients, mut random) = (Clients::new(seed), Random::new(seed ^ 77));
        let (mut one, mut other) = (stage(), stage());
        let (mut workers, mut others) = (Workers::default(), Workers::default());
        let (mut number, mut expected, mut found) = (0, Vec::new(), Vec::new());
        for _ in 0..60 {
            let step = clients.step(&mut number);
            deliver(&mut one, &step);
            deliver(&mut other, &step);
            for _ in 0..random.next() % 5 {
                others.turn(&mut other, &mut random, &mut Says(0, 100_000));
                answered += read(&mut other, random.next() as u8 % 24).len();
                finals(&mut other, &mut found);
            }
        }
        for _ in 0..20_000 {
            workers.turn(&mut one, &mut random, &mut Says(0, 100_000));
            finals(&mut one, &mut expected);
            others.turn(&mut other, &mut random, &mut Says(0, 100_000));
            finals(&mut other, &mut found);
            if !one.is_behind() && !other.is_behind() {
                break;
            }
        }
        assert!(!one.is_behind() && !other.is_behind(), "seed {seed}: something is never final");
        assert_eq!(expected, found, "seed {seed}");
        let image = |stage: &mut InOrder| {
            let image = stage.state_mut().image().expect("it gives its state");
            (image.system, image.objects.root())
        };
        assert!(image(&mut one) == image(&mut other), "seed {seed}: another state");
    }
    assert!(answered > 10_000, "reads were answered with {answered} bytes");
}
