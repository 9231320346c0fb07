//! Tests of a search on small and large sets of candidates.
