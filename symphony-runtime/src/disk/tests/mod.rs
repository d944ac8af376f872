//! Attacks on workspaces: whatever stands in their place, nothing outside the root is touched.

mod hold;
mod rights;

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use symphony_core::{HostId, Scope, WorkspaceKey, WorkspaceRecord};
use tempfile::TempDir;

use super::*;

/// A root, and something precious beside it.
struct Yard {
    _dir: TempDir,
    root: Arc<Root>,
    outside: PathBuf,
}

fn yard() -> Yard {
    let dir = tempfile::Builder::new().prefix("runtime-").tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("precious"), "gold").unwrap();
    fs::write(outside.join("deep/precious"), "gold").unwrap();
    let root = Root::open(Root::resolve(&dir.path().join("work")).unwrap()).unwrap();
    Yard { _dir: dir, root: Arc::new(root), outside }
}

impl Yard {
    fn record(&self, identifier: &str) -> WorkspaceRecord {
        let key = WorkspaceKey::derive(identifier).unwrap();
        WorkspaceRecord {
            issue: identifier.into(),
            identifier: identifier.into(),
            scope: Scope::from("test"),
            host: HostId::local(),
            path: self.root.path().join(key.as_str()),
            key,
        }
    }

    fn path(&self, identifier: &str) -> PathBuf {
        self.record(identifier).path
    }

    fn open(&self, identifier: &str) -> Result<Opened, DiskError> {
        self.root.open_workspace(&self.record(identifier), Made::Half)
    }

    /// Opens, and notes that `after_create` has run.
    fn make(&self, identifier: &str) -> Opened {
        let opened = self.open(identifier).unwrap();
        self.root.write_record(&self.record(identifier), true).unwrap();
        opened
    }

    fn remove(&self, identifier: &str) -> Result<(), DiskError> {
        self.root.remove_workspace(&self.record(identifier).key)
    }

    fn outside_is_whole(&self) {
        assert_eq!(fs::read_to_string(self.outside.join("precious")).unwrap(), "gold");
        assert_eq!(fs::read_to_string(self.outside.join("deep/precious")).unwrap(), "gold");
        assert_eq!(fs::read_dir(&self.outside).unwrap().count(), 2);
    }

    fn trash(&self) -> usize {
        fs::read_dir(self.root.path().join("~symphony/trash")).unwrap().count()
    }
}

#[test]
fn rule_9_2_a_symlink_in_a_workspaces_place_is_refused() {
    let yard = yard();
    symlink(&yard.outside, yard.path("MT-1")).unwrap();
    assert!(matches!(yard.open("MT-1"), Err(DiskError::Symlink { .. })));
    assert!(matches!(yard.remove("MT-1"), Err(DiskError::Symlink { .. })));
    yard.outside_is_whole();
}

#[test]
fn rule_9_2_a_symlink_loop_is_an_error_and_not_a_hang() {
    let yard = yard();
    symlink(yard.path("MT-2"), yard.path("MT-1")).unwrap();
    symlink(yard.path("MT-1"), yard.path("MT-2")).unwrap();
    assert!(matches!(yard.open("MT-1"), Err(DiskError::Symlink { .. })));
    let looped = yard.outside.parent().unwrap().join("looped");
    symlink(&looped, &looped).unwrap();
    assert!(matches!(Root::resolve(&looped), Err(DiskError::Io { .. })));
}

#[test]
fn rule_9_2_the_root_itself_may_be_a_symlink_and_is_resolved_once() {
    let yard = yard();
    let real = yard.outside.parent().unwrap().join("real");
    let link = yard.outside.parent().unwrap().join("link");
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let root = Root::open(Root::resolve(&link).unwrap()).unwrap();
    assert_eq!(root.path(), fs::canonicalize(&real).unwrap());
    // Led elsewhere afterwards, nothing follows.
    fs::remove_file(&link).unwrap();
    symlink(&yard.outside, &link).unwrap();
    let mut record = yard.record("MT-1");
    record.path = root.path().join("MT-1");
    root.open_workspace(&record, Made::Half).unwrap();
    assert!(real.join("MT-1").is_dir());
    yard.outside_is_whole();
}

