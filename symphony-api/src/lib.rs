//! The wire format of a running Symphony: what its API answers, and notices in words (contract 13.2,
//! 13.3).

mod notice;
pub mod status;

pub use notice::Told;
