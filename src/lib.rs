//! Symphony turns an issue tracker into finished work.
//!
//! This crate is the facade: one dependency for people who embed Symphony in
//! their own tools. [`core`] holds the domain, the scheduler as a pure state
//! machine, and the traits that adapters implement.

pub use symphony_core as core;

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
