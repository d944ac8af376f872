//! `symphony --version`: the commit and its date, from a checkout, an archive or the environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::Harness;

/// The build script, as a program of its own; `None` for a user without a compiler.
fn built(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("build-script");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "-o"]).arg(&program).arg(source);
    let status = rustc.status().ok()?;
    assert!(status.success());
    Some(program)
}

/// What the script says in a folder.
fn said(program: &Path, folder: &Path, variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(program);
    command.current_dir(folder).env_remove("SYMPHONY_COMMIT").env_remove("SOURCE_DATE_EPOCH");
    command.env("CARGO_PKG_VERSION", "1.2.3").envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn version(said: &[String]) -> &str {
    let found = said.iter().find_map(|line| line.strip_prefix("cargo:rustc-env=SYMPHONY_VERSION="));
    found.unwrap()
}

fn git(folder: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=x", "-c", "user.email=x@example.com"]);
    command.env("GIT_COMMITTER_DATE", "2024-02-29T23:59:59Z").args(words).current_dir(folder);
    assert!(command.output().unwrap().status.success(), "git {words:?}");
}

/// A path that is not there makes cargo build again and again.
fn assert_rebuilt_only_with_a_commit(said: &[String], folder: &Path) {
    for line in said {
        if let Some(path) = line.strip_prefix("cargo:rerun-if-changed=") {
            assert!(folder.join(path).exists(), "{path}");
        }
    }
}

#[test]
fn rule_14_1_the_version_names_the_commit_wherever_it_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = built(folder.path()) else {
        println!("skipped: this user has no rustc");
        return;
    };
    let root = folder.path().join("project");
    let cli = root.join("cli");
    fs::create_dir_all(&cli).unwrap();
    fs::write(cli.join("build.rs"), "").unwrap();
    fs::write(cli.join("commit.txt"), "$Format:%H %ct$\n").unwrap();
    let bare = said(&program, &cli, &[]);
    assert_eq!(version(&bare), "1.2.3", "neither a checkout nor an archive");
    assert_rebuilt_only_with_a_commit(&bare, &cli);
    let dated = [("SOURCE_DATE_EPOCH", "951782400"), ("SYMPHONY_COMMIT", "abc")];
    assert_eq!(version(&said(&program, &cli, &dated)), "1.2.3 (abc 2000-02-29)");
    assert_eq!(version(&said(&program, &cli, &[("SOURCE_DATE_EPOCH", "x")])), "1.2.3");
    let commit = "0123456789abcdef0123456789abcdef01234567";
    fs::write(cli.join("commit.txt"), format!("{commit} 1709251199\n")).unwrap();
    let archive = said(&program, &cli, &[]);
    assert_eq!(version(&archive), "1.2.3 (0123456789ab 2024-02-29)");
    assert_rebuilt_only_with_a_commit(&archive, &cli);
    // Unpacked within another project's checkout.
    git(folder.path(), &["init", "-q"]);
    git(folder.path(), &["commit", "-q", "--allow-empty", "-m", "x"]);
    assert_eq!(version(&said(&program, &cli, &[])), "1.2.3 (0123456789ab 2024-02-29)");
    git(&root, &["init", "-q"]);
    assert_eq!(version(&said(&program, &cli, &[])), "1.2.3 (0123456789ab 2024-02-29)");
    git(&root, &["commit", "-q", "--allow-empty", "-m", "x"]);
    let checkout = said(&program, &cli, &[]);
    assert!(version(&checkout).ends_with(" 2024-02-29)"), "{checkout:?}");
    assert!(!version(&checkout).contains("0123456789ab"), "{checkout:?}");
    assert_rebuilt_only_with_a_commit(&checkout, &cli);
    assert!(checkout.iter().any(|line| line.ends_with("logs/HEAD")), "{checkout:?}");
    let epoch = said(&program, &cli, &[("SOURCE_DATE_EPOCH", "0")]);
    assert!(version(&epoch).ends_with(" 1970-01-01)"), "it wins over the commit's: {epoch:?}");
}

#[test]
fn rule_14_1_the_command_says_its_version() {
    let shown = Harness::new().run(&["--version"]);
    let number = env!("CARGO_PKG_VERSION");
    let said = shown.stdout.trim_end();
    let rest = said.strip_prefix(&format!("symphony {number}")).unwrap();
    assert!(rest.is_empty() || rest.starts_with(" (") && rest.ends_with(')'), "{said}");
}
