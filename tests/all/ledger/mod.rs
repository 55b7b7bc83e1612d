//! Every ledger passes the same suite of behaviours.
