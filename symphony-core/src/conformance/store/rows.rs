//! Rows, one by one and many.

use serde_json::json;

use super::samples::{
    HOSTILE, SCOPES, at, claim, full_claim, full_run, here, hold, one_of_each, polls, run, there,
    totals,
};
use super::{StoreFixture, StoreTrial, ensure_same, sorted};
use crate::conformance::{RuleResult, ensure, ensure_eq};
use crate::run::RunId;
use crate::store::{DueTime, HeldAgentRow, OperatorRow, RowKey, Rows, RunQuery, RunRow, Write};
use crate::workspace::Scope;

/// Text of which twenty times as much is long for a row, and not for a store.
const LONG_TEXT_BYTES: usize = 1 << 16;

/// No rows, no runs, no spend.
pub fn rule_16_2_a_new_store_is_empty<F: StoreFixture>(fixture: &F) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    ensure_same("rows of a new store", &trial.found, &Rows::default())?;
    ensure_same("rows of another scope", &trial.rows_of(&there())?, &Rows::default())?;
    ensure_same("runs of a new store", &trial.runs(&RunQuery::default())?, &Vec::new())
}

/// Every field, every letter, every number that its type can hold.
pub fn rule_16_2_every_row_comes_back_as_it_was_written<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let mut trial = StoreTrial::begin(fixture)?;
    let long = "é".repeat(LONG_TEXT_BYTES / 2);
    let texts = [("plain", &SCOPES[..]), ("", &SCOPES), (HOSTILE, &SCOPES), (&long, &SCOPES[..1])];
    for (text, scopes) in texts {
        for name in scopes {
            let scope = Scope::from(*name);
            let writes = one_of_each(&scope, text);
            trial.commit(&writes)?;
            let expected = in_rows(&writes);
            ensure_same("rows", &trial.rows_of(&scope)?, &expected)?;
            trial.commit(&[
                Write::ClaimGone { scope: scope.clone(), issue: text.into() },
                Write::HoldGone { agent: text.to_owned() },
            ])?;
        }
        trial = trial.next_life()?;
    }
    for (boot, number) in [(u64::MAX, u64::MAX), (0, 0), (u64::MAX, 0), (1 << 63, (1 << 63) - 1)] {
        let row = full_run(&Scope::from(HOSTILE), RunId { boot, number }, HOSTILE);
        trial.commit(&[Write::Run(Box::new(row.clone()))])?;
        let found = trial.runs(&RunQuery::default())?.into_iter().find(|run| run.run == row.run);
        ensure_same("a run", &found, &Some(row))?;
    }
    Ok(())
}

/// What is absent now does not come back.
pub fn rule_16_2_an_updated_row_keeps_nothing_of_the_older_one<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    let scope = here();
    let id = RunId { boot: 1, number: 1 };
    let older = [
        Write::Claim(Box::new(full_claim(&scope, "id-1", "text"))),
        Write::Run(Box::new(RunRow { ended: None, ..full_run(&scope, id, "text") })),
        Write::Polls(polls(&scope, "text")),
        Write::Totals(totals()),
        Write::Operator(OperatorRow { paused: true, ..OperatorRow::default() }),
    ];
    trial.commit(&older)?;
    let mut bare_polls = polls(&scope, "");
    bare_polls.last_runs.clear();
    bare_polls.spent = Default::default();
    let newer = [
        Write::Claim(Box::new(claim(&scope, "id-1"))),
        Write::Run(Box::new(RunRow { ended: None, ..run(1, 1, at(0)) })),
        Write::Polls(bare_polls),
        Write::Totals(Default::default()),
        Write::Operator(OperatorRow { paused: false, ..OperatorRow::default() }),
    ];
    trial.commit(&newer)?;
    ensure_same("updated rows", &trial.rows()?, &in_rows(&newer))?;
    ensure_same("updated rows in the next life", &trial.next_life()?.found, &in_rows(&newer))
}

/// The same ids in scopes that look alike are different issues.
pub fn rule_16_2_rows_of_one_scope_do_not_show_in_another<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let mut trial = StoreTrial::begin(fixture)?;
    let mut writes = Vec::new();
    for (number, name) in (1..).zip(SCOPES) {
        let scope = Scope::from(name);
        let mut row = claim(&scope, "id-1");
        row.attempt = Some(number);
        writes.push(vec![Write::Claim(Box::new(row)), Write::Polls(polls(&scope, name))]);
    }
    trial.commit(&writes.concat())?;
    for _ in 0..2 {
        for (name, of_scope) in SCOPES.into_iter().zip(&writes) {
            let found = trial.rows_of(&Scope::from(name))?;
            ensure_same(&format!("rows of the scope {name:?}"), &found, &in_rows(of_scope))?;
        }
        trial = trial.next_life()?;
    }
    trial.commit(&[Write::ClaimGone { scope: there(), issue: "id-1".into() }])?;
    ensure_eq("claims of the scope whose claim is gone", trial.rows_of(&there())?.claims.len(), 0)?;
    ensure_eq("claims of another scope", trial.rows()?.claims.len(), 1)
}

