//! The loop in paused time, with a service and a screen that only count.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::app::Owner;
use crate::draw::Palette;
use crate::lines::LogTail;
use crate::source::{Link, SourceView};

/// A service that changes all the time, if it is told to.
#[derive(Debug, Default)]
struct Fake {
    reads: AtomicUsize,
    commands: Mutex<Vec<SourceCommand>>,
    news: Notify,
    restless: bool,
}

impl Fake {
    fn commands(&self) -> MutexGuard<'_, Vec<SourceCommand>> {
        self.commands.lock().unwrap()
    }
}

#[async_trait]
impl StatusSource for Fake {
    fn latest(&self) -> SourceView {
        self.reads.fetch_add(1, Ordering::SeqCst);
        SourceView { status: None, link: Link::Live, clock: Wall::default() }
    }

    async fn changed(&self) {
        if !self.restless {
            self.news.notified().await;
        }
    }

    async fn issue(&self, _: &str) -> Result<IssueStatus, SourceRefusal> {
        std::future::pending().await
    }

    async fn command(&self, command: &SourceCommand) -> Result<(), SourceRefusal> {
        self.commands().push(command.clone());
        Ok(())
    }
}

/// A screen that counts, and is gone after so many pictures.
struct Counted {
    drawn: usize,
    most: usize,
    forgotten: usize,
}

impl Counted {
    const fn new(most: usize) -> Self {
        Self { drawn: 0, most, forgotten: 0 }
    }
}

impl TerminalScreen for Counted {
    fn draw(&mut self, _: &mut App, _: &[String], _: Palette) -> io::Result<()> {
        self.drawn += 1;
        if self.drawn > self.most { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    fn forget(&mut self) -> io::Result<()> {
        self.forgotten += 1;
        Ok(())
    }
}

fn options() -> Options {
    Options {
        address: None,
        owner: Owner::Service,
        look: Palette { colours: false },
        refresh: Duration::from_millis(1_000),
        render_interval: Duration::from_millis(100),
        lines: LogTail::default(),
        interrupts: None,
    }
}

/// Presses keys a while apart, and then waits for the rest of this time.
async fn press(
    keys: &[Key],
    screen: &mut Counted,
    source: Fake,
    options: Options,
) -> (DashboardEnd, Arc<Fake>) {
    let source = Arc::new(source);
    let (typist, typed) = mpsc::channel(10);
    let (stop, stopped) = oneshot::channel();
    let typing = async {
        for key in keys {
            tokio::time::sleep(Duration::from_millis(10)).await;
            typist.send(*key).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(9_950)).await;
        drop(stop);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        left = run(source.clone(), screen, typed, &options, stopped) => (left, source),
        () = typing => (DashboardEnd::Stopped, source.clone()),
    }
}

#[tokio::test(start_paused = true)]
async fn rule_13_4_however_often_it_changes_it_is_read_and_drawn_at_its_own_pace() {
    let mut screen = Counted::new(usize::MAX);
    let restless = Fake { restless: true, ..Fake::default() };
    let (left, source) = press(&[], &mut screen, restless, options()).await;
    assert_eq!(left, DashboardEnd::Stopped);
    assert_eq!((source.reads.load(Ordering::SeqCst), screen.drawn), (10, 10));
    let mut screen = Counted::new(usize::MAX);
    let (_, source) = press(&[], &mut screen, Fake::default(), options()).await;
    assert_eq!(source.reads.load(Ordering::SeqCst), 1, "nothing has changed");
    assert_eq!(screen.drawn, 10, "but time goes on");
}

#[tokio::test(start_paused = true)]
async fn rule_13_4_many_keys_are_one_picture() {
    let mut screen = Counted::new(usize::MAX);
    let keys = [Key::Char('j'); 50];
    press(&keys, &mut screen, Fake::default(), options()).await;
    assert!(screen.drawn < 20, "{} pictures for 50 keys in half a second", screen.drawn);
}

#[tokio::test(start_paused = true)]
async fn rule_4_7_keys_reach_the_service() {
    let mut screen = Counted::new(usize::MAX);
    let keys = [Key::Char('p'), Key::Char('r'), Key::Redraw, Key::Char('q')];
    let (left, source) = press(&keys, &mut screen, Fake::default(), options()).await;
    assert_eq!(left, DashboardEnd::Quit);
    assert_eq!(*source.commands(), [SourceCommand::Pause, SourceCommand::PollNow]);
    assert_eq!(screen.forgotten, 1);
}

#[tokio::test(start_paused = true)]
async fn rule_14_2_ctrl_c_goes_to_the_service_where_it_is_here_and_leaves_where_it_is_not() {
    let (interrupts, mut heard) = unbounded_channel();
    let mut screen = Counted::new(usize::MAX);
    let with = Options { interrupts: Some(interrupts), ..options() };
    let keys = [Key::Interrupt, Key::Interrupt];
    assert_eq!(press(&keys, &mut screen, Fake::default(), with).await.0, DashboardEnd::Stopped);
    assert_eq!(heard.recv().await, Some(()));
    assert_eq!(heard.recv().await, Some(()));
    assert_eq!(press(&keys, &mut screen, Fake::default(), options()).await.0, DashboardEnd::Quit);
}

#[tokio::test(start_paused = true)]
async fn rule_13_4_a_terminal_that_is_gone_is_left() {
    let mut screen = Counted::new(2);
    let (left, _) = press(&[], &mut screen, Fake::default(), options()).await;
    assert_eq!((left, screen.drawn), (DashboardEnd::TerminalGone, 3));
    let (typist, typed) = mpsc::channel(1);
    drop(typist); // there is no more to read
    let (_stop, stopped) = oneshot::channel();
    let mut screen = Counted::new(usize::MAX);
    let source = Arc::new(Fake::default());
    assert_eq!(
        run(source, &mut screen, typed, &options(), stopped).await,
        DashboardEnd::TerminalGone
    );
}
