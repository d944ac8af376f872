//! Where the programs are.

use std::path::{Path, PathBuf};

/// The program.
///
/// # Panics
/// It is not installed: nothing else shows that Codex understands us.
#[must_use]
pub fn codex() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = root.join("target/codex/node_modules/.bin/codex");
    assert!(
        program.exists(),
        "Codex is not installed; run scripts/codex, which does \
         npm install --prefix target/codex @openai/codex@0.166.0"
    );
    program.canonicalize().unwrap()
}

/// The command `symphony`, beside this program of the same build.
///
/// # Panics
/// It is not built: a run of all tests builds it.
#[must_use]
pub fn symphony(beside: &str) -> PathBuf {
    let program = Path::new(beside).with_file_name("symphony");
    assert!(program.exists(), "the command is not built; run cargo build -p symphony-cli");
    program
}
