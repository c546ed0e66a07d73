//! TLS on one connection: encrypted bytes of the other side go in and plain bytes come out, and the reverse. It has no socket and never
//! waits. Its buffers are bounded: bytes to send by [`OUT_BYTES_MAX`], received bytes by one record.

use crate::certificate::Certificate;
use crate::credentials::Credentials;
use crate::trouble::{Trouble, explain, no_tls};
use crate::verify::{replica_name, take_claim};
use quorate_types::{Holder, Identity, ReplicaId};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};
use std::io::{self, BufRead as _, IoSlice, Write};

/// The most bytes that are encrypted ahead of the socket.
const OUT_BYTES_MAX: usize = 256 << 10;
/// The first bytes of TLS records: 20 to 24.
const TLS_KINDS: std::ops::RangeInclusive<u8> = 0x14..=0x18;

/// One side of a connection.
pub struct Session {
    tls: Connection,
    /// The replica that this side dialed; `None` if the other side dialed.
    dialed: Option<ReplicaId>,
    own: Identity,
    peer: Option<Identity>,
    /// Whether anything arrived yet.
    begun: bool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("dialed", &self.dialed)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session for a connection that the other side made.
    ///
    /// # Errors
    /// When the TLS library refuses our settings.
    pub fn accept(credentials: &Credentials) -> Result<Self, Trouble> {
        let tls = ServerConnection::new(credentials.server.clone());
        Ok(Self::new(tls.map_err(|why| Trouble::new(why.to_string()))?.into(), None, credentials))
    }

    /// A session for a connection that this side made to a replica.
    ///
    /// # Errors
    /// Those of [`Self::accept`].
    pub fn dial(credentials: &Credentials, replica: ReplicaId) -> Result<Self, Trouble> {
        let name = ServerName::try_from(replica_name(credentials.cluster(), replica));
        let name = name.map_err(|why| Trouble::new(why.to_string()))?;
        let tls = ClientConnection::new(credentials.client.clone(), name);
        Ok(Self::new(tls.map_err(|why| Trouble::new(why.to_string()))?.into(), Some(replica), credentials))
    }

    fn new(mut tls: Connection, dialed: Option<ReplicaId>, credentials: &Credentials) -> Self {
        tls.set_buffer_limit(Some(OUT_BYTES_MAX));
        Self { tls, dialed, own: credentials.identity().clone(), peer: None, begun: false }
    }

    /// The identity of the other side, once it has proved it.
    pub fn peer(&self) -> Option<&Identity> {
        self.peer.as_ref()
    }

    /// Whether plain bytes can not be sent yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Takes bytes from the socket, and gives the plain bytes in them to `take`. After an error the bytes left to send tell the other side
    /// the reason.
    ///
    /// # Errors
    /// Why the connection is not safe. Nothing more can be received.
    pub fn receive(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), Trouble> {
        if let Some(first) = bytes.first().filter(|_| !self.begun) {
            self.begun = true;
            if !TLS_KINDS.contains(first) {
                return Err(no_tls(self.dialed.is_some()));
            }
        }
        while !bytes.is_empty() {
            let shaking = self.tls.is_handshaking();
            let read = self.tls.read_tls(&mut bytes).map_err(|why| Trouble::new(why.to_string()))?;
            drop(take_claim());
            let state = self.tls.process_new_packets();
            state.map_err(|why| explain(&why, take_claim(), self.dialed.is_some(), shaking))?;
            if self.peer.is_none() && !self.tls.is_handshaking() {
                self.peer = Some(self.identify()?);
            }
            self.hand_on(&mut take);
            if read == 0 {
                break; // the other side has said that nothing follows
            }
        }
        Ok(())
    }

    fn hand_on(&mut self, take: &mut impl FnMut(&[u8])) {
        let mut reader = self.tls.reader();
        while let Ok(plain) = reader.fill_buf() {
            let length = plain.len();
            if length == 0 {
                return;
            }
            take(plain);
            reader.consume(length);
        }
    }

    /// The identity in the other side's certificate, which was verified in the handshake.
    fn identify(&self) -> Result<Identity, Trouble> {
        let chain = self.tls.peer_certificates().unwrap_or_default();
        let Some(der) = chain.first() else {
            return Err(Trouble::new(
                "the other side has no certificate: make one with `quorate cert issue`",
            ));
        };
        let certificate = Certificate::decode(der).map_err(|why| {
            Trouble::new(format!(
                "the other side's certificate can not be used: {why}. Make one with `quorate cert issue`"
            ))
        })?;
        let Some(identity) = certificate.identity.clone() else {
            return Err(Trouble::new(format!(
                "the other side's certificate is for {}: make one with `quorate cert issue`",
                certificate.holder()
            )));
        };
        if identity.cluster != self.own.cluster {
            return Err(Trouble::new(format!(
                "the other side is {identity}, and this is {}: correct the addresses, or use the certificates of the right cluster",
                self.own
            )));
        }
        match self.dialed {
            Some(replica) if identity.holder != Holder::Replica(replica) => Err(Trouble::new(format!(
                "{} answers where replica {} was dialed: correct the addresses in the configuration",
                identity.holder,
                replica.number()
            ))),
            _ => Ok(identity),
        }
    }

    /// Takes plain bytes to send, as many as there is room for. Gives their number.
    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> usize {
        if self.tls.is_handshaking() {
            return 0;
        }
        // The only error there is would be one of memory.
        self.tls.writer().write_vectored(slices).unwrap_or(0)
    }

    /// Whether something is left to send.
    pub fn wants_send(&self) -> bool {
        self.tls.wants_write()
    }

    /// Sends as many bytes as the socket takes. Gives their number.
    ///
    /// # Errors
    /// The error of the socket.
    pub fn send(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        self.tls.write_tls(socket)
    }

    /// Ends the sending half. The other side is told; it could not tell an end from a cut otherwise.
    pub fn finish(&mut self) {
        self.tls.send_close_notify();
    }
}
