//! A process that is killed while it writes.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

use symphony_core::run::RunId;
use symphony_core::store::{Batch, Durability, RunQuery, RunRow, Store, Write};
use symphony_core::time::Wall;
use symphony_sqlite::SqliteStore;

use crate::{Place, attempts, begin, block_on, integrity, process_of, scope, write};

fn run(turns: u32) -> Write {
    let row = serde_json::json!({
        "run": RunId { boot: 1, number: 1 }, "scope": scope(), "issue": "id-1", "identifier": "id-1",
        "began": Wall::from_unix_millis(0), "turns": turns,
    });
    Write::Run(Box::new(serde_json::from_value::<RunRow>(row).unwrap()))
}

/// Counts in two rows at once, from where it stopped, and tells each number that was kept.
#[test]
#[ignore = "not a test: the process that is killed"]
fn counts_until_it_is_killed() {
    let Ok(path) = std::env::var("SYMPHONY_TEST_STORE") else { return };
    let store = SqliteStore::open(Path::new(&path)).unwrap();
    begin(&store);
    let mut number = attempts(&store).first().copied().flatten().unwrap_or(0);
    loop {
        number += 1;
        let durability = if number % 7 == 0 { Durability::Machine } else { Durability::Process };
        let writes = vec![write("id-1", number), run(number)];
        block_on(store.commit(&Batch { durability, writes })).unwrap();
        let mut out = std::io::stdout();
        out.write_all(format!("{number}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
    }
}

#[test]
fn rule_16_5_nothing_acknowledged_is_lost_when_the_writer_is_killed() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let kills = number("SYMPHONY_KILLS").unwrap_or(20);
    let seed = number("SYMPHONY_KILLS_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    println!("SYMPHONY_KILLS_SEED={seed}");
    let place = Place::new();
    let mut told: u32 = 0;
    for kill in 0..kills {
        let mut child = process_of("kills::counts_until_it_is_killed", &place.path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let wanted = (seed.wrapping_add(kill).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 200;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let numbers = lines.by_ref().map_while(|line| line.ok());
        let numbers = numbers.filter_map(|line| line.trim().parse().ok());
        told = numbers.take(wanted as usize + 1).last().unwrap_or(told);
        child.kill().unwrap();
        // What it still told before it was gone.
        let rest = lines.map_while(Result::ok).filter_map(|line| line.trim().parse().ok());
        told = rest.last().unwrap_or(told);
        child.wait().unwrap();
        let store = place.open();
        let attempt = attempts(&store)[0].unwrap();
        let turns = block_on(store.runs(&RunQuery::default())).unwrap()[0].turns;
        assert!(attempt == told || attempt == told + 1, "told {told}, kept {attempt}");
        assert_eq!(turns, attempt, "a part of a batch");
        drop(store);
        assert_eq!(integrity(&place.path), "ok");
        told = attempt;
    }
    println!("{kills} kills, {told} commits, none lost");
}
