//! Services that ask others: schedules, locks, numbers, sessions, and what becomes of commands that misbehave.

pub(crate) mod asking;
mod bank;
mod checkpoints;
pub(crate) mod histories;
mod limits;
pub(crate) mod locks;
mod neighbours;
pub(crate) mod ring;
mod service;
pub(crate) mod sessions;
mod world;
