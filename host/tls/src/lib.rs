//! Identities: the certificates of a cluster, and TLS 1.3 on its connections. It has no sockets: bytes go in and come out.
//!
//! A cluster has an authority of its own ([`Authority`]), which signs one certificate for each replica, client and operator. The
//! certificate has the holder's [`quorate_types::Identity`] as a URI. Both sides of a connection show their certificates ([`Session`]).
//! Only the cluster's own authority is trusted. Connections are never resumed, so each is checked anew.
//!
//! Start with `credentials.rs` (certificates and keys from files), then `session.rs` (a connection). `issue.rs` makes certificates,
//! `certificate.rs` decodes them, `trouble.rs` has the texts of errors, `thread.rs` starts threads that outlive `main`.
//! Tests: `tests/all/sessions.rs`, `tests/all/certificates.rs`, `fuzzing.rs` for bytes from outside.

mod certificate;
mod credentials;
mod files;
pub mod fuzzing;
mod issue;
mod session;
mod thread;
mod trouble;
mod verify;

pub use certificate::{Certificate, CertificateError, certificates_in};
pub use credentials::{Credentials, CredentialsError, TlsFiles, Watched};
pub use files::{write_private, write_public};
pub use issue::{Authority, Bundle, IssueError, Issued, Validity};
pub use session::Session;
pub use thread::start_thread;
pub use trouble::{Trouble, looks_like_tls, unexpected_tls};
