//! Everything that can go wrong, or merely happen, in a world, and how often it did.

use std::fmt;

use crate::rng::Rng;

macro_rules! faults {
    ($($name:ident: $text:literal,)*) => {
        /// One thing that can happen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Fault { $($name,)* }

        impl Fault {
            /// All of them, in the order of the table.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// What people read.
            pub(crate) const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

faults! {
    // The tracker.
    ReadSlow: "a read takes seconds",
    ReadTimedOut: "a read hangs until its timeout",
    ReadFailed: "a read fails",
    ReadRateLimited: "the tracker refuses and says until when",
    BudgetRefused: "the budget refuses a read",
    PartFailed: "one part of a poll fails, the other does not",
    OutOfOrder: "an answer is overtaken by a later read's",
    OldView: "an answer shows what was true when it was asked",
    Duplicate: "a list names an issue twice",
    Unreadable: "a record cannot be read",
    Malformed: "a list holds a malformed record",
    More: "a list stops early",
    NextPoll: "the tracker suggests its next poll",
    IssueLost: "an issue leaves the scope",
    IssueRevived: "an issue comes back into the scope",
    StateChanged: "a person moves an issue",
    StateTerminal: "a person closes an issue",
    LabelChanged: "a label changes",
    BlockerChanged: "a blocker changes",
    PriorityChanged: "a priority changes",
    IdentifierChanged: "an identifier changes",
    KeyCollision: "two identifiers name one folder",
    IdentifierInvalid: "an identifier cannot name a folder",
    Undispatchable: "the adapter's verdict changes",
    Edited: "an issue is edited",
    // Agents.
    RunFailed: "a run fails",
    LaunchFailed: "an agent does not launch",
    AgentHung: "an agent falls silent",
    Flood: "an agent floods",
    ExitLate: "an agent exits late after a stop",
    ExitOverdue: "an agent outlives the bound of its stop",
    EndRacesStop: "a run ends by itself while it is being stopped",
    TurnRacesStop: "a turn ends while its run is being stopped",
    FinishFails: "a run fails while it finishes",
    InputAsked: "an agent asks for input",
    UsageLimit: "an agent reports a usage limit",
    LimitWithTime: "an agent says when its limit ends",
    WindowExhausted: "an agent reports an exhausted window",
    Unauthorized: "an agent is not authorised",
    NoProgress: "a run succeeds without progress",
    ManyTurns: "a run takes several turns",
    MaxTurns: "a run uses up its turns",
    MovedItself: "an agent moves its issue",
    MovedToTerminal: "an agent closes its issue",
    SlowTool: "a tool call outlasts the stall timeout",
    OldTotalFirst: "a resumed thread reports its old total first",
    TotalFell: "a token total falls",
    SideThread: "a run reports two threads",
    ResumeRefused: "an agent does not resume its thread",
    OldRunNews: "news of an old run arrives",
    OldReadAnswer: "an answer to an old read arrives",
    // Workspaces.
    CreateFailed: "a workspace cannot be created",
    AfterCreateFailed: "after_create fails",
    BeforeRunFailed: "before_run fails",
    PromptFailed: "a prompt cannot be rendered",
    SlowHook: "a hook outlasts the stall timeout",
    RemovalSlow: "a removal takes minutes",
    RemovalFailed: "a removal fails",
    RemovalGivenUp: "a removal fails three times",
    FolderDeleted: "a person deletes a folder",
    RecordLost: "a record is lost",
    Stray: "a folder has no record at start",
    // Operators and the file.
    ReloadGood: "a good file is loaded",
    ReloadBad: "a bad file is loaded",
    LimitLowered: "a limit falls below what runs",
    StatesChanged: "the states change",
    LabelsChanged: "the required labels change",
    IntervalsChanged: "the intervals change",
    ActivityChanged: "the activity section comes or goes",
    HostsChanged: "the hosts change",
    StallChanged: "the stall timeout changes",
    BackoffChanged: "the longest backoff changes",
    KindChanged: "the agent's kind changes",
    GenerationChanged: "the tracker is built anew",
    ScopeChanged: "the tracker's scope changes",
    RootChanged: "the workspace root changes",
    Paused: "an operator pauses",
    PolledNow: "an operator polls",
    Stopped: "an operator stops an issue",
    Retried: "an operator retries an issue",
    HoldsCleared: "an operator clears holds",
    ShutDown: "an operator shuts down",
    Activity: "activity is reported",
    CustomJob: "an embedder's job runs",
    CustomJobFailed: "an embedder's job fails",
    QuietHours: "quiet hours begin",
    // The service and its machine.
    Killed: "the service is killed",
    KilledInRemoval: "the service is killed during a removal",
    KilledAgain: "the service is killed within seconds of its start",
    WallJumped: "the wall clock jumps",
    Suspended: "the machine sleeps",
    SpuriousWake: "a wake-up comes early",
    LateWake: "a wake-up comes late",
    // What the tracker delivers by itself.
    Delivered: "a delivery tells of a change",
    DeliveryLost: "a delivery is lost",
    DeliveryLate: "a delivery comes minutes late",
    DeliveryFalse: "a delivery is about nothing that changed",
    DeliveryUnknown: "a delivery is about an issue that nobody knows",
    DeliveryFlood: "more deliveries come at once than a read can tell of",
    // Later than the plans in seeds.txt: a new fault goes to the end, or they would mean others.
    MovedByTool: "an agent moves its issue with a tool, within its turn",
    UnrequestedTurn: "an agent begins a turn by itself",
    MachineExhausted: "the machine has no room for another agent",
    StoreSlow: "the store takes seconds",
    StoreRefused: "the store refuses for a while",
    StoreFull: "the store is full for a while",
    StoreHung: "the store hangs for longer than a turn waits",
    StopOvertook: "a stop overtakes its run's start",
    FinishOvertook: "a finish overtakes a turn that waits for the store",
    WritesLost: "a crash loses what was not acknowledged",
    TurnUnknown: "an agent cannot say what became of its last turn",
    TurnUnnamed: "an agent does not keep the ids of turns",
    ScopeReturned: "a scope comes back with claims that were left in it",
}

/// Which faults a world has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaultSet(pub(crate) u128);

impl FaultSet {
    /// Whether the world has it.
    pub(crate) const fn contains(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u8) != 0
    }

    /// The set without one.
    pub(crate) const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u8))
    }

    /// A random part of all, in which each fault is so many times in a thousand.
    pub(crate) fn random(rng: &mut Rng, per_mille: u64) -> Self {
        let chosen = Fault::ALL.iter().filter(|_| rng.per_mille(per_mille));
        Self(chosen.fold(0, |set, fault| set | 1 << *fault as u8))
    }
}

