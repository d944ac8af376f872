//! Lives and batches.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use super::samples::{SCOPES, at, claim, full_claim, here, hold, one_of_each, run};
use super::{StoreFixture, StoreTrial, ensure_same, unexpected};
use crate::conformance::{Deviation, RuleResult, abandon, ensure, ensure_eq, join_all};
use crate::store::{Batch, Durability, StoreError, Write};
use crate::time::Wall;
use crate::workspace::Scope;

/// A commit, or reads and how many claims they saw.
type Beside<'a> = Pin<Box<dyn Future<Output = Result<Vec<usize>, StoreError>> + 'a>>;

/// How many rows a batch has whose parts are looked for.
const MANY: usize = 40;

/// How often a reader looks while a commit takes its time.
const MAX_READS: usize = 200;

/// Run ids are never used again, whatever ended the last life and whatever its scope was.
pub fn rule_16_2_each_life_has_a_greater_number<F: StoreFixture>(fixture: &F) -> RuleResult {
    let mut last = 0;
    for _ in 0..3 {
        let store = fixture.open();
        for scope in SCOPES.map(Scope::from) {
            let life = fixture.block_on(store.begin(&scope, Wall::from_unix_millis(0)));
            let boot = life.map_err(unexpected)?.boot;
            ensure(boot > last, || format!("the life after {last} is called {boot}"))?;
            last = boot;
        }
    }
    Ok(())
}

/// All that was kept, at the beginning of a life and within it.
pub fn rule_16_2_the_next_life_finds_what_the_last_one_left<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    for durability in [Durability::Process, Durability::Machine] {
        let trial = StoreTrial::begin(fixture)?;
        let text = format!("{durability:?}");
        let batch = Batch { durability, writes: one_of_each(&here(), &text) };
        fixture.block_on(trial.store.commit(&batch)).map_err(unexpected)?;
        let left = trial.rows()?;
        ensure(!left.claims.is_empty(), || "a committed claim does not show".to_owned())?;
        let next = trial.next_life()?;
        ensure_same("rows at the beginning of the next life", &next.found, &left)?;
        ensure_same("rows within the next life", &next.rows()?, &left)?;
    }
    Ok(())
}

/// A batch whose last write cannot be kept keeps none, and can be tried again.
pub fn rule_16_2_a_batch_that_fails_changes_nothing<F: StoreFixture>(fixture: &F) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    trial.commit(&[claims(1), vec![Write::Hold(hold("held"))]].concat())?;
    let before = trial.rows()?;
    fixture.refuse_runs(true)?;
    let gone = Write::HoldGone { agent: "held".to_owned() };
    let open = Write::Run(Box::new(run(1, 1, at(0))));
    let batch = [claims(MANY), vec![gone, open]].concat();
    ensure(trial.try_commit(&batch).is_err(), || "a batch that cannot be kept is kept".to_owned())?;
    ensure_same("rows after a batch that failed", &trial.rows()?, &before)?;
    fixture.refuse_runs(false)?;
    ensure_same("rows after that", &trial.rows()?, &before)?;
    trial.commit(&batch)?;
    let rows = trial.rows()?;
    ensure_eq(
        "claims and holds after a second try",
        (rows.claims.len(), rows.holds.len()),
        (MANY, 0),
    )
}

/// The next life begins, with all of the batch or with nothing of it.
pub fn rule_16_2_a_batch_that_is_cut_off_is_kept_whole_or_not_at_all<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    trial.commit(&claims(1))?;
    let boot = trial.boot;
    drop(trial);
    fixture.cut_off(&Batch { durability: Durability::Process, writes: claims(MANY) })?;
    let next = StoreTrial::begin(fixture)?;
    ensure(next.boot > boot, || format!("the life after {boot} is called {}", next.boot))?;
    whole("claims after a commit that was cut off", next.found.claims.len(), 1)?;
    next.commit(&claims(MANY))?;
    ensure_eq("claims after the next commit", next.rows()?.claims.len(), MANY)
}

/// Reads beside a commit show the rows before it or after it.
pub fn rule_16_2_a_reader_never_sees_a_part_of_a_batch<F: StoreFixture>(fixture: &F) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    let (scope, is_done) = (here(), Cell::new(false));
    let read = || -> Beside<'_> {
        Box::pin(async {
            let mut seen = Vec::new();
            while !is_done.get() && seen.len() < MAX_READS {
                seen.push(trial.store.rows(&scope).await?.claims.len());
                step_aside().await;
            }
            Ok(seen)
        })
    };
    for round in 0..10 {
        let batch = batch_of(if round % 2 == 0 { claims(MANY) } else { gone(MANY) });
        is_done.set(false);
        let commit: Beside<'_> = Box::pin(async {
            let result = trial.store.commit(&batch).await;
            is_done.set(true);
            result.map(|()| Vec::new())
        });
        for seen in fixture.block_on(join_all(vec![read(), commit, read()])) {
            for found in seen.map_err(unexpected)? {
                whole("claims that a reader saw beside a commit", found, 0)?;
            }
        }
    }
    Ok(())
}

