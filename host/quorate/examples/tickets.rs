//! A service in the object store: tickets that are each taken once. It writes nothing for checkpoints, however large it grows. Run
//! it with `cargo run --release -p quorate --example tickets`.

use quorate::{Context, InStore, LocalCluster, ObjectService, ReplySink, Store, client::ReadOptions};

/// Keys are tickets, values say who has them. All state is in the store.
struct Tickets;

impl ObjectService for Tickets {
    /// A command is a client's name, a space and a ticket; the reply is the name of who has it now.
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let mut parts = command.splitn(2, |byte| *byte == b' ');
        let (Some(name), Some(ticket)) = (parts.next(), parts.next()) else {
            return reply.write(b"a command is a name, a space and a ticket");
        };
        if ticket.len() > 100 {
            return reply.write(b"a ticket has at most 100 bytes");
        }
        if store.get(ticket).is_none() {
            store.put(ticket, name);
        }
        reply.write(store.get(ticket).unwrap_or_default());
    }

    /// A query is the beginning of tickets; the answer lists those that are taken.
    fn query(&self, store: &Store, start: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        for (ticket, name) in store.range(start, None).take_while(|(ticket, _)| ticket.starts_with(start)) {
            [ticket, b": ", name, b"\n"].iter().for_each(|part| reply.write(part));
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = LocalCluster::temporary(3, || Box::new(InStore::new(Tickets)))?;
    let client = cluster.client().build_blocking()?;
    let session = client.open_session()?;
    for command in ["ann row 1 seat 4", "bob row 1 seat 4", "bob row 1 seat 5"] {
        let replies = session.call_one(command.as_bytes())?;
        println!("{command} -> {}", String::from_utf8_lossy(replies.first().unwrap_or_default()));
    }
    let taken = client.read(b"row 1".to_vec(), ReadOptions::default())?;
    print!("{}", String::from_utf8_lossy(&taken.body));
    assert_eq!(taken.body, b"row 1 seat 4: ann\nrow 1 seat 5: bob\n".as_slice());
    Ok(())
}
