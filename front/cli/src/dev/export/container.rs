//! What compose and Kubernetes share.

use super::{Deployment, fill};

const FILE: &str = include_str!("templates/Containerfile");

/// The file that describes the image.
pub(super) fn containerfile(deployment: &Deployment) -> String {
    fill(FILE, &[("image", &deployment.image)])
}
