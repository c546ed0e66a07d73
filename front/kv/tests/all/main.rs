//! The key-value services, case by case and against a model. One binary for all of it: each has to be linked.

mod kv;
mod kv_model;
mod lists;
mod shop;
mod side_by_side;
mod support;
mod work;
