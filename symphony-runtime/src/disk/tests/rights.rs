//! Rights that an agent takes away: it runs as our user. Root may do everything whatever a mode says,
//! so each of these also runs as a user without privileges.

use std::any::type_name;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::*;

/// The id of an unprivileged user.
const NOBODY: u32 = 65534;

/// Runs a test as the current user, and if that is root, also as an unprivileged one.
fn as_any_user<F: Fn()>(test: F) {
    test();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let name = type_name::<F>().strip_suffix("::{{closure}}").unwrap();
    let name = name.split_once("::").unwrap().1;
    let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    run_without_privileges(&[name], "TMPDIR", dir.path());
}

/// Runs one test of this program as an unprivileged user.
fn run_without_privileges(args: &[&str], variable: &str, value: &Path) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(args)
        .args(["--exact", "--nocapture"])
        .env(variable, value)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as another user:\n{shown}{errors}");
    assert!(shown.contains("1 passed"), "{shown}");
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn rule_9_2_a_workspace_that_an_agent_has_closed_is_removed() {
    as_any_user(|| {
        let yard = yard();
        for closed in [0o000, 0o555, 0o300] {
            yard.make("MT-1");
            let folder = yard.path("MT-1");
            fs::create_dir_all(folder.join("a/b")).unwrap();
            fs::write(folder.join("a/b/c"), "").unwrap();
            ["a/b", "a", ""].iter().for_each(|name| set_mode(folder.join(name), closed));
            // As a removal does, for its hook.
            assert!(yard.root.folder(&yard.record("MT-1").key).unwrap().is_some());
            set_mode(&folder, closed);
            yard.remove("MT-1").unwrap();
            assert!(!folder.exists());
            assert_eq!(yard.trash(), 0, "{closed:o}");
        }
        yard.outside_is_whole();
    });
}

#[test]
fn rule_9_2_a_half_made_workspace_that_was_closed_is_made_anew() {
    as_any_user(|| {
        let yard = yard();
        yard.open("MT-1").unwrap();
        fs::write(yard.path("MT-1").join("half"), "").unwrap();
        set_mode(yard.path("MT-1"), 0);
        assert!(yard.open("MT-1").unwrap().is_new);
        assert!(!yard.path("MT-1").join("half").exists());
    });
}

#[test]
fn rule_9_3_a_workspace_that_was_closed_is_opened_for_the_next_attempt() {
    as_any_user(|| {
        let yard = yard();
        for closed in [0o000, 0o500, 0o600, 0o055] {
            yard.make("MT-1");
            fs::write(yard.path("MT-1").join("file"), "kept").unwrap();
            set_mode(yard.path("MT-1"), closed);
            let opened = yard.open("MT-1").unwrap();
            assert!(!opened.is_new);
            assert_eq!(mode(yard.path("MT-1")) & 0o700, 0o700, "{closed:o}");
            yard.root.check(&yard.record("MT-1").key, &opened.folder).unwrap();
            assert_eq!(fs::read_to_string(yard.path("MT-1").join("file")).unwrap(), "kept");
        }
    });
}

#[test]
fn rule_9_2_a_root_whose_mode_was_changed_gets_its_own_back() {
    const OURS: [&str; 6] = [
        "",
        "~symphony",
        "~symphony/records",
        "~symphony/runs",
        "~symphony/trash",
        "~symphony/aside",
    ];
    as_any_user(|| {
        let yard = yard();
        let root = yard.root.path().to_owned();
        let run = symphony_core::run::RunId { boot: 1, number: 1 };
        for changed in [0o000, 0o500, 0o777] {
            let spoil = || OURS.iter().rev().for_each(|name| set_mode(root.join(name), changed));
            spoil();
            yard.make("MT-1");
            OURS.iter().for_each(|name| assert_eq!(mode(root.join(name)), 0o700, "{name}"));
            spoil();
            yard.root.write_own("state.json", b"{}").unwrap();
            spoil();
            assert_eq!(yard.root.read_own("state.json").unwrap().unwrap(), b"{}");
            spoil();
            yard.root.write_run(run, &[]).unwrap();
            spoil();
            yard.root.forget_run(run).unwrap();
            spoil();
            assert_eq!(yard.root.list().unwrap().records.len(), 1);
            spoil();
            yard.root.check_lock().unwrap();
            spoil();
            yard.remove("MT-1").unwrap();
        }
    });
}

