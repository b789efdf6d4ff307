//! One queue per resource, and whose turn it is.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use crate::model::RecordOffset;

/// The queues of all resources that have something unfinished. A resource without is forgotten.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: HashMap<Arc<str>, Lane>,
    /// Resources whose head may start, in turn.
    ready: VecDeque<Arc<str>>,
    /// The newest queued, never started state of each record key.
    states: HashMap<Box<[u8]>, RecordOffset>,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<RecordOffset>,
    /// Whether the head is being handled, or waits for a retry or to be written.
    busy: bool,
}

impl Lanes {
    /// Appends a record to its resource's queue.
    pub(super) fn push(&mut self, resource: &Arc<str>, offset: RecordOffset) {
        let lane = self.lanes.entry(Arc::clone(resource)).or_default();
        lane.queue.push_back(offset);
        if lane.queue.len() == 1 && !lane.busy {
            self.ready.push_back(Arc::clone(resource));
        }
    }

    /// The record whose turn it is.
    pub(super) fn head(&self) -> Option<(Arc<str>, RecordOffset)> {
        let resource = self.ready.front()?;
        let offset = self.lanes.get(resource)?.queue.front()?;
        Some((Arc::clone(resource), *offset))
    }

    /// The records behind a resource's head, `count` at the most.
    pub(super) fn behind_head(&self, resource: &Arc<str>, count: usize) -> Vec<RecordOffset> {
        let lane = self.lanes.get(resource);
        lane.into_iter().flat_map(|lane| lane.queue.iter().skip(1).take(count)).copied().collect()
    }

    /// Whether `offset` is a resource's head and only waits for its turn.
    pub(super) fn is_ready(&self, resource: &Arc<str>, offset: RecordOffset) -> bool {
        self.lanes.get(resource).is_some_and(|lane| !lane.busy && lane.queue.front() == Some(&offset))
    }

    /// The head of `resource` is taken, usually because it is its turn.
    pub(super) fn take(&mut self, resource: &Arc<str>) {
        if self.ready.front() == Some(resource) {
            self.ready.pop_front();
        } else {
            self.ready.retain(|ready| ready != resource);
        }
        if let Some(lane) = self.lanes.get_mut(resource) {
            lane.busy = true;
        }
    }

    /// The head may start again, when its turn comes.
    pub(super) fn release(&mut self, resource: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(resource).filter(|lane| lane.busy) {
            lane.busy = false;
            self.ready.push_back(Arc::clone(resource));
        }
    }

    /// The head may start again, before all others.
    pub(super) fn release_first(&mut self, resource: &Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(resource).filter(|lane| lane.busy) {
            lane.busy = false;
            self.ready.push_front(Arc::clone(resource));
        }
    }

    /// The head is finished.
    pub(super) fn finished(&mut self, resource: &Arc<str>, offset: RecordOffset) {
        let Some(lane) = self.lanes.get_mut(resource) else { return };
        if lane.queue.front() != Some(&offset) {
            return;
        }
        lane.queue.pop_front();
        lane.busy = false;
        if lane.queue.is_empty() {
            self.lanes.remove(resource);
            self.shrink();
        } else {
            self.ready.push_back(Arc::clone(resource));
        }
    }

    /// A queued record that is not the busy head goes away.
    pub(super) fn withdraw(&mut self, resource: &Arc<str>, offset: RecordOffset) {
        let Some(lane) = self.lanes.get_mut(resource) else { return };
        let Ok(at) = lane.queue.binary_search(&offset) else { return };
        lane.queue.remove(at);
        if lane.queue.is_empty() && !lane.busy {
            self.lanes.remove(resource);
            self.ready.retain(|ready| ready != resource);
        }
    }

    /// Notes the newest queued state of a key, and returns the one before it.
    pub(super) fn newest_state(&mut self, key: &[u8], offset: RecordOffset) -> Option<RecordOffset> {
        match self.states.get_mut(key) {
            Some(newest) => Some(std::mem::replace(newest, offset)),
            None => {
                self.states.insert(key.into(), offset);
                None
            }
        }
    }

    /// The state at `offset` cannot be superseded any more.
    pub(super) fn forget_state(&mut self, key: &[u8], offset: RecordOffset) {
        if self.states.get(key) == Some(&offset) {
            self.states.remove(key);
        }
    }

    /// How many resources have something queued.
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether nothing at all is remembered.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.ready.is_empty() && self.states.is_empty()
    }

    /// Gives memory back after many resources came and went.
    fn shrink(&mut self) {
        if self.lanes.is_empty() && self.lanes.capacity() > 1024 {
            self.lanes = HashMap::new();
            self.ready = VecDeque::new();
            self.states.shrink_to_fit();
        }
    }
}
