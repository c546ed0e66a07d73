//! What the program prints and does, with clusters of real processes and real clients. One binary for all of it: each has to be linked with everything.

mod backup;
mod bad_input;
mod bench_etcd;
mod bench_floor;
mod bench_instances;
mod bench_latency;
mod bench_table;
mod dev_instances;
mod doctor;
mod etcd;
mod export;
mod figure;
mod harness;
mod hostile;
mod instances;
mod kv_etcd;
mod lanes;
mod lies;
mod lost_disk;
mod member;
mod mod_smart;
mod restored;
mod rolling;
mod sim;
mod smoke;
mod tls;
