//! Which commands of administrators are executed, and what is kept of them.

use super::{Administration, Signatures};
use quorate_auth::{KeyedClient, RequestChecks, StatementSigner, administration_statement};
use quorate_types::ClusterId;
use quorate_wire::{AdminCommand, Administrators, Reader, RequestSigner, SignedCommand};

const CLUSTER: ClusterId = ClusterId::new(3);
const SEED: u64 = 11;

fn key(number: u64) -> KeyedClient {
    KeyedClient::new(CLUSTER, SEED, number)
}

fn administrators(threshold: u8, numbers: &[u64]) -> Administrators {
    Administrators::new(threshold, numbers.iter().map(|number| key(*number).key()).collect()).expect("few")
}

fn signed(number: u64, by: &[u64]) -> SignedCommand {
    let mut signed = SignedCommand::new(number, AdminCommand::Raise(2));
    for signer in by {
        let signature = key(*signer).sign_statement(&administration_statement(CLUSTER, &signed));
        signed.add(key(*signer).key(), signature).expect("few");
    }
    signed
}

fn reread(administration: &Administration) -> Administration {
    let mut bytes = Vec::new();
    administration.write_to(&mut bytes);
    for cut in 0..bytes.len() {
        let short = Reader::new(bytes[..cut].to_vec().into(), "short");
        assert!(Administration::read(short).is_err(), "cut at {cut}");
    }
    Administration::read(Reader::new(bytes.into(), "whole")).expect("what was written")
}

#[test]
pub(crate) fn each_command_is_executed_once_and_in_order() {
    let made_with = administrators(1, &[1, 2]);
    let by = Signatures { cluster: CLUSTER, checks: RequestChecks::Keyed(SEED), made_with: Some(&made_with) };
    let mut state = Administration::default();
    assert!(state.check(&signed(2, &[1]), &by).unwrap_err().contains("comes too early"));
    assert!(state.check(&signed(1, &[3]), &by).unwrap_err().contains("1 of the 2 administrators"));
    let first = signed(1, &[2]);
    assert_eq!(state.check(&first, &by), Ok(()));
    state.execute(1, "done".into());
    assert!(state.check(&first, &by).unwrap_err().contains("was executed before"));
    assert_eq!(state.check(&signed(2, &[1]), &by), Ok(()));
    let nobody = Signatures { made_with: None, ..by };
    assert!(state.check(&signed(2, &[1]), &nobody).unwrap_err().contains("without administrators"));
}

/// Who was replaced administers nothing any more.
#[test]
pub(crate) fn administrators_are_replaced() {
    let made_with = administrators(1, &[1]);
    let by = Signatures { cluster: CLUSTER, checks: RequestChecks::Keyed(SEED), made_with: Some(&made_with) };
    let mut state = Administration::default();
    state.replace(administrators(2, &[2, 3, 4]));
    state.execute(1, "done".into());
    let state = reread(&state);
    assert!(state.check(&signed(2, &[1]), &by).is_err());
    assert!(state.check(&signed(2, &[3]), &by).is_err());
    assert_eq!(state.check(&signed(2, &[3, 4]), &by), Ok(()));
}

#[test]
fn the_last_results_are_kept() {
    let mut state = Administration::default();
    for number in 1..20 {
        state.execute(number, format!("{number} {}", "ä".repeat(300)));
    }
    assert_eq!(reread(&state), state);
    let results: Vec<_> = state.results().collect();
    assert_eq!(results.first().map(|(number, _)| *number), Some(12));
    assert!(results.iter().all(|(_, text)| text.len() <= 200 && text.ends_with('ä')));
    assert_eq!(state.executed(), 19);
}
