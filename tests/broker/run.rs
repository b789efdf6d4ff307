//! The `run` contract.

use std::time::Duration;

use crate::support::{kafka::shared, process::Bus};

const SOON: Duration = Duration::from_secs(30);

#[test]
fn what_a_pod_is_given_a_controller_writes() {
    let bus = Bus::new("run-smoke", shared(), 2);
    let mut controller = bus.controller("controller1").start();
    let mut pod = bus.data_plane("dispatcher1").start();
    pod.feed([r#"{"resource":"default/trigger1","type":"t","kind":"event","data":1}"#]);
    pod.until_count(1, SOON);
    controller.until_count(1, SOON);
    controller.until_ready(SOON);
    assert!(controller.metric("control_bus_rebalances_total{kind=\"assigned\"}") > 0.0);
    pod.close_stdin();
    assert_eq!(pod.exit_code(SOON), 0);
    controller.terminate();
    assert_eq!(controller.exit_code(SOON), 0);
}
