//! Tests of Mod-SMaRt.
