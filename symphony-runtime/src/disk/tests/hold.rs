//! The holder of a root, and what its service is called (contract 14.3).

use rustix::fs::{CWD, Mode, OFlags};

use super::*;
use crate::disk::lock::RootLock;
use crate::disk::{AnnouncedAddress, service_address};

#[test]
fn rule_14_3_a_root_is_locked_and_the_lock_names_its_holder() {
    let yard = yard();
    let error = Root::open(yard.root.path().to_owned()).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    assert!(error.contains("set another workspace.root"), "{error}");
    let path = yard.root.path().to_owned();
    drop(yard.root);
    Root::open(path).unwrap();
}

#[test]
fn rule_14_3_without_our_folder_a_root_is_not_launched_in_and_not_anothers() {
    let yard = yard();
    fs::remove_dir_all(yard.root.path().join("~symphony")).unwrap();
    let error = Root::open(yard.root.path().to_owned()).unwrap_err();
    assert!(matches!(error, DiskError::Locked { .. }), "{error}");
    let error = yard.open("MT-1").unwrap_err();
    assert!(matches!(error, DiskError::RootReplaced { .. }), "{error}");
}

#[test]
fn rule_14_3_a_lock_that_outlives_its_holder_for_a_moment_is_waited_for() {
    let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
    let path = Root::resolve(dir.path()).unwrap();
    drop(Root::open(path.clone()).unwrap());
    // As after a kill: the holder is gone, and a child of it has not let go yet.
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let lock = dir.path().join("~symphony/lock");
    fs::write(&lock, format!("{{\"pid\": {}}}", gone.id())).unwrap();
    let held = fs::File::open(&lock).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let child = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
    });
    Root::open(path).unwrap();
    child.join().unwrap();
}

#[test]
fn rule_14_5_an_address_is_believed_from_the_holder_of_a_root_that_is_ours_alone() {
    let yard = yard();
    let (root, own) = (yard.root.path().to_owned(), yard.root.path().join("~symphony"));
    assert_eq!(service_address(&root), None);
    let announced = AnnouncedAddress::write(&yard.root, "http://127.0.0.1:1").unwrap();
    assert_eq!(service_address(&root).as_deref(), Some("http://127.0.0.1:1"));
    for folder in [&root, &own] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(service_address(&root), None, "others could have written it");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let left = fs::read(own.join("address")).unwrap();
    drop(announced);
    assert_eq!(service_address(&root), None, "it ended");
    // As after a kill: another process wrote it.
    let text = String::from_utf8(left).unwrap();
    fs::write(own.join("address"), text.replace(&std::process::id().to_string(), "1")).unwrap();
    assert_eq!(service_address(&root), None, "its writer does not hold the lock");
}

fn lock_file(yard: &Yard) -> PathBuf {
    yard.root.path().join("~symphony/lock")
}

