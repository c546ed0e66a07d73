//! Who a client is, by SASL with DIGEST-MD5: it shows that it knows its password, and does not say it.
//!
//! The server answers the client's first token with a challenge, which has a nonce: a number that is used once. The client's second token has
//! a digest of that nonce, of one of its own, and of its name and password. The server's last token has another digest of the same, so that
//! the client learns that the server knows the password, too. Whatever else comes is refused, always with the same words.
//!
//! Source: RFC 2831, section 2.1 (the tokens) and section 7.1 (lists of directives); `ZooKeeperServer.processSasl` and
//! `ZooKeeperSaslServer` of Apache ZooKeeper 3.9.4, and `DigestMD5Server` of Java, which they use. Tests: tests/all/sasl.rs.

use super::{ConnId, Server, frames};
use crate::error::ZkError;
use crate::jute::Write as _;
use crate::op::Op;
use crate::request::Request;
use crate::tree::Id;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use md5::{Digest as _, Md5};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The bytes in a nonce.
pub const NONCE_BYTES: usize = 16;

/// The realm of all users. ZooKeeper's clients take it for the name of the host, too.
const REALM: &str = "zk-sasl-md5";
/// What a client asks for.
const URI: &str = "zookeeper/zk-sasl-md5";
/// How often the client has used the nonce.
const COUNT: &str = "00000001";
/// What is protected: who the client is, and not what it sends later.
const PROTECTION: &str = "auth";
/// The longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// The directives of an answer that may not come twice. Others have no meaning.
const KEYS: [&str; 12] = [
    "authzid",
    "charset",
    "cipher",
    "cnonce",
    "digest-uri",
    "maxbuf",
    "nc",
    "nonce",
    "qop",
    "realm",
    "response",
    "username",
];

/// Users, and what stands for their passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SaslUsers(Arc<BTreeMap<String, [u8; 16]>>);

impl SaslUsers {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of names and passwords.
impl<N: Into<String>, P: AsRef<str>> FromIterator<(N, P)> for SaslUsers {
    fn from_iter<T: IntoIterator<Item = (N, P)>>(users: T) -> Self {
        let secret = |(name, password): (N, P)| {
            let name = name.into();
            let secret = Proof::secret(&name, REALM, password.as_ref());
            (name, secret)
        };
        Self(Arc::new(users.into_iter().map(secret).collect()))
    }
}

/// Shows the names alone: whoever knows the rest can pass for a user.
impl fmt::Debug for SaslUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What a client and a server that know a password can show each other. Source: RFC 2831, section 2.1.2.1.
#[derive(Clone, Copy)]
pub struct Proof<'a> {
    /// What stands for the user and the password, as [`Proof::secret`] gives it.
    pub secret: [u8; 16],
    /// The server's nonce.
    pub nonce: &'a [u8],
    /// The client's nonce.
    pub cnonce: &'a [u8],
    /// What the client asks for: a kind of service, and a host.
    pub uri: &'a [u8],
    /// Who the client wants to be, if it says so.
    pub authzid: Option<&'a [u8]>,
}

impl Proof<'_> {
    /// What stands for a user and a password in a realm.
    pub fn secret(user: &str, realm: &str, password: &str) -> [u8; 16] {
        digest(&[&hashed(user), &hashed(realm), &hashed(password)])
    }

    /// What the client shows.
    pub fn of_client(&self) -> String {
        self.of("AUTHENTICATE")
    }

    /// What the server shows.
    pub fn of_server(&self) -> String {
        self.of("")
    }

    fn of(&self, method: &str) -> String {
        let session = match self.authzid {
            None => digest(&[&self.secret, self.nonce, self.cnonce]),
            Some(authzid) => digest(&[&self.secret, self.nonce, self.cnonce, authzid]),
        };
        let (session, asked) = (hex(session), hex(digest(&[method.as_bytes(), self.uri])));
        hex(digest(&[
            session.as_bytes(),
            self.nonce,
            COUNT.as_bytes(),
            self.cnonce,
            PROTECTION.as_bytes(),
            asked.as_bytes(),
        ]))
    }
}

/// The MD5 of these parts, with colons between them.
fn digest(parts: &[&[u8]]) -> [u8; 16] {
    Md5::digest(parts.join(&b':')).into()
}

fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// A text as it is hashed: in ISO 8859-1 if that has all its characters, otherwise in UTF-8.
fn hashed(text: &str) -> Vec<u8> {
    let latin: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
    latin.unwrap_or_else(|_| text.into())
}

/// How far a connection has come with SASL.
#[derive(Debug, Default)]
pub(super) enum Sasl {
    /// Its client has said nothing.
    #[default]
    New,
    /// Its client was challenged with this nonce.
    Challenged([u8; NONCE_BYTES]),
    /// Its client has proved who it is, or has failed.
    Over,
}

/// What the server says to a token that was right.
#[derive(Default)]
struct Said {
    token: Option<String>,
    /// Who the client has proved to be.
    user: Option<String>,
}

