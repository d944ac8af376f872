//! The prompt layer (contract section 15).
