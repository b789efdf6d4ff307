//! Where the show is played: its folder with a file for each process, its broker, its topics.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

use super::{
    Options,
    error::Error,
    guard::MARKER,
    load::{BUCKETS, DISPATCHERS},
    verdict::Repeatable,
};
use crate::{
    config::Settings,
    kafka::{Admin, AdminError, EmbeddedBroker},
    topics,
};

/// The controllers that the script has.
pub(super) const CONTROLLERS: [&str; 3] = ["controller1", "controller2", "controller3"];

/// For a person at another terminal: one more controller, and one more pod.
pub(super) const VISITORS: (&str, &str) = ("controller4", "visitor");

/// After how many seconds a silent controller's buckets are somebody else's, with the embedded broker and with others.
/// With the embedded one nearly every rebalance takes as long as this, less a second; brokers' own lower limit is 6.
const SESSION: (u64, u64) = (4, 6);

/// How long each question about the topics may take.
const TOPICS_TIMEOUT: Duration = Duration::from_secs(10);

/// How long after it was handled a message is surely committed: `commit.interval`, and generously what a
/// transaction takes on a busy machine.
const COMMITTED_AFTER: Duration = Duration::from_secs(2);

/// `commit.interval`.
const COMMIT_INTERVAL: &str = "200ms";

/// How long a message waits for others: batches compress well, and the embedded broker keeps only 5 MiB of each
/// partition, which must hold what waits for an owner.
const LINGER: &str = "20ms";

/// A folder of the show's own, readable by nobody else.
#[derive(Debug, Clone)]
pub(super) struct Folder(PathBuf);

/// Where the show is played.
pub(super) struct Setting {
    folder: Folder,
    bus: String,
    settings: Settings,
    embedded: Option<EmbeddedBroker>,
}

impl Folder {
    pub(super) fn create() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("control-bus-demo-{}", short_id()));
        let created = DirBuilder::new().mode(0o700).create(&path);
        let marked = created.and_then(|()| std::fs::write(path.join(MARKER), ""));
        match marked {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(Error::Files { path, source }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The configuration file of a process.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.toml"))
    }

    /// Deletes it, where the guard has not.
    pub(super) fn delete(&self) -> Result<(), Error> {
        match std::fs::remove_dir_all(&self.0) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Files { path: self.0.clone(), source })
            }
            _ => Ok(()),
        }
    }
}

impl Setting {
    /// Starts the broker and writes the files.
    pub(super) fn prepare(folder: Folder, options: &Options) -> Result<Self, Error> {
        let embedded = match options.brokers {
            None => Some(EmbeddedBroker::start(1).map_err(Error::Broker)?),
            Some(_) => None,
        };
        let brokers = embedded.as_ref().map(EmbeddedBroker::bootstrap).or(options.brokers.as_deref());
        let brokers = brokers.unwrap_or_default();
        let bus = match embedded {
            Some(_) => "demo".to_owned(),
            None => format!("control-bus-demo-{}", short_id()),
        };
        let text = common(&bus, brokers, embedded.is_some(), &options.properties);
        let controllers = CONTROLLERS.iter().chain([&VISITORS.0]).map(|name| (*name, "controller"));
        let pods = DISPATCHERS.iter().map(|(name, ..)| name).chain([&VISITORS.1]);
        for (name, role) in controllers.chain(pods.map(|name| (*name, "data-plane"))) {
            let path = folder.file(name);
            let text = format!("role = {}\nname = {}\n\n{text}", quoted(role), quoted(name));
            std::fs::write(&path, text).map_err(|source| Error::Files { path, source })?;
        }
        let settings = Settings::load(&folder.file(VISITORS.1), []).map_err(Error::Config)?;
        Ok(Self { folder, bus, settings, embedded })
    }

