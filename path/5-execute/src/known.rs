//! Answers questions of stage 2 (admit) about sessions.

use crate::{Executor, Lookup};
use quorate_admit::Sessions;
use quorate_types::{ClientId, RequestNumber, SessionId, SessionKey};

impl Sessions for Executor {
    fn lookup(&self, session: SessionId, number: RequestNumber) -> Lookup<'_> {
        self.lookup(session, number)
    }
    fn client(&self, session: SessionId) -> Option<ClientId> {
        self.client(session)
    }
    fn key(&self, session: SessionId) -> Option<SessionKey> {
        self.key(session)
    }
    fn last_number(&self, session: SessionId) -> Option<RequestNumber> {
        self.last_number(session)
    }
    fn opened(&self, client: ClientId, nonce: RequestNumber) -> Option<SessionId> {
        self.opened(client, nonce)
    }
    fn openings(&self) -> Box<dyn Iterator<Item = ((ClientId, RequestNumber), SessionId)> + '_> {
        Box::new(self.sessions().openings())
    }
    fn own_reply(&self, body: &[u8]) -> Option<Vec<u8>> {
        self.own_replies(body)
    }
}
