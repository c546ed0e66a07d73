//! INV-SIM-SUSPECTS: an honest replica holds evidence only against replicas that lie; and what anybody proves is proved, to a stranger who
//! knows the keys, and against a replica that lies.

use super::Failure;
use bytes::Bytes;
use quorate_auth::Authenticator;
use quorate_node::SuspectStatus;
use quorate_order::mod_smart::evidence::Evidence;
use quorate_types::ClusterId;

/// Looks at the replicas that a replica suspects.
///
/// # Errors
/// When one of them does not lie.
pub fn judge(name: &str, suspects: &[SuspectStatus], lies: impl Fn(u16) -> bool) -> Result<(), Failure> {
    match suspects.iter().find(|suspect| !lies(suspect.replica)) {
        None => Ok(()),
        Some(SuspectStatus { replica, times, what }) => Err(Failure::new(
            "suspects",
            format!("{name} holds evidence against r{replica}, which does not lie ({times} times): {what}"),
        )),
    }
}

/// Looks at evidence that a replica gives away, as a stranger who knows this cluster and its keys.
///
/// # Errors
/// When it proves nothing, or accuses a replica that does not lie.
pub fn proved(
    name: &str,
    bytes: &Bytes,
    (cluster, auth): (ClusterId, &dyn Authenticator),
    lies: impl Fn(u16) -> bool,
) -> Result<(), Failure> {
    let evidence = Evidence::decode(bytes.clone()).map_err(|why| why.to_string());
    let judged = evidence.and_then(|evidence| match evidence.verify_as_member(auth) {
        Ok(()) if evidence.cluster != cluster => Err("it is of another cluster".to_owned()),
        Ok(()) if !lies(evidence.accused.number()) => {
            Err(format!("it accuses an honest replica: {evidence}"))
        }
        judged => judged.map_err(|why| format!("it proves nothing: {why}: {evidence:?}")),
    });
    judged.map_err(|why| Failure::new("suspects", format!("{name} gives evidence away, but {why}")))
}
