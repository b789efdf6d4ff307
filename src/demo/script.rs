//! What is played: the case of the design, step by step.

use std::time::Duration;

use super::{
    error::Error,
    process::ProcessId,
    setting::CONTROLLERS,
    show::Show,
    standing::{Standing, State},
    verdict::{Rule, Verdict, judge},
    view::{Tone, count},
};

/// How long a handover may take. The embedded broker needs the most, and a busy machine some more.
const HANDOVER: Duration = Duration::from_secs(40);

/// How long nothing may happen at the end while messages wait.
const DRAIN: Duration = Duration::from_secs(15);

/// How many times that, at most, all that waits may take.
const DRAINS: usize = 8;

/// How long the bus is watched at work after a handover.
const WATCH: Duration = Duration::from_secs(3);

/// How many findings are told in words.
const FINDINGS: usize = 10;

/// Plays the whole case, and judges it.
///
/// # Errors
/// When something that must happen does not, or a child ends that should not.
pub(super) async fn play(show: &mut Show) -> Result<Verdict, Error> {
    introduce(show)?;
    let [one, two, three] = CONTROLLERS;
    step(show, 1, "two controllers and three dispatchers start; each controller gets a bucket")?;
    let (first, second) = (show.start_controller(one)?, show.start_controller(two)?);
    show.start_dispatchers()?;
    shared(show, &[first, second]).await?;

    // The one that has the more to do is killed.
    let busy = show.standing.owner(0).unwrap_or(first);
    let other = if busy == first { second } else { first };
    let (killed, stopped) = (show.crew.name(busy).to_owned(), show.crew.name(other).to_owned());
    step(
        show,
        2,
        &format!("{killed} is killed (SIGKILL) in the middle of its work; trigger1 waits in Kafka"),
    )?;
    show.kill(busy).await;
    shared(show, &[other]).await?;

    step(show, 3, &format!("{stopped} has both buckets; {three} is added and gets one of them"))?;
    let third = show.start_controller(three)?;
    shared(show, &[other, third]).await?;

    step(
        show,
        4,
        &format!("{stopped} is stopped (SIGTERM): it finishes what it has begun, commits, leaves"),
    )?;
    show.stop(other).await;
    let gone = |standing: &Standing| standing.state(other) == Some(State::Stopped);
    show.until(&format!("the end of {stopped}"), HANDOVER, gone).await?;
    shared(show, &[third]).await?;

    step(show, 5, &format!("{killed} comes back, as a new process, and gets a bucket"))?;
    let back = show.start_controller(&killed)?;
    shared(show, &[third, back]).await?;

    step(show, 6, "the dispatchers stop sending; what still waits is handled")?;
    show.stop_dispatchers();
    let verdict = drained(show).await?;
    conclude(show, &verdict)?;
    Ok(verdict)
}

fn introduce(show: &mut Show) -> Result<(), Error> {
    let place = if show.setting.is_embedded() {
        "embedded in this process; handovers take seconds longer there than on a real cluster"
    } else {
        "not started by this process"
    };
    let (brokers, bus) = (show.setting.brokers(), show.setting.bus().to_owned());
    show.view.print(&format!(
        "\n  Kafka: {brokers} ({place})\
         \n  Bus:   {bus}, with 2 buckets\n\
         \n  trigger1 is in bucket 0; it has 11 consumers: 5 on dispatcher1, 1 on dispatcher2, 5 on dispatcher3.\
         \n  trigger2 is in bucket 1; its one consumer is on dispatcher2.\
         \n  All they have to say must reach whoever owns the bucket: before, while and after owners change.\n"
    ))
}

fn step(show: &mut Show, number: usize, text: &str) -> Result<(), Error> {
    show.view.say(Tone::Step, &format!("[{number}/6] {text}"))
}

/// Waits until these own all buckets, at least one each, and watches them at work for a while.
async fn shared(show: &mut Show, owners: &[ProcessId]) -> Result<(), Error> {
    let names: Vec<&str> = owners.iter().map(|id| show.crew.name(*id)).collect();
    let what = format!("a handover of all buckets to {}", names.join(" and "));
    show.until(&what, HANDOVER, |standing| standing.share(owners)).await?;
    show.play_on(WATCH).await
}

/// Waits until everything is handled, for as long as there is progress: what is still missing then is lost.
async fn drained(show: &mut Show) -> Result<Verdict, Error> {
    let repeatable = show.setting.repeatable();
    let nothing_missing = |standing: &Standing| {
        let judged = || judge(&standing.account(), repeatable);
        standing.has_caught_up() && !standing.is_dispatching() && judged().count(Rule::Lost) == 0
    };
    for _ in 0..DRAINS {
        let before = show.standing.totals();
        match show.until("the end", DRAIN, nothing_missing).await {
            Err(Error::Stuck { .. }) if show.standing.totals() != before => {}
            Ok(()) | Err(Error::Stuck { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(judge(&show.standing.account(), repeatable))
}

fn conclude(show: &mut Show, verdict: &Verdict) -> Result<(), Error> {
    show.view.settle();
    if !show.view.is_live() {
        let table = show.received().join("\n");
        show.view.print(&format!("\n{table}"))?;
    }
    let text = explained(verdict);
    if !text.is_empty() {
        show.view.print(&format!("\n{text}"))?;
    }
    let tone = if verdict.is_good() { Tone::Good } else { Tone::Bad };
    show.view.print("")?;
    show.view.say(tone, &format!("verdict: {verdict}"))
}

/// What numbers and findings mean, a line each.
fn explained(verdict: &Verdict) -> String {
    let mut lines = Vec::new();
    if verdict.superseded > 0 {
        let states = count(verdict.superseded);
        lines.push(format!("{states} states were skipped: a newer one of the same key had come by then."));
    }
    if verdict.repeated > 0 {
        let repeated = count(verdict.repeated);
        lines.push(format!(
            "{repeated} records came again: their owner had handled them, but had no time to commit that."
        ));
    }
    let findings = verdict.findings.iter().take(FINDINGS);
    lines.extend(findings.map(|finding| format!("{:?}: {}", finding.rule, finding.text)));
    if verdict.findings.len() > FINDINGS {
        lines.push(format!("… and {} more", verdict.findings.len() - FINDINGS));
    }
    lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
