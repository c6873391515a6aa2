//! Empty on purpose: this package only pins the sources of the peers (see Cargo.toml).
