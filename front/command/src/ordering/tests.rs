//! Fault models, from the command line to a configuration.

use super::*;

fn args(model: ModelWord, faults: &str) -> OrderArgs {
    let faults = Some(faults).filter(|text| !text.is_empty()).map(|text| text.parse().expect("faults"));
    OrderArgs { model: ModelArgs { fault_model: Some(model), faults }, ..OrderArgs::default() }
}

#[test]
fn the_numbers_of_a_model_reach_the_configuration() {
    let hybrid = args(ModelWord::Visigoth, "u=2,s=2,o=1");
    let choice = hybrid.choice().expect("a model with numbers");
    assert_eq!((hybrid.replicas(), choice.protocol), (6, Protocol::MOD_SMART));
    let numbers = "fault_model = { kind = \"visigoth\", u = 2, s = 2, o = 1, t_ms = 0 }\n";
    assert_eq!(choice.to_toml(), format!("protocol = \"mod-smart\"\n{numbers}"));
    assert_eq!(choice.to_string(), "mod-smart, visigoth faults u=2,s=2,o=1");
    let crashes = args(ModelWord::Visigoth, "u=1,s=1,o=0").choice().expect("nobody lies");
    assert_eq!((crashes.protocol, crashes.to_toml().contains("visigoth")), (Protocol::RAFT, true));
    let fast = args(ModelWord::Visigoth, "u=2,s=1,o=0,t=50");
    assert_eq!((fast.replicas(), fast.choice().expect("few are slow").protocol), (4, Protocol::MOD_SMART));
    let lies = args(ModelWord::Visigoth, "u=2,s=1,o=1,t=50");
    assert_eq!((lies.replicas(), lies.choice().expect("one may lie").protocol), (5, Protocol::MOD_SMART));
    let raft = OrderArgs { protocol: Some(Protocol::RAFT), ..fast };
    assert!(raft.choice().is_err(), "four replicas would just need three");
    let few = args(ModelWord::Byzantine, "1").choice().expect("a number");
    assert_eq!(few.faults, Some(1));
    assert_eq!(OrderArgs::default().choice().expect("nothing chosen").to_toml(), "");
}

#[test]
fn a_pair_is_two_replicas_of_which_one_may_stop() {
    let pair = args(ModelWord::Pair, "");
    let choice = pair.choice().expect("it has its numbers");
    assert_eq!((pair.replicas(), choice.protocol), (2, Protocol::MOD_SMART));
    assert!(choice.to_toml().contains("u = 1, s = 0, o = 0, t_ms = 50"), "{}", choice.to_toml());
    let why = args(ModelWord::Pair, "u=1,s=0,o=0,t=80").choice().expect_err("numbers are another model");
    assert!(why.to_string().contains("--fault-model visigoth --faults u=1,s=0,o=0,t=80"), "{why}");
    choice.check_members(2).expect("a pair");
    for (count, word) in
        [(1, "1 replicas are too few: n >= u + min(u,s) + o + 1 = 1 + 0 + 0 + 1 = 2"), (3, "Leave 1 out")]
    {
        let why = choice.check_members(count).expect_err("no pair").to_string();
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused_with_what_to_write() {
    for (model, faults) in
        [(ModelWord::Visigoth, ""), (ModelWord::Visigoth, "2"), (ModelWord::Crash, "u=1,s=1,o=0")]
    {
        assert!(args(model, faults).choice().is_err(), "{model:?} {faults}");
    }
    for (text, word) in [
        ("", "write a number"),
        ("u", "write a number"),
        ("u=1,s=1", "o is missing"),
        ("u=1,s=1,o=0,x=1", "no x"),
        ("u=1,u=1,s=1,o=0", "twice"),
        ("u=1,s=0,o=0", "t_ms"),
        ("u=2,s=0,o=1,t=50", "write o = 0 or less"),
        ("u=1,s=1,o=2", "o = 2"),
        ("u=-1,s=1,o=2", "write a number"),
    ] {
        let why = text.parse::<FaultsWord>().expect_err(text);
        assert!(why.contains(word), "{text}: {why}");
    }
    let hybrid = args(ModelWord::Visigoth, "u=2,s=2,o=1").choice().expect("a model with numbers");
    let number = OrderArgs {
        model: ModelArgs { fault_model: None, faults: Some(FaultsWord::Count(3)) },
        ..OrderArgs::default()
    };
    assert!(number.over(hybrid).is_err(), "u says it");
}

#[test]
fn heavy_votes_need_spare_replicas() {
    let args =
        OrderArgs { weighted: true, ..OrderArgs::surviving_by(FaultModel::Crash, Protocol::MOD_SMART) };
    let choice = OrderChoice { faults: Some(1), ..args.choice().expect("mod-smart weighs votes") };
    choice.check_members(4).expect("one more than are needed");
    assert_eq!([3, 4, 5].map(|count| choice.heavy(count)), [0, 1, 1]);
    let why = choice.check_members(3).expect_err("no more than are needed").to_string();
    assert!(why.contains("all votes count alike") && why.contains("Add replicas"), "{why}");
    let raft = OrderArgs { weighted: true, ..OrderArgs::default() };
    let why = raft.choice().expect_err("Raft counts them alike").to_string();
    assert!(why.contains("leave --weighted out, or say --protocol mod-smart"), "{why}");
}
