//! A service whose commands are written in scripts: `lock till, get cash, ask bank take 5, answer, put cash 7, unlock till`.

use quorate_execute::{Answer, Call, Context, JournaledService, ReplySink, ServiceId, Store};

/// The services of the scripts; the first one is the service itself.
pub(super) const SERVICES: [&str; 5] = ["shop", "bank", "post", "mint", "court"];

/// The number of a service.
pub(super) fn service(name: &str) -> Option<ServiceId> {
    let at = SERVICES.iter().position(|service| *service == name)?;
    Some(ServiceId(at as u32 + 1))
}

/// The name of a service.
pub(super) fn name(service: ServiceId) -> String {
    let at = (service.0 as usize).wrapping_sub(1);
    SERVICES.get(at).map_or_else(|| service.to_string(), |name| (*name).to_string())
}

/// A command is a list of phrases, with commas between them:
///
/// - `get KEY` says its value. `put KEY WORD` writes it. `add KEY NUMBER` adds to the number that is there, and says the sum.
/// - `lock NAME` says whether it got the lock; `unlock NAME` gives it back.
/// - `ask SERVICE WORDS` asks; `answer` waits for the answer to the oldest question, and says it.
/// - `sleep` awaits something that never comes. `fall` panics, and prints nothing.
///
/// The reply is everything that it said.
pub(super) struct Phrases;

impl JournaledService for Phrases {
    async fn execute(&self, call: &mut Call, command: &[u8], _: &Context) -> Vec<u8> {
        let (text, mut tickets, mut said) = (String::from_utf8_lossy(command), Vec::new(), Vec::new());
        for phrase in text.split(',').map(str::trim) {
            let words: Vec<&str> = phrase.split(' ').collect();
            match words[..] {
                ["get", key] => said.push(value(call, key)),
                ["put", key, word] => call.put(key.as_bytes(), word.as_bytes()),
                ["add", key, number] => {
                    let sum = value(call, key).parse().unwrap_or(0) + number.parse().unwrap_or(0_i64);
                    call.put(key.as_bytes(), sum.to_string().as_bytes());
                    said.push(sum.to_string());
                }
                ["lock", name] => match call.lock(name.as_bytes()).await {
                    Ok(()) => said.push(format!("has {name}")),
                    Err(why) => said.push(format!("lacks {name}: {why}")),
                },
                ["unlock", name] => call.unlock(name.as_bytes()),
                ["ask", backend, ref rest @ ..] => {
                    let backend = service(backend).unwrap_or(ServiceId(u32::MAX));
                    tickets.push(call.ask(backend, rest.join(" ").as_bytes()));
                }
                ["answer"] if !tickets.is_empty() => {
                    said.push(match call.answer(tickets.remove(0)).await {
                        Answer::Reply(reply) => String::from_utf8_lossy(&reply).into_owned(),
                        Answer::Refused(why) => format!("refused: {why}"),
                        other => format!("{other:?}"),
                    });
                }
                ["sleep"] => std::future::pending().await,
                ["fall"] => std::panic::resume_unwind(Box::new("it fell")),
                _ => said.push(format!("({phrase}?)")),
            }
        }
        said.join(", ").into_bytes()
    }

    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

fn value(call: &mut Call, key: &str) -> String {
    call.get(key.as_bytes())
        .map_or_else(|| "nothing".into(), |value| String::from_utf8_lossy(&value).into_owned())
}
