//! The examples run, and their own assertions hold.

#[path = "../../examples/lists.rs"]
mod lists;

#[test]
fn the_map_of_lists_runs() {
    lists::main().expect("it ends well");
}
