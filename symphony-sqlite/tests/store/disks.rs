//! Disks that are full or cannot be written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use symphony_core::store::{StoreError, StoreErrorKind};
use symphony_sqlite::SqliteStore;

use crate::{Place, attempts, begin, commit, process_of, write};

/// Runs what stands in a test of this binary behind a few lines of shell.
fn run_behind(shell: &[&str], lines: &str, test: &str, path: &Path) -> Output {
    let process = process_of(test, path);
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(["sh", "-ec", &format!("{lines}\nexec \"$0\" \"$@\"")]);
    command.arg(process.get_program()).args(process.get_args());
    command.env("SYMPHONY_TEST_STORE", path).output().unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Commits until it fails, and returns how many claims were kept and why it ended.
fn fill(store: &SqliteStore) -> (usize, StoreError) {
    for number in 0..100_000 {
        let writes = (0..20).map(|part| write(&format!("id-{number}-{part}"), number)).collect();
        if let Err(error) = commit(store, writes) {
            return (number as usize * 20, error);
        }
    }
    unreachable!("the disk takes everything");
}

#[test]
#[ignore = "not a test: what another one runs on a small disk"]
fn fills_a_disk() {
    let Ok(path) = std::env::var("SYMPHONY_TEST_STORE") else { return };
    let path = Path::new(&path);
    let filler = path.with_file_name("filler");
    fs::write(&filler, vec![1; 300_000]).unwrap();
    let store = SqliteStore::open(path).unwrap();
    begin(&store);
    let (kept, error) = fill(&store);
    assert_eq!(error.kind, StoreErrorKind::Full, "{error:?}");
    assert!(error.to_string().ends_with("the disk is full: free some space"), "{error}");
    assert_eq!(attempts(&store).len(), kept);
    fs::remove_file(filler).unwrap();
    commit(&store, vec![write("id-x", 1)]).unwrap();
    assert_eq!(attempts(&store).len(), kept + 1);
    drop(store);
    assert_eq!(attempts(&SqliteStore::open(path).unwrap()).len(), kept + 1);
    println!("kept {kept}");
}

#[test]
fn rule_16_5_a_full_disk_is_said_and_commits_go_on_when_there_is_room_as_root() {
    if !is_root() {
        println!("skipped: only root can mount a small disk");
        return;
    }
    let place = Place::new();
    let mount = "mount -t tmpfs -o size=1m none \"$(dirname \"$SYMPHONY_TEST_STORE\")\"";
    let output = run_behind(&["unshare", "--mount"], mount, "disks::fills_a_disk", &place.path);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if told.contains("unshare failed") || told.contains("mount:") {
        println!("skipped: nothing can be mounted here: {told}");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nkept "), "{output:?}");
}

#[test]
#[ignore = "not a test: what another one runs with a limit on the size of files"]
fn fills_a_file() {
    let Ok(path) = std::env::var("SYMPHONY_TEST_STORE") else { return };
    let store = SqliteStore::open(Path::new(&path)).unwrap();
    begin(&store);
    let (kept, error) = fill(&store);
    assert!(error.to_string().contains("quotas"), "{error}");
    assert_eq!(attempts(&store).len(), kept);
    println!("kept {kept}");
}

#[test]
fn rule_16_5_a_write_that_fails_loses_nothing_that_was_kept() {
    let place = Place::new();
    // Without the signal the write fails as on a disk whose quota is used up.
    let limit = "trap '' XFSZ; ulimit -f 600";
    let output = run_behind(&["env"], limit, "disks::fills_a_file", &place.path);
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let kept = told.lines().find_map(|line| line.strip_prefix("kept ")).unwrap();
    let store = place.open();
    assert_eq!(attempts(&store).len(), kept.parse::<usize>().unwrap());
    begin(&store);
    commit(&store, vec![write("id-x", 1)]).unwrap();
}

#[test]
fn rule_16_5_a_folder_that_cannot_be_written_is_named() {
    if is_root() {
        println!("skipped: root may write to every folder");
        return;
    }
    let place = Place::filled();
    let rights = |mode| {
        fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    };
    rights(0o500);
    let errors = [
        SqliteStore::open(place.folder.path().join("other.db")).unwrap_err(),
        SqliteStore::open(place.folder.path().join("folder/other.db")).unwrap_err(),
        SqliteStore::open(&place.path).unwrap_err(),
    ];
    rights(0o700);
    for error in errors {
        assert_eq!(error.kind, StoreErrorKind::Io);
        let said = symphony_core::failure::chain(&error);
        assert!(said.contains(&*place.folder.path().to_string_lossy()), "{said}");
    }
    assert_eq!(attempts(&place.open()), [Some(1)]);
}

#[test]
#[ignore = "not a test: what another one runs on a disk that cannot be written"]
fn opens_a_file_on_a_disk_that_cannot_be_written() {
    let Ok(path) = std::env::var("SYMPHONY_TEST_STORE") else { return };
    let error = SqliteStore::open(Path::new(&path)).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Io);
    println!("told {}", symphony_core::failure::chain(&error));
}

#[test]
fn rule_16_5_a_disk_that_cannot_be_written_is_named_as_root() {
    if !is_root() {
        println!("skipped: only root can mount a disk");
        return;
    }
    let place = Place::filled();
    let mount = "folder=$(dirname \"$SYMPHONY_TEST_STORE\")
                 mount --bind \"$folder\" \"$folder\"; mount -o remount,ro,bind \"$folder\"";
    let test = "disks::opens_a_file_on_a_disk_that_cannot_be_written";
    let output = run_behind(&["unshare", "--mount"], mount, test, &place.path);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if told.contains("unshare failed") || told.contains("mount:") {
        println!("skipped: nothing can be mounted here: {told}");
        return;
    }
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("ead-only"), "{output:?}");
    assert_eq!(attempts(&place.open()), [Some(1)]);
}
