//! What `clippy.toml` cannot ban as a whole: the core, and the crate that reads workflow files, name
//! nothing of the system they run on, so they build for a target without one.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "it reads the sources, and a missing file is a failed test"
)]

use std::path::{Path, PathBuf};

const SYSTEM: [&str; 4] = ["std::fs", "std::net", "std::os", "std::process"];

#[test]
fn the_core_and_the_workflow_crate_name_nothing_of_the_system() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = ["symphony-core/src", "symphony-workflow/src"].into_iter();
    let mut named = Vec::new();
    for file in files.flat_map(|folder| sources(&root.join(folder))) {
        let text = std::fs::read_to_string(&file).unwrap();
        let found = SYSTEM.iter().filter(|module| text.contains(**module));
        named.extend(found.map(|module| format!("{}: {module}", file.display())));
    }
    assert_eq!(named, Vec::<String>::new());
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}