#[test]
fn rule_14_3_a_root_that_was_closed_between_two_lives_is_opened_again() {
    as_any_user(|| {
        let yard = yard();
        yard.make("MT-1");
        yard.root.write_own("state.json", b"{}").unwrap();
        let (root, record) = (yard.root.path().to_owned(), yard.record("MT-1"));
        let own = root.join("~symphony");
        drop(yard.root);
        let files = ["lock", "id", "state.json", "records/MT-1.json"];
        files.iter().for_each(|name| set_mode(own.join(name), 0));
        ["records", "runs", "trash", "aside", ""]
            .iter()
            .for_each(|name| set_mode(own.join(name), 0));
        set_mode(&root, 0);
        let opened = Root::open(Root::resolve(&root).unwrap()).unwrap();
        assert_eq!(opened.list().unwrap().records, [record]);
        assert_eq!(opened.read_own("state.json").unwrap().unwrap(), b"{}");
    });
}

#[test]
fn rule_9_2_giving_rights_back_follows_no_link_and_touches_nothing_outside() {
    as_any_user(|| {
        let yard = yard();
        yard.make("MT-1");
        let precious = yard.outside.join("precious");
        set_mode(&precious, 0o400);
        set_mode(yard.outside.join("deep"), 0o500);
        let own = yard.root.path().join("~symphony");
        // A second name for a file outside, and links, where files and folders of ours should be.
        fs::hard_link(&precious, own.join("hard")).unwrap();
        symlink(&precious, own.join("soft")).unwrap();
        symlink(yard.outside.join("deep"), yard.path("MT-1").join("deep")).unwrap();
        set_mode(yard.path("MT-1"), 0);
        let _ = yard.root.read_own("hard");
        assert!(yard.root.read_own("soft").is_err());
        yard.remove("MT-1").unwrap();
        assert_eq!((mode(&precious), mode(yard.outside.join("deep"))), (0o400, 0o500));
        yard.outside_is_whole();
    });
}

/// Makes something another user's, which only root can; the rest runs as an unprivileged user.
#[test]
fn rule_9_2_another_users_folder_is_named_and_kept_as_root() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can make a file another user's");
        return;
    }
    let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
    let root = dir.path().join("work");
    for folder in ["MT-1", "MT-2/deep/not-ours/full", "MT-2/deep/empty", "MT-3"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("MT-2/deep/file"), "").unwrap();
    let give = |name: &str| {
        std::os::unix::fs::chown(root.join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    };
    ["", "MT-2", "MT-2/deep", "MT-3"].into_iter().for_each(give);
    ["MT-1", "MT-2/deep/not-ours"].into_iter().for_each(|name| set_mode(root.join(name), 0o700));
    std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let test = "disk::tests::rights::in_a_root_with_things_of_another_user";
    run_without_privileges(&[test, "--ignored"], "SYMPHONY_TEST_ROOT", &root);
    assert!(root.join("MT-1").is_dir());
}

#[test]
#[ignore = "not a test: what another one runs as a user without privileges"]
fn in_a_root_with_things_of_another_user() {
    let Ok(path) = std::env::var("SYMPHONY_TEST_ROOT") else { return };
    let root = Arc::new(Root::open(Root::resolve(Path::new(&path)).unwrap()).unwrap());
    let outside = PathBuf::from("/nowhere");
    let yard = Yard { _dir: TempDir::new().unwrap(), root, outside };
    for error in [yard.open("MT-1").unwrap_err(), yard.remove("MT-1").unwrap_err()] {
        let told = error.to_string();
        assert!(
            told.contains("/MT-1: ") && told.contains("it belongs to user 0, not to us"),
            "{told}"
        );
    }
    let told = yard.remove("MT-2").unwrap_err().to_string();
    assert!(
        told.contains("/not-ours: ") && told.contains("it belongs to user 0, not to us"),
        "{told}"
    );
    let left = fs::read_dir(yard.root.path().join("~symphony/trash")).unwrap().flatten();
    let left: Vec<_> =
        left.flat_map(|entry| fs::read_dir(entry.path()).unwrap()).flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    yard.remove("MT-3").unwrap();
    assert!(yard.open("MT-2").unwrap().is_new, "other work goes on");
}
