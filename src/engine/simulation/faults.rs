//! What goes wrong with processes and their membership, and how the group goes on.

use std::time::Duration;

use super::{Happening, Process, SESSION, World, group::Member, process::Controller};
use crate::model::Bucket;

impl World {
    pub(super) fn fault(&mut self) {
        let process = usize::try_from(self.below(self.controllers.len() as u64)).unwrap();
        let controller = &self.controllers[process];
        let (run, member, stopping) = (controller.run, controller.member, controller.stopping);
        let up = controller.alive && !controller.paused;
        match self.below(8) {
            0 if up && self.crashes_left > 0 => {
                self.crashes_left -= 1;
                self.crash(process);
            }
            1..4 if up => self.pause(process, run),
            4 if up => {
                if let Some(member) = member {
                    self.evict(process, run, member);
                }
            }
            5 if up && !stopping => self.stop(process),
            6 => {
                self.unavailable = true;
                let wait = self.below_seconds(8);
                self.schedule(wait, Happening::Heal);
            }
            7 => {
                self.dead_letters_refused = true;
                let wait = self.below_seconds(8);
                self.schedule(wait, Happening::Heal);
            }
            _ => {}
        }
        let wait = self.below_seconds(10);
        self.schedule(wait, Happening::Fault);
    }

    pub(super) fn heal(&mut self) {
        self.unavailable = false;
        self.dead_letters_refused = false;
    }

    pub(super) fn start_process(&mut self, process: Process) {
        let run = self.controllers[process].run + 1;
        self.controllers[process] = Controller::new(run, true);
        self.join(process);
    }

    pub(super) fn join(&mut self, process: Process) {
        let member = self.group.join(process);
        self.controllers[process].member = Some(member);
        self.rebalance_soon();
    }

    /// Gone without a word; the group notices later.
    pub(super) fn crash(&mut self, process: Process) {
        self.seen.crashes += 1;
        self.trace(|| format!("{process} crashes"));
        let controller = &mut self.controllers[process];
        let (run, member) = (controller.run, controller.member);
        *controller = Controller::new(run + 1, false);
        if let Some(member) = member {
            self.schedule(SESSION, Happening::Expire { process, run, member, dead: true });
        }
        let wait = self.below_seconds(15);
        self.schedule(wait, Happening::Start(process));
    }

    /// Stops it where it stands; it goes on with what it knew, perhaps long after others have taken over.
    pub(super) fn pause(&mut self, process: Process, run: u64) {
        self.trace(|| format!("{process} pauses"));
        self.controllers[process].paused = true;
        if let Some(member) = self.controllers[process].member {
            self.schedule(SESSION, Happening::Expire { process, run, member, dead: false });
        }
        let wait = if self.chance(30) { self.below_seconds(5) } else { self.below_seconds(40) };
        self.schedule(wait, Happening::Resume { process, run });
    }

    /// One of those that are paused goes on within `bound`.
    pub(super) fn resume_someone(&mut self, bound: Duration) {
        let paused = self.controllers.iter().position(|controller| controller.paused);
        if let Some(process) = paused {
            let run = self.controllers[process].run;
            let wait = Duration::from_millis(self.below(u64::try_from(bound.as_millis()).unwrap()));
            self.schedule(wait, Happening::Resume { process, run });
        }
    }

    pub(super) fn resume(&mut self, process: Process, run: u64) {
        let controller = &mut self.controllers[process];
        if controller.run != run || !controller.paused {
            return;
        }
        controller.paused = false;
        let (deferred, member) = (std::mem::take(&mut controller.deferred), controller.member);
        self.trace(|| format!("{process} goes on"));
        for happening in deferred {
            self.schedule(Duration::ZERO, happening);
        }
        if member.is_some_and(|member| !self.group.knows(member)) {
            self.seen.zombies += 1;
            self.notice_soon(process, run);
        }
    }

    pub(super) fn expire(&mut self, process: Process, run: u64, member: u64, dead: bool) {
        let controller = &self.controllers[process];
        if (dead || (controller.paused && controller.run == run)) && self.group.remove(member) {
            self.rebalance_soon();
        }
    }

    /// The group puts out a member that is there.
    pub(super) fn evict(&mut self, process: Process, run: u64, member: u64) {
        if self.group.remove(member) {
            self.trace(|| format!("{process} is put out"));
            self.rebalance_soon();
            self.notice_soon(process, run);
        }
    }

    pub(super) fn notice_soon(&mut self, process: Process, run: u64) {
        let (wait, loss) = (self.below_seconds(4), self.chance(60));
        self.schedule(wait, Happening::NoticeEviction { process, run, loss });
    }

    /// The client has noticed that it is not a member any more. It says so, or it does not.
    pub(super) fn notice_eviction(&mut self, process: Process, run: u64, loss: bool) {
        let controller = &mut self.controllers[process];
        if controller.member.is_some_and(|member| self.group.knows(member)) || controller.stopping {
            return;
        }
        if controller.revoking {
            controller.rejoins = true;
            return;
        }
        if loss {
            self.lost(process);
        }
        let wait = self.delay();
        self.schedule(wait, Happening::Rejoin { process, run });
    }

    /// Leaves in good order.
    pub(super) fn stop(&mut self, process: Process) {
        let controller = &mut self.controllers[process];
        let Some(id) = controller.member else { return };
        if controller.revoking || !self.group.knows(id) {
            return;
        }
        self.trace(|| format!("{process} leaves"));
        let controller = &mut self.controllers[process];
        controller.stopping = true;
        let view: Vec<Bucket> = controller.view.iter().copied().collect();
        self.revoke(process, &view, Member { id, generation: self.group.generation() });
    }

    /// It has given up everything and ends.
    pub(super) fn leave(&mut self, process: Process) {
        let controller = &mut self.controllers[process];
        if let Some(member) = controller.member {
            self.group.remove(member);
        }
        let run = controller.run + 1;
        *controller = Controller::new(run, false);
        let wait = self.below_seconds(15);
        self.schedule(wait, Happening::Start(process));
    }

    pub(super) fn rebalance_soon(&mut self) {
        if !self.rebalancing {
            self.rebalancing = true;
            let wait = Duration::from_millis(self.below(800));
            self.schedule(wait, Happening::Rebalance { patience: 100 });
        }
    }

    /// A new generation, once all have answered the last one.
    pub(super) fn rebalance(&mut self, patience: u32) {
        if self.group.is_busy() && patience > 0 {
            let next = Happening::Rebalance { patience: patience - 1 };
            return self.schedule(Duration::from_millis(200), next);
        }
        for member in self.group.remove_busy() {
            let process = self.controllers.iter().position(|controller| controller.member == Some(member));
            if let Some(process) = process {
                let run = self.controllers[process].run;
                self.notice_soon(process, run);
            }
        }
        self.rebalancing = false;
        let controllers = &self.controllers;
        let sees = |process: Process, bucket| controllers[process].view.contains(&bucket);
        let members = self.group.rebalance(&self.buckets(), sees);
        let generation = self.group.generation();
        self.trace(|| format!("generation {generation}: {:?}", self.group));
        for (process, member) in members {
            let run = self.controllers[process].run;
            let wait =
                if self.chance(20) { self.below_seconds(4) } else { Duration::from_millis(self.below(50)) };
            self.schedule(wait, Happening::Callback { process, run, member, generation });
        }
        // Sharing out more evenly takes several generations.
        if self.chance(30) {
            self.rebalance_soon();
        }
    }
}
