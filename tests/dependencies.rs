//! What the features of the facade compile.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::collections::BTreeSet;
use std::process::Command;

/// What compiles C, and what is Linear's alone.
const FORBIDDEN: [&str; 9] = [
    "aws-lc-rs",
    "aws-lc-sys",
    "cc",
    "cmake",
    "cynic",
    "openssl-sys",
    "reqwest",
    "ring",
    "symphony-linear",
];

/// The crates that are compiled with these features, for the target and for building.
fn crates(features: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--offline", "--locked", "-p", "symphony"];
    let output = Command::new(env!("CARGO"))
        .args(tree)
        .args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    // With its version: two of one name are two.
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    lines.lines().filter(|line| !line.is_empty()).map(name).collect()
}

fn has(crates: &BTreeSet<String>, name: &str) -> bool {
    crates.iter().any(|known| known.split(' ').next() == Some(name))
}

#[test]
fn the_default_features_compile_no_c_and_nothing_of_linear() {
    let default = crates(&[]);
    let found: Vec<_> = FORBIDDEN.into_iter().filter(|name| has(&default, name)).collect();
    assert_eq!(found, [""; 0]);
    assert!(has(&default, "symphony-codex") && has(&default, "symphony-memory"));
    // The test sees what it looks for.
    let linear = crates(&["--features", "linear"]);
    assert!(has(&linear, "symphony-linear") && has(&linear, "cc") && has(&linear, "cynic"));
}

/// How far a count may be from what a document says: an update of one dependency is no news.
const TOLERANCE: usize = 10;

#[test]
fn features_are_as_light_as_the_guide_says() {
    let guide = include_str!("../docs/guide/embedding.md");
    let count = |features: &[&str]| crates(&[&["--no-default-features"], features].concat()).len();
    for (row, features) in [
        ("| none: a tracker and an agent of your own", &[][..]),
        ("| `codex`, `memory` (the default)", &["--features", "codex,memory"]),
        ("| `http` alone: the dashboard and the API", &["--features", "http"]),
        ("| `linear` alone", &["--features", "linear"]),
    ] {
        let count = count(features);
        let line = guide.lines().find(|line| line.starts_with(row)).unwrap();
        let told: usize = line.trim_end_matches(" |").rsplit(' ').next().unwrap().parse().unwrap();
        assert!(count.abs_diff(told) <= TOLERANCE, "{line} but there are {count}");
    }
}
