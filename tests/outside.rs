//! The traits and the conformance kit work from outside the workspace, with nothing but
//! `symphony-core` (contract 11.6).

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What only reading a workflow file or documenting an API needs.
const NOT_NEEDED: [&str; 5] = ["granit-parser", "schemars", "strsim", "tera", "yaml_serde"];

#[test]
fn rule_11_6_the_traits_can_be_implemented_and_checked_outside_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let outside = root.join("tests/outside");
    // The same versions as here, so that nothing has to be fetched. Not kept: one lock is enough.
    std::fs::copy(root.join("Cargo.lock"), outside.join("Cargo.lock")).unwrap();
    let dependencies = dependencies(&outside);
    let needless = NOT_NEEDED.iter().find(|name| dependencies.contains(**name));
    assert_eq!(needless, None, "{dependencies:?}");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["test", "--offline"])
        .current_dir(&outside)
        .env("CARGO_TARGET_DIR", target)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    // A rule that is skipped is visible, without a flag, and so is why.
    let shown = "rule_1_1_blockers_are_named ... ignored, a paper has no blockers";
    assert!(stdout.contains(shown), "{stdout}");
}

fn dependencies(folder: &Path) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--edges", "normal", "--prefix", "none"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(folder).output();
    let output = output.map(|output| output.stdout).unwrap_or_default();
    let tree = String::from_utf8_lossy(&output);
    let names: BTreeSet<String> =
        tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(names.contains("symphony-core"), "{tree}");
    names
}
