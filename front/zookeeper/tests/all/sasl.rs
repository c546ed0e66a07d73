//! SASL with DIGEST-MD5: the examples of RFC 2831, whole handshakes, and everything that must be refused.

use crate::support::cluster::{Cluster, Got};
use crate::support::{made, read};
use proptest::prelude::*;
use quorate_zookeeper::error::ZkError as E;
use quorate_zookeeper::jute::{Reader, Write as _};
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{Acl, RequestHeader};
use quorate_zookeeper::request::Request;
use quorate_zookeeper::server::{ConnId, Proof, SaslUsers};

const CNONCE: &str = "OA6MHXh6VqTrRk";
/// A user that all servers know, and the password.
const ANN: (&str, &str) = ("ann", "secret");

/// The directives of an answer, in the order and with the quotes of Java's client.
type Answer = Vec<(&'static str, String)>;

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What a user's client and server show.
fn proof<'a>(nonce: &'a str, (user, password): (&str, &str), authzid: Option<&'a str>) -> Proof<'a> {
    Proof {
        secret: Proof::secret(user, "zk-sasl-md5", password),
        nonce: nonce.as_bytes(),
        cnonce: CNONCE.as_bytes(),
        uri: b"zookeeper/zk-sasl-md5",
        authzid: authzid.map(str::as_bytes),
    }
}

/// What Java's client answers to a challenge. It always says who it wants to be.
fn java(nonce: &str, user: (&str, &str)) -> Answer {
    vec![
        ("charset", "utf-8".into()),
        ("username", quoted(user.0)),
        ("realm", quoted("zk-sasl-md5")),
        ("nonce", quoted(nonce)),
        ("nc", "00000001".into()),
        ("cnonce", quoted(CNONCE)),
        ("digest-uri", quoted("zookeeper/zk-sasl-md5")),
        ("maxbuf", "65536".into()),
        ("response", proof(nonce, user, Some(user.0)).of_client()),
        ("qop", "auth".into()),
        ("authzid", quoted(user.0)),
    ]
}

fn set(answer: &mut Answer, key: &str, value: impl Into<String>) {
    let place = answer.iter_mut().find(|(known, _)| *known == key).expect("it has one");
    place.1 = value.into();
}

fn token(answer: &Answer) -> Vec<u8> {
    let all: Vec<String> = answer.iter().map(|(key, value)| format!("{key}={value}")).collect();
    all.join(",").into_bytes()
}

/// A client sends a token: what it gets.
fn says(cluster: &mut Cluster, conn: ConnId, xid: i32, token: &[u8]) -> Vec<Got> {
    cluster.send(0, conn, xid, &Request::Sasl { token });
    cluster.got(conn)
}

/// The server's token, if the reply has one.
fn said(got: &[Got], number: i32) -> Option<String> {
    let [Got::Reply(xid, 0, 0, record)] = got else { return None };
    let token = Reader::new(record).bytes().expect("a record")?;
    assert_eq!(*xid, number);
    Some(String::from_utf8(token.to_vec()).expect("a text"))
}

/// A client begins: the nonce of its challenge.
fn challenged(cluster: &mut Cluster, conn: ConnId) -> String {
    let got = says(cluster, conn, 1, b"");
    let challenge = said(&got, 1).expect("a challenge");
    let nonce = challenge.strip_prefix("realm=\"zk-sasl-md5\",nonce=\"").expect("it begins so");
    let nonce = nonce.strip_suffix("\",charset=utf-8,algorithm=md5-sess").expect("it ends so");
    assert!(nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()), "{nonce}");
    nonce.to_owned()
}

/// What every client gets that fails.
fn refusal(xid: i32) -> [Got; 2] {
    [Got::Reply(xid, 0, E::AuthFailed.code(), vec![0xff; 4]), Got::Closed]
}

