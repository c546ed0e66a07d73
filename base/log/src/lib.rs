//! Record format, segment plan, recovery and group commit, as logic without I/O.
