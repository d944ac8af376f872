//! What happened in a world, in three grains: nothing, a hash, or every line.

use std::collections::VecDeque;
use std::fmt::Write as _;

use symphony_core::orchestrator::{Configuration, Event, Restored, Step};
use symphony_core::time::Now;

use crate::brief;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// Nothing: the fast way.
    None,
    /// One number that two equal runs share.
    Hash,
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
    pub(crate) lines: VecDeque<String>,
    pub(crate) lives: Vec<Life>,
}

impl Trace {
    pub(crate) fn new(grain: Grain) -> Self {
        Self { grain, hash: 0xcbf2_9ce4_8422_2325, lines: VecDeque::new(), lives: Vec::new() }
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

    /// One step.
    pub(crate) fn step(&mut self, now: Now, event: Event, step: &Step) {
        let full = self.grain == Grain::Hash;
        self.write(now, step, || if full { format!("{event:?}") } else { brief::event(&event) });
        if self.grain == Grain::Record
            && let Some(life) = self.lives.last_mut()
        {
            life.events.push((now, event, step.clone()));
        }
    }

    /// Something that the orchestrator does not see.
    pub(crate) fn note(&mut self, now: Now, what: &str) {
        self.write(now, &Step::default(), || format!("({what})"));
    }

    fn write(&mut self, now: Now, step: &Step, what: impl FnOnce() -> String) {
        let time = now.mono.as_millis();
        let (mut line, indent) = (String::new(), "\n             ");
        // Writing into a String cannot fail.
        let _ = match self.grain {
            Grain::None | Grain::Record => return,
            Grain::Hash => write!(line, "{time} {} {step:?}", what()),
            Grain::Last(_) | Grain::Print => write!(line, "{time:>12} {}", what()),
        };
        match self.grain {
            Grain::Hash => {
                for byte in line.as_bytes() {
                    self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
                }
                return;
            }
            _ => {
                for effect in &step.effects {
                    let _ = write!(line, "{indent}-> {}", brief::effect(effect));
                }
                for notice in &step.notices {
                    let _ = write!(line, "{indent} . {}", brief::notice(notice));
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
