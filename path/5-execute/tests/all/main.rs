//! Services, sessions and images, by themselves and against models. One binary for all of it: each has to be linked.

mod around;
mod checkpoints;
mod contexts;
mod early;
mod events;
mod exactly_once;
mod histories;
mod images;
mod kinds;
mod leaders;
mod letters;
mod nested;
mod ordered;
#[cfg(planted)]
mod planted;
mod published;
mod queries;
mod reads;
mod reference;
mod served;
mod services;
mod session_model;
mod sessions;
mod speculative;
mod stage;
mod support;
mod verified;
