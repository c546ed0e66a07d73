//! What clients of etcd see of a cluster of ours, beside a real etcd where there is one. One binary for all of it: each has to be linked with everything.

mod alarms;
mod auth;
mod differential;
mod gateway;
mod gateway_streams;
mod kv;
mod members;
mod own_state;
mod recipes;
mod support;
mod upkeep;
mod watch;
