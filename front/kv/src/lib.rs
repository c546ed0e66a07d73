//! The key-value service: put, get, delete, scan, compare-and-swap, transactions.
