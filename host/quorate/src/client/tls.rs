//! A client's certificates: read at the start, and again before a dial if the files changed.

use quorate_tls::{Credentials, CredentialsError, Session, TlsFiles, Trouble, Watched};
use quorate_types::ReplicaId;
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by all connections of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientTls(Arc<Mutex<Watched>>);

impl ClientTls {
    pub(crate) fn load(files: TlsFiles) -> Result<Self, CredentialsError> {
        Ok(Self(Arc::new(Mutex::new(Watched::load(files)?))))
    }

    /// The certificates in force. Changed files are used if they work.
    pub(crate) fn current(&self) -> Arc<Credentials> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match watched.look(false) {
            Some(Ok(credentials)) => credentials,
            Some(Err(why)) => {
                tracing::warn!("the certificates were not replaced, those before stay in use: {why}");
                watched.current().clone()
            }
            None => watched.current().clone(),
        }
    }

    pub(crate) fn session(&self, replica: ReplicaId) -> Result<Box<Session>, Trouble> {
        Session::dial(&self.current(), replica).map(Box::new)
    }
}
