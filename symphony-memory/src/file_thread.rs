//! The one thread that reads and writes a board file.
//!
//! On the runtime's threads for blocking work a large board would be read now here and now there,
//! and the allocator keeps for each thread what the largest piece of work on it took.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};

use tokio::sync::oneshot;

use crate::board_file::BoardFile;

type FileJob = Box<dyn FnOnce(&mut BoardFile) + Send>;

/// A board file on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FileThread(Sender<FileJob>);

impl FileThread {
    pub(crate) fn start(mut file: BoardFile) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel::<FileJob>();
        let work = move || {
            for job in waiting {
                // The caller learns of a panic by the loss of the answer.
                let _ = catch_unwind(AssertUnwindSafe(|| job(&mut file)));
            }
        };
        std::thread::Builder::new().name("board file".to_owned()).spawn(work)?;
        Ok(Self(jobs))
    }

    /// Works on the file; `None` if that was broken off. What has begun goes on when this is
    /// dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut BoardFile) -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = oneshot::channel();
        let job = Box::new(move |file: &mut BoardFile| drop(done.send(work(file))));
        self.0.send(job).ok()?;
        result.await.ok()
    }
}
