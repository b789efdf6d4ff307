//! The show: children, setting, what is known, and how it is seen, with everything that happens led through one place.

use std::{
    io::{Stdout, stdout},
    time::{Duration, Instant},
};

use tokio::{
    sync::mpsc,
    time::{Interval, MissedTickBehavior, interval, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Options,
    board::short,
    error::Error,
    load::{DISPATCHERS, Load},
    process::{Crew, Happening, Order, ProcessId},
    said::{Answer, Said},
    setting::{Folder, Setting},
    standing::{News, Standing, State},
    view::{Style, Tone, View, seconds},
};
use crate::model::ErrorKind;

/// How often the board is drawn.
const FRAME: Duration = Duration::from_millis(200);

/// How often there is a line about how things stand, where there is no board.
const SUMMARY: Duration = Duration::from_secs(5);

/// The most happenings that are taken in at once.
const BATCH: usize = 512;

/// How long children may take to end in good order at the end of the show.
const END: Duration = Duration::from_secs(12);

/// A show that is being played.
pub(super) struct Show {
    pub(super) crew: Crew,
    pub(super) setting: Setting,
    pub(super) standing: Standing,
    pub(super) view: View<Stdout>,
    happenings: mpsc::Receiver<Happening>,
    shutdown: CancellationToken,
    /// Cancelled when the dispatchers are to send nothing more.
    flowing: CancellationToken,
    dispatchers: Vec<ProcessId>,
    rate: u32,
    frames: Interval,
    summarised: Instant,
    /// Whether the verdict is there, and everything that happens is news.
    pub(super) stays: bool,
}

impl Show {
    /// Prepares everything; no child runs yet but the guard.
    pub(super) async fn open(options: &Options, shutdown: CancellationToken) -> Result<Self, Error> {
        let program = std::env::current_exe()
            .map_err(|source| Error::Files { path: "the program itself".into(), source })?;
        let folder = Folder::create()?;
        let (crew, happenings) = match Crew::new(program, folder.path()) {
            Ok(started) => started,
            Err(error) => {
                folder.delete()?;
                return Err(error);
            }
        };
        let setting = match prepared(&folder, options, &shutdown).await {
            Ok(setting) => setting,
            Err(error) => {
                // The cause matters more than what may go wrong on the way out.
                drop(crew.end(false));
                drop(folder.delete());
                return Err(error);
            }
        };
        let began = Instant::now();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            crew,
            setting,
            standing: Standing::new(began),
            view: View::new(stdout(), Style::of_stdout(), began),
            happenings,
            flowing: CancellationToken::new(),
            shutdown,
            dispatchers: Vec::new(),
            rate: options.rate,
            frames,
            summarised: began,
            stays: false,
        })
    }

    pub(super) fn start_controller(&mut self, name: &str) -> Result<ProcessId, Error> {
        let (id, _) = self.crew.start(name, false)?;
        self.standing.started(id, name);
        Ok(id)
    }

    /// Starts all dispatchers, and their load.
    pub(super) fn start_dispatchers(&mut self) -> Result<(), Error> {
        for (name, of_trigger1, of_trigger2) in DISPATCHERS {
            let (id, input) = self.crew.start(name, true)?;
            self.dispatchers.push(id);
            self.standing.dispatching(name);
            if let Some(input) = input {
                let load = Load::new(name, of_trigger1, of_trigger2);
                let (happenings, stop) = (self.crew.happenings(), self.flowing.clone());
                self.crew.tasks.spawn(load.feed(input, self.rate, happenings, stop));
            }
        }
        Ok(())
    }

    /// Lets the dispatchers end: what was read is answered, and nothing more is sent.
    pub(super) fn stop_dispatchers(&self) {
        self.flowing.cancel();
    }

    pub(super) async fn kill(&mut self, id: ProcessId) {
        self.standing.killed(id, Instant::now());
        self.crew.order(id, Order::Kill).await;
    }

    pub(super) async fn stop(&mut self, id: ProcessId) {
        self.standing.stopping(id);
        self.crew.order(id, Order::Stop).await;
    }

    /// A controller that runs, and its process id.
    pub(super) fn somebody(&self) -> Option<(&str, u32)> {
        let id = self.standing.running().next()?;
        Some((self.crew.name(id), self.crew.pid(id)?))
    }

    /// Takes in what happens until `done`.
    ///
    /// # Errors
    /// [`Error::Stuck`] when that takes longer than `limit`; and when something goes wrong meanwhile.
    pub(super) async fn until(
        &mut self,
        what: &str,
        limit: Duration,
        done: impl Fn(&Standing) -> bool,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        while !done(&self.standing) {
            if Instant::now() >= deadline {
                return Err(Error::Stuck { what: what.to_owned(), limit });
            }
            self.turn().await?;
        }
        self.draw()
    }

    /// Takes in what happens for some time.
    pub(super) async fn play_on(&mut self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.turn().await?;
        }
        Ok(())
    }

    /// Takes in what happens until the shutdown.
    pub(super) async fn play_on_until_shutdown(&mut self) -> Result<(), Error> {
        loop {
            match self.turn().await {
                Err(Error::Interrupted) => return Ok(()),
                other => other?,
            }
        }
    }

    /// Waits for something, for a frame at most.
    async fn turn(&mut self) -> Result<(), Error> {
        let mut batch = Vec::with_capacity(BATCH);
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => return Err(Error::Interrupted),
            _ = self.frames.tick() => return self.draw(),
            _ = self.happenings.recv_many(&mut batch, BATCH) => {}
        }
        for happening in batch {
            self.take(happening)?;
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<(), Error> {
        if self.stays {
            return Ok(());
        }
        if self.view.is_live() {
            return self.view.show(self.board());
        }
        if self.summarised.elapsed() >= SUMMARY {
            self.summarised = Instant::now();
            let summary = self.summary();
            return self.view.say(Tone::Aside, &summary);
        }
        Ok(())
    }

    fn take(&mut self, happening: Happening) -> Result<(), Error> {
        match happening {
            Happening::Sent(sent) => self.standing.sent(sent),
            Happening::Said(id, at, line) => self.said(id, at, line)?,
            Happening::Ended(id, status) => self.ended(id, status)?,
        }
        Ok(())
    }

    fn said(&mut self, id: ProcessId, at: Instant, line: String) -> Result<(), Error> {
        let name = self.crew.name(id).to_owned();
        if self.dispatchers.contains(&id) {
            match Answer::parse(&line) {
                Ok(answer) => self.standing.answered(answer),
                Err(source) => return Err(Error::Line { name, line, source }),
            }
            return Ok(());
        }
        match Said::parse(&line) {
            Ok(said) => {
                let news = self.standing.said(id, at, said);
                self.tell(&name, news)
            }
            // A process that was killed may leave half a line.
            Err(_) if self.stays || self.standing.state(id) == Some(State::Killed) => Ok(()),
            Err(source) => Err(Error::Line { name, line, source }),
        }
    }

    fn tell(&mut self, name: &str, news: News) -> Result<(), Error> {
        let resource = |bucket: u16| short(self.standing.resource(bucket));
        match news {
            News::Acquired { bucket, epoch, ownerless } => {
                let after = ownerless.map(|time| format!(", after {} without an owner", seconds(time)));
                let after = after.unwrap_or_default();
                let text =
                    format!("{name} owns bucket {bucket} ({}) now, epoch {epoch}{after}", resource(bucket));
                self.view.say(Tone::News, &text)
            }
            News::Released { bucket, epoch, lost: false } => {
                let text =
                    format!("{name} has given up bucket {bucket} ({}), epoch {epoch}", resource(bucket));
                self.view.say(Tone::News, &text)
            }
            News::Released { bucket, epoch, lost: true } => {
                let text = format!("{name} has LOST bucket {bucket} ({}), epoch {epoch}", resource(bucket));
                self.view.say(Tone::Bad, &text)
            }
            News::Handled { pod, resource, bucket, offset } if self.stays => {
                let text =
                    format!("{name} received {resource} from {pod} (bucket {bucket}, offset {offset})");
                self.view.say(Tone::News, &text)
            }
            News::Handled { .. } => Ok(()),
        }
    }

    fn ended(
        &mut self,
        id: ProcessId,
        status: std::io::Result<std::process::ExitStatus>,
    ) -> Result<(), Error> {
        let name = self.crew.name(id).to_owned();
        let status = status.map_err(|source| Error::Start {
            name: name.clone(),
            program: "waiting for its end".into(),
            source,
        })?;
        let is_dispatcher = self.dispatchers.contains(&id);
        let before = self.standing.ended(id, &name);
        if self.stays {
            return self.view.say(Tone::News, &format!("{name} has ended with {status}"));
        }
        let when = match before {
            Some(State::Killed) => return Ok(()),
            Some(State::Stopping) if status.success() => return Ok(()),
            Some(State::Stopping) => "although it was told to end in good order",
            // With 1 it says that a message was refused, which is the judge's.
            None if is_dispatcher && self.flowing.is_cancelled() && matches!(status.code(), Some(0 | 1)) => {
                return Ok(());
            }
            _ => "although nobody had told it to",
        };
        Err(Error::Ended { words: self.crew.last_words(id), name, status, when })
    }

    /// Ends everything: children in good order where they can, then what is left of them, topics unless they
    /// `stay`, and files unless they are to be kept.
    pub(super) async fn close(mut self, keep: bool, stay: bool) -> Result<(), Error> {
        self.view.settle();
        self.stop_dispatchers();
        let running: Vec<ProcessId> = self.standing.running().collect();
        for id in running {
            self.standing.stopping(id);
            self.crew.order(id, Order::Stop).await;
        }
        let deadline = tokio::time::Instant::now() + END;
        while self.standing.has_children() {
            match timeout_at(deadline, self.happenings.recv()).await {
                Ok(Some(Happening::Ended(id, _))) => {
                    let name = self.crew.name(id).to_owned();
                    self.standing.ended(id, &name);
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        self.crew.tasks.shutdown().await;
        let mut words = Vec::new();
        if stay && !self.setting.is_embedded() {
            let bus = self.setting.bus();
            words
                .push((Tone::Aside, format!("the topics {bus}.* stay on the brokers; nothing else is left")));
        } else {
            let failures = self.setting.delete_topics().await.into_iter();
            words.extend(failures.map(|why| (Tone::Bad, format!("a topic is left on the brokers: {why}"))));
        }
        let folder = self.setting.folder().clone();
        if self.crew.end(keep).is_err() || !keep {
            folder.delete()?;
        }
        if keep {
            let folder = folder.path().display();
            words.push((Tone::Aside, format!("the processes' logs are left in {folder}")));
        }
        words.iter().try_for_each(|(tone, text)| self.view.say(*tone, text))
    }
}

/// The setting with its topics. Where that is not to be, nothing of it is left on the brokers, unless they do not
/// answer.
async fn prepared(
    folder: &Folder,
    options: &Options,
    shutdown: &CancellationToken,
) -> Result<Setting, Error> {
    let setting = Setting::prepare(folder.clone(), options)?;
    let created = tokio::select! {
        biased;
        () = shutdown.cancelled() => Err(Error::Interrupted),
        created = setting.create_topics() => created,
    };
    match created {
        Ok(()) => Ok(setting),
        Err(Error::Topics(error)) if error.kind() == ErrorKind::Retryable => Err(Error::Topics(error)),
        Err(error) => {
            drop(setting.delete_topics().await);
            Err(error)
        }
    }
}
