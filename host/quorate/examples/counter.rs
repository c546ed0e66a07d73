//! A whole service: a counter that survives the loss of replicas. Run it with
//! `cargo run --release -p quorate --example counter`.

use quorate::{Context, LocalCluster, Typed, TypedService, client::ReadOptions};
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
struct Counter {
    value: i64,
}

#[derive(Serialize, Deserialize)]
enum Change {
    Add(i64),
    Reset,
}

impl TypedService for Counter {
    type Command = Change;
    type Reply = i64;
    type Query = ();
    type Answer = i64;

    fn execute(&mut self, change: Change, _: &Context) -> i64 {
        match change {
            Change::Add(amount) => self.value = self.value.wrapping_add(amount),
            Change::Reset => self.value = 0,
        }
        self.value
    }
    fn query(&self, (): (), _: &Context) -> i64 {
        self.value
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut cluster = LocalCluster::temporary(3, || Box::new(Typed(Counter::default())))?;
    let client = cluster.client().build_blocking()?;
    let counter = client.open::<Counter>()?;
    println!("reset: {}", counter.call(&Change::Reset)?);
    println!("add 5: {}", counter.call(&Change::Add(5))?);
    let leader = client.client().leader().ok_or("nobody leads")?;
    cluster.stop(leader);
    println!("the leader, {leader}, is gone; add 6: {}", counter.call(&Change::Add(6))?);
    let value = client.query::<Counter>(&(), ReadOptions::default())?;
    println!("read: {value}");
    assert_eq!(value, 11);
    Ok(())
}
