//! What containers have in common, whoever runs them.

use super::{Deployment, fill};

const FILE: &str = include_str!("templates/Containerfile");

/// How the image is made.
pub(super) fn containerfile(deployment: &Deployment) -> String {
    fill(FILE, &[("image", &deployment.image)])
}
