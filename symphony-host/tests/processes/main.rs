//! Real processes, started and ended.

#![cfg(target_os = "linux")]

mod commands;
mod hardened;
mod kill_matrix;
mod leftovers;
mod trial;
