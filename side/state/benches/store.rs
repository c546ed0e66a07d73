//! The object store beside other ordered maps.
fn main() {}
