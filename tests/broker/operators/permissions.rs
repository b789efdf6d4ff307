//! `check` on a broker where clients have names and ACLs hold: what is lacking is named, with the command that grants it.

use std::{path::Path, process::Command, time::Duration};

use serde_json::Value;

use crate::support::{
    kafka::Cluster,
    process::{Bus, Config},
};

const SOON: Duration = Duration::from_secs(60);

const JAAS: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"admin\" \
                    password=\"admin\" user_admin=\"admin\" user_someone=\"someone\";";

/// One broker where `admin` may do anything and `someone` what it is granted.
fn cluster() -> Cluster {
    Cluster::start(
        1,
        &[
            ("listener.security.protocol.map", "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"),
            ("inter.broker.listener.name", "PLAINTEXT"),
            ("sasl.enabled.mechanisms", "PLAIN"),
            ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
            ("listener.name.plaintext.plain.sasl.jaas.config", JAAS),
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("super.users", "User:admin;User:ANONYMOUS"),
        ],
    )
}

fn user(config: Config, user: &str, password: &str) -> Config {
    config
        .property("security.protocol", "sasl_plaintext")
        .property("sasl.mechanisms", "PLAIN")
        .property("sasl.username", user)
        .property("sasl.password", password)
}

/// Carries out what a check said to do, but for the name that it cannot know.
fn carry_out(cluster: &Cluster, todo: &str) {
    let arguments = todo.strip_prefix("kafka-acls ").unwrap_or_else(|| panic!("{todo:?} grants nothing"));
    let directory = tempfile::tempdir().unwrap();
    let login = directory.path().join("admin.properties");
    let properties =
        format!("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n");
    std::fs::write(&login, properties).unwrap();
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/tool"));
    command.arg("org.apache.kafka.tools.AclCommand");
    command.args(["--bootstrap-server", cluster.bootstrap(), "--command-config"]).arg(login);
    command.args(arguments.replace("User:NAME", "User:someone").split(' '));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{todo}: {}", String::from_utf8_lossy(&output.stderr));
}

fn check(config: &Config) -> Vec<Value> {
    let looked = config.look(&["check", "--transactions", "--output", "json"]);
    let findings: Vec<Value> =
        looked.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let failed = findings.iter().any(|one| one["result"] == "failed");
    assert_eq!(looked.code, Some(i32::from(failed)), "{findings:?}");
    findings
}

#[test]
fn a_controller_that_follows_every_advice_can_run() {
    let cluster = cluster();
    let bus = Bus::new("operators-acl", cluster.bootstrap(), 2);
    let admin = user(bus.controller("admin"), "admin", "admin");
    assert_eq!(admin.look(&["topics", "ensure"]).code, Some(0));
    let controller = user(bus.controller("controller1"), "someone", "someone").set("topics.create", false);

    let mut granted = Vec::new();
    // Each round shows what the one before had hidden.
    for _ in 0..8 {
        let findings = check(&controller);
        let failed: Vec<_> = findings.iter().filter(|one| one["result"] == "failed").collect();
        if failed.is_empty() {
            break;
        }
        for finding in failed {
            let todo = finding["todo"].as_str().unwrap();
            // A topic that is hidden looks like one that is missing; describing it follows from what it is for.
            if todo.starts_with("kafka-acls") {
                carry_out(&cluster, todo);
                granted.push(todo.to_owned());
            }
        }
    }
    assert!(granted.iter().any(|todo| todo.contains("--group")), "{granted:?}");
    assert!(granted.iter().any(|todo| todo.contains("--transactional-id")), "{granted:?}");
    let running = controller.start();
    for bucket in [0, 1] {
        running.until_acquired(bucket, 0, SOON);
    }
    running.until_ready(SOON);
}

#[test]
fn a_wrong_password_is_told_as_such() {
    let cluster = cluster();
    let bus = Bus::new("operators-password", cluster.bootstrap(), 2);
    let wrong = user(bus.controller("controller1"), "someone", "else");
    let looked = wrong.look(&["check", "--timeout", "5s"]);
    assert_eq!(looked.code, Some(1));
    assert!(
        looked.stdout.contains("Authentication failed") && looked.stdout.contains("password"),
        "{looked:?}"
    );
    assert!(!looked.stdout.contains("\"else\""), "{looked:?}");
}
