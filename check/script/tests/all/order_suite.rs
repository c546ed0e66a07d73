//! What every ordering protocol promises, whatever it is made of: one suite, generic over a [`Protocol`].
//! `order_suite!` runs it for clusters of one, three and five. INV-SCRIPT-1 to 9, asserted by the world after every step,
//! are part of each test.

use crate::suite::{self, Protocol};
use crate::toy;
use quorate_auth::Trusting;
use quorate_order::OrderConfig;
use quorate_order::mod_smart::{ModSmart, ModSmartConfig};
use quorate_order::raft::{Raft, RaftConfig};
use quorate_script::raft::check_send;
use quorate_types::{FaultModel, InstanceId};

const RAFT: Protocol = Protocol {
    make: |me, members, seed| Box::new(Raft::new(RaftConfig::new(me, members.to_vec(), seed))),
    check_send,
    garbage: suite::garbage::raft,
};

/// Raft with so little memory and so small messages that old entries are read back from the log all the time.
const RAFT_IN_A_NUTSHELL: Protocol = Protocol {
    make: |me, members, seed| {
        let mut config = RaftConfig::new(me, members.to_vec(), seed);
        (config.cache_bytes, config.message_bytes_max, config.window_bytes) = (300, 200, 500);
        Box::new(Raft::new(config))
    },
    ..RAFT
};

/// Mod-SMaRt where nobody lies.
const MOD_SMART: Protocol = Protocol {
    make: |me, members, seed| {
        let config = ModSmartConfig::new(me, members.to_vec(), FaultModel::Crash, seed);
        Box::new(ModSmart::new(config, Box::new(Trusting)))
    },
    check_send: quorate_script::mod_smart::check_send,
    garbage: suite::garbage::mod_smart,
};

/// Mod-SMaRt with so little memory that decided slots are read back from the log all the time.
const MOD_SMART_IN_A_NUTSHELL: Protocol = Protocol {
    make: |me, members, seed| {
        let mut config = ModSmartConfig::new(me, members.to_vec(), FaultModel::Crash, seed);
        config.cache_bytes = 200;
        Box::new(ModSmart::new(config, Box::new(Trusting)))
    },
    ..MOD_SMART
};

/// A protocol of one member, of a few lines, that is in no list; with so little memory that it reads nearly everything back.
const TOY: Protocol = Protocol {
    make: |me, members, seed| {
        let toy = quorate_order::Protocol::of(&toy::ROW);
        let config = OrderConfig::new(toy, me, members.to_vec(), seed);
        OrderConfig { cache_bytes: 200, ..config }.build(InstanceId::new(1), 0)
    },
    check_send: |_, from, _, message| panic!("{from} is alone, and says {message:?}"),
    garbage: suite::garbage::raft,
};

macro_rules! order_suite {
    ($name:ident, $protocol:ident) => {
        mod $name {
            use super::{$protocol as PROTOCOL, suite};

            order_suite!(@one PROTOCOL, alone, 1);
            order_suite!(@one PROTOCOL, of_three, 3);
            order_suite!(@one PROTOCOL, of_five, 5);

            #[test]
            fn garbage_never_panics() {
                suite::garbage_never_panics(PROTOCOL);
            }
        }
    };
    (@one $build:ident, $name:ident, $n:literal) => {
        mod $name {
            use super::{$build as PROTOCOL, suite};

            #[test]
            fn all_decide_the_same_in_the_order_of_proposing() {
                suite::all_decide_the_same_in_the_order_of_proposing(PROTOCOL, $n);
            }
            #[test]
            fn everything_is_decided_again_after_a_restart() {
                suite::everything_is_decided_again_after_a_restart(PROTOCOL, $n);
            }
            #[test]
            fn nothing_is_decided_again_after_a_checkpoint() {
                suite::nothing_is_decided_again_after_a_checkpoint(PROTOCOL, $n);
            }
            #[test]
            fn who_lacks_what_is_forgotten_gets_a_checkpoint() {
                suite::who_lacks_what_is_forgotten_gets_a_checkpoint(PROTOCOL, $n);
            }
            #[test]
            fn a_checkpoint_leads_back() {
                suite::a_checkpoint_leads_back(PROTOCOL, $n);
            }
            #[test]
            fn a_leader_alone_decides_nothing_and_confirms_no_read() {
                suite::a_leader_alone_decides_nothing_and_confirms_no_read(PROTOCOL, $n);
            }
            #[test]
            fn a_read_sees_what_was_decided_before() {
                suite::a_read_sees_what_was_decided_before(PROTOCOL, $n);
            }
            #[test]
            fn answers_from_before_a_read_do_not_confirm_it() {
                suite::answers_from_before_a_read_do_not_confirm_it(PROTOCOL, $n);
            }
            #[test]
            fn proposals_elsewhere_are_dropped() {
                suite::proposals_elsewhere_are_dropped(PROTOCOL, $n);
            }
            #[test]
            fn office_is_handed_over() {
                suite::office_is_handed_over(PROTOCOL, $n);
            }
            #[test]
            fn votes_survive_restarts() {
                suite::votes_survive_restarts(PROTOCOL, $n);
            }
            #[test]
            fn chaos_is_survived() {
                suite::chaos_is_survived(PROTOCOL, $n);
            }
            #[test]
            fn the_same_inputs_give_the_same_effects() {
                suite::the_same_inputs_give_the_same_effects(PROTOCOL, $n);
            }
        }
    };
}

order_suite!(raft, RAFT);
order_suite!(raft_in_a_nutshell, RAFT_IN_A_NUTSHELL);
order_suite!(mod_smart, MOD_SMART);
order_suite!(mod_smart_in_a_nutshell, MOD_SMART_IN_A_NUTSHELL);

mod the_toy {
    use super::{TOY, suite};

    order_suite!(@one TOY, alone, 1);

    #[test]
    fn garbage_never_panics() {
        suite::garbage_never_panics(TOY);
    }
}
