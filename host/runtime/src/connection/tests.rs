use super::{Channel, Connection, End};
use mio::net::TcpStream;
use std::io::Write as _;
use std::net::{Shutdown, TcpListener};

/// A connection, and its other side.
fn pair() -> (Connection, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, from) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut connection = Connection::accepted(TcpStream::from_std(stream), Channel::Plain, from);
    connection.set_frame_limit(1024);
    (connection, other)
}

fn read(connection: &mut Connection, bytes: usize) -> (usize, Result<(), End>) {
    connection.read(&mut [], bytes, |_, arrival| panic!("that is no frame: {arrival:?}"))
}

/// A read that gives less than there was room for says that the socket is empty, and the next byte is an event; but the end that was
/// announced already is none.
#[test]
fn an_end_that_was_announced_is_read() {
    for ending in [false, true] {
        let (mut connection, mut other) = pair();
        other.write_all(&[1, 2, 3]).unwrap();
        other.shutdown(Shutdown::Write).unwrap();
        connection.ending = ending;
        let (taken, ended) = read(&mut connection, 1 << 20);
        assert_eq!(taken, 3);
        assert!(!connection.unread || ending);
        assert_eq!(matches!(ended, Err(End::Closed)), ending, "{ended:?}");
        // Whoever is told later reads it then.
        connection.ending = true;
        assert!(matches!(read(&mut connection, 1 << 20), (0, Err(End::Closed))));
    }
}

#[test]
fn no_more_is_read_than_was_asked_for() {
    let (mut connection, mut other) = pair();
    // The header of a frame of a thousand bytes, so that all of it is waited for.
    let frame = quorate_wire::OutFrame::new(quorate_wire::FrameKind::Hello, &[7; 1000], vec![]).to_vec();
    other.write_all(&frame[..1000]).unwrap();
    let (taken, ended) = read(&mut connection, 100);
    assert!(ended.is_ok() && (100..500).contains(&taken), "{taken}");
    assert!(connection.unread, "there is more, and no event will say so");
    let (rest, ended) = read(&mut connection, 1 << 20);
    assert!(ended.is_ok() && taken + rest == 1000 && !connection.unread);
    assert!((984..64 << 10).contains(&connection.holds()), "{}", connection.holds());
    connection.relax();
    assert!(connection.holds() >= 984, "what arrived stays");
}