/// A caller that gives up does not know whether its batch was kept; what it commits next comes after.
pub fn rule_16_2_a_dropped_commit_comes_whole_and_before_the_next<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    for polls in [0, 1, 2, 20] {
        let trial = StoreTrial::begin(fixture)?;
        trial.commit(&gone(MANY))?;
        let batch = batch_of(claims(MANY));
        let dropped = fixture.block_on(abandon(trial.store.commit(&batch), polls));
        if let Some(error) = dropped.and_then(Result::err) {
            return Err(unexpected(error));
        }
        whole("claims after a dropped commit", trial.rows()?.claims.len(), 0)?;
        trial.commit(&gone(MANY))?;
        for _ in 0..10 {
            let left = trial.rows()?.claims.len();
            ensure_eq("claims after the commit that followed a dropped one", left, 0)?;
        }
    }
    Ok(())
}

/// A batch whose commit did not return comes again.
pub fn rule_16_2_a_repeated_batch_changes_nothing<F: StoreFixture>(fixture: &F) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    let mut batch = one_of_each(&here(), "again");
    batch.extend(gone(1));
    batch.push(Write::HoldGone { agent: "none".to_owned() });
    trial.commit(&batch)?;
    let (rows, runs) = (trial.rows()?, trial.runs(&Default::default())?);
    trial.commit(&batch)?;
    trial.commit(&batch)?;
    ensure_same("rows after a repeated batch", &trial.rows()?, &rows)?;
    ensure_same("runs after a repeated batch", &trial.runs(&Default::default())?, &runs)?;
    ensure_same("rows of the next life", &trial.next_life()?.found, &rows)
}

/// Within a batch as in two of them.
pub fn rule_16_2_of_two_writes_of_a_row_the_later_one_counts<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    let attempt = |attempt| {
        let mut row = full_claim(&here(), "id-1", "text");
        row.attempt = Some(attempt);
        Write::Claim(Box::new(row))
    };
    let turns = |turns| {
        let mut row = run(1, 1, at(0));
        (row.turns, row.ended) = (turns, None);
        Write::Run(Box::new(row))
    };
    let seen = || -> Result<_, Deviation> {
        let rows = trial.rows()?;
        let attempts: Vec<_> = rows.claims.iter().map(|claim| claim.attempt).collect();
        Ok((attempts, rows.open_runs.iter().map(|run| run.turns).collect::<Vec<_>>()))
    };
    trial.commit(&[attempt(3), turns(3), attempt(1), turns(2), attempt(2), turns(1)])?;
    ensure_eq("the attempts and turns of one batch", seen()?, (vec![Some(2)], vec![1]))?;
    trial.commit(&[attempt(1), turns(7)])?;
    ensure_eq("the attempts and turns of the next", seen()?, (vec![Some(1)], vec![7]))
}

/// What is gone is gone until it is written; also within a batch, and also what never was.
pub fn rule_16_2_a_row_that_is_gone_can_be_written_again<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    let held = || Write::Hold(hold("held"));
    let released = || Write::HoldGone { agent: "held".to_owned() };
    let counts = || trial.rows().map(|rows| (rows.claims.len(), rows.holds.len()));
    trial.commit(&[gone(1), vec![released()]].concat())?;
    ensure_eq("claims and holds, of which none was written", counts()?, (0, 0))?;
    trial.commit(&[claims(1), vec![held()], gone(1), vec![released()]].concat())?;
    ensure_eq("claims and holds, written and gone in one batch", counts()?, (0, 0))?;
    trial.commit(&[gone(1), vec![released()], claims(1), vec![held()]].concat())?;
    ensure_eq("claims and holds, gone and written in one batch", counts()?, (1, 1))?;
    trial.commit(&[gone(1), vec![released()]].concat())?;
    ensure_eq("claims and holds that are gone", counts()?, (0, 0))?;
    let next = trial.next_life()?;
    let found = (next.found.claims.len(), next.found.holds.len());
    ensure_eq("claims and holds that are gone, in the next life", found, (0, 0))
}

fn batch_of(writes: Vec<Write>) -> Batch {
    Batch { durability: Durability::Process, writes }
}

fn claims(count: usize) -> Vec<Write> {
    let rows = (0..count).map(|number| claim(&here(), &format!("id-{number}")));
    rows.map(|row| Write::Claim(Box::new(row))).collect()
}

fn gone(count: usize) -> Vec<Write> {
    let ids = (0..count).map(|number| format!("id-{number}"));
    ids.map(|id| Write::ClaimGone { scope: here(), issue: id.into() }).collect()
}

/// Either what was there before, or all of a batch of [`MANY`].
fn whole(what: &str, found: usize, before: usize) -> RuleResult {
    ensure(found == before || found == MANY, || format!("{what}: {found} of {MANY}"))
}

/// Lets the other futures go on.
async fn step_aside() {
    let mut is_second = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_second, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
