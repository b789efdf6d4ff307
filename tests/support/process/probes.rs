//! What a process says on its monitoring listener.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

use super::{ANSWER, Process, eventually};

impl Process {
    /// Where it serves its metrics and probes.
    pub(crate) fn monitoring(&self) -> SocketAddr {
        let line = self.until_logged("monitoring is served", ANSWER);
        let address = match serde_json::from_str::<Value>(&line) {
            Ok(json) => json.get("address").and_then(Value::as_str).map(str::to_owned),
            Err(_) => {
                line.split("address=").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned)
            }
        };
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}"));
        address.parse().unwrap_or_else(|error| panic!("{error}: {address:?}"))
    }

    /// Asks its monitoring listener; status and body.
    pub(crate) fn get(&self, path: &str) -> io::Result<(u16, String)> {
        let mut stream = TcpStream::connect_timeout(&self.monitoring(), ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let bad = || io::Error::new(io::ErrorKind::InvalidData, answer.clone());
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(bad)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(bad)?;
        Ok((status, body.to_owned()))
    }

    /// Its metrics: `name{labels}` to value.
    pub(crate) fn metrics(&self) -> BTreeMap<String, f64> {
        let (status, text) = self.asked("/metrics");
        assert_eq!(status, 200, "{text}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.rsplit_once(' '));
        pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
    }

    /// One of its metrics, 0 when it has none of that name and labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.metrics().get(name).copied().unwrap_or_default()
    }

    /// One of a bucket's metrics: `control_bus_bucket_<name>{bucket="…"}`.
    pub(crate) fn bucket_metric(&self, name: &str, bucket: u16) -> f64 {
        self.metric(&format!("control_bus_bucket_{name}{{bucket=\"{bucket}\"}}"))
    }

    /// What `/readyz` says: nothing when it is ready, else the reasons.
    pub(crate) fn unready(&self) -> Vec<String> {
        let (status, body) = self.asked("/readyz");
        let json: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        let reasons = json.get("reasons").and_then(Value::as_array).cloned().unwrap_or_default();
        let reasons: Vec<String> =
            reasons.iter().filter_map(|reason| reason.as_str().map(str::to_owned)).collect();
        let ready = json.get("ready").and_then(Value::as_bool);
        assert_eq!((status == 200, ready), (reasons.is_empty(), Some(reasons.is_empty())), "{status} {body}");
        reasons
    }

    /// Whether `/readyz` answers 200.
    pub(crate) fn ready(&self) -> bool {
        self.unready().is_empty()
    }

    /// Waits until `/readyz` answers 200.
    pub(crate) fn until_ready(&self, deadline: Duration) {
        eventually(&format!("{} is ready", self.name), deadline, &[self], || self.ready().then_some(()));
    }

    fn asked(&self, path: &str) -> (u16, String) {
        self.get(path).unwrap_or_else(|error| {
            panic!("{} does not answer {path}: {error}\n{}", self.name, self.last_words())
        })
    }
}
