use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;

const LONG: u64 = 1 << 20;

fn run(number: u64) -> RunId {
    RunId { boot: 7, number }
}

fn secrets() -> Arc<Redactor> {
    Arc::new(Redactor::new(["a-long-secret".to_owned()]))
}

/// Says lines in a run, to its end.
fn say(kept: &Transcripts, number: u64, max_bytes: u64, lines: &[(Direction, &[u8])]) {
    let transcript = kept.begin(run(number), &"MT-1".into(), max_bytes, &secrets());
    for (direction, line) in lines {
        transcript.line(*direction, line);
    }
}

async fn all_written(kept: &Transcripts) {
    let (written, done) = oneshot::channel();
    kept.0.as_ref().unwrap().keeper.send(KeeperMessage::Flush(written)).unwrap();
    done.await.unwrap();
}

/// The lines of a file, without their times.
fn lines_of(path: impl AsRef<Path>) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let at = line.as_object_mut().unwrap().remove("at").unwrap();
        assert!(at.as_str().unwrap().ends_with('Z'), "{at}");
        line
    });
    lines.collect()
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn rule_13_1_what_is_said_in_a_run_is_kept_in_its_file_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("logs/runs");
    let kept = Transcripts::start(root.clone());
    let long = "x".repeat(MAX_LINE_BYTES - 5) + "a-long-secret" + &"y".repeat(1000);
    let lines: [(Direction, &[u8]); 5] = [
        (Direction::Out, br#"{"id":1, "method":"initialize"}"#),
        (Direction::In, b"{\"text\":\"a\\u002dlong-secret \xe2\x80\xae\"}"),
        (Direction::In, b"{half\xff"),
        (Direction::Stderr, b"oops: \x1b[31ma-long-secret"),
        (Direction::In, long.as_bytes()),
    ];
    say(&kept, 1, LONG, &lines);
    all_written(&kept).await;
    let path = root.join("MT-1/7.1.jsonl");
    let cut = "x".repeat(MAX_LINE_BYTES - 5) + "[reda";
    assert_eq!(
        lines_of(&path),
        [
            json!({"dir": "out", "line": {"id": 1, "method": "initialize"}}),
            json!({"dir": "in", "line": {"text": "[redacted] \u{202e}"}}),
            json!({"dir": "in", "text": "{half\u{fffd}"}),
            json!({"dir": "stderr", "text": "oops: \u{1b}[31m[redacted]"}),
            json!({"dir": "in", "text": cut, "bytes": long.len()}),
        ]
    );
    let raw = fs::read_to_string(&path).unwrap();
    assert!(!raw.contains(['\u{1b}', '\u{202e}']), "nothing steers a screen");
    assert_eq!(mode(&path), 0o600);
    assert_eq!((mode(&root), mode(root.join("MT-1"))), (0o700, 0o700));
}

#[tokio::test]
async fn rule_13_1_of_a_long_run_the_last_is_kept() {
    const MOST: u64 = 4000;
    let folder = tempfile::tempdir().unwrap();
    let kept = Transcripts::start(folder.path().to_owned());
    let transcript = kept.begin(run(1), &"MT-1".into(), MOST, &secrets());
    for number in 0..500 {
        transcript.line(Direction::In, format!("{{\"number\":{number}}}").as_bytes());
        let fits_nowhere = "x".repeat(3000);
        if number == 499 {
            transcript.line(Direction::In, fits_nowhere.as_bytes());
        }
    }
    drop(transcript);
    all_written(&kept).await;
    let (now, before) = ("MT-1/7.1.jsonl", "MT-1/7.1.earlier.jsonl");
    let length = |name| fs::metadata(folder.path().join(name)).unwrap().len();
    assert!(length(now) + length(before) <= MOST && length(before) > MOST / 4);
    let [mut now, before] = [now, before].map(|name| lines_of(folder.path().join(name)));
    let told = json!({"note": "what was said before is in 7.1.earlier.jsonl, or gone"});
    assert_eq!(now.remove(0), told);
    assert_eq!(now.pop().unwrap(), json!({"note": "1 lines were lost here"}));
    let both = before.into_iter().skip(1).chain(now);
    let numbers: Vec<u64> = both.map(|line| line["line"]["number"].as_u64().unwrap()).collect();
    let first = numbers[0];
    assert_eq!(numbers, (first..500).collect::<Vec<_>>(), "without a gap");
}

#[tokio::test]
async fn rule_13_1_the_files_of_the_last_runs_are_kept_and_named_newest_first() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Transcripts::start(folder.path().to_owned());
    for number in 1..=230 {
        say(&kept, number, LONG, &[(Direction::In, b"hello")]);
    }
    all_written(&kept).await;
    let names = |kept: &Transcripts| -> Vec<(String, PathBuf)> {
        let logs = kept.logs_of(&"MT-1".into()).codex_session_logs;
        logs.into_iter().map(|log| (log.label, log.path.into())).collect()
    };
    let path = |number: u64| folder.path().join(format!("MT-1/7.{number}.jsonl"));
    let told = names(&kept);
    assert_eq!(told.len(), 201, "and the one that is begun");
    assert_eq!(told[0], ("latest".to_owned(), path(230)));
    assert_eq!(told[1], ("7.229".to_owned(), path(229)));
    assert!(told.iter().all(|(_, path)| path.exists()));
    assert_eq!(fs::read_dir(folder.path().join("MT-1")).unwrap().count(), 201);
    // The next life knows them too.
    let next = Transcripts::start(folder.path().to_owned());
    all_written(&next).await;
    assert_eq!(names(&next), told);
    assert_eq!(next.logs_of(&"MT-2".into()), TranscriptFiles::default());
}

