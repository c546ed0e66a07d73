//! Which digest the members agree on at each border.
