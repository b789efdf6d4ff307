//! What keeps a process from starting, and what is never said.

use std::fs;

use super::SOON;
use crate::support::{
    kafka::shared,
    process::{Bus, Config, Process},
};

/// Starts what cannot run; what it said.
fn refused(config: &Config, code: i32) -> String {
    let mut process = config.start();
    assert_eq!(process.exit_code(SOON), code, "{}", process.last_words());
    assert_eq!(process.stdout(), "");
    process.stderr()
}

#[test]
fn a_wrong_configuration_ends_with_64_and_names_file_and_key() {
    let bus = Bus::new("run-config", "127.0.0.1:1", 1);
    let config = || bus.controller("controller1");
    let file = config().write().display().to_string();
    for (config, named) in [
        (config().set("bus.bukets", 2), "bus.bukets"),
        (config().set("handler.timeout", "30"), "handler.timeout"),
        (config().set("bus.buckets", 0), "bus.buckets"),
        (config().set("name", ""), "name"),
        (config().set("role", "both"), "role"),
        (config().unset("kafka.brokers"), "kafka.brokers"),
        (config().property("group.id", "mine"), "kafka.properties.group.id"),
        (config().property("no.such.property", "x"), "no.such.property"),
        (config().set("shutdown.grace", "5s").set("shutdown.drain", "6s"), "shutdown.drain"),
        (config().set("input.at_end", "stay"), "input.at_end"),
    ] {
        let said = refused(&config, 64);
        assert!(said.contains(named) && said.contains(&file), "{named} and {file} are not named in {said}");
    }
    let said = refused(&config().env("CONTROL_BUS__HANDLER__TIMEOUT", "soon"), 64);
    assert!(said.contains("CONTROL_BUS__HANDLER__TIMEOUT"), "{said}");
    let said = refused(&config().env("CONTROL_BUS__BUS__BUKETS", "1"), 64);
    assert!(said.contains("CONTROL_BUS__BUS__BUKETS"), "{said}");
    fs::write(&file, "role = controller\n").unwrap();
    let looked = Process::call(&["run", "--config", &file]);
    assert_eq!(looked.code, Some(64));
    assert!(looked.stderr.contains(&file) && looked.stderr.contains("TOML"), "{looked:?}");
    let looked = Process::call(&["run", "--config", "/no/such/file"]);
    assert_eq!((looked.code, looked.stderr.contains("/no/such/file")), (Some(64), true), "{looked:?}");
    assert_eq!(Process::call(&["run"]).code, Some(64));
}

#[test]
fn an_environment_variable_is_stronger_than_the_file() {
    let bus = Bus::new("run-env", shared(), 1);
    let controller = bus.controller("from-the-file").env("CONTROL_BUS__NAME", "from-the-environment").start();
    controller.until_acquired(0, 0, SOON);
    assert!(
        controller.stdout().contains(r#""controller":"from-the-environment""#),
        "{}",
        controller.stdout()
    );
}

#[test]
fn wrong_topics_end_it_with_1_before_anything_is_consumed() {
    let bus = Bus::new("run-topics", shared(), 2);
    let right = bus.controller("controller1");
    let missing = refused(&right.clone().set("topics.create", false), 1);
    assert!(missing.contains("does not exist") && missing.contains("topics ensure"), "{missing}");
    assert_eq!(right.look(&["topics", "ensure"]).code, Some(0));
    for wrong in [right.clone(), bus.data_plane("dispatcher1")] {
        let said = refused(&wrong.set("bus.buckets", 3), 1);
        let topic = format!("{}.notifications", bus.name());
        let parts = [topic.as_str(), "has 2 partitions", "`bus.buckets` is 3"];
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?} are not all in {said}");
        assert!(!said.contains("rebalance"), "it joined the group: {said}");
    }
    let looked = right.look(&["buckets", "--output", "json"]);
    assert_eq!(looked.stdout.matches(r#""committed":null"#).count(), 2, "{looked:?}");
    assert_eq!(looked.stdout.matches(r#""epoch":null"#).count(), 2, "{looked:?}");
}

#[test]
fn secrets_are_never_printed() {
    let secret = "correct-horse-battery-staple";
    let bus = Bus::new("run-secrets", shared(), 1);
    let file = bus.dir().join("secret");
    fs::write(&file, format!("{secret}\n")).unwrap();
    let config = || bus.controller("controller1").set("log.level", "trace");
    let with = |config: Config| {
        let sasl = config.property("security.protocol", "SASL_PLAINTEXT").property("sasl.mechanism", "PLAIN");
        sasl.property("sasl.username", "somebody")
    };
    for config in [
        with(config()).property("sasl.password", secret),
        with(config()).property("sasl.password_file", file.to_str().unwrap()),
        with(config()).env("CONTROL_BUS__KAFKA__PROPERTIES__SASL_PASSWORD", secret),
    ] {
        // The broker speaks no SASL: everything that can be said about the connection is said.
        let mut process = config.start();
        process.until_logged("the topics cannot be verified yet", SOON);
        process.terminate();
        assert_eq!(process.exit_code(SOON), 0);
        let said = process.stderr();
        assert!(said.contains("TRACE") && !said.contains(secret), "{said}");
    }
    for config in [
        config().property("ssl.key.password", secret).property("no.such.property", "x"),
        config().property("sasl.password", secret).set("bus.buckets", 0),
        config().property("sasl.passwort", secret),
        config().set("sasl.password", secret),
        config().env("CONTROL_BUS__KAFKA__SASL_PASSWORD", secret),
        config().set("kafka.properties", secret),
    ] {
        let said = refused(&config, 64);
        assert!(!said.contains(secret), "{said}");
    }
    let broken = config().write();
    fs::write(&broken, format!("[kafka.properties]\n\"sasl.password\" = \"{secret}\n")).unwrap();
    let looked = Process::call(&["run", "--config", broken.to_str().unwrap()]);
    assert_eq!((looked.code, looked.stderr.contains(secret)), (Some(64), false), "{looked:?}");
}
