//! A service somewhere else, over its API.

mod address;
mod client;
mod events;
mod source;
mod state;

pub(crate) use address::{Address, find};
pub(crate) use client::{Client, Problem};
pub(crate) use source::Remote;
