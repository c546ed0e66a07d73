//! The store of etcd's front: against a model, and case by case. One binary for all of it: each has to be linked.

mod alarms;
mod auth;
mod bytes;
mod deletes;
mod edges;
mod live;
mod model;
mod pages;
mod store;
mod support;
mod watches;
