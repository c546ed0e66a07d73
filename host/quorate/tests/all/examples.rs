//! The examples run, and their own assertions hold.

#[path = "../../examples/lists.rs"]
mod lists;

#[path = "../../examples/news.rs"]
mod news;

#[test]
fn news_reach_those_who_subscribed() {
    news::main().expect("it ends well");
}

#[test]
fn the_map_of_lists_runs() {
    lists::main().expect("it ends well");
}
