//! A program that ends while threads begin to use TLS, in a process of its own.

// Only so can code run after aws-lc's own at the end of a process.
#![expect(unsafe_code)]
#![cfg(target_os = "linux")]

use quorate_tls::start_thread;
use std::process::Command;
use std::time::Duration;

/// Tells the child process what it is.
const CHILD: &str = "QUORATE_TEST_ENDS_BESIDE_THREADS";
const NAP: Duration = Duration::from_millis(100);

/// What the process does at its end, before and after aws-lc takes the randomness away. Which is first is the linker's choice.
#[used]
#[unsafe(link_section = ".fini_array")]
static ONE: extern "C" fn() = nap;
#[used]
#[unsafe(link_section = ".fini_array.00001")]
static OTHER: extern "C" fn() = nap;

extern "C" fn nap() {
    if std::env::var_os(CHILD).is_some() {
        std::thread::sleep(NAP);
    }
}

fn draw() {
    rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut [0; 8]).expect("randomness");
}

/// Ends this process; two threads begin to use TLS in its two naps.
fn end_beside_threads() -> ! {
    for wait in [NAP / 2, NAP * 3 / 2] {
        let begin = move || {
            std::thread::sleep(wait);
            draw();
        };
        start_thread("begins", begin).expect("a thread");
    }
    std::process::exit(0);
}

#[test]
fn a_program_may_end_while_threads_begin_to_use_tls() {
    if std::env::var_os(CHILD).is_some() {
        end_beside_threads();
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "a_program_may_end_while_threads_begin_to_use_tls"]).env(CHILD, "1");
    let ended = child.output().expect("a process");
    assert!(ended.status.success(), "{ended:?}");
}
