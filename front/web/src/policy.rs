//! What a browser may do with the page: run the one script that it has, use the one style, and ask this server. Nothing that a status says can
//! run, whoever wrote it.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The page, as it is served.
pub(crate) const PAGE: &str = include_str!("page.html");

/// The text between the first of these tags and its end.
fn inside<'a>(page: &'a str, tag: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<{tag}>")).unwrap_or_default();
    rest.split_once(&format!("</{tag}>")).unwrap_or_default().0
}

/// The value of `Content-Security-Policy` for a page with one script and one style.
pub(crate) fn policy(page: &str) -> String {
    let hash = |tag| STANDARD.encode(digest(&SHA256, inside(page, tag).as_bytes()));
    let (script, style) = (hash("script"), hash("style"));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests;
