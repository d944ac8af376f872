//! Contract 10.9, 9.5 and 14.2: whatever a descendant does to get out of sight, and however its run
//! ends, nothing is left. One test for each pair.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::shapes::{Shape, matrix};
use crate::trial::{GRACE, LONG, Trial, helped, scope, ungrouped, unhelped};
use rustix::process::{Pid, Signal, kill_process};
use symphony_host::{Exit, Host, RunError, RunLimit};
use tokio::runtime::Runtime;

matrix! {
    rule_10_9_stop => |shape| stop(helped(), shape);
    rule_10_9_dropped_handle => |shape| dropped_handle(helped(), shape);
    rule_10_9_dropped_future => |shape| dropped_future(helped(), shape);
    rule_10_9_scope_closed => |shape| scope_closed(helped(), shape);
    rule_10_9_scope_dropped => |shape| scope_dropped(helped(), shape);
    rule_10_9_runtime_dropped => runtime_dropped;
    rule_10_9_helper_killed => |shape| helper_killed(helped(), shape);
    rule_10_9_helper_killed_without_control_group => |shape| helper_killed(ungrouped(), shape);
    rule_10_9_helper_stopped => |shape| helper_stopped(ungrouped(), shape);
    rule_10_9_service_killed => |shape| service_signalled(shape, Signal::KILL);
    rule_14_2_service_terminated => |shape| service_signalled(shape, Signal::TERM);
    rule_9_5_hook_timeout => |shape| timeout(helped(), shape);
    rule_9_5_hook_failed => |shape| failed(helped(), shape);
    rule_9_5_background_of_a_successful_hook => |shape| lingering(helped(), shape);
    without_helper_stop => |shape| stop(unhelped(), shape);
    without_helper_dropped_handle => |shape| dropped_handle(unhelped(), shape);
    without_helper_timeout => |shape| timeout(unhelped(), shape);
    without_helper_background_of_a_successful_hook => |shape| lingering(unhelped(), shape);
}

fn run<F: Future<Output = ()>>(end: impl FnOnce(Shape) -> F, shape: Shape) {
    Runtime::new().unwrap().block_on(end(shape));
}

async fn stop(host: Arc<dyn Host>, shape: Shape) {
    let trial = Trial::new();
    let scope = scope(host);
    let mut running = scope.start(&trial.command(shape)).await.unwrap();
    trial.until_ready().await;
    assert_eq!(running.stop(GRACE).await, Ok(Exit::Signal(15)));
    trial.assert_gone();
}

async fn dropped_handle(host: Arc<dyn Host>, shape: Shape) {
    let trial = Trial::new();
    let scope = scope(host);
    let running = scope.start(&trial.command(shape)).await.unwrap();
    trial.until_ready().await;
    drop(running);
    trial.until_gone().await;
}

async fn dropped_future(host: Arc<dyn Host>, shape: Shape) {
    let trial = Trial::new();
    let scope = scope(host);
    let command = trial.command(shape);
    tokio::select! {
        result = scope.run(&command, RunLimit::new(LONG)) => panic!("{result:?}"),
        () = trial.until_ready() => {}
    }
    trial.until_gone().await;
}

async fn scope_closed(host: Arc<dyn Host>, shape: Shape) {
    let trial = Trial::new();
    let scope = scope(host);
    let _running = scope.start(&trial.command(shape)).await.unwrap();
    trial.until_ready().await;
    scope.close(GRACE).await.unwrap();
    trial.assert_gone();
}

async fn scope_dropped(host: Arc<dyn Host>, shape: Shape) {
    let trial = Trial::new();
    let scope = scope(host);
    let _running = scope.start(&trial.command(shape)).await.unwrap();
    trial.until_ready().await;
    drop(scope);
    trial.until_gone().await;
}

async fn runtime_dropped(shape: Shape) {
    let trial = Trial::new();
    let other = Runtime::new().unwrap();
    let scope = scope(helped());
    let command = trial.command(shape);
    let running = other.spawn(async move { (scope.start(&command).await.unwrap(), scope) });
    let kept = running.await.unwrap();
    trial.until_ready().await;
    other.shutdown_background();
    trial.until_gone().await;
    drop(kept);
}

async fn helper_killed(host: Arc<dyn Host>, shape: Shape) {
    let trial = Trial::new();
    let scope = scope(host);
    let mut running = scope.start(&trial.command(shape)).await.unwrap();
    trial.until_ready().await;
    send(running.processes()[0].pid(), Signal::KILL);
    assert_eq!(running.exited().await, Exit::Lost);
    trial.assert_gone();
}

async fn helper_stopped(host: Arc<dyn Host>, shape: Shape) {
    let trial = Trial::new();
    let scope = scope(host);
    let mut running = scope.start(&trial.command(shape)).await.unwrap();
    trial.until_ready().await;
    send(running.processes()[0].pid(), Signal::STOP);
    assert_eq!(running.stop(GRACE).await, Ok(Exit::Lost));
    trial.assert_gone();
}

async fn timeout(host: Arc<dyn Host>, shape: Shape) {
    // Long enough for the shape to be there, however busy the machine is.
    for millis in [300, 1_000, 5_000, 20_000] {
        let trial = Trial::new();
        let limit = RunLimit::new(Duration::from_millis(millis));
        let result = scope(Arc::clone(&host)).run(&trial.command(shape), limit).await;
        assert!(matches!(result, Err(RunError::TimedOut { .. })), "{result:?}");
        trial.assert_gone();
        if trial.is_ready() {
            return;
        }
    }
    panic!("the shape was never there");
}

async fn failed(host: Arc<dyn Host>, shape: Shape) {
    let trial = Trial::new();
    let scope = scope(host);
    let finished = scope.run(&trial.hook(shape, 3), RunLimit::new(LONG)).await.unwrap();
    assert_eq!(finished.exit, Exit::Code(3));
    trial.assert_gone();
}

async fn lingering(host: Arc<dyn Host>, shape: Shape) {
    let trial = Trial::new();
    let scope = scope(host);
    let finished = scope.run(&trial.hook(shape, 0), RunLimit::new(LONG)).await.unwrap();
    assert_eq!(finished.exit, Exit::Code(0));
    assert!(!trial.is_gone(), "it should live until the run ends");
    scope.close(GRACE).await.unwrap();
    trial.assert_gone();
}

async fn service_signalled(shape: Shape, signal: Signal) {
    let trial = Trial::new();
    let mut service = start_service(&trial, shape);
    trial.until_ready().await;
    send(service.id(), signal);
    let status = service.wait().unwrap();
    // After a clean stop nothing is left already; a killed one leaves it to its helper.
    if signal == Signal::TERM {
        assert!(status.success(), "{status}");
        trial.assert_gone();
    }
    trial.until_gone().await;
}

/// This program again, as a service with one run.
fn start_service(trial: &Trial, shape: Shape) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["kill_matrix::service", "--exact", "--ignored", "--nocapture"])
        .env("TRIAL_FOLDER", trial.path())
        .env("TRIAL_TOKEN", trial.token())
        .env("TRIAL_SCRIPT", shape.script())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "not a test: the service that other tests start and kill"]
fn service() {
    let Some((trial, script)) = Trial::from_environment() else { return };
    Runtime::new().unwrap().block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).unwrap();
        let scope = scope(helped());
        let _running = scope.start(&trial.staying(&script)).await.unwrap();
        terminate.recv().await;
        scope.close(GRACE).await.unwrap();
    });
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}