/// How often each fault happened.
#[derive(Clone, Debug)]
pub(crate) struct Tally(Vec<u64>);

impl Default for Tally {
    fn default() -> Self {
        Self(vec![0; Fault::ALL.len()])
    }
}

impl Tally {
    /// It happened.
    pub(crate) fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// How often it happened.
    pub(crate) fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// Adds another world's.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// What never happened.
    pub(crate) fn missing(&self) -> Vec<Fault> {
        let never = |fault: &&Fault| self.of(**fault) == 0;
        Fault::ALL.iter().filter(never).copied().collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in Fault::ALL {
            writeln!(f, "{:>10}  {}", self.of(*fault), fault.text())?;
        }
        Ok(())
    }
}

/// One subject's luck: its own stream of numbers, and the faults it may have.
#[derive(Clone, Debug)]
pub(crate) struct Luck {
    /// The numbers.
    pub(crate) rng: Rng,
    /// What happened.
    pub(crate) tally: Tally,
    faults: FaultSet,
}

impl Luck {
    /// The luck of one subject of a world.
    pub(crate) fn new(seed: u64, subject: u64, faults: FaultSet) -> Self {
        Self { rng: Rng::stream(seed, subject), tally: Tally::default(), faults }
    }

    /// From now on nothing goes wrong.
    pub(crate) fn calm(&mut self) {
        self.faults = FaultSet(0);
    }

    /// Whether the world may have this fault.
    pub(crate) fn may(&self, fault: Fault) -> bool {
        self.faults.contains(fault)
    }

    /// Strikes whenever the world has the fault, without a draw.
    pub(crate) fn happens(&mut self, fault: Fault) -> bool {
        let happens = self.may(fault);
        if happens {
            self.tally.count(fault);
        }
        happens
    }

    /// Whether the fault strikes now. The number is drawn in any case, so that the stream does
    /// not depend on which faults there are.
    pub(crate) fn strikes(&mut self, fault: Fault, per_mille: u64) -> bool {
        let drawn = self.rng.per_mille(per_mille);
        let strikes = drawn && self.may(fault);
        if strikes {
            self.tally.count(fault);
        }
        strikes
    }
}
