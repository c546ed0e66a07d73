//! The view on made-up clusters: what stands on a screen of a size, after two looks.

mod documents;
mod keys;
mod made;
mod parts;
mod screens;
