//! The layers of ARCHITECTURE.md hold: a file names modules only from rows above its own, or from its own folder, and
//! only `kafka/` sees rdkafka.
//!
//! Judged by the paths in the sources, taken apart without a compiler: those that begin with `crate`, `super` or
//! `self`, in `use` groups too, wherever they stand. Test modules are sources like any other.

#![allow(clippy::unwrap_used, reason = "what fails in a helper fails its test")]

#[path = "layers/paths.rs"]
mod paths;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The rows, lowest first. Folders of one row do not know each other.
const ROWS: [&[&str]; 12] = [
    &["model"],
    &["engine"],
    &["telemetry"],
    &["kafka"],
    &["topics"],
    &["publisher"],
    &["owner", "pod"],
    &["http", "pipe", "bridge"],
    &["config"],
    &["daemon"],
    &["demo"],
    &["cli"],
];

/// The files that stand above all rows.
const TOP: [&str; 2] = ["lib", "main"];

/// What is wrong with one file: `path` is below `src`, as in `kafka/admin.rs`.
fn violations(path: &str, source: &str) -> Vec<String> {
    let modules: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let folder = modules.first().copied().unwrap_or_default();
    let named = paths::named(&modules, source);
    let mut found = Vec::new();
    if folder != "kafka" && named.words.iter().any(|word| word == "rdkafka" || word == "rdkafka_sys") {
        found.push(format!("{path} sees rdkafka, which only kafka/ may"));
    }
    if TOP.contains(&folder) {
        return found;
    }
    let Some(own) = row(folder) else {
        found.push(format!("{path} is in no row of the layers"));
        return found;
    };
    for other in named.folders {
        if other == folder {
            continue;
        }
        match row(&other) {
            Some(row) if row < own => {}
            _ => found.push(format!("{path} imports from {other}, which is not above {folder}")),
        }
    }
    found
}

fn row(folder: &str) -> Option<usize> {
    ROWS.iter().position(|row| row.contains(&folder))
}

/// Every Rust file below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_file_imports_only_from_layers_above_its_own() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&src);
    assert!(files.len() > 30, "only {} files were found", files.len());
    let found: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let path = file.strip_prefix(&src).unwrap().to_str().unwrap().replace('\\', "/");
            violations(&path, &fs::read_to_string(file).unwrap())
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn an_upward_import_is_caught_in_every_spelling() {
    let upward = [
        "use crate::owner::Config;",
        "use crate::{model::Bucket, owner};",
        "use crate::{\n    model::{Bucket, Buckets},\n    owner::{Config, Handler},\n};",
        "use super::super::owner::Config;",
        "use super::{super::owner, client};",
        "mod tests { use super::super::super::owner; }",
        "fn f() { crate::owner::run() }",
        "fn f(config: &crate :: owner :: Config) {}",
        "use crate as root;",
        "use crate::*;",
        "pub(in crate::owner) fn f() {}",
        "use self::super::super::owner;",
        "let text = r#\"x\"#; use crate::owner;",
        "let c = '\"'; use crate::owner; let d = '\"';",
    ];
    for source in upward {
        assert_eq!(violations("kafka/admin.rs", source).len(), 1, "{source}");
    }
}

#[test]
fn what_is_allowed_is_not_caught() {
    let allowed = [
        "use crate::model::Bucket;",
        "use crate::{kafka::Error, model::{Bucket, owner}};",
        "use super::{client, owner};",
        "use super::super::model::Bucket;",
        "mod tests { use super::owner; use super::super::client; }",
        "// crate::owner\n/* crate::owner /* nested */ crate::owner */ fn f() {}",
        "/// See [`crate::owner`].\nfn f() {}",
        "const A: &str = \"crate::owner \\\" crate::owner\"; const B: &str = r##\"crate::owner\"#\"##;",
        "fn f<'owner>(x: &'owner str) { let _ = owner::crate_name; }",
        "pub(crate) fn f() {} pub(super) fn g() {}",
        "use rdkafka::Message;",
    ];
    for source in allowed {
        assert_eq!(violations("kafka/admin.rs", source), [""; 0], "{source}");
    }
}

#[test]
fn folders_of_one_row_do_not_know_each_other() {
    assert_eq!(violations("owner/config.rs", "use crate::pod::Config;").len(), 1);
    assert_eq!(violations("pod.rs", "use crate::owner;").len(), 1);
    assert_eq!(violations("demo/run.rs", "use crate::cli;").len(), 1);
}

#[test]
fn rdkafka_is_for_kafka_alone() {
    assert_eq!(violations("owner/poll.rs", "use rdkafka::Message;").len(), 1);
    assert_eq!(violations("main.rs", "fn f(x: rdkafka::Offset) {}").len(), 1);
    assert_eq!(violations("owner/poll.rs", "// rdkafka\nconst A: &str = \"rdkafka\";"), [""; 0]);
}

#[test]
fn a_folder_without_a_row_is_caught() {
    assert_eq!(violations("utils/text.rs", "").len(), 1);
}
