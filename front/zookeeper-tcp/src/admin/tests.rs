use super::*;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

fn get(path: &str) -> Result<Wish, (u16, Value)> {
    wish(&Method::GET, path).map_err(|page| {
        assert_eq!(page.kind, "application/json");
        (page.status.as_u16(), page.text.parse().expect("JSON"))
    })
}

#[test]
fn paths_are_those_of_zookeeper() {
    for (path, wish) in [
        ("/commands", Wish::List),
        ("/commands/", Wish::List),
        ("/commands/monitor", Wish::Command(Admin::Monitor)),
        ("/commands/mntr", Wish::Command(Admin::Monitor)),
        ("/commands/watches_by_path", Wish::Command(Admin::WatchesByPath)),
        ("/metrics", Wish::Metrics),
    ] {
        assert_eq!(get(path), Ok(wish), "{path}");
    }
    let list = list();
    assert!(list.starts_with("<a href=\"/commands/configuration\">configuration</a>\n<br/>\n"), "{list}");
    assert_eq!(list.lines().count(), 2 * Admin::names().count());
}

#[test]
fn what_is_not_there_is_refused_with_a_way_on() {
    for (path, command, why) in [
        ("/", None, "nothing is at this path"),
        ("/commandsx", None, "nothing is at this path"),
        ("/metrics/", None, "nothing is at this path"),
        ("/commands/nope", Some("nope"), "Unknown command: nope"),
        ("/commands/RUOK", Some("RUOK"), "Unknown command: RUOK"),
        ("/commands/ruok/", Some("ruok/"), "Unknown command: ruok/"),
        ("/commands/\"", Some("\""), "Unknown command: \""),
        ("/commands/stmk", Some("stmk"), "stmk is not supported: there is no trace to choose parts of"),
    ] {
        let (status, answer) = get(path).expect_err(path);
        assert_eq!((status, answer.get("command").and_then(Value::as_str)), (404, command), "{path}");
        let error = answer["error"].as_str().expect("a text");
        assert!(error.starts_with(why) && error.contains("/commands lists"), "{error}");
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS, Method::TRACE] {
        let page = wish(&method, "/commands/ruok").expect_err("it is read only");
        assert_eq!(page.status, StatusCode::METHOD_NOT_ALLOWED);
        assert!(page.text.contains("/commands lists"), "{}", page.text);
    }
    assert_eq!(wish(&Method::HEAD, "/commands/ruok"), Ok(Wish::Command(Admin::Ruok)));
}

/// What a visitor gets who sends this.
fn visit(address: SocketAddr, sends: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(VISIT)).expect("a time-out");
    stream.write_all(sends.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    // Whoever sends too much may find the connection cut, with the answer before.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8(bytes).expect("text")
}

#[test]
fn visitors_get_one_answer_and_the_end() {
    let listen = Listen {
        front: "test",
        address: "127.0.0.1:0".into(),
        tls: None,
        plain_too: false,
        protocols: &[],
        connections_max: 2,
        helpers: 1,
    };
    let answer = async |wish| Page { status: StatusCode::OK, kind: "text/plain", text: format!("{wish:?}") };
    let running =
        listen.start(async move |listener| serve(listener, move |wish| Box::pin(answer(wish))).await);
    let address = running.as_ref().expect("it starts").address();
    // This one says nothing, and holds up nobody.
    let silent = TcpStream::connect(address).expect("it listens");
    let request = "GET /commands/ruok?pretty HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = visit(address, &request.repeat(2));
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nCommand(Ruok)"),
        "{answer}"
    );
    for line in
        ["content-type: text/plain", "cache-control: no-store", "connection: close", "content-length: 13"]
    {
        assert!(answer.contains(&format!("\r\n{line}\r\n")), "{line} is not in {answer}");
    }
    for (sends, gets, ends) in [
        ("HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\n"),
        ("GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK\r\n", "\r\n\r\nMetrics"),
        ("GET /commands/x HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "\n}\n"),
        (
            "POST /commands HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 405 Method Not Allowed\r\n",
            "\n}\n",
        ),
        ("\u{16}\u{3}\u{1}\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "\r\n\r\n"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", ""),
        (&"x".repeat(HEAD_BYTES_MAX + 1), "", ""),
    ] {
        let answer = visit(address, sends);
        assert!(answer.starts_with(gets) && answer.ends_with(ends), "{answer}");
        assert!(
            !answer.starts_with("HTTP/1.1 405") || answer.contains("\r\nallow: GET, HEAD\r\n"),
            "{answer}"
        );
    }
    drop(silent);
}
