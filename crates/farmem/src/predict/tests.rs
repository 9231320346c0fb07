//! Faults played through the predictor.