#[test]
fn rule_9_2_a_folder_that_was_replaced_is_not_launched_in() {
    let yard = yard();
    let opened = yard.make("MT-1");
    let key = yard.record("MT-1").key;
    yard.root.check(&key, &opened.folder).unwrap();
    fs::rename(yard.path("MT-1"), yard.path("MT-2")).unwrap();
    assert!(matches!(yard.root.check(&key, &opened.folder), Err(DiskError::Replaced { .. })));
    fs::create_dir(yard.path("MT-1")).unwrap();
    assert!(matches!(yard.root.check(&key, &opened.folder), Err(DiskError::Replaced { .. })));
    fs::remove_dir(yard.path("MT-1")).unwrap();
    symlink(yard.path("MT-2"), yard.path("MT-1")).unwrap();
    assert!(matches!(yard.root.check(&key, &opened.folder), Err(DiskError::Symlink { .. })));
}

#[test]
fn rule_9_2_a_symlink_planted_between_check_and_use_leads_nowhere() {
    let yard = yard();
    let outside = fs::metadata(&yard.outside).unwrap().ino();
    let (place, spare) = (yard.path("MT-1"), yard.path("MT-9"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (_, begun) = (symlink(&yard.outside, &spare), Instant::now());
            // Bounded, so that a test that fails also ends.
            while !stop.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(10) {
                // Folder and link change places in one step, again and again.
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                let here = CWD;
                let _ = rustix::fs::renameat_with(here, &place, here, &spare, exchange);
            }
        });
        let (begun, mut opened_once, mut refused_once) = (Instant::now(), 0, 0);
        let is_enough = |opened: u32, refused: u32| opened > 50 && refused > 50;
        while begun.elapsed() < Duration::from_secs(5) && !is_enough(opened_once, refused_once) {
            match yard.open("MT-1") {
                Ok(opened) => {
                    opened_once += 1;
                    let stat = rustix::fs::fstat(opened.folder.as_ref()).unwrap();
                    assert_ne!(stat.st_ino, outside, "a link was followed");
                    fs::write(format!("/proc/self/fd/{}/mine", opened.folder.as_raw_fd()), "x")
                        .unwrap();
                    let _ = yard.root.write_record(&yard.record("MT-1"), true);
                }
                Err(_) => refused_once += 1,
            }
            if opened_once % 5 == 4 {
                let _ = yard.remove("MT-1");
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(opened_once > 0 && refused_once > 0, "{opened_once} and {refused_once}");
    });
    yard.outside_is_whole();
}

#[test]
fn rule_9_2_a_removal_does_not_follow_links_and_minds_no_mode() {
    let yard = yard();
    yard.make("MT-1");
    let folder = yard.path("MT-1");
    symlink(&yard.outside, folder.join("out")).unwrap();
    symlink(yard.outside.join("precious"), folder.join("file")).unwrap();
    fs::hard_link(yard.outside.join("precious"), folder.join("hard")).unwrap();
    fs::create_dir_all(folder.join("a/b")).unwrap();
    fs::write(folder.join("a/b/c"), "").unwrap();
    for closed in ["a/b", "a"] {
        fs::set_permissions(folder.join(closed), fs::Permissions::from_mode(0o500)).unwrap();
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).unwrap();
    yard.remove("MT-1").unwrap();
    assert!(!folder.exists());
    assert_eq!(yard.trash(), 0);
    yard.outside_is_whole();
    yard.remove("MT-1").unwrap();
}

