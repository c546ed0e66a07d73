//! All services that `quorate new` writes, in one crate, so that each is built and tested as it is. A project has one of them.

#[path = "../../../front/cli/src/new/template/src/lib.rs"]
mod counters;
#[path = "../../../front/cli/src/new/template/services/flags/lib.rs"]
mod flags;
#[path = "../../../front/cli/src/new/template/services/ledger/lib.rs"]
mod ledger;
#[path = "../../../front/cli/src/new/template/services/limiter/lib.rs"]
mod limiter;
#[path = "../../../front/cli/src/new/template/services/locks/lib.rs"]
mod locks;
#[path = "../../../front/cli/src/new/template/services/queue/lib.rs"]
mod queue;

pub use counters::*;
pub use flags::*;
pub use ledger::*;
pub use limiter::*;
pub use locks::*;
pub use queue::*;