    /// Creates the topics. Where it fails half-way, or is dropped, some may be there.
    pub(super) async fn create_topics(&self) -> Result<(), Error> {
        let config = self.settings.topics();
        if let Some(broker) = &self.embedded {
            for spec in topics::expected(&config) {
                let partitions = i32::try_from(spec.partitions).unwrap_or(i32::MAX);
                broker.create_topic(&spec.name, partitions, 1).map_err(Error::Broker)?;
            }
        }
        let verified = topics::ensure(&config, &self.settings.kafka(), TOPICS_TIMEOUT).await;
        verified.map(drop).map_err(Error::Topics)
    }

    /// Deletes the topics of a bus on a real cluster, as far as they are there. Returns what could not be deleted,
    /// and why.
    pub(super) async fn delete_topics(&self) -> Vec<String> {
        if self.embedded.is_some() {
            return Vec::new();
        }
        let admin = match Admin::new(&self.settings.kafka(), TOPICS_TIMEOUT) {
            Ok(admin) => admin,
            Err(error) => return vec![error.to_string()],
        };
        let mut failed = Vec::new();
        for spec in topics::expected(&self.settings.topics()) {
            match admin.delete(&spec.name).await {
                Ok(()) | Err(AdminError::Missing { .. }) => {}
                Err(error) => failed.push(error.to_string()),
            }
        }
        failed
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(super) fn bus(&self) -> &str {
        &self.bus
    }

    /// Whether the broker is in this process.
    pub(super) fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// What may be handled again.
    pub(super) fn repeatable(&self) -> Repeatable {
        let session = Duration::from_secs(session(self.is_embedded()));
        Repeatable { killed: COMMITTED_AFTER, lost: session + COMMITTED_AFTER }
    }

    /// Where the brokers are.
    pub(super) fn brokers(&self) -> String {
        self.settings.kafka().brokers().to_owned()
    }
}

fn session(embedded: bool) -> u64 {
    if embedded { SESSION.0 } else { SESSION.1 }
}

/// What all files have in common.
fn common(bus: &str, brokers: &str, embedded: bool, properties: &[(String, String)]) -> String {
    let session = session(embedded);
    let mut text = format!(
        "[bus]\nname = {}\nbuckets = {BUCKETS}\nslots = 4\n\n\
         [kafka]\nbrokers = {}\nembedded = {embedded}\n\n\
         [group]\nsession_timeout = \"{session}s\"\nheartbeat = \"200ms\"\n\n\
         [commit]\ninterval = \"{COMMIT_INTERVAL}\"\n\n\
         [publisher]\nlinger = \"{LINGER}\"\n\n\
         [shutdown]\ngrace = \"15s\"\ndrain = \"5s\"\n",
        quoted(bus),
        quoted(brokers),
    );
    text.push_str("\n[kafka.properties]\n");
    let compressed = ("compression.type".to_owned(), "zstd".to_owned());
    for (name, value) in [&compressed].into_iter().filter(|_| embedded).chain(properties) {
        text.push_str(&format!("{} = {}\n", quoted(name), quoted(value)));
    }
    text
}

/// A TOML string; JSON's escapes are TOML's too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Enough of a random id to tell shows apart.
fn short_id() -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    id.chars().skip(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_what_it_was_given_whatever_its_characters() {
        let folder = Folder::create().unwrap();
        let properties = vec![("sasl.password".to_owned(), "a\"b\\c=é".to_owned())];
        let text = common("b", "h:1,h:2", false, &properties);
        let path = folder.file("x");
        std::fs::write(&path, format!("role = \"controller\"\nname = \"x\"\n{text}")).unwrap();
        let settings = Settings::load(&path, []).unwrap();
        assert_eq!(
            (settings.bus().group(), settings.kafka().brokers()),
            ("b.controllers".to_owned(), "h:1,h:2")
        );
        let parsed =
            ::config::Config::builder().add_source(::config::File::from(path.as_path())).build().unwrap();
        let table = parsed.get_table("kafka.properties").unwrap();
        assert_eq!(table["sasl.password"].clone().into_string().unwrap(), "a\"b\\c=é");
        folder.delete().unwrap();
        assert!(!folder.path().exists());
    }
}