#[test]
fn rule_9_2_a_tree_of_any_depth_is_removed() {
    let yard = yard();
    let opened = yard.make("MT-1");
    let mut at = rustix::io::dup(opened.folder.as_ref()).unwrap();
    for _ in 0..1000 {
        rustix::fs::mkdirat(&at, "a-rather-long-name-for-a-folder", rustix::fs::Mode::RWXU)
            .unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        let mode = rustix::fs::Mode::empty();
        at = rustix::fs::openat(&at, "a-rather-long-name-for-a-folder", flags, mode).unwrap();
    }
    yard.remove("MT-1").unwrap();
    assert!(!yard.path("MT-1").exists());
    assert_eq!(yard.trash(), 0);
}

#[test]
fn rule_9_2_a_removal_copes_with_files_that_are_being_written() {
    let yard = yard();
    let opened = yard.make("MT-1");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut number, begun) = (0_u64, Instant::now());
            let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
            while !stop.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(5) {
                number += 1;
                // Through a handle, as a process does whose working folder it is.
                let name = format!("file-{}", number % 50);
                let _ = rustix::fs::openat(&opened.folder, name, flags, rustix::fs::Mode::RWXU);
                if number == 20_000 {
                    break;
                }
            }
        });
        yard.remove("MT-1").unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    assert!(!yard.path("MT-1").exists());
    assert_eq!(yard.trash(), 0);
    yard.outside_is_whole();
}

#[test]
fn rule_9_2_what_an_earlier_life_began_to_remove_is_finished_at_start() {
    let yard = yard();
    yard.make("MT-1");
    fs::write(yard.path("MT-1").join("file"), "").unwrap();
    let path = yard.root.path().to_owned();
    fs::rename(yard.path("MT-1"), path.join("~symphony/trash/MT-1~7")).unwrap();
    drop(yard.root);
    Root::open(path.clone()).unwrap();
    assert_eq!(fs::read_dir(path.join("~symphony/trash")).unwrap().count(), 0);
}

#[test]
fn rule_9_3_a_folder_is_created_once_and_then_reused_with_every_file() {
    let yard = yard();
    assert!(yard.make("MT-1").is_new);
    fs::write(yard.path("MT-1").join("file"), "kept").unwrap();
    assert!(!yard.make("MT-1").is_new);
    assert_eq!(fs::read_to_string(yard.path("MT-1").join("file")).unwrap(), "kept");
    // A folder without a record may hold a person's work all the same.
    fs::create_dir(yard.path("MT-2")).unwrap();
    fs::write(yard.path("MT-2").join("file"), "kept").unwrap();
    assert!(!yard.make("MT-2").is_new);
    assert_eq!(fs::read_to_string(yard.path("MT-2").join("file")).unwrap(), "kept");
}

#[test]
fn rule_9_3_a_plain_file_in_the_folders_place_is_moved_aside() {
    let yard = yard();
    fs::write(yard.path("MT-1"), "a note").unwrap();
    assert!(yard.open("MT-1").unwrap().is_new);
    assert!(yard.path("MT-1").is_dir());
    let aside = yard.root.path().join("~symphony/aside");
    let moved = fs::read_dir(aside).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_to_string(moved).unwrap(), "a note");
}

#[test]
fn rule_9_4_a_workspace_whose_after_create_never_ended_is_made_anew() {
    let yard = yard();
    assert!(yard.open("MT-1").unwrap().is_new);
    fs::write(yard.path("MT-1").join("half"), "").unwrap();
    assert!(yard.open("MT-1").unwrap().is_new, "it was not marked as ready");
    assert!(!yard.path("MT-1").join("half").exists());
}

