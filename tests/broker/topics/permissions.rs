//! What a user who lacks a permission is told. On a broker of its own, where clients have names and ACLs hold.

use std::{collections::BTreeMap, path::Path, process::Command};

use control_bus::{
    kafka::Settings,
    topics::{self, Action, Config, Error},
};

use super::{TIMEOUT, assert_names, bus, create, ensure};
use crate::support::kafka::Cluster;

const JAAS: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"admin\" \
                    password=\"admin\" user_admin=\"admin\" user_pod=\"pod\";";

/// One broker where `admin` may do anything and `pod` what it is granted.
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

fn kafka(cluster: &Cluster, user: &str) -> Settings {
    let properties = [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanisms", "PLAIN"),
        ("sasl.username", user),
        ("sasl.password", user),
    ];
    let properties: BTreeMap<_, _> =
        properties.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Settings::new(cluster.bootstrap(), "topics-test", properties, false).unwrap()
}

/// Lets `pod` do `operations` on the topics of a bus.
fn grant(cluster: &Cluster, config: &Config, operations: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let login = directory.path().join("admin.properties");
    let properties =
        format!("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS}\n");
    std::fs::write(&login, properties).unwrap();
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/tool"));
    command.arg("org.apache.kafka.tools.AclCommand");
    command.args(["--bootstrap-server", cluster.bootstrap(), "--command-config"]).arg(login);
    command.args(["--add", "--allow-principal", "User:pod", "--resource-pattern-type", "prefixed"]);
    command.args(["--topic", config.bus.name()]);
    for operation in operations {
        command.args(["--operation", operation]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_user_without_a_permission_is_told_which_one() {
    let cluster = cluster();
    let (admin, pod, config) = (kafka(&cluster, "admin"), kafka(&cluster, "pod"), bus());
    let refused = async |action| {
        let error = ensure(&config, &pod).await.unwrap_err();
        assert!(
            matches!(&error, Error::NotAuthorized { action: found, .. } if *found == action),
            "{error:?}"
        );
        error
    };

    let error = refused(Action::Describe).await;
    assert_names(&error, &[&config.bus.notifications(), "Describe"]);

    grant(&cluster, &config, &["Describe"]);
    let error = refused(Action::Create).await;
    assert_names(&error, &[&config.bus.notifications(), "Create"]);

    create(&admin, &topics::expected(&config)[0], &[]).await;
    let error = topics::verify(&config, &pod, TIMEOUT).await.unwrap_err();
    assert!(matches!(&error, Error::NotAuthorized { action: Action::DescribeSettings, .. }), "{error:?}");
    assert_names(&error, &[&config.bus.notifications(), "DescribeConfigs"]);

    // With these three it is enough, although the brokers' own settings stay hidden.
    grant(&cluster, &config, &["DescribeConfigs", "Create"]);
    let verified = ensure(&config, &pod).await.unwrap();
    assert_eq!(verified.created.len(), 4);
}

#[tokio::test]
async fn a_wrong_password_is_told_as_such() {
    let cluster = cluster();
    let error = topics::verify(&bus(), &kafka(&cluster, "nobody"), std::time::Duration::from_secs(5))
        .await
        .unwrap_err();
    let Error::Unreachable { source, .. } = error else { panic!("{error:?}") };
    assert!(source.to_string().to_lowercase().contains("authentication"), "{source}");
}
