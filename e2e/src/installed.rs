//! Where Codex is.

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