#[test]
fn rule_9_4_a_workspace_without_after_create_is_ready_at_once_with_one_record() {
    let yard = yard();
    let record = yard.record("MT-1");
    let open = |record: &WorkspaceRecord| yard.root.open_workspace(record, Made::Whole).unwrap();
    assert!(!open(&record).is_new);
    fs::write(yard.path("MT-1").join("file"), "kept").unwrap();
    let file = yard.root.path().join("~symphony/records/MT-1.json");
    let written = fs::metadata(&file).unwrap().ino();
    assert!(!open(&record).is_new);
    assert_eq!(fs::metadata(&file).unwrap().ino(), written);
    // What has changed is written, and every file is kept.
    let moved = WorkspaceRecord { scope: Scope::new("another board"), ..record };
    assert!(!open(&moved).is_new);
    assert_eq!(yard.root.list().unwrap().records, [moved]);
    assert_eq!(fs::read_to_string(yard.path("MT-1").join("file")).unwrap(), "kept");
}

#[test]
fn rule_4_2_records_tell_whose_a_folder_is_and_folders_without_one_are_strays() {
    let yard = yard();
    yard.make("MT-1");
    yard.make("MT 2");
    fs::create_dir(yard.path("MT-3")).unwrap();
    fs::create_dir(yard.root.path().join("not a key")).unwrap();
    fs::write(yard.path("MT-4"), "no folder").unwrap();
    let damaged = yard.root.path().join("~symphony/records/MT-3.json");
    fs::write(damaged, "{").unwrap();
    let found = yard.root.list().unwrap();
    assert_eq!(found.records, [yard.record("MT 2"), yard.record("MT-1")]);
    assert_eq!(found.strays, [yard.record("MT-3").key]);
    yard.remove("MT-1").unwrap();
    assert_eq!(yard.root.list().unwrap().records, [yard.record("MT 2")]);
}

#[test]
fn rule_9_6_a_record_that_points_elsewhere_leads_nowhere() {
    let yard = yard();
    let disk = Disk::default();
    disk.add_root(&yard.root);
    let mut record = yard.record("MT-1");
    assert_eq!(disk.place(&record).unwrap().path(), record.path);
    for path in ["/etc", "/", "", "MT-1"] {
        record.path = path.into();
        assert!(matches!(disk.place(&record), Err(DiskError::Foreign { .. })), "{path}");
    }
    record.path = yard.path("MT-2");
    assert!(matches!(disk.place(&record), Err(DiskError::Foreign { .. })));
    // On disk too: a record is about the folder beside it.
    let mut lie = yard.record("MT-1");
    lie.path = yard.outside.clone();
    yard.root.write_record(&lie, true).unwrap();
    assert_eq!(yard.root.list().unwrap().records, [yard.record("MT-1")]);
}

#[test]
fn a_root_is_closed_to_others_and_must_be_ours() {
    let yard = yard();
    let path = yard.outside.parent().unwrap().join("open");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    Root::open(Root::resolve(&path).unwrap()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    assert!(matches!(Root::open("/".into()), Err(DiskError::UnsafeRoot { .. })));
    let file = yard.outside.join("precious");
    assert!(matches!(Root::resolve(&file).and_then(Root::open), Err(DiskError::Io { .. })));
    yard.outside_is_whole();
}

#[test]
fn rule_9_2_a_root_that_was_removed_and_made_anew_is_told_as_such() {
    let yard = yard();
    fs::remove_dir_all(yard.root.path()).unwrap();
    fs::create_dir(yard.root.path()).unwrap();
    assert!(matches!(yard.open("MT-1"), Err(DiskError::RootReplaced { .. })));
    assert_eq!(fs::read_dir(yard.root.path()).unwrap().count(), 0);
}

#[test]
fn rule_9_2_in_a_root_that_was_replaced_nothing_is_launched() {
    let yard = yard();
    let opened = yard.make("MT-1");
    let key = yard.record("MT-1").key;
    // It belongs to another from now on, also by its path: agents are told where they work by that.
    fs::rename(yard.root.path(), yard.outside.join("moved")).unwrap();
    fs::create_dir_all(yard.path("MT-1")).unwrap();
    let is_refused = |error| matches!(error, DiskError::RootReplaced { .. });
    assert!(yard.open("MT-1").is_err_and(is_refused));
    assert!(yard.root.check(&key, &opened.folder).is_err_and(is_refused));
}