/// They are about the service, not about a tracker. When a life begins none of its runs lives,
/// whatever its scope was.
pub fn rule_16_2_operator_totals_holds_and_open_runs_are_of_every_scope<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    let mut writes = vec![
        Write::Operator(OperatorRow { paused: true, ..OperatorRow::default() }),
        Write::Totals(totals()),
        Write::Hold(hold("one")),
        Write::Hold(hold("two")),
    ];
    for (number, name) in (1..).zip(SCOPES) {
        let open = RunRow { scope: Scope::from(name), ended: None, ..run(1, number, at(0)) };
        writes.push(Write::Run(Box::new(open)));
    }
    trial.commit(&writes)?;
    for name in SCOPES {
        let found = trial.rows_of(&Scope::from(name))?;
        ensure_same("operator, totals, holds and open runs", &found, &in_rows(&writes))?;
    }
    Ok(())
}

/// A run that a life did not end is for the next one to end.
pub fn rule_16_2_open_runs_are_those_without_an_end<F: StoreFixture>(fixture: &F) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    let open = |number| RunRow { ended: None, ..run(1, number, at(0)) };
    let write = |row: &RunRow| Write::Run(Box::new(row.clone()));
    trial.commit(&[write(&open(1)), write(&open(2)), write(&run(1, 3, at(0)))])?;
    ensure_same("open runs", &trial.rows()?.open_runs, &vec![open(1), open(2)])?;
    trial.commit(&[write(&run(1, 1, at(0)))])?;
    let trial = trial.next_life()?;
    ensure_same("open runs of the next life", &trial.found.open_runs, &vec![open(2)])?;
    trial.commit(&[write(&run(1, 2, at(0)))])?;
    ensure_same("open runs when all have ended", &trial.rows()?.open_runs, &Vec::new())?;
    ensure_eq("runs", trial.runs(&RunQuery::default())?.len(), 3)
}

/// A large tracker.
pub fn rule_16_2_ten_thousand_claims_come_back<F: StoreFixture>(fixture: &F) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    let rows: Vec<_> = (10_000..20_000).map(|id| claim(&here(), &format!("id-{id}"))).collect();
    let writes: Vec<_> = rows.iter().map(|row| Write::Claim(Box::new(row.clone()))).collect();
    for part in writes.chunks(5_000) {
        trial.commit(part)?;
    }
    let found = trial.next_life()?.found.claims;
    ensure_eq("claims", found.len(), rows.len())?;
    ensure(found == rows, || "claims differ from what was written".to_owned())
}

/// An older program does not lose what a newer one will look for.
pub fn rule_16_2_fields_of_a_newer_version_survive_an_update<F: StoreFixture>(
    fixture: &F,
) -> RuleResult {
    let trial = StoreTrial::begin(fixture)?;
    let writes = one_of_each(&here(), "text");
    trial.commit(&writes)?;
    let value = json!({"list": [1, null, {"text": HOSTILE}], "number": u64::MAX});
    for write in &writes {
        fixture.plant(&write.key(), "of_tomorrow", &value)?;
        fixture.plant(&write.key(), "nothing", &json!(null))?;
    }
    ensure_same("rows with fields of a newer version", &trial.rows()?, &in_rows(&writes))?;
    let mut changed = full_claim(&here(), "text", "text");
    (changed.attempt, changed.thread) = (Some(7), None);
    let updates = [
        Write::Operator(OperatorRow { paused: false, ..OperatorRow::default() }),
        Write::Polls(polls(&here(), "other")),
        Write::Totals(Default::default()),
        Write::Claim(Box::new(changed)),
        Write::Claim(Box::new(full_claim(&here(), "bare", "text"))),
        Write::Run(Box::new(RunRow { ended: None, ..run(1, 1, at(0)) })),
        Write::Hold(HeldAgentRow { due: DueTime { at: at(1), span_ms: 1 }, ..hold("text") }),
    ];
    let trial = trial.next_life()?;
    trial.commit(&updates)?;
    trial.commit(&updates)?;
    ensure_same("updated rows", &trial.rows()?, &in_rows(&updates))?;
    for key in updates.iter().map(Write::key) {
        let fields = ["of_tomorrow", "nothing"].map(|field| fixture.planted(&key, field));
        let expected = [Ok(Some(value.clone())), Ok(Some(json!(null)))];
        ensure_eq(
            &format!("fields of a newer version, after an update of {key:?}"),
            fields,
            expected,
        )?;
    }
    trial
        .commit(&[Write::ClaimGone { scope: here(), issue: "bare".into() }, updates[4].clone()])?;
    let anew = fixture.planted(&RowKey::Claim(here(), "bare".into()), "of_tomorrow")?;
    ensure_eq("the field of a row that was gone", anew, None)
}

/// What a new store returns after these writes, whose claims and polls are all of one scope.
fn in_rows(writes: &[Write]) -> Rows {
    let mut rows = Rows::default();
    for write in writes {
        match write.clone() {
            Write::Operator(row) => rows.operator = row,
            Write::Polls(row) => rows.polls = Some(row),
            Write::Totals(row) => rows.totals = row,
            Write::Claim(row) => rows.claims.push(*row),
            Write::Run(row) => rows.open_runs.push(*row),
            Write::Hold(row) => rows.holds.push(row),
            Write::ClaimGone { .. } | Write::HoldGone { .. } => {}
        }
    }
    sorted(rows)
}
