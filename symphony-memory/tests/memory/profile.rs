//! The published profile.
