//! Raft (Ongaro and Ousterhout, USENIX ATC 2014).
