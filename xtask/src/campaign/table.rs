//! The campaigns: what each covers, what it runs, and how long it takes.

/// A row of the table.
pub(super) struct Campaign {
    pub(super) name: &'static str,
    pub(super) covers: &'static str,
    /// How long it takes on two idle cores, once everything is built.
    pub(super) usual: &'static str,
    pub(super) steps: &'static [Step],
    /// Its part of a sample, which should take seconds, in the tests' build.
    pub(super) sample: &'static [Step],
}

/// One command.
pub(super) struct Step {
    pub(super) what: What,
    pub(super) arguments: &'static str,
    pub(super) environment: &'static [(&'static str, &'static str)],
}

/// What runs a step's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// `quorate` in a release build.
    Release,
    /// `quorate` as the tests built it. `cargo run` would build most packages once more, since their dependencies have other features then.
    Debug,
    Tests,
    /// Tests of packages, built with the planted bugs.
    PlantedTests,
    Xtask,
}

impl What {
    /// The words of the command before the arguments.
    pub(super) fn command(self) -> &'static str {
        match self {
            What::Release => "cargo run --release --package quorate-cli --",
            What::Debug => "target/debug/quorate",
            What::Tests | What::PlantedTests => "cargo test",
            What::Xtask => "cargo xtask",
        }
    }
}

impl Step {
    /// The variables that the command needs, with their values.
    pub(super) fn variables(&self) -> Vec<(&'static str, &'static str)> {
        let planted = (self.what == What::PlantedTests).then_some(PLANTED);
        planted.into_iter().chain(self.environment.iter().copied()).collect()
    }

    /// The command without its variables, word by word.
    pub(super) fn words(&self) -> Vec<&'static str> {
        self.what.command().split_whitespace().chain(self.arguments.split_whitespace()).collect()
    }

    /// The command as typed in the repository's root.
    pub(super) fn line(&self) -> String {
        let variables = self.variables().into_iter().map(|(name, value)| format!("{name}={value}"));
        variables.chain(self.words().into_iter().map(String::from)).collect::<Vec<_>>().join(" ")
    }
}

/// Only packages of this repository are built with the planted bugs: the script says why.
const PLANTED: (&str, &str) = ("RUSTC_WORKSPACE_WRAPPER", "xtask/rustc-planted");

type Environment = &'static [(&'static str, &'static str)];

const fn step(what: What, arguments: &'static str, environment: Environment) -> Step {
    Step { what, arguments, environment }
}

/// Seeds for the simulator.
const fn sim(arguments: &'static str) -> Step {
    step(What::Release, arguments, &[])
}

/// A few seeds that the tests do not run.
const fn few(arguments: &'static str) -> Step {
    step(What::Debug, arguments, &[])
}

const fn tests(arguments: &'static str, environment: Environment) -> Step {
    step(What::Tests, arguments, environment)
}

/// Builds what [`What::Debug`] runs, unless the tests did already.
pub(super) const BUILD: Step = step(What::Tests, "--workspace --no-run", &[]);

/// Names the same packages as `cargo test --workspace`, so that nothing is built anew for them.
const SOME_KILLS: &str =
    "--workspace --test hurt kills::killed_and_paused_replicas_lose_nothing_and_repeat_nothing";
const SOME_LEASES: &str =
    "--workspace --test hurt etcd_leases::so_it_is_with_mod_smart_and_several_instances";