/// A new client with this identity.
fn proved(cluster: &mut Cluster, user: (&str, &str)) -> ConnId {
    let (conn, ..) = cluster.client(0);
    let nonce = challenged(cluster, conn);
    let got = says(cluster, conn, 2, &token(&java(&nonce, user)));
    let shown = proof(&nonce, user, Some(user.0)).of_server();
    assert_eq!(said(&got, 2), Some(format!("rspauth={shown}")));
    conn
}

/// Section 4: of IMAP, and of ACAP.
#[test]
fn the_examples_of_the_rfc_are_right() {
    let secret = Proof::secret("chris", "elwood.innosoft.com", "secret");
    for (nonce, cnonce, uri, client, server) in [
        (
            "OA6MG9tEQGm2hh",
            "OA6MHXh6VqTrRk",
            "imap/elwood.innosoft.com",
            "d388dad90d4bbd760a152321f2143af7",
            "ea40f60335c427b5527b84dbabcdfffd",
        ),
        (
            "OA9BSXrbuRhWay",
            "OA9BSuZWMSpW8m",
            "acap/elwood.innosoft.com",
            "6084c6db3fede7352c551284490fd0fc",
            "2f0b3d7c3c2e486600ef710726aa2eae",
        ),
    ] {
        let (nonce, cnonce, uri) = (nonce.as_bytes(), cnonce.as_bytes(), uri.as_bytes());
        let proof = Proof { secret, nonce, cnonce, uri, authzid: None };
        assert_eq!((&*proof.of_client(), &*proof.of_server()), (client, server));
    }
}

/// A text that ISO 8859-1 has is hashed in it; all others in UTF-8.
#[test]
fn texts_are_hashed_as_the_rfc_says() {
    let user = "\u{e9}mile";
    for password in ["secret", "gar\u{e7}on", "\u{43f}\u{430}\u{440}"] {
        let mut cluster = Cluster::with_users(1, &[(user, password)]);
        let conn = proved(&mut cluster, (user, password));
        cluster.send(0, conn, 3, &Request::Plain(Op::WhoAmI));
        let mut id = Vec::new();
        id.bytes(Some(b"sasl"));
        id.bytes(Some("\u{e9}mile".as_bytes()));
        assert!(matches!(&cluster.got(conn)[..], [Got::Reply(3, _, 0, ids)] if ids.ends_with(&id)));
    }
    // What Java's client answered to this nonce.
    for (password, cnonce, shown) in [
        ("gar\u{e7}on", "bM0K6u1O8+aKEO3wxGY3VCv5zoEqhV/JQNGvDP9E", "3b63ca761d56eb820a1cc55706698328"),
        (
            "\u{43f}\u{430}\u{440}",
            "xpMe/Qly/eUjXQBOSC3GhwoEgRRNn3y5Pepoo3km",
            "50c21ff2e8664f706f27f5021e2ff629",
        ),
    ] {
        let of = proof("32323232323232323232323232323232", (user, password), Some(user));
        assert_eq!(Proof { cnonce: cnonce.as_bytes(), ..of }.of_client(), shown);
    }
}

