use std::{path::PathBuf, time::Duration};

use serde_json::Value as Json;

use super::{defaults, layer::Layer, *};

/// The least that a controller needs.
const CONTROLLER: &str = r#"
role = "controller"
name = "c1"
bus.name = "b"
bus.buckets = 4
kafka.brokers = "localhost:9092"
"#;

const FILE: &str = "settings.toml";

struct Source {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn source(text: &str) -> Source {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    std::fs::write(&path, text).unwrap();
    Source { _directory: directory, path }
}

fn load_with(text: &str, variables: &[(&str, &str)]) -> Result<Settings, Error> {
    let source = source(text);
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::load(&source.path, variables)
}

/// The minimal controller, with `text` before it (so that `text` may end in a section of its own).
fn load(text: &str) -> Result<Settings, Error> {
    load_with(&format!("{text}\n{CONTROLLER}"), &[])
}

fn refused(text: &str) -> String {
    load(text).expect_err(text).to_string()
}

fn refused_variable(name: &str, value: &str) -> String {
    load_with(CONTROLLER, &[(name, value)]).expect_err(name).to_string()
}

#[test]
fn defaults_hold_where_nothing_is_said() {
    let settings = load("").unwrap();
    assert_eq!((settings.role(), settings.name().as_str()), (Role::Controller, "c1"));
    assert_eq!((settings.buckets().count(), settings.slots()), (4, 16));
    let owner = settings.owner(1000);
    assert_eq!(
        (owner.session_timeout, owner.heartbeat),
        (Duration::from_secs(10), Duration::from_millis(500))
    );
    assert_eq!((owner.retry.attempts, owner.retry.max), (10, Duration::from_secs(300)));
    assert_eq!((owner.window.max_records, owner.window.max_bytes), (10_000, 16 << 20));
    assert_eq!((owner.drain, owner.dead_letter_limit), (Duration::from_secs(10), 1000));
    let publisher = settings.publisher(2000);
    assert_eq!((publisher.linger, publisher.max_bytes), (Duration::from_millis(1), 64 << 20));
    assert_eq!(publisher.max_message_bytes, 2000);
    assert_eq!((settings.monitoring(), settings.handler_command()), (None, None));
    assert_eq!((settings.topics().create, settings.topics().replication_factor), (true, None));
    assert!(!settings.kafka().embedded());
}

#[test]
fn a_variable_is_stronger_than_the_file_and_has_its_keys_type() {
    let variables = [
        ("CONTROL_BUS__NAME", "17"),
        ("CONTROL_BUS__BUS__BUCKETS", "8"),
        ("CONTROL_BUS__TOPICS__CREATE", "false"),
        ("CONTROL_BUS__TOPICS__REPLICATION_FACTOR", "3"),
        ("CONTROL_BUS__GROUP__SESSION_TIMEOUT", "20s"),
        ("CONTROL_BUS__BUCKET__MAX_BYTES", "1MiB"),
        ("CONTROL_BUS__PUBLISHER__MAX_BYTES", "1048576"),
        ("CONTROL_BUS__HANDLER__COMMAND", "prog, --flag"),
        ("CONTROL_BUS__LOG__FORMAT", "json"),
        ("CONTROL_BUS__MONITORING__LISTEN", "[::1]:0"),
        ("CONTROL_BUS_TEST_BOOTSTRAP", "not ours"),
        ("PATH", "/bin"),
    ];
    let settings = load_with(CONTROLLER, &variables).unwrap();
    assert_eq!((settings.name().as_str(), settings.buckets().count()), ("17", 8));
    assert_eq!((settings.topics().create, settings.topics().replication_factor), (false, Some(3)));
    let owner = settings.owner(1);
    assert_eq!((owner.session_timeout, owner.window.max_bytes), (Duration::from_secs(20), 1 << 20));
    assert_eq!(settings.publisher(1).max_bytes, 1 << 20);
    assert_eq!(settings.handler_command(), Some(&["prog".to_owned(), "--flag".to_owned()][..]));
    assert_eq!(settings.log().format, LogFormat::Json);
    assert_eq!(settings.monitoring(), Some("[::1]:0".parse().unwrap()));
}

#[test]
fn a_list_in_a_variable_may_be_json() {
    let json = [("CONTROL_BUS__HANDLER__COMMAND", r#"["sh", "-c", "a, b"]"#)];
    let settings = load_with(CONTROLLER, &json).unwrap();
    assert_eq!(settings.handler_command().unwrap(), ["sh", "-c", "a, b"]);
}

#[test]
fn an_unknown_key_is_refused_with_its_file_or_variable() {
    for (text, key) in
        [("log.colour = true", "colour"), ("colour = true", "colour"), ("grup.heartbeat = '1s'", "grup")]
    {
        let error = refused(text);
        assert!(error.contains(FILE) && error.contains(key) && error.contains("unknown field"), "{error}");
    }
    for name in ["CONTROL_BUS__LOG__COLOUR", "CONTROL_BUS__BUS_BUCKETS", "CONTROL_BUS__"] {
        let error = refused_variable(name, "1");
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_wrong_type_or_unit_is_refused_with_file_and_key() {
    for (text, key, expected) in [
        ("bus.slots = '16'", "bus.slots", "expected a whole number"),
        ("bus.slots = 2.5", "bus.slots", "expected a whole number"),
        ("bus.slots = -1", "bus.slots", "expected a whole number"),
        ("topics.create = 'yes'", "topics.create", "expected a boolean"),
        ("group.heartbeat = 5", "group.heartbeat", "500ms"),
        ("group.heartbeat = '5'", "group.heartbeat", "500ms"),
        ("group.heartbeat = '5MiB'", "group.heartbeat", "500ms"),
        ("bucket.max_bytes = '5s'", "bucket.max_bytes", "16MiB"),
        ("handler.command = 'prog'", "handler.command", "expected a list"),
        ("log.format = 'xml'", "log.format", "expected `text` or `json`"),
        ("group = 5", "group", "invalid type"),
        ("kafka.properties.debug = ['all']", "kafka.properties.debug", "expected a string"),
    ] {
        let error = refused(text);
        assert!(error.contains(FILE) && error.contains(&format!("`{key}`")), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_wrong_value_in_a_variable_is_refused_with_its_name() {
    for (name, value, expected) in [
        ("CONTROL_BUS__BUS__SLOTS", "many", "a whole number"),
        ("CONTROL_BUS__BUS__SLOTS", "", "a whole number"),
        ("CONTROL_BUS__TOPICS__CREATE", "yes", "true or false"),
        ("CONTROL_BUS__GROUP__HEARTBEAT", "5", "500ms"),
        ("CONTROL_BUS__BUCKET__MAX_BYTES", "much", "16MiB"),
        ("CONTROL_BUS__HANDLER__COMMAND", "[\"a\"", "JSON array"),
        ("CONTROL_BUS__ROLE", "boss", "`controller` or `data-plane`"),
        ("CONTROL_BUS__BUS", "b", "invalid type"),
    ] {
        let error = refused_variable(name, value);
        assert!(error.contains(&format!("variable {name}:")) && error.contains(expected), "{error}");
    }
}

#[test]
fn two_variables_for_one_key_are_refused() {
    for pair in [
        [("CONTROL_BUS__BUS__NAME", "a"), ("CONTROL_BUS__BUS__name", "b")],
        [("CONTROL_BUS__BUS", "a"), ("CONTROL_BUS__BUS__NAME", "b")],
        [("CONTROL_BUS__BUS__NAME", "a"), ("CONTROL_BUS__BUS", "b")],
    ] {
        let error = load_with(CONTROLLER, &pair).unwrap_err().to_string();
        assert!(error.contains(pair[1].0) && error.contains("another variable"), "{error}");
    }
}

#[test]
fn what_is_required_is_asked_for_by_key_and_variable() {
    for (key, variable) in [
        ("role", "CONTROL_BUS__ROLE"),
        ("name", "CONTROL_BUS__NAME"),
        ("bus.name", "CONTROL_BUS__BUS__NAME"),
        ("bus.buckets", "CONTROL_BUS__BUS__BUCKETS"),
        ("kafka.brokers", "CONTROL_BUS__KAFKA__BROKERS"),
    ] {
        let lines = [
            ("role", "role = 'controller'"),
            ("name", "name = 'c'"),
            ("bus.name", "bus.name = 'b'"),
            ("bus.buckets", "bus.buckets = 1"),
            ("kafka.brokers", "kafka.brokers = 'h:1'"),
        ];
        let text: Vec<&str> = lines.iter().filter(|(name, _)| *name != key).map(|(_, line)| *line).collect();
        let error = load_with(&text.join("\n"), &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}` is not set")), "{error}");
        assert!(error.contains(variable) && error.contains(FILE), "{error}");
    }
}

#[test]
fn values_out_of_range_are_refused() {
    for (text, key) in [
        ("bus.slots = 0", "bus.slots"),
        ("topics.replication_factor = 0", "topics.replication_factor"),
        ("group.heartbeat = '0s'", "group.heartbeat"),
        ("handler.concurrency = 0", "handler.concurrency"),
        ("handler.command = []", "handler.command"),
        ("handler.command = ['']", "handler.command"),
        ("retry.attempts = 0", "retry.attempts"),
        ("bucket.max_bytes = 0", "bucket.max_bytes"),
        ("publisher.max_bytes = '512KiB'", "publisher.max_bytes"),
        ("publisher.linger = '16m'", "publisher.linger"),
        ("monitoring.listen = 'localhost'", "monitoring.listen"),
        ("log.level = 'loud=='", "log.level"),
    ] {
        let error = refused(text);
        assert!(error.contains(FILE) && error.contains(&format!("`{key}`")), "{error}");
        assert!(error.contains("expected"), "{error}");
    }
    for (name, value) in [("CONTROL_BUS__BUS__BUCKETS", "4097"), ("CONTROL_BUS__BUS__NAME", "no spaces")] {
        let error = refused_variable(name, value);
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn keys_that_do_not_go_together_are_both_named_with_their_origin() {
    for (text, one, other) in [
        ("group.heartbeat = '4s'", "group.heartbeat", "group.session_timeout"),
        ("group.session_timeout = '6m'", "group.session_timeout", "group.max_poll_interval"),
        (
            "group.max_poll_interval = '10s'\nshutdown.drain = '10s'",
            "shutdown.drain",
            "group.max_poll_interval",
        ),
        ("shutdown.drain = '30s'", "shutdown.drain", "shutdown.grace"),
        ("retry.initial = '10m'", "retry.initial", "retry.max"),
        ("publisher.delivery_timeout = '1ms'", "publisher.linger", "publisher.delivery_timeout"),
        ("bucket.max_records = 15\nhandler.concurrency = 16", "handler.concurrency", "bucket.max_records"),
        ("input.at_end = 'exit'", "input.at_end", "role"),
    ] {
        let error = refused(text);
        assert!(error.contains(&format!("`{one}` (")) && error.contains(&format!("`{other}` (")), "{error}");
        assert!(error.contains(FILE), "{error}");
    }
    let error = load_with(CONTROLLER, &[("CONTROL_BUS__GROUP__HEARTBEAT", "4s")]).unwrap_err().to_string();
    assert!(error.contains("environment variable CONTROL_BUS__GROUP__HEARTBEAT"), "{error}");
    assert!(error.contains("`group.session_timeout` (the default)"), "{error}");
    let data_plane = CONTROLLER.replace("controller", "data-plane");
    let error = load_with(&format!("handler.command = ['p']\n{data_plane}"), &[]).unwrap_err().to_string();
    assert!(error.contains("`handler.command`") && error.contains("only the role \"controller\""), "{error}");
}

#[test]
fn a_default_gives_way_to_what_is_set() {
    let text =
        "group.session_timeout = '900ms'\nretry.max = '100ms'\nshutdown.grace = '4s'\nbucket.max_records = 3";
    let settings = load_with(&format!("{text}\n{CONTROLLER}"), &[]).unwrap();
    let owner = settings.owner(1000);
    assert_eq!(owner.heartbeat, Duration::from_millis(300));
    assert_eq!(owner.retry.initial, Duration::from_millis(100));
    assert_eq!(owner.drain, Duration::from_secs(2));
    assert_eq!(owner.handler_concurrency, 3);
}

#[test]
fn properties_are_taken_with_quoted_and_unquoted_dots_and_from_variables() {
    let text = r#"
    [kafka.properties]
    "sasl.username" = "u"
    socket.keepalive.enable = true
    socket.timeout.ms = 12000
    ssl.key.password = "inner"
    "#;
    let text = format!("{CONTROLLER}\n{text}");
    let variables = [
        ("CONTROL_BUS__KAFKA__PROPERTIES__SASL_PASSWORD", "p1"),
        ("CONTROL_BUS__KAFKA__PROPERTIES__SOCKET_TIMEOUT_MS", "13000"),
        ("CONTROL_BUS__KAFKA__PROPERTIES__SECURITY__PROTOCOL", "plaintext"),
    ];
    let shown = format!("{:?}", load_with(&text, &variables).unwrap().kafka());
    for expected in [
        r#""sasl.username": "u""#,
        r#""socket.keepalive.enable": "true""#,
        r#""socket.timeout.ms": "13000""#,
        r#""security.protocol": "plaintext""#,
        r#""sasl.password": "***""#,
        r#""ssl.key.password": "***""#,
    ] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
}

#[test]
fn a_property_given_twice_or_wrongly_is_refused_with_its_origin() {
    let error = refused("kafka.properties.client.rack = 'a'\nkafka.properties.'client.rack' = 'b'");
    assert!(error.contains("client.rack") && error.contains("twice"), "{error}");
    let error = refused("kafka.properties.'group.id' = 'x'");
    assert!(error.contains(FILE) && error.contains("`kafka.properties.group.id`"), "{error}");
    let error = refused("kafka.properties.'no.such' = 'x'");
    assert!(error.contains(FILE) && error.contains("`kafka.properties.no.such`"), "{error}");
    let error = refused_variable("CONTROL_BUS__KAFKA__PROPERTIES__GROUP_ID", "x");
    assert!(error.contains("variable CONTROL_BUS__KAFKA__PROPERTIES__GROUP_ID:"), "{error}");
    let error = load_with(&CONTROLLER.replace("localhost:9092", " "), &[]).unwrap_err().to_string();
    assert!(error.contains(FILE) && error.contains("`kafka.brokers`"), "{error}");
}

#[test]
fn a_secret_is_read_from_its_file_without_the_newline_and_never_shown() {
    let secret = source("hunter2\n");
    let path = secret.path.display();
    let settings = load(&format!("kafka.properties.'sasl.password_file' = '{path}'")).unwrap();
    let shown = format!("{settings:?}");
    assert!(shown.contains("sasl.password") && !shown.contains("hunter2"), "{shown}");
    let direct = load("kafka.properties.'sasl.password' = 'hunter2'").unwrap();
    assert_eq!(settings.kafka(), direct.kafka());
    let variable = [("CONTROL_BUS__KAFKA__PROPERTIES__SASL_PASSWORD_FILE", secret.path.to_str().unwrap())];
    assert_eq!(load_with(CONTROLLER, &variable).unwrap().kafka(), direct.kafka());
}

#[test]
fn a_secret_that_cannot_be_read_or_is_given_twice_is_refused() {
    let error = refused("kafka.properties.'sasl.password_file' = '/no/such/file'");
    assert!(error.contains(FILE) && error.contains("`kafka.properties.sasl.password_file`"), "{error}");
    assert!(error.contains("/no/such/file"), "{error}");
    let empty = source("\n");
    let error = refused(&format!("kafka.properties.'sasl.password_file' = '{}'", empty.path.display()));
    assert!(error.contains("is empty"), "{error}");
    let text = format!("kafka.properties.'sasl.password_file' = '/f'\n{CONTROLLER}");
    let variable = [("CONTROL_BUS__KAFKA__PROPERTIES__SASL_PASSWORD", "hunter2")];
    let error = load_with(&text, &variable).unwrap_err().to_string();
    assert!(
        error.contains("CONTROL_BUS__KAFKA__PROPERTIES__SASL_PASSWORD") && error.contains(FILE),
        "{error}"
    );
    assert!(!error.contains("hunter2"), "{error}");
    let error = refused("kafka.properties.'sasl.username_file' = '/f'");
    assert!(error.contains("no secret"), "{error}");
    let error = refused_variable("CONTROL_BUS__KAFKA__PROPERTIES", "sasl.password=hunter2");
    assert!(error.contains("table of properties") && !error.contains("hunter2"), "{error}");
}

#[test]
fn a_syntax_error_names_the_line_but_never_quotes_it() {
    let error = refused("kafka.properties.'sasl.password' = hunter2");
    assert!(error.contains(FILE) && error.contains("line 1"), "{error}");
    assert!(!error.contains("hunter2") && !error.contains('\n'), "{error}");
    let error = Settings::load(std::path::Path::new("/no/such.toml"), []).unwrap_err();
    assert!(error.to_string().contains("/no/such.toml"), "{error}");
}

/// Every key that a layer can hold, with its value.
fn leaves(prefix: &str, value: &Json, found: &mut Vec<(String, Json)>) {
    match value {
        Json::Object(table) if prefix != "kafka.properties" => {
            for (key, value) in table {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                leaves(&path, value, found);
            }
        }
        value => found.push((prefix.to_owned(), value.clone())),
    }
}

fn keys(layer: &Layer) -> Vec<(String, Json)> {
    let mut found = Vec::new();
    leaves("", &serde_json::to_value(layer).unwrap(), &mut found);
    found
}

#[test]
fn the_reference_shows_every_key_and_every_default() {
    const REFERENCE: &str = include_str!("../../config/reference.toml");
    const REQUIRED: [&str; 5] = ["role", "name", "bus.name", "bus.buckets", "kafka.brokers"];
    let layer =
        |text: &str| sources::Merged::check_file(std::path::Path::new("reference.toml"), text).unwrap();
    let shown = keys(&layer(REFERENCE));
    // `#key = …` has no default, `# …` is prose.
    let uncommented: Vec<&str> = REFERENCE
        .lines()
        .map(|line| {
            line.strip_prefix('#').filter(|rest| rest.starts_with(char::is_alphabetic)).unwrap_or(line)
        })
        .collect();
    let all = keys(&layer(&uncommented.join("\n")));
    for ((key, default), (shown_key, shown)) in keys(&defaults::layer()).into_iter().zip(shown) {
        assert_eq!(key, shown_key);
        if REQUIRED.contains(&key.as_str()) {
            assert_eq!(default, Json::Null, "{key} is required and has a default");
        } else {
            assert_eq!(default, shown, "the default of {key}");
        }
    }
    for (key, value) in all {
        assert_ne!(value, Json::Null, "{key} is not in the reference");
    }
}

#[test]
fn the_examples_load() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let controller = Settings::load(&directory.join("controller.toml"), []).unwrap();
    let data_plane = Settings::load(&directory.join("data-plane.toml"), []).unwrap();
    assert_eq!((controller.role(), data_plane.role()), (Role::Controller, Role::DataPlane));
    assert_eq!((controller.bus(), controller.buckets()), (data_plane.bus(), data_plane.buckets()));
}

#[test]
fn the_manifests_configurations_load_and_leave_time_to_end_in_order() {
    const MANIFESTS: [(&str, Role); 2] = [
        (include_str!("../../deploy/kubernetes/controller.yaml"), Role::Controller),
        (include_str!("../../deploy/kubernetes/data-plane.yaml"), Role::DataPlane),
    ];
    for (manifest, role) in MANIFESTS {
        let text: String = manifest
            .lines()
            .skip_while(|line| line.trim() != "config.toml: |")
            .skip(1)
            .take_while(|line| *line != "---")
            .map(|line| format!("{}\n", line.trim_start()))
            .collect();
        let settings = load_with(&text, &[("CONTROL_BUS__NAME", "pod-0")]).unwrap();
        assert_eq!((settings.role(), settings.name().as_str()), (role, "pod-0"));
        assert_eq!(settings.monitoring().unwrap().port(), 9090);
        let grace = manifest.split_once("terminationGracePeriodSeconds: ").unwrap().1.lines().next().unwrap();
        assert!(settings.shutdown().grace < Duration::from_secs(grace.parse().unwrap()));
    }
}
