//! What happened in a world, from nothing through a hash to the whole text.

use std::collections::VecDeque;
use std::fmt::Write as _;

use symphony_core::orchestrator::{Configuration, Event, Restored, Step};
use symphony_core::time::{Mono, Now};
use symphony_core::{Orchestrator, snapshot::Snapshot};

use crate::brief;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// Nothing: the fast way.
    None,
    /// One number that two equal runs share.
    Hash,
    /// The text of which that number is the hash.
    Text,
    /// The last lines, for a failure's report.
    Last(usize),
    /// Everything, printed as it happens.
    Print,
    /// The events themselves, to be replayed.
    Record,
}

/// One life of the service, as it can be replayed.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) config: Configuration,
    pub(crate) restored: Restored,
    pub(crate) now: Now,
    pub(crate) first: Step,
    pub(crate) events: Vec<(Now, Event, Step)>,
}

/// A world's trace.
#[derive(Debug)]
pub(crate) struct Trace {
    grain: Grain,
    hash: u64,
    pub(crate) text: String,
    pub(crate) lines: VecDeque<String>,
    pub(crate) lives: Vec<Life>,
}

impl Trace {
    pub(crate) fn new(grain: Grain) -> Self {
        Self {
            grain,
            hash: 0xcbf2_9ce4_8422_2325,
            text: String::new(),
            lines: VecDeque::new(),
            lives: Vec::new(),
        }
    }

    /// The number that two equal runs share.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether steps must be handed in with their event.
    pub(crate) fn wants_events(&self) -> bool {
        self.grain != Grain::None
    }

    /// A life begins.
    pub(crate) fn life(
        &mut self,
        config: &Configuration,
        restored: &Restored,
        now: Now,
        first: &Step,
    ) {
        if self.grain == Grain::Record {
            let (config, restored, first) = (config.clone(), restored.clone(), first.clone());
            self.lives.push(Life { config, restored, now, first, events: Vec::new() });
        }
        self.write(now, first, || format!("a life begins: {restored:?} {config:?}"));
    }

    /// One step, and the wake-up that is asked for after it.
    pub(crate) fn step(&mut self, now: Now, event: Event, step: &Step, wakeup: Option<Mono>) {
        let whole = self.is_whole();
        self.write(now, step, || {
            if whole { format!("{event:?} until {wakeup:?}") } else { brief::event(&event) }
        });
        if self.grain == Grain::Record
            && let Some(life) = self.lives.last_mut()
        {
            life.events.push((now, event, step.clone()));
        }
    }

    /// What people are shown.
    pub(crate) fn shown(&mut self, orchestrator: &Orchestrator, snapshot: &Snapshot) {
        if self.is_whole() {
            let explanation = orchestrator.explain();
            self.keep(&format!("{snapshot:?}\n{explanation:?}\n"));
        }
    }

    /// Something that the orchestrator does not see.
    pub(crate) fn note(&mut self, now: Now, what: &str) {
        self.write(now, &Step::default(), || format!("({what})"));
    }

    /// Whether everything counts, not only what people read.
    const fn is_whole(&self) -> bool {
        matches!(self.grain, Grain::Hash | Grain::Text)
    }

    fn keep(&mut self, text: &str) {
        if self.grain == Grain::Text {
            self.text.push_str(text);
        }
        for byte in text.as_bytes() {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write(&mut self, now: Now, step: &Step, what: impl FnOnce() -> String) {
        let time = now.mono.as_millis();
        let mut line = String::new();
        // Writing into a String cannot fail.
        match self.grain {
            Grain::None | Grain::Record => return,
            Grain::Hash | Grain::Text => {
                let _ = writeln!(line, "{time} {}", what());
                for effect in &step.effects {
                    let _ = writeln!(line, "-> {}", brief::whole_effect(effect));
                }
                for notice in &step.notices {
                    let _ = writeln!(line, " . {notice:?}");
                }
                for write in &step.writes {
                    let _ = writeln!(line, " = {write:?}");
                }
                return self.keep(&line);
            }
            Grain::Last(_) | Grain::Print => {
                let indent = "\n             ";
                let _ = write!(line, "{time:>12} {}", what());
                for effect in &step.effects {
                    let _ = write!(line, "{indent}-> {}", brief::effect(effect));
                }
                for notice in &step.notices {
                    let _ = write!(line, "{indent} . {}", brief::notice(notice));
                }
                for write in &step.writes {
                    let _ = write!(line, "{indent} = {}", brief::write(write));
                }
            }
        }
        if let Grain::Last(count) = self.grain {
            if self.lines.len() >= count {
                self.lines.pop_front();
            }
            self.lines.push_back(line);
        } else {
            println!("{line}");
        }
    }
}