pub(super) const TABLE: &[Campaign] = &[
    Campaign {
        name: "sim-crash",
        covers: "simulated clusters with Raft that survive crashes",
        usual: "5 min",
        steps: &[sim("sim --count 40000")],
        sample: &[few("sim --first 100001 --count 40")],
    },
    Campaign {
        name: "sim-late",
        covers: "execution that follows delivery late, and takes back some of what it did",
        usual: "15 min",
        steps: &[
            sim("sim --late --count 4000"),
            sim("sim --late --fault-model byzantine --count 2000"),
            sim("sim --late --protocol mod-smart --count 2000"),
        ],
        sample: &[few("sim --late --first 100001 --count 20")],
    },
    Campaign {
        name: "sim-ordered",
        covers: "replicas that run commands side by side, beside others that run them one after the other",
        usual: "20 min",
        steps: &[
            sim("sim --executor ordered --count 10000"),
            sim("sim --executor ordered --instances 4 --count 3000"),
            sim("sim --executor ordered --protocol mod-smart --count 3000"),
            sim("sim --executor ordered --fault-model byzantine --count 4000"),
        ],
        sample: &[few("sim --executor ordered --first 100001 --count 20")],
    },
    Campaign {
        name: "sim-speculative",
        covers: "replicas whose commands meet in one memory, with wrong hints, late workers, crashes between results and their tokens, and liars",
        usual: "50 min",
        steps: &[
            sim("sim --executor speculative --count 10000"),
            sim("sim --executor speculative --instances 4 --count 4000"),
            sim("sim --executor speculative --protocol mod-smart --count 3000"),
            sim("sim --executor speculative --fault-model byzantine --count 4000"),
        ],
        sample: &[few("sim --executor speculative --first 100001 --count 20")],
    },
    Campaign {
        name: "sim-verified",
        covers: "replicas that compare results before they are final, while commands race and liars tell false tokens and order false rulings",
        usual: "40 min",
        steps: &[
            sim("sim --verify --count 10000"),
            sim("sim --verify --executor ordered --count 3000"),
            sim("sim --verify --instances 4 --count 3000"),
            sim("sim --verify --protocol mod-smart --count 3000"),
            sim("sim --verify --fault-model byzantine --count 4000"),
        ],
        sample: &[few("sim --verify --first 100001 --count 20")],
    },
    Campaign {
        name: "sim-apart",
        covers: "parts of replicas that have lanes of their own, and hear of each other late",
        usual: "2 h",
        steps: &[
            sim("sim --apart true --count 10000"),
            sim("sim --apart true --protocol mod-smart --count 10000"),
            sim("sim --apart true --instances 3 --count 5000"),
            sim("sim --apart true --fault-model byzantine --count 5000"),
        ],
        sample: &[few("sim --apart true --first 100001 --count 20")],
    },
    Campaign {
        name: "sim-moves",
        covers: "instances that stand on lanes with their connections, and move between lanes",
        usual: "25 min",
        steps: &[
            sim("sim --moves true --count 10000"),
            sim("sim --moves true --instances 3 --count 10000"),
            sim("sim --moves true --resizes true --count 5000"),
            sim("sim --moves true --protocol mod-smart --count 10000"),
            sim("sim --moves true --fault-model byzantine --count 5000"),
        ],
        sample: &[few("sim --moves true --first 100001 --count 30")],
    },
    Campaign {
        name: "sim-mod-smart",
        covers: "simulated clusters with Mod-SMaRt that survive crashes, also while replicas come and go",
        usual: "10 min",
        steps: &[
            sim("sim --protocol mod-smart --count 30000"),
            sim("sim --protocol mod-smart --changes true --count 10000"),
        ],
        sample: &[few("sim --protocol mod-smart --first 100001 --count 20")],
    },
    Campaign {
        name: "sim-byzantine",
        covers: "simulated clusters in which replicas and clients lie",
        usual: "15 min",
        steps: &[sim("sim --fault-model byzantine --count 30000")],
        sample: &[few("sim --fault-model byzantine --first 100001 --count 15")],
    },
    Campaign {
        name: "sim-visigoth",
        covers: "simulated clusters in which few are slow: n = u+s+o+1, with an oracle",
        usual: "2 h",
        steps: &[
            sim("sim --fault-model visigoth --faults u=2,s=1,o=0,t=20 --count 10000"),
            sim("sim --fault-model visigoth --faults u=1,s=0,o=0,t=20 --count 3000"),
            sim("sim --fault-model visigoth --faults u=3,s=1,o=0,t=20 --instances 3 --count 3000"),
            sim("sim --fault-model visigoth --faults u=2,s=1,o=1,t=20 --count 5000"),
            sim("sim --fault-model visigoth --faults u=3,s=2,o=2,t=20 --count 1000"),
        ],
        sample: &[
            few("sim --fault-model visigoth --faults u=2,s=1,o=0,t=20 --first 100001 --count 8"),
            few("sim --fault-model visigoth --faults u=2,s=1,o=1,t=20 --first 100001 --count 6"),
        ],
    },
    Campaign {
        name: "sim-eras",
        covers: "simulated clusters that move between fault models and protocols while clients go on",
        usual: "20 min",
        steps: &[sim("sim --eras true --count 20000")],
        sample: &[few("sim --eras true --first 100001 --count 15")],
    },
    Campaign {
        name: "sim-hybrid",
        covers: "simulated clusters in which fewer lie than are faulty: n = 2u+o+1",
        usual: "10 min",
        steps: &[
            sim("sim --fault-model visigoth --faults u=2,s=2,o=1 --count 5000"),
            sim("sim --fault-model visigoth --faults u=1,s=1,o=1 --instances 3 --count 3000"),
            sim(
                "sim --fault-model visigoth --faults u=2,s=2,o=0 --protocol mod-smart --changes true --count 5000",
            ),
        ],
        sample: &[few("sim --fault-model visigoth --faults u=2,s=2,o=1 --first 100001 --count 8")],
    },
    Campaign {
        name: "sim-instances",
        covers: "simulated clusters with 1, 2, 3 and 8 instances: Raft, Mod-SMaRt, Mod-SMaRt with liars",
        usual: "20 min",
        steps: &[
            sim("sim --instances 1 --count 5000"),
            sim("sim --instances 2 --count 5000"),
            sim("sim --instances 3 --count 5000"),
            sim("sim --instances 8 --count 5000"),
            sim("sim --resizes true --count 5000"),
            sim("sim --protocol mod-smart --instances 1 --count 3000"),
            sim("sim --protocol mod-smart --instances 2 --count 3000"),
            sim("sim --protocol mod-smart --instances 3 --count 3000"),
            sim("sim --protocol mod-smart --instances 8 --count 3000"),
            sim("sim --fault-model byzantine --instances 1 --count 2000"),
            sim("sim --fault-model byzantine --instances 2 --count 2000"),
            sim("sim --fault-model byzantine --instances 3 --count 2000"),
            sim("sim --fault-model byzantine --instances 8 --count 2000"),
        ],
        sample: &[few("sim --instances 8 --first 100001 --count 10")],
    },
    Campaign {
        name: "sim-focuses",
        covers: "simulated clusters in which several rare things meet, and those whose programs are replaced",
        usual: "20 min",
        steps: &[
            sim("sim --focus reads --count 3000"),
            sim("sim --focus votes --count 3000"),
            sim("sim --focus votes --protocol mod-smart --count 3000"),
            sim("sim --focus promises --count 3000"),
            sim("sim --focus changes --count 3000"),
            sim("sim --focus changes --protocol mod-smart --count 3000"),
            sim("sim --focus idle --count 1000"),
            sim("sim --focus forges --count 3000"),
            sim("sim --focus beginnings --count 3000"),
            sim("sim --focus beginnings --fault-model byzantine --count 3000"),
            sim("sim --focus claims --count 3000"),
            sim("sim --changes true --count 5000"),
            sim("sim --upgrades true --count 5000"),
        ],
        sample: &[few("sim --focus votes --first 100001 --count 10")],
    },
    Campaign {
        name: "model-visigoth",
        covers: "all histories of one Visigoth instance within bounds, with a liar and without",
        usual: "6 min",
        steps: &[tests("--release -p quorate-model --test all large -- --ignored --nocapture", &[])],
        sample: &[],
    },
    Campaign {
        name: "models",
        covers: "random runs of single parts: protocols, checkpoints, transfers, services that ask others",
        usual: "20 min",
        steps: &[
            tests("-p quorate-order --lib chaos", &[("QUORATE_SEEDS", "2000")]),
            tests("-p quorate-script --test all order_suite", &[("QUORATE_SEEDS", "2000")]),
            tests("-p quorate-state --test all checkpoint_model", &[("QUORATE_SEEDS", "10000")]),
            tests("-p quorate-state --test all transfer::seeds", &[("QUORATE_SEEDS", "10000")]),
            tests("-p quorate-execute --test all nested::histories", &[("QUORATE_SEEDS", "20000")]),
        ],
        sample: &[],
    },
    Campaign {
        name: "planted-seeds",
        covers: "every planted bug that the simulator finds: the table of docs/testing.md, and that what was found shrinks",
        usual: "2 h",
        steps: &[
            step(What::Xtask, "planted", &[]),
            step(What::PlantedTests, "--release -p quorate-sim --test planted", &[]),
        ],
        sample: &[],
    },
    Campaign {
        name: "planted-tests",
        covers: "every planted bug that a test of its own finds",
        usual: "10 min",
        // One at a time: a bug is in force in the whole process.
        steps: &[step(What::PlantedTests, "--workspace --tests -- --ignored --test-threads=1", &[])],
        sample: &[step(
            What::PlantedTests,
            "-p quorate-log --lib planted -- --ignored --test-threads=1",
            &[],
        )],
    },
    Campaign {
        name: "kills",
        covers: "real processes that are killed and paused: 1 and 4 instances, 4 lanes, replicas that may lie",
        usual: "30 min",
        steps: &[tests("-p quorate-cli --test hurt kills::killed", &[("QUORATE_KILLS", "200")])],
        sample: &[tests(SOME_KILLS, &[("QUORATE_KILLS", "4")])],
    },
    Campaign {
        name: "etcd-kills",
        covers: "clients of etcd while replicas are killed, and jump to checkpoints",
        usual: "20 min",
        steps: &[tests(
            "-p quorate-cli --test hurt etcd_kills",
            &[("QUORATE_KILLS", "300"), ("QUORATE_TRANSFERS", "40")],
        )],
        sample: &[],
    },
    Campaign {
        name: "etcd-leases",
        covers: "leases of etcd while replicas are killed, paused and cut off",
        usual: "10 min",
        steps: &[tests("-p quorate-cli --test hurt etcd_leases", &[("QUORATE_KILLS", "60")])],
        sample: &[tests(SOME_LEASES, &[("QUORATE_KILLS", "2")])],
    },
    Campaign {
        name: "disks",
        covers: "real processes whose logs are torn and whose checkpoints are interrupted, in each mode",
        usual: "20 min",
        steps: &[
            tests("-p quorate-cli --test hurt torn_logs", &[("QUORATE_ROUNDS", "100")]),
            tests("-p quorate-cli --test hurt state::kills", &[("QUORATE_STATE_SECONDS", "180")]),
        ],
        sample: &[],
    },
    Campaign {
        name: "etcd-beside",
        covers: "random requests to a real etcd and to a cluster of ours; skipped where there is no etcd",
        usual: "15 min",
        steps: &[tests(
            "-p quorate-etcd-grpc --test all as_a_real_etcd",
            &[("QUORATE_DIFFERENTIAL", "100000")],
        )],
        sample: &[],
    },
    Campaign {
        name: "zookeeper",
        covers: "random worlds of ZooKeeper's servers and clients, with a log of their own and on simulated replicas of one and of three \
                 instances, and random requests to a real one where ZOOKEEPER names its jars",
        usual: "45 min",
        steps: &[
            tests("-p quorate-zookeeper --test all world::whatever", &[("QUORATE_SEEDS", "40000")]),
            tests("-p quorate-zookeeper --test all world::replicas", &[("QUORATE_SEEDS", "10000")]),
            tests("-p quorate-zookeeper --test all differential", &[("QUORATE_REQUESTS", "100000")]),
        ],
        sample: &[],
    },
    Campaign {
        name: "fuzzing",
        covers: "bytes from outside, ten minutes for each decoder; needs a nightly toolchain and cargo-fuzz",
        usual: "10 min for each target",
        steps: &[step(What::Xtask, "fuzz 600", &[])],
        sample: &[],
    },
    Campaign {
        name: "hashes-record",
        covers: "before a change that only moves code: what 10,000 simulated runs do",
        usual: "2 min",
        steps: &[sim("sim --record target/campaigns/before.hashes")],
        sample: &[few("sim --record target/campaigns/sample.hashes --count 60")],
    },
    Campaign {
        name: "hashes-compare",
        covers: "after it: which of those runs do something else",
        usual: "2 min",
        steps: &[sim("sim --compare target/campaigns/before.hashes")],
        sample: &[few("sim --compare target/campaigns/sample.hashes")],
    },
];
