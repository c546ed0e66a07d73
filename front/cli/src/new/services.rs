//! The services that a project can begin with.

/// Which one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Example {
    /// Counters with names: the shortest one
    #[default]
    Counters,
    /// Accounts, and money that moves between them
    Ledger,
    /// A queue of jobs with leases
    Queue,
    /// A rate limiter with buckets of tokens
    Limiter,
    /// Feature flags, with clients that are told of changes
    Flags,
    /// Locks with tokens, which end with their sessions
    Locks,
}

/// What the template has for one of them.
pub(super) struct Service {
    /// Its type.
    pub(super) name: &'static str,
    /// Its files besides those that all projects have.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// What the tests are.
    pub(super) tests: &'static str,
    /// The name of its client, and some words for it.
    client: &'static str,
}

impl Service {
    /// The command that runs its client.
    pub(super) fn client(&self) -> String {
        format!("cargo run --release --example {}", self.client)
    }
}

/// The files of one of the services.
macro_rules! files {
    ($name:literal) => {
        &[
            ("src/lib.rs", include_str!(concat!("template/services/", $name, "/lib.rs"))),
            ("tests/simulation.rs", include_str!(concat!("template/services/", $name, "/simulation.rs"))),
            ("examples/client.rs", include_str!(concat!("template/services/", $name, "/client.rs"))),
        ]
    };
}

impl Example {
    pub(super) fn service(self) -> Service {
        let tests = "simulated replicas, where all goes wrong";
        match self {
            Self::Counters => Service {
                name: "Counters",
                files: &[
                    ("src/lib.rs", include_str!("template/src/lib.rs")),
                    ("tests/simulation.rs", include_str!("template/tests/simulation.rs")),
                    ("tests/cluster.rs", include_str!("template/tests/cluster.rs")),
                    ("examples/add.rs", include_str!("template/examples/add.rs")),
                ],
                tests: "three replicas of which one ends, and simulated ones where all goes wrong",
                client: "add apples 3",
            },
            Self::Ledger => {
                Service { name: "Ledger", files: files!("ledger"), tests, client: "client deposit ann 100" }
            }
            Self::Queue => {
                Service { name: "Queue", files: files!("queue"), tests, client: "client push 'mail ann'" }
            }
            Self::Limiter => {
                Service { name: "Limiter", files: files!("limiter"), tests, client: "client web 3" }
            }
            Self::Flags => {
                Service { name: "Flags", files: files!("flags"), tests, client: "client set dark on" }
            }
            Self::Locks => {
                Service { name: "Locks", files: files!("locks"), tests, client: "client door sleep 5" }
            }
        }
    }
}
