//! Who is who: the certificates of a cluster, and TLS 1.3 on its connections. No sockets: bytes in, bytes out.
//!
//! A cluster has an authority of its own ([`Authority`]). It signs one certificate for each replica, client and operator; the
//! holder's [`quorate_types::Identity`] stands in it as a URI. Both sides of a connection show one ([`Session`]); nothing but
//! the cluster's own authority is trusted, and no connection is resumed, so every one is checked anew.
//!
//! Start with `credentials.rs` (files to trust and keys), then `session.rs` (a connection). `issue.rs` makes certificates,
//! `certificate.rs` reads them, `trouble.rs` has the words for what goes wrong,
//! `thread.rs` starts threads that outlive `main`.
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