#[test]
fn names_are_shown_and_what_stands_for_passwords_is_not() {
    let users: SaslUsers = [ANN, ("bob", "other")].into_iter().collect();
    assert_eq!(format!("{users:?}"), r#"{"ann", "bob"}"#);
}

#[test]
fn who_has_proved_an_identity_has_its_rights() {
    let mut cluster = Cluster::new(1);
    let (ann, bob) = (proved(&mut cluster, ANN), proved(&mut cluster, ("bob", "other")));
    let (nobody, ..) = cluster.client(0);
    let anns = Acl { perms: Acl::ALL, scheme: b"sasl", id: b"ann" };
    // Whoever may make a node may give it away.
    cluster.send(0, nobody, 1, &made(Op::Create, "/anns", Some(b"data"), 0, &[anns], 0));
    let own = Acl { perms: Acl::ALL, scheme: b"auth", id: b"" };
    cluster.send(0, bob, 3, &made(Op::Create, "/bobs", Some(b"data"), 0, &[own], 0));
    cluster.send(0, nobody, 2, &made(Op::Create, "/nobodys", None, 0, &[own], 0));
    assert!(matches!(cluster.got(bob)[..], [Got::Reply(3, _, 0, _)]));
    let no = E::NoAuth.code();
    let refused = E::InvalidAcl.code();
    assert!(
        matches!(cluster.got(nobody)[..], [Got::Reply(1, _, 0, _), Got::Reply(2, _, error, _)] if error == refused)
    );
    for (conn, path, error) in [
        (ann, "/anns", 0),
        (bob, "/anns", no),
        (nobody, "/anns", no),
        (ann, "/bobs", no),
        (bob, "/bobs", 0),
        (nobody, "/bobs", no),
    ] {
        cluster.send(0, conn, 4, &read(Op::GetData, path));
        let got = cluster.got(conn);
        assert!(matches!(got[..], [Got::Reply(4, _, is, _)] if is == error), "{path} {got:?}");
    }
    cluster.send(0, bob, 5, &Request::SetData { path: b"/anns", data: None, version: -1 });
    cluster.send(0, ann, 5, &Request::SetData { path: b"/anns", data: None, version: -1 });
    assert!(matches!(cluster.got(bob)[..], [Got::Reply(5, _, error, _)] if error == no));
    assert!(matches!(cluster.got(ann)[..], [Got::Reply(5, _, 0, _)]));
}

/// The identity is that of the connection: a client that moves proves it again.
#[test]
fn an_identity_ends_with_its_connection() {
    let mut cluster = Cluster::new(2);
    let (first, session, password) = cluster.client(0);
    let nonce = challenged(&mut cluster, first);
    says(&mut cluster, first, 2, &token(&java(&nonce, ANN)));
    let own = Acl { perms: Acl::ALL, scheme: b"auth", id: b"" };
    cluster.send(0, first, 3, &made(Op::Create, "/anns", None, 0, &[own], 0));
    assert!(matches!(cluster.got(first)[..], [Got::Reply(3, _, 0, _)]));
    let second = cluster.connect(1, session, &password);
    cluster.got(second);
    cluster.send(1, second, 1, &read(Op::GetData, "/anns"));
    let no = E::NoAuth.code();
    assert!(matches!(cluster.got(second)[..], [Got::Reply(1, _, error, _)] if error == no));
}

#[test]
fn a_step_does_not_wait_for_other_requests() {
    let mut cluster = Cluster::new(1);
    let (conn, ..) = cluster.client(0);
    cluster.stands = true;
    cluster.send(0, conn, 7, &made(Op::Create, "/a", None, 0, &[Acl::OPEN], 0));
    let nonce = challenged(&mut cluster, conn);
    let got = says(&mut cluster, conn, 2, &token(&java(&nonce, ANN)));
    assert!(said(&got, 2).is_some_and(|said| said.starts_with("rspauth=")), "{got:?}");
    cluster.stands = false;
    cluster.run();
    assert!(matches!(cluster.got(conn)[..], [Got::Reply(7, _, 0, _)]));
}

/// Answers that are written in another way, and mean the same.
#[test]
fn answers_may_be_written_in_many_ways() {
    fn each(all: &mut Answer, change: impl Fn(&str) -> String) {
        all.iter_mut().for_each(|(_, value)| *value = change(value));
    }
    let mut cluster = Cluster::new(1);
    for (way, made) in [
        changed("backwards", |all| all.reverse()),
        changed("with a backslash", |all| set(all, "username", "\"a\\n\\n\"")),
        changed("without quotes", |all| set(all, "username", "ann")),
        changed("quotes around all", |all| each(all, |value| quoted(value.trim_matches('"')))),
        changed("white space", |all| each(all, |value| format!(" {value}\r\n\t"))),
        changed("an unknown directive twice", |all| all.extend([("x", "1".into()), ("x", "1".into())])),
        changed("nothing between commas", |all| set(all, "maxbuf", "65536, ,,")),
        changed("no charset", |all| all.retain(|(key, _)| *key != "charset")),
        changed("no qop", |all| all.retain(|(key, _)| *key != "qop")),
    ] {
        let (conn, ..) = cluster.client(0);
        let nonce = challenged(&mut cluster, conn);
        let got = says(&mut cluster, conn, 2, &made(&nonce));
        assert!(said(&got, 2).is_some(), "{way}: {got:?}");
    }
}

/// Names of directives may have capital letters, and so may the names of the service and the host.
#[test]
fn some_names_may_have_capital_letters() {
    let mut cluster = Cluster::new(1);
    let (conn, ..) = cluster.client(0);
    let nonce = challenged(&mut cluster, conn);
    let mut all = java(&nonce, ANN);
    let uri = "ZooKeeper/ZK-sasl-md5";
    set(&mut all, "digest-uri", quoted(uri));
    set(&mut all, "response", Proof { uri: uri.as_bytes(), ..proof(&nonce, ANN, Some("ann")) }.of_client());
    let text = String::from_utf8(token(&all)).expect("a text").replace("username=", "UserName=");
    let got = says(&mut cluster, conn, 2, text.as_bytes());
    assert!(said(&got, 2).is_some(), "{got:?}");
}

/// Another answer than the one that is right: what is other, and how it is made of the nonce.
type Wrong = (String, Box<dyn Fn(&str) -> Vec<u8>>);

/// What Java's client answers for ann, but for a change.
fn changed(what: impl Into<String>, change: impl Fn(&mut Answer) + 'static) -> Wrong {
    let made = move |nonce: &str| {
        let mut all = java(nonce, ANN);
        change(&mut all);
        token(&all)
    };
    (what.into(), Box::new(made))
}

fn wrong_answers() -> Vec<Wrong> {
    let mut wrong: Vec<Wrong> = Vec::new();
    for user in [("ann", "wrong"), ("eve", "secret"), ("eve", ""), ("", ""), ("ANN", "secret")] {
        wrong.push((format!("{user:?}"), Box::new(move |nonce| token(&java(nonce, user)))));
    }
    for key in ["username", "realm", "nonce", "nc", "cnonce", "digest-uri", "response", "authzid"] {
        wrong.push(changed(format!("without {key}"), move |all| all.retain(|(known, _)| *known != key)));
    }
    for (key, value) in [
        ("nonce", "\"00000000000000000000000000000000\""),
        ("nc", "00000002"),
        ("nc", "1"),
        ("realm", "\"elsewhere\""),
        ("qop", "auth-int"),
        ("digest-uri", "\"zookeeper/elsewhere\""),
        ("digest-uri", "\"imap/zk-sasl-md5\""),
        ("charset", "iso-8859-1"),
        ("cnonce", "\"other\""),
        ("authzid", "\"bob\""),
        ("response", "\"\""),
        ("response", ""),
        ("response", "d388dad90d4bbd760a152321f2143af7"),
        ("username", "\"ann"),
        ("username", "\"ann\\"),
        ("username", "\"ann\"x"),
        ("username", "\"\u{0}ann\""),
    ] {
        wrong.push(changed(format!("{key}={value}"), move |all| set(all, key, value)));
    }
    let all = java("", ANN);
    wrong.extend(
        all.into_iter()
            .map(|(key, value)| changed(format!("{key} again"), move |all| all.push((key, value.clone())))),
    );
    for end in [",=", ",x", ", =x", ",x=", ",a\"b=c", ",x=\"", " x=y"] {
        wrong.push((
            format!("{end} behind it"),
            Box::new(move |nonce| [&token(&java(nonce, ANN)), end.as_bytes()].concat()),
        ));
    }
    wrong.push(changed("capital letters", |all| {
        let response = all.iter_mut().find(|(key, _)| *key == "response");
        response.expect("it has one").1.make_ascii_uppercase();
    }));
    for (uri, realm) in [("zookeeper/elsewhere", "zk-sasl-md5"), ("zookeeper/zk-sasl-md5", "elsewhere")] {
        let of_another_place = move |nonce: &str| {
            let mut all = java(nonce, ANN);
            set(&mut all, "digest-uri", quoted(uri));
            set(&mut all, "realm", quoted(realm));
            let (secret, uri) = (Proof::secret("ann", realm, "secret"), uri.as_bytes());
            let proof = Proof { secret, uri, ..proof(nonce, ANN, Some("ann")) };
            set(&mut all, "response", proof.of_client());
            token(&all)
        };
        wrong.push((format!("for {uri} in {realm}"), Box::new(of_another_place)));
    }
    let of_nobody = |nonce: &str| {
        let mut all = java(nonce, ("eve", ""));
        let proof = Proof { secret: [0; 16], ..proof(nonce, ANN, Some("eve")) };
        set(&mut all, "response", proof.of_client());
        token(&all)
    };
    wrong.push(("what stands for no password".into(), Box::new(of_nobody)));
    wrong.push(("nothing".into(), Box::new(|_| Vec::new())));
    wrong.push(("no text".into(), Box::new(|_| (0..=255).collect())));
    wrong
}

/// Nobody learns which of these it was.
#[test]
fn all_wrong_answers_are_refused_alike() {
    let mut cluster = Cluster::new(1);
    for (what, made) in wrong_answers() {
        let (conn, ..) = cluster.client(0);
        let nonce = challenged(&mut cluster, conn);
        assert_eq!(says(&mut cluster, conn, 2, &made(&nonce)), refusal(2), "{what}");
    }
    // Nobody else has noticed.
    proved(&mut cluster, ANN);
}

/// Who wants to be somebody else is the user all the same, as in ZooKeeper.
#[test]
fn a_user_is_nobody_else() {
    let mut cluster = Cluster::new(1);
    let (conn, ..) = cluster.client(0);
    let nonce = challenged(&mut cluster, conn);
    let mut all = java(&nonce, ANN);
    set(&mut all, "authzid", "\"bob\"");
    set(&mut all, "response", proof(&nonce, ANN, Some("bob")).of_client());
    says(&mut cluster, conn, 2, &token(&all));
    cluster.send(0, conn, 3, &Request::Plain(Op::WhoAmI));
    let got = cluster.got(conn);
    assert!(matches!(&got[..], [Got::Reply(3, _, 0, ids)] if ids.ends_with(b"sasl\0\0\0\x03ann")), "{got:?}");
}

#[test]
fn an_answer_is_good_for_one_challenge() {
    let mut cluster = Cluster::new(1);
    let (first, ..) = cluster.client(0);
    let nonce = challenged(&mut cluster, first);
    let right = token(&java(&nonce, ANN));
    // To another connection, which has another challenge.
    let (other, ..) = cluster.client(0);
    assert_ne!(challenged(&mut cluster, other), nonce);
    assert_eq!(says(&mut cluster, other, 2, &right), refusal(2));
    // Before the challenge: it is not looked at, and does not count after it.
    let (early, ..) = cluster.client(0);
    let got = says(&mut cluster, early, 1, &right);
    assert!(said(&got, 1).is_some_and(|said| said.starts_with("realm=")), "{got:?}");
    cluster.send(0, early, 2, &Request::Plain(Op::WhoAmI));
    assert!(matches!(&cluster.got(early)[..], [Got::Reply(2, _, 0, ids)] if ids.starts_with(&[0, 0, 0, 1])));
    assert_eq!(says(&mut cluster, early, 3, &right), refusal(3));
    // Twice to its own.
    let got = says(&mut cluster, first, 2, &right);
    assert!(said(&got, 2).is_some(), "{got:?}");
    assert_eq!(says(&mut cluster, first, 3, &right), refusal(3));
    // To begin again is no use either.
    let again = proved(&mut cluster, ANN);
    assert_eq!(says(&mut cluster, again, 3, b""), refusal(3));
}

#[test]
fn tokens_have_at_most_4096_bytes() {
    let mut cluster = Cluster::new(1);
    for (len, fits) in [(4096, true), (4097, false)] {
        let (conn, ..) = cluster.client(0);
        let got = says(&mut cluster, conn, 1, &vec![b'x'; len]);
        assert_eq!((said(&got, 1).is_some(), got == refusal(1)), (fits, !fits));
        let (conn, ..) = cluster.client(0);
        let nonce = challenged(&mut cluster, conn);
        let mut right = token(&java(&nonce, ANN));
        right.extend(b",x=");
        right.resize(len, b'y');
        let got = says(&mut cluster, conn, 2, &right);
        assert_eq!((said(&got, 2).is_some(), got == refusal(2)), (fits, !fits));
    }
}

/// A ZooKeeper without users says nothing, and closes nothing. Java's client gives up then, and kazoo begins again and again.
#[test]
fn without_users_nothing_is_said_once() {
    let mut cluster = Cluster::with_users(1, &[]);
    for token in [&b""[..], b"x", &[b'x'; 5000]] {
        let (conn, ..) = cluster.client(0);
        assert_eq!(says(&mut cluster, conn, 1, token), [Got::Reply(1, 0, 0, vec![0xff; 4])]);
        cluster.send(0, conn, 2, &Request::Plain(Op::WhoAmI));
        let got = cluster.got(conn);
        assert!(matches!(&got[..], [Got::Reply(2, _, 0, ids)] if ids.starts_with(&[0, 0, 0, 1])), "{got:?}");
        assert_eq!(says(&mut cluster, conn, 3, token), refusal(3));
    }
}

#[test]
fn a_request_that_is_cut_ends_its_connection() {
    let mut cluster = Cluster::new(1);
    let (conn, ..) = cluster.client(0);
    let mut frame = Vec::new();
    RequestHeader { xid: 1, op: Op::Sasl.code() }.write(&mut frame);
    frame.extend([0, 0, 0, 9, 1, 2, 3]);
    cluster.send_frame(0, conn, frame);
    assert_eq!(cluster.got(conn), [Got::Closed]);
}

/// A user who is known by a name that is too long for an identity.
#[test]
fn an_identity_has_a_length() {
    let name = "a".repeat(1025);
    let mut cluster = Cluster::with_users(1, &[(&name, "secret")]);
    let (conn, ..) = cluster.client(0);
    let nonce = challenged(&mut cluster, conn);
    assert_eq!(says(&mut cluster, conn, 2, &token(&java(&nonce, (&name, "secret")))), refusal(2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_tokens_are_answered(tokens in proptest::collection::vec(
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..60),
            "[a-z]{0,3}[=, \"\\\\]{0,3}[a-z\"\\\\,= ]{0,30}".prop_map(String::into_bytes),
        ],
        1..4,
    )) {
        let mut cluster = Cluster::new(1);
        let (conn, ..) = cluster.client(0);
        for (at, token) in tokens.iter().enumerate() {
            let got = says(&mut cluster, conn, 1, token);
            match at {
                0 => prop_assert!(said(&got, 1).is_some()),
                1 => prop_assert_eq!(&got[..], &refusal(1)[..]),
                _ => prop_assert_eq!(&got[..], &[]),
            }
        }
    }

    /// A right answer in which some bytes are others proves nothing, or the same.
    #[test]
    fn right_answers_with_wrong_bytes_prove_nobody_else(at in 0..400_usize, byte in any::<u8>()) {
        let mut cluster = Cluster::new(1);
        let (conn, ..) = cluster.client(0);
        let nonce = challenged(&mut cluster, conn);
        let mut bytes = token(&java(&nonce, ANN));
        let len = bytes.len();
        bytes[at % len] = byte;
        let got = says(&mut cluster, conn, 2, &bytes);
        if said(&got, 2).is_none() {
            prop_assert_eq!(&got[..], &refusal(2)[..]);
        } else {
            cluster.send(0, conn, 3, &Request::Plain(Op::WhoAmI));
            let got = cluster.got(conn);
            prop_assert!(
                matches!(&got[..], [Got::Reply(3, _, 0, ids)] if ids.ends_with(b"sasl\0\0\0\x03ann"))
            );
        }
    }
}