impl Sasl {
    /// Takes the client's next token. Nothing comes of one that is wrong, or that comes at the wrong time.
    fn step(
        &mut self,
        token: &[u8],
        users: &SaslUsers,
        nonce: impl FnOnce() -> [u8; NONCE_BYTES],
    ) -> Option<Said> {
        match std::mem::replace(self, Self::Over) {
            // A ZooKeeper without users says nothing, and its clients give up. Some never do: here they are refused then.
            Self::New if users.is_empty() => Some(Said::default()),
            _ if token.len() > TOKEN_BYTES_MAX => None,
            // A client that goes on with what an earlier connection had sends an answer first. It gets a challenge like all others.
            Self::New => {
                let nonce = nonce();
                *self = Self::Challenged(nonce);
                let nonce = hex(nonce);
                let token = format!(r#"realm="{REALM}",nonce="{nonce}",charset=utf-8,algorithm=md5-sess"#);
                Some(Said { token: Some(token), user: None })
            }
            Self::Challenged(nonce) => {
                let (user, shown) = judge(token, users, &hex(nonce))?;
                Some(Said { token: Some(format!("rspauth={shown}")), user: Some(user) })
            }
            Self::Over => None,
        }
    }
}

/// Who a client is that answers this to a challenge, and what the server shows in return; `None` if the answer is wrong.
fn judge(answer: &[u8], users: &SaslUsers, nonce: &str) -> Option<(String, String)> {
    let all = directives(answer)?;
    let is = |key, right: &str| all.get(key).map(|value| value == right.as_bytes());
    let fits = is("realm", REALM)?
        && is("nonce", nonce)?
        && is("nc", COUNT)?
        && is("qop", PROTECTION).unwrap_or(true)
        && is("charset", "utf-8").unwrap_or(true);
    let user = str::from_utf8(all.get("username")?).ok()?;
    let uri = all.get("digest-uri").filter(|uri| uri.eq_ignore_ascii_case(URI.as_bytes()))?;
    // Whoever wants to be somebody else than the user is the user all the same.
    let authzid = all.get("authzid").map(Vec::as_slice);
    let known = users.0.get(user).copied();
    // For a user that is not known as much is computed, so that the time tells nothing.
    let secret = known.unwrap_or_default();
    let proof = Proof { secret, nonce: nonce.as_bytes(), cnonce: all.get("cnonce")?, uri, authzid };
    let proved = verify_slices_are_equal(proof.of_client().as_bytes(), all.get("response")?).is_ok();
    (fits && proved && known.is_some()).then(|| (user.to_owned(), proof.of_server()))
}

/// The directives of an answer, by their names; `None` if it does not decode, or has one of them twice.
fn directives(answer: &[u8]) -> Option<BTreeMap<&'static str, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut rest = answer.trim_ascii_start();
    while let Some(first) = rest.first() {
        // Nothing may stand between two commas.
        if *first != b',' {
            let end = rest.iter().position(|byte| matches!(byte, b'=' | b',' | b'"'))?;
            let (key, behind) = rest.split_at_checked(end)?;
            let (value, behind) = value(behind.strip_prefix(b"=")?.trim_ascii_start())?;
            let key = Some(key.trim_ascii_end()).filter(|key| !key.is_empty())?;
            let known = KEYS.iter().find(|known| key.eq_ignore_ascii_case(known.as_bytes()));
            if known.is_some_and(|known| found.insert(*known, value).is_some()) {
                return None;
            }
            rest = behind.trim_ascii_start();
            if rest.is_empty() {
                break;
            }
        }
        rest = rest.strip_prefix(b",")?.trim_ascii_start();
    }
    Some(found)
}

/// The value with which these bytes begin, and what is behind it. With quotes around it a backslash makes the next byte a plain one.
fn value(from: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(mut rest) = from.strip_prefix(b"\"") else {
        let ends = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
        let (value, behind) = from.split_at_checked(from.iter().position(ends).unwrap_or(from.len()))?;
        return (!value.is_empty()).then(|| (value.to_vec(), behind));
    };
    let mut value = Vec::new();
    loop {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        match byte {
            b'"' => return Some((value, rest)),
            b'\\' => {
                let (plain, behind) = rest.split_first()?;
                value.push(*plain);
                rest = behind;
            }
            plain => value.push(*plain),
        }
    }
}

impl Server {
    /// A step of SASL. The answer does not wait for those to earlier requests: ZooKeeper answers at once, too.
    pub(super) fn sasl(&mut self, id: ConnId, xid: i32, request: &[u8]) {
        let Ok(Request::Sasl { token }) = Request::read(Op::Sasl, request) else { return self.close(id) };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let said = conn.sasl.step(token, &self.config.sasl_users, || self.secrets.nonce());
        let said = said.and_then(|Said { token, user }| {
            let ids = user.map(|user| Id { scheme: b"sasl".into(), id: user.into() });
            conn.add_ids(ids).then_some(token)
        });
        let error = if said.is_some() { 0 } else { ZkError::AuthFailed.code() };
        let token = said.flatten();
        let write = |out: &mut Vec<u8>| out.bytes(token.as_ref().map(String::as_bytes));
        self.send(id, frames::own_reply(xid, 0, error, write));
        if error != 0 {
            self.close(id);
        }
    }
}