fn refused(yard: &Yard) {
    let error = Root::open(yard.root.path().to_owned()).unwrap_err();
    assert!(matches!(error, DiskError::Locked { .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
}

#[test]
fn rule_14_3_without_its_lock_file_a_root_is_still_locked_and_says_by_whom() {
    let yard = yard();
    fs::remove_file(lock_file(&yard)).unwrap();
    refused(&yard);
    // Nor does a file help that names a process that is gone.
    fs::write(lock_file(&yard), "{\"pid\": 4194304}").unwrap();
    refused(&yard);
}

#[test]
fn rule_14_3_a_lock_file_that_was_removed_is_made_anew_before_a_start() {
    let yard = yard();
    let opened = yard.make("MT-1");
    let key = yard.record("MT-1").key;
    let is_locked = || {
        let file = fs::File::open(lock_file(&yard)).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
    };
    for replaced in [false, true] {
        fs::remove_file(lock_file(&yard)).unwrap();
        if replaced {
            fs::write(lock_file(&yard), "").unwrap();
        }
        yard.root.check(&key, &opened.folder).unwrap();
        assert!(is_locked(), "an older version would come in");
        let written = fs::read_to_string(lock_file(&yard)).unwrap();
        assert!(written.contains(&std::process::id().to_string()), "{written}");
    }
    fs::remove_file(lock_file(&yard)).unwrap();
    yard.open("MT-2").unwrap();
    assert!(is_locked());
}

#[test]
fn rule_14_3_nothing_is_started_while_another_holds_the_lock_file() {
    let yard = yard();
    fs::remove_file(lock_file(&yard)).unwrap();
    // An older version that came in: it knows the file only.
    fs::write(lock_file(&yard), format!("{{\"pid\": {}}}", std::os::unix::process::parent_id()))
        .unwrap();
    let older = fs::File::open(lock_file(&yard)).unwrap();
    rustix::fs::flock(&older, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = yard.open("MT-1").unwrap_err();
    assert!(matches!(error, DiskError::Locked { .. }), "{error}");
    drop(older);
    yard.open("MT-1").unwrap();
}

#[test]
fn rule_14_3_where_folders_cannot_be_locked_the_file_has_to_do() {
    let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
    let own = rustix::fs::open(dir.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
    // The kernel locks no handle of this kind, as some file systems lock no folder.
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let folder = rustix::fs::openat(CWD, dir.path(), flags, Mode::empty()).unwrap();
    let lock = RootLock::take(&folder, &own, dir.path()).unwrap();
    lock.check(&own, dir.path()).unwrap();
    let second = RootLock::take(&folder, &own, dir.path()).unwrap_err();
    assert!(matches!(second, DiskError::Locked { .. }), "{second}");
    fs::remove_file(dir.path().join("lock")).unwrap();
    let lost = lock.check(&own, dir.path()).unwrap_err();
    assert!(matches!(lost, DiskError::LockLost { .. }), "{lost}");
}

#[test]
fn rule_14_3_a_service_keeps_its_name_and_a_copied_root_is_another_service() {
    let yard = yard();
    let (path, name) = (yard.root.path().to_owned(), yard.root.service().to_owned());
    yard.root.keep_service().unwrap();
    let copy = yard.outside.parent().unwrap().join("copy");
    let copied = std::process::Command::new("cp").arg("-a").args([&path, &copy]).status().unwrap();
    assert!(copied.success());
    drop(yard.root);
    let again = Root::open(path.clone()).unwrap();
    assert_eq!(again.service(), name);
    assert_eq!(again.former_service(), None);
    let copied = Root::open(copy).unwrap();
    assert_ne!(copied.service(), name);
    assert_eq!(copied.former_service(), None, "what runs there is not ours to end");
    // At the same path there may be another root: in another container, or after a move.
    fs::rename(&path, path.with_extension("old")).unwrap();
    let other = Root::open(Root::resolve(&path).unwrap()).unwrap();
    assert_ne!(other.service(), name);
    assert_eq!(other.former_service(), None, "nobody has lived here");
}

#[test]
fn rule_14_3_a_root_of_an_older_version_is_also_known_by_its_path_once() {
    let yard = yard();
    let path = yard.root.path().to_owned();
    yard.root.write_own("state.json", b"{\"boot\": 1}").unwrap();
    drop(yard.root);
    let root = Root::open(path.clone()).unwrap();
    assert_eq!(root.former_service(), Some(&*path.display().to_string()));
    // Killed before it had ended what was left: the next one still knows.
    let name = root.service().to_owned();
    drop(root);
    let root = Root::open(path.clone()).unwrap();
    assert!(root.former_service().is_some());
    assert_ne!(root.service(), name);
    root.keep_service().unwrap();
    let name = root.service().to_owned();
    drop(root);
    let root = Root::open(path).unwrap();
    assert_eq!((root.service(), root.former_service()), (name.as_str(), None));
}

#[test]
fn rule_14_3_a_name_that_was_removed_or_forged_is_written_again() {
    let yard = yard();
    let file = yard.root.path().join("~symphony/id");
    yard.open("MT-1").unwrap();
    let written = fs::read(&file).unwrap();
    for forged in [None, Some("{}"), Some("{\"id\": \"x\"}")] {
        fs::remove_file(&file).unwrap();
        if let Some(text) = forged {
            fs::write(&file, text).unwrap();
        }
        yard.open("MT-1").unwrap();
        assert_eq!(fs::read(&file).unwrap(), written);
    }
}
