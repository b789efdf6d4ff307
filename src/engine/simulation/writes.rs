//! How what a tenure asks for reaches Kafka, and with what right.

use std::time::Duration;

use super::{
    Broken, Happening, Process, World,
    broker::Transaction,
    group::{Member, Refused},
    process::{ATTEMPTS, Job},
};
use crate::{
    engine::{Checkpoint, CommitMetadata, Event, Plan, Resume, Setback, Token},
    model::{Bucket, Claim, TransactionSequence},
};

impl World {
    pub(super) fn initialise(&mut self, process: Process, key: (Bucket, Token)) {
        if !self.chance(4) {
            let producer = self.partition(key.0).initialise();
            // Initialised without hearing of it: the producer is not kept.
            if !self.chance(3) {
                self.controllers[process].tenures.get_mut(&key).unwrap().producer = producer;
                return self.answer(process, key, Event::Initialised(Ok(())));
            }
        }
        self.answer(process, key, Event::Initialised(Err(Setback::Aborted)));
    }

    /// The coordinator takes the offset, or does not.
    pub(super) fn send(&mut self, process: Process, key: (Bucket, Token), transaction: Transaction) {
        let version = transaction.version;
        let failed = |setback| Event::Transacted(Err(setback));
        let (producer, member) = (transaction.producer, transaction.group);
        if self.partition(key.0).producer != producer {
            self.seen.fenced += 1;
            return self.answer(process, key, failed(Setback::Unknown));
        }
        let refused = transaction.dead.iter().find(|(offset, without_data)| {
            self.dead_letters_refused || (!without_data && self.partitions[key.0].log[&offset.get()].large)
        });
        if let Some((offset, _)) = refused {
            let too_large = !self.dead_letters_refused;
            return self.task_soon(process, key, Job::Refused { offset: *offset, too_large });
        }
        if self.chance(3) {
            return self.answer(process, key, failed(Setback::Aborted));
        }
        if transaction.committed.is_some() {
            match self.group.check(member) {
                Err(Refused::UnknownMember) => {
                    self.seen.evicted += 1;
                    return self.answer(process, key, failed(Setback::UnknownMember { version }));
                }
                Err(Refused::Generation) => {
                    self.seen.rebalancing += 1;
                    return self.answer(process, key, failed(Setback::Rebalancing { version }));
                }
                Ok(()) => {}
            }
        }
        // Taken: is it from the member that has the bucket? One that is asked for it may not have it any more.
        let revoking = self.controllers[process].snapshot.is_revoking(key.0);
        if !self.group.has(member.id, key.0) && !revoking {
            self.violated(format!("{member:?} writes for bucket {}, which it has not been given", key.0));
        }
        let number = transaction.number;
        self.partition(key.0).open = Some(transaction);
        // The time-out, and the broker looks for what is over only every ten seconds.
        let wait = Duration::from_secs(10) + self.below_seconds(10);
        self.schedule(wait, Happening::TransactionTimeout { bucket: key.0, number });
        self.task_soon(process, key, Job::Commit { producer });
        if self.trouble && self.chance(1) {
            let run = self.controllers[process].run;
            self.pause(process, run); // the worst moment
        }
    }

    pub(super) fn commit(&mut self, process: Process, key: (Bucket, Token), producer: u64) {
        let partition = self.partition(key.0);
        let mut result = Err(Setback::Unknown);
        if partition.producer == producer && partition.open.is_some() {
            if self.chance(3) {
                self.seen.unknown += 1;
                return self.answer(process, key, Event::Transacted(result)); // open still, and nobody hears of it
            }
            if let Err(broken) = self.partition(key.0).apply(ATTEMPTS) {
                self.violated(format!("bucket {}: {broken}", key.0));
            }
            self.seen.transactions += 1;
            if self.chance(3) {
                self.seen.unknown += 1;
            } else {
                result = Ok(());
            }
        } else {
            self.seen.fenced += 1;
        }
        self.answer(process, key, Event::Transacted(result));
    }

    /// Takes the right to one step; whoever has none any more has nothing to do.
    pub(super) fn ticket(&self, process: Process, key: (Bucket, Token)) -> Option<(Member, u64)> {
        let controller = &self.controllers[process];
        let ticket = controller.snapshot.ticket(key.0, key.1).map(|ticket| (ticket.group, ticket.version));
        match self.broken {
            Some(Broken::ReadsMetadataFresh) => {
                let fresh = Member { id: controller.member?, generation: self.group.generation() };
                ticket.map(|(_, version)| (fresh, version))
            }
            Some(Broken::ChecksNoToken) => {
                let any = controller.snapshot.buckets().find_map(|bucket| {
                    controller.snapshot.ticket(bucket, controller.snapshot.token(bucket)?)
                });
                any.map(|ticket| (ticket.group, ticket.version))
            }
            _ => ticket,
        }
    }

    pub(super) fn ask(&mut self, process: Process, key: (Bucket, Token), job: Job) -> bool {
        let has = self.ticket(process, key).is_some();
        if has {
            self.task_soon(process, key, job);
        }
        has
    }

    pub(super) fn ask_to_initialise(&mut self, process: Process, key: (Bucket, Token)) -> bool {
        let has = self.ticket(process, key).is_some();
        if has {
            let open = self.partitions[key.0].open.is_some();
            let wait = if open { 1000 } else { 65 };
            self.task(Duration::from_millis(wait), process, key, Job::Initialise);
            if open && self.chance(50) {
                self.resume_someone(Duration::from_millis(wait)); // the worst moment
            }
        }
        has
    }

    pub(super) fn claim(&mut self, process: Process, key: (Bucket, Token), resume: &Resume) -> bool {
        let (offset, marks, ..) = self.partition(key.0).durable();
        let running = self.controllers[process].tenures.get_mut(&key).unwrap();
        running.inherited = (offset, marks);
        let plan = Plan { epoch: resume.epoch, sequence: TransactionSequence::CLAIM, release: None };
        let checkpoint = Checkpoint {
            offset: resume.offset,
            marks: resume.marks.clone(),
            cautious_until: None,
            dead: Vec::new(),
        };
        self.write(process, key, plan, checkpoint)
    }

    pub(super) fn write(
        &mut self,
        process: Process,
        key: (Bucket, Token),
        plan: Plan,
        checkpoint: Checkpoint,
    ) -> bool {
        let Some((group, version)) = self.ticket(process, key) else { return false };
        let Plan { epoch, sequence, release } = plan;
        let is_claim = sequence == TransactionSequence::CLAIM;
        let claim = (is_claim || release.is_some()).then(|| Claim {
            epoch,
            owner: process.to_string(),
            time: String::new(),
            released: release == Some(true),
            cautious_until: checkpoint.cautious_until.map(|until| until.get()),
        });
        let (offset, marks, ..) = self.partition(key.0).durable();
        let moved = offset != checkpoint.offset || marks != checkpoint.marks;
        let text = CommitMetadata { epoch, sequence, marks: checkpoint.marks }.encode(checkpoint.offset);
        let leaves_out = self.broken == Some(Broken::LeavesOutUnmovedOffsets) && !moved && !is_claim;
        let number = self.numbers.next_number();
        let transaction = Transaction {
            number,
            producer: self.controllers[process].tenures[&key].producer,
            group,
            version,
            epoch,
            sequence,
            committed: (!leaves_out).then_some((checkpoint.offset, text)),
            claim,
            dead: checkpoint.dead.iter().map(|dead| (dead.offset, dead.without_data)).collect(),
        };
        self.task_soon(process, key, Job::Send(Box::new(transaction)));
        true
    }
}