#[tokio::test]
async fn rule_13_1_all_runs_together_have_a_bound_too() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Transcripts::start(folder.path().to_owned());
    let lines = [(Direction::In, &[b'x'; 400][..]); 2];
    for number in 1..=60 {
        let transcript = kept.begin(run(number), &format!("MT-{number}").into(), 1000, &secrets());
        lines.iter().for_each(|(direction, line)| transcript.line(*direction, line));
    }
    all_written(&kept).await;
    let issues: Vec<PathBuf> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files = issues.iter().flat_map(|issue| fs::read_dir(issue).unwrap());
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 22 * 1000, "{bytes}");
    assert!(issues.len() < 50, "a folder without files goes");
    assert!(folder.path().join("MT-60/7.60.jsonl").exists());
}

#[tokio::test]
async fn rule_13_1_a_blocked_keeper_blocks_no_caller_and_counts_dropped_lines() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Transcripts::start(folder.path().to_owned());
    // It begins its next work only when it can look at what there is.
    let transcript = {
        let index = Arc::clone(&kept.0.as_ref().unwrap().index);
        let _still = lock(&index);
        let transcript = kept.begin(run(1), &"MT-1".into(), 4 << 20, &secrets());
        (0..100).for_each(|_| transcript.line(Direction::In, &[b'x'; 60_000]));
        transcript
    };
    all_written(&kept).await;
    transcript.line(Direction::In, b"again");
    drop(transcript);
    all_written(&kept).await;
    let lines = lines_of(folder.path().join("MT-1/7.1.jsonl"));
    assert_eq!(lines.last(), Some(&json!({"dir": "in", "text": "again"})));
    let note = lines[lines.len() - 2]["note"].as_str().unwrap();
    let lost: usize = note.strip_suffix(" lines were lost here").unwrap().parse().unwrap();
    assert_eq!(lost + lines.len() - 2, 100, "each line is there or counted");
}

#[tokio::test]
async fn rule_13_1_a_folder_that_cannot_be_written_blocks_no_caller() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("runs"), "in its place").unwrap();
    let kept = Transcripts::start(folder.path().join("runs"));
    say(&kept, 1, LONG, &[(Direction::In, b"hello")]);
    all_written(&kept).await;
    assert_eq!(kept.logs_of(&"MT-1".into()), TranscriptFiles::default());
    fs::remove_file(folder.path().join("runs")).unwrap();
    let transcript = kept.begin(run(2), &"MT-1".into(), 1000, &secrets());
    transcript.line(Direction::In, &[b'x'; 300]);
    all_written(&kept).await;
    fs::remove_dir_all(folder.path().join("runs")).unwrap();
    (0..9).for_each(|_| transcript.line(Direction::In, &[b'x'; 300]));
    drop(transcript);
    all_written(&kept).await;
    say(&kept, 3, LONG, &[(Direction::In, b"hello")]);
    all_written(&kept).await;
    assert_eq!(lines_of(folder.path().join("runs/MT-1/7.3.jsonl")).len(), 1);
}

#[tokio::test]
async fn rule_13_1_what_cannot_be_kept_takes_no_room_from_what_can() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("MT-1"), "in its place").unwrap();
    let kept = Transcripts::start(folder.path().to_owned());
    for number in 0..40 {
        say(&kept, number, LONG, &[(Direction::In, &[b'x'; 60_000][..]); 20]);
        all_written(&kept).await;
    }
    assert_eq!(kept.0.as_ref().unwrap().waiting.load(Ordering::Relaxed), 0);
    let transcript = kept.begin(run(41), &"MT-2".into(), LONG, &secrets());
    transcript.line(Direction::In, b"hello");
    drop(transcript);
    all_written(&kept).await;
    let lines = lines_of(folder.path().join("MT-2/7.41.jsonl"));
    assert_eq!(lines, [json!({"dir": "in", "text": "hello"})]);
}

#[tokio::test]
async fn rule_13_1_nothing_is_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir_all(folder.path().join("runs/MT-1")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.path().join("runs/MT-1/7.1.jsonl")).unwrap();
    let kept = Transcripts::start(folder.path().join("runs"));
    say(&kept, 1, LONG, &[(Direction::In, b"hello")]);
    all_written(&kept).await;
    assert!(!elsewhere.exists());
}

#[tokio::test]
async fn rule_13_1_a_file_that_was_removed_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Transcripts::start(folder.path().to_owned());
    let path = folder.path().join("MT-1/7.1.jsonl");
    let transcript = kept.begin(run(1), &"MT-1".into(), 4096, &secrets());
    transcript.line(Direction::Out, b"before");
    all_written(&kept).await;
    fs::remove_file(&path).unwrap();
    for _ in 0..100 {
        transcript.line(Direction::Out, b"after");
    }
    all_written(&kept).await;
    assert_eq!(lines_of(&path).last(), Some(&json!({"dir": "out", "text": "after"})));
}
