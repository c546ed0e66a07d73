//! Generates messages, servers and clients from `proto/`, without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["proto/rpc.proto", "proto/election.proto", "proto/lock.proto", "proto/health.proto"];
    println!("cargo::rerun-if-changed=proto");
    let set = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(set)?;
    Ok(())
}
