#[path="processes/trial.rs"] mod trial;
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::time::{Duration, Instant};
use symphony_host::*;
use trial::*;

async fn one(host: Arc<dyn Host>, mode: u32, how: &str) -> (Duration, usize) {
    let trial = Trial::new();
    let sc = scope(host);
    let mut r = sc.start(&trial.script(&format!("/tmp/roll/roll \"$R\" $T {mode} & exec sleep $T"))).await.unwrap();
    trial.until_ready().await;
    let t = Instant::now();
    match how {
        "stop" => { if let Err(e) = r.stop(Duration::ZERO).await { println!("{e}") } }
        "polite" => { if let Err(e) = r.stop(Duration::from_millis(20)).await { println!("{e}") } }
        "helper" => { kill_process(Pid::from_raw(r.processes()[0].pid() as i32).unwrap(), Signal::KILL).unwrap();
            r.exited().await; let c = sc.close(Duration::ZERO).await; if c.is_err() { println!("{c:?}"); } }
        _ => unreachable!(),
    }
    (t.elapsed(), { let a = trial.survivors().len(); std::thread::sleep(Duration::from_millis(20)); a + trial.survivors().len() })
}
#[tokio::test(flavor = "multi_thread")]
#[ignore]
async fn stress() {
    let only = std::env::var("ONLY").unwrap_or_default(); for (mode, what) in [(0, "group"), (1, "setsid"), (5, "setsid+ignore")] {
        for (host, name) in [(helped(), "helped"), (unhelped(), "direct")] {
            for how in ["stop", "polite", "helper"] {
                if !format!("{name} {how}").contains(&only) || name == "direct" && how == "helper" { continue }
                let mut times = vec![]; let mut bad = 0;
                for _ in 0..5 { let (t, n) = one(host.clone(), mode, how).await; times.push(t); bad += n; }
                times.sort();
                println!("{what:18} {name} {how:8} survivors {bad} p50 {:?} max {:?}", times[2], times[4]);
            }
        }
    }
}
