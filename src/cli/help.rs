//! What the help of each command says below its options: examples, and what its JSON has.
//!
//! The lists of JSON members are checked against what is really written.

/// The text of one command: below the short help, and below the long one.
pub(super) struct Help {
    /// Examples.
    pub(super) short: &'static str,
    /// Examples, and the members of its JSON.
    pub(super) long: &'static str,
}

macro_rules! help {
    ($name:ident, $examples:expr, $json:expr) => {
        pub(super) const $name: Help = Help {
            short: concat!("Examples:\n", $examples),
            long: concat!("Examples:\n", $examples, "\n\nWith --output json, one object a line:\n", $json),
        };
    };
}

pub(super) const PROGRAM: &str = "\
Examples:
  control-bus demo                                       see it work, without any set-up
  control-bus check --config controller.toml             what is wrong, and what to do
  control-bus run --config controller.toml               own buckets, handle messages
  control-bus buckets --watch --config controller.toml   who owns what, and what waits

Exit codes: 0, 1 run time, 64 usage or configuration, 3 a demo's bad verdict, 130 interrupted.
Any key of a configuration file can be set in the environment: CONTROL_BUS__KAFKA__BROKERS=host:9092.";

pub(super) const RUN: &str = "\
Examples:
  control-bus run --config controller.toml
  echo '{\"resource\":\"default/trigger1\",\"type\":\"ready\",\"kind\":\"state\",\"data\":5}' |
    control-bus run --config data-plane.toml";

pub(super) const DEMO: &str = "\
Examples:
  control-bus demo
  control-bus demo --stay
  control-bus demo --brokers localhost:9092";

help!(
    CHECK,
    "  control-bus check --config controller.toml
  control-bus check --config controller.toml --transactions
  control-bus check --config controller.toml --output json | jq 'select(.result != \"ok\")'",
    "  check    what was looked at
  result   ok, warning or failed
  found    what was found
  todo     what to do, or null"
);

help!(
    BUCKETS,
    "  control-bus buckets --config controller.toml
  control-bus buckets --watch --config controller.toml
  control-bus buckets --watch 10 --output json --config controller.toml >> lag.jsonl",
    "  at          when it was asked; with --watch only
  bucket      the bucket's number
  owner       the controller that claimed it last, or null
  epoch       the number of that claim, or null
  released    whether that controller gave it up in good order, or null
  time        when it was claimed or given up, or null
  committed   where handling goes on, or null
  end         where the log ends
  lag         the offsets between; at most so many messages wait
  assigned    the group's member that has it now, or null (nobody, or not told)
  retrying    how many messages were tried and are not finished"
);

help!(
    ROUTE,
    "  control-bus route default/trigger1 --config controller.toml",
    "  resource    as given
  bucket      its bucket
  partition   the same, as a partition of the notifications topic
  owner       the controller that claimed the bucket last, or null
  epoch       the number of that claim, or null
  released    whether that controller gave it up in good order, or null
  committed   where handling goes on, or null
  lag         at most so many messages wait in the bucket
  assigned    the group's member that has it now, or null (nobody, or not told)"
);

help!(
    TAIL,
    "  control-bus tail --config controller.toml                            from now on
  control-bus tail --resource default/trigger1 --from 15m --config controller.toml
  control-bus tail --bucket 3 --from 4711 --count 1 --full --config controller.toml
  control-bus tail --pod dispatcher1 --no-follow --output json --config controller.toml
  control-bus tail --dead-letters --from beginning --config controller.toml",
    "  id             CloudEvents' id; this and the next four are null where not known
  resource       namespace/name
  source         CloudEvents' source
  pod            the pod that published it
  type           CloudEvents' type
  kind           state, event, tombstone or undecodable
  bucket         the bucket
  offset         the offset there
  time           when it was published; of a dead letter, when it was given up
  content_type   the data's media type, or null
  problem        why it is undecodable, or null
  dead_letter    with --dead-letters only: why, reason, attempts, owner, origin_offset
  data           JSON data as it is; or else
  data_base64    any other data; a tombstone has neither"
);

help!(
    SEND,
    "  control-bus send default/trigger1 ready --kind state --data '{\"consumers\":5}' --config pod.toml
  control-bus send default/trigger1 scaled --file scaled.json --config pod.toml
  date | control-bus send default/trigger1 note --file - --content-type text/plain --config pod.toml
  control-bus send default/all refresh --all-buckets --config pod.toml",
    "  id         the message's id
  resource   as given
  bucket     the bucket that it is in
  offset     the offset there"
);

pub(super) const TOPICS: &str = "\
Examples:
  control-bus topics verify --config controller.toml
  control-bus topics ensure --config controller.toml";

help!(
    TOPICS_ENSURE,
    "  control-bus topics ensure --config controller.toml",
    "  topic        its name
  partitions   how many it has
  state        created (by this call) or there
  warnings     what differs from the design without breaking a promise"
);

help!(
    TOPICS_VERIFY,
    "  control-bus topics verify --config controller.toml",
    "  topic        its name
  partitions   how many it has
  state        there
  warnings     what differs from the design without breaking a promise"
);

pub(super) const DEAD_LETTERS: &str = "\
Examples:
  control-bus dead-letters list --config controller.toml
  control-bus dead-letters replay --id ID --config controller.toml
  control-bus tail --dead-letters --config controller.toml        as they come";

help!(
    LETTERS_LIST,
    "  control-bus dead-letters list --config controller.toml
  control-bus dead-letters list --bucket 3 --limit 10 --config controller.toml",
    "  bucket          the bucket
  offset          its own offset: what `replay --offset` takes
  id              CloudEvents' id: what `replay --id` takes, or null
  resource        namespace/name, or null
  type            CloudEvents' type, or null
  why             rejected, exhausted or undecodable, or null
  reason          the reason, or null
  attempts        how many attempts were begun, or null
  origin_offset   the offset that it had among the notifications, or null
  owner           the controller that gave it up, or null
  time            when, or null
  data_missing    whether its data was too large to be kept"
);

help!(
    LETTERS_REPLAY,
    "  control-bus dead-letters replay --id ID --config controller.toml
  control-bus dead-letters replay --bucket 3 --offset 17 --config controller.toml
  control-bus dead-letters replay --all --config controller.toml",
    "  bucket       the bucket
  offset       the letter's own offset
  id           its id, or null
  outcome      replayed, superseded, refused or failed
  new_id       the id that it was published under, or null
  new_offset   where: of the replay, or of what supersedes it, or null
  detail       why not, or null"
);

pub(super) const COMPLETIONS: &str = "\
Examples:
  control-bus completions bash > /etc/bash_completion.d/control-bus
  control-bus completions zsh > ~/.zfunc/_control-bus
  control-bus completions fish > ~/.config/fish/completions/control-bus.fish";

pub(super) const MAN: &str = "\
Examples:
  control-bus man | man -l -
  control-bus man dead-letters list > control-bus-dead-letters-list.1";
