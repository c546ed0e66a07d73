//! A whole service: a counter that survives the loss of replicas. Run it with
//! `cargo run --release -p quorate --example counter`.

use quorate::{BlockingClient, Client, Context, LocalCluster, Typed, TypedService, client::ReadOptions};
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
    let directory = std::env::temp_dir().join(format!("quorate-counter-{}", std::process::id()));
    let mut cluster = LocalCluster::start(&directory, 3, || Box::new(Typed(Counter::default())))?;
    let client: BlockingClient = Client::builder().members(cluster.members()).build_blocking()?;
    let session = client.open_session()?;
    let call = |change: &Change| -> Result<i64, Box<dyn std::error::Error>> {
        let replies = session.call_one(&quorate::encode_command(change)?)?;
        Ok(quorate::decode_reply(replies.first().unwrap_or_default())?)
    };
    println!("reset: {}", call(&Change::Reset)?);
    println!("add 5: {}", call(&Change::Add(5))?);
    let leader = client.client().leader().ok_or("nobody leads")?;
    cluster.stop(leader);
    println!("the leader, {leader}, is gone; add 6: {}", call(&Change::Add(6))?);
    let read = client.read(quorate::encode_command(&())?, ReadOptions::default())?;
    let value: i64 = quorate::decode_reply(&read.body)?;
    println!("read: {value}");
    assert_eq!(value, 11);
    drop(cluster);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
