//! Reading a WORKFLOW.md (contract section 2).
