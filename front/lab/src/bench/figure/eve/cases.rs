//! What each figure about parallel execution measures: its lines, and the points on them.

use super::EveArgs;
use super::way::{Errors, Way};

/// After which figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum What {
    /// Figure 3.4: workers, for commands of different lengths.
    Lengths,
    /// Figure 3.5: workers, for objects of different sizes.
    Sizes,
    /// Figure 3.6: conflicts, where the mixer misses some.
    Missed,
    /// Figure 3.7: conflicts, where the mixer sees some that are none.
    Imagined,
}

/// One point of a figure.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The line on which it is; nothing for what others are compared with.
    pub(super) line: Option<String>,
    pub(super) x: f64,
    pub(super) way: Way,
    /// Points are compared with the fastest of their group that has no line.
    pub(super) group: usize,
    pub(super) command_us: u32,
    pub(super) object_bytes: u32,
    pub(super) errors: Errors,
}

/// The objects of a workload without conflicts; few callers hit the same one by chance.
pub(super) const MANY: u32 = 1 << 20;

impl What {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Lengths => "eve-4",
            Self::Sizes => "eve-5",
            Self::Missed => "eve-6",
            Self::Imagined => "eve-7",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Lengths => "Speed-up by workers, for commands of different lengths",
            Self::Sizes => "Speed-up by workers, for objects of different sizes",
            Self::Missed => "Speed-up by conflicts, where hints miss some of them",
            Self::Imagined => "Speed-up by conflicts, where hints name some that are none",
        }
    }

    pub(super) const fn x_label(self) -> &'static str {
        match self {
            Self::Lengths | Self::Sizes => "workers of each replica",
            Self::Missed | Self::Imagined => "pairs of requests that conflict, in %",
        }
    }

    /// What the paper found.
    pub(super) const fn paper(self) -> &'static str {
        match self {
            Self::Lengths => {
                "the paper, 16 workers on 16 cores, results verified: 12.5 times for 10 ms, 10 times for 1 ms, 3.3 times for 0.1 ms, where \
                 replication is the limit"
            }
            Self::Sizes => {
                "the paper, 1 ms: 10.0 k requests/s with objects of 10 B and of 1 KB, 5.6 k with 10 KB, which are copied before they are hashed"
            }
            Self::Missed => {
                "the paper: with 1 % conflicts of which 1 % are missed, one roll-back for 7 waves, and 2.6 times sequential execution"
            }
            Self::Imagined => {
                "the paper: imagined conflicts cost less than missed ones, since nothing runs again"
            }
        }
    }

    /// Its points.
    pub(super) fn cases(self, args: &EveArgs) -> Vec<Case> {
        match self {
            Self::Lengths => {
                let each = args.command_us.iter().map(|us| (format!("{us} us"), *us, args.object_bytes));
                by_workers(args, each)
            }
            Self::Sizes => {
                let us = args.command_us.get(1).or(args.command_us.first()).copied().unwrap_or(1000);
                by_workers(args, [10, 1024, 10 << 10].map(|bytes| (format!("{bytes} B"), us, bytes)))
            }
            Self::Missed | Self::Imagined => self.by_conflicts(args),
        }
    }

    fn by_conflicts(self, args: &EveArgs) -> Vec<Case> {
        let workers = args.workers.iter().copied().max().unwrap_or(16);
        let us = args.command_us.get(1).or(args.command_us.first()).copied().unwrap_or(1000);
        let base = Case {
            line: None,
            x: 0.0,
            way: Way::Sequential,
            group: 0,
            command_us: us,
            object_bytes: args.object_bytes,
            errors: Errors { objects: MANY, ..Errors::default() },
        };
        let mut cases = vec![base.clone(), Case { way: Way::Ordered(1), ..base.clone() }];
        for (way, name) in [(Way::Speculative(workers), "speculative"), (Way::Ordered(workers), "ordered")] {
            for errors in &args.mixer_errors {
                for conflicts in &args.pair_conflicts {
                    let share = f64::from(*errors) / 100_000.0;
                    let (missed, imagined) = if self == Self::Missed { (share, 0.0) } else { (0.0, share) };
                    let objects = (100_000 / conflicts.max(&1)).max(1);
                    let errors = Errors { objects, conflicts: 0, missed, imagined };
                    let line = Some(format!("{name}, {} %", share * 100.0));
                    cases.push(Case { line, x: f64::from(*conflicts) / 1000.0, way, errors, ..base.clone() });
                }
            }
        }
        cases
    }
}

/// Lines by the number of workers: their names, and how long commands take and how large objects are.
fn by_workers(args: &EveArgs, lines: impl IntoIterator<Item = (String, u32, u32)>) -> Vec<Case> {
    let mut cases = Vec::new();
    for (group, (name, command_us, object_bytes)) in lines.into_iter().enumerate() {
        let errors = Errors { objects: MANY, conflicts: args.conflicts, ..Errors::default() };
        let base = Case { line: None, x: 0.0, way: Way::Sequential, group, command_us, object_bytes, errors };
        cases.push(base.clone());
        for workers in &args.workers {
            let way = args.way(*workers);
            cases.push(Case { line: Some(name.clone()), x: f64::from(*workers), way, ..base.clone() });
        }
    }
    cases
}

impl Case {
    /// Whether others are compared with it.
    pub(super) fn is_base(&self) -> bool {
        self.line.is_none() || matches!(self.way, Way::Ordered(1) | Way::Speculative(1))
    }
}
