//! Joins the stages of one lane into one state machine without I/O.
