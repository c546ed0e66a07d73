//! What compose and Kubernetes share.

use super::{Deployment, Files, fill};

const FILE: &str = include_str!("templates/Containerfile");
/// Only the program is sent to whoever builds the image, and no key.
const IGNORE: &str = "*\n!quorate\n";

/// Adds the files that describe the image.
pub(super) fn add(deployment: &Deployment<'_>, files: &mut Files) {
    files.insert("Containerfile".into(), fill(FILE, &[("image", &deployment.args.image)]));
    files.insert(".dockerignore".into(), IGNORE.into());
}
