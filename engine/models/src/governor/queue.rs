//! Fair queue: one queue per subtree, all served in turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// Waiting items, in the order in which they are served.
///
/// Start-time fair queueing (Goyal, Vin and Cheng, 1996): each served item advances its flow's time by the item's cost, and
/// the flow with the earliest time is served next. So busy flows share the capacity by cost, whatever the number of their
/// items. A flow that was idle gets no credit for that time. Within a flow, and among repeated items, the lower ticket is
/// first.
#[derive(Debug)]
pub(super) struct FairQueue<K, T> {
    /// Items that were served before and return: they are next, and have paid already.
    again: BTreeMap<u64, T>,
    flows: HashMap<K, Flow<T>>,
    /// Flows in which something waits, by their time.
    waiting: BTreeSet<(u128, K)>,
    /// Flows in which nothing waits and whose time is still to come.
    idle: BTreeSet<(u128, K)>,
    /// The time of the flow that was served last.
    now: u128,
}

#[derive(Debug)]
struct Flow<T> {
    time: u128,
    items: BTreeMap<u64, T>,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self { again: BTreeMap::new(), flows: HashMap::new(), waiting: BTreeSet::new(), idle: BTreeSet::new(), now: 0 }
    }
}

impl<K: Clone + Ord + Hash, T> FairQueue<K, T> {
    /// `item` waits as the one with `ticket` in the flow `key`.
    pub(super) fn enter(&mut self, key: &K, ticket: u64, item: T) {
        let now = self.now;
        let flow = self.flows.entry(key.clone()).or_insert_with(|| Flow { time: now, items: BTreeMap::new() });
        if flow.items.is_empty() {
            self.idle.remove(&(flow.time, key.clone()));
            flow.time = flow.time.max(now);
            self.waiting.insert((flow.time, key.clone()));
        }
        flow.items.insert(ticket, item);
    }

    /// `item`, which was served before, waits again as the one with `ticket`.
    pub(super) fn enter_again(&mut self, ticket: u64, item: T) {
        self.again.insert(ticket, item);
    }

    /// Returns the item that is served next, with its ticket.
    pub(super) fn head(&self) -> Option<(u64, &T)> {
        let again = self.again.first_key_value();
        let head = again.or_else(|| self.flows[&self.waiting.first()?.1].items.first_key_value());
        head.map(|(ticket, item)| (*ticket, item))
    }

    /// Takes the head out; if it is served for the first time, that costs its flow `cost`.
    pub(super) fn serve(&mut self, cost: u128) -> Option<(u64, T)> {
        if let Some(again) = self.again.pop_first() {
            return Some(again);
        }
        let (time, key) = self.waiting.pop_first()?;
        self.now = time;
        let flow = self.flows.get_mut(&key).expect("a flow in which something waits is there");
        let served = flow.items.pop_first();
        flow.time = time + cost;
        let rest = if flow.items.is_empty() { &mut self.idle } else { &mut self.waiting };
        rest.insert((flow.time, key));
        self.forget();
        served
    }

    /// Takes out what waits as the one with `ticket` in the flow `key`, or again.
    pub(super) fn leave(&mut self, key: &K, ticket: u64) -> Option<T> {
        if let Some(item) = self.again.remove(&ticket) {
            return Some(item);
        }
        let flow = self.flows.get_mut(key)?;
        let item = flow.items.remove(&ticket)?;
        if flow.items.is_empty() {
            self.waiting.remove(&(flow.time, key.clone()));
            self.idle.insert((flow.time, key.clone()));
            self.forget();
        }
        Some(item)
    }

    /// Returns all waiting items, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.again.values().chain(self.flows.values().flat_map(|flow| flow.items.values()))
    }

    /// Forgets flows in which nothing waits and that are owed nothing: all of them once nothing waits at all.
    fn forget(&mut self) {
        let nothing_waits = self.waiting.is_empty();
        while self.idle.first().is_some_and(|(time, _)| nothing_waits || *time <= self.now)
            && let Some((_, key)) = self.idle.pop_first()
        {
            self.flows.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves `count` items; returns the flows that they are of.
    fn serve(queue: &mut FairQueue<char, char>, count: usize) -> String {
        (0..count).map_while(|_| queue.serve(1)).map(|(_, flow)| flow).collect()
    }

    #[test]
    fn flows_are_served_alike_however_much_waits_in_each() {
        let mut queue = FairQueue::default();
        (0..6).for_each(|ticket| queue.enter(&'a', ticket, 'a'));
        (6..8).for_each(|ticket| queue.enter(&'b', ticket, 'b'));
        queue.enter(&'c', 8, 'c');
        assert_eq!(serve(&mut queue, 5), "abcab");
        // Who comes back is served next, and not first for all that it did not ask for.
        (9..13).for_each(|ticket| queue.enter(&'c', ticket, 'c'));
        assert_eq!(serve(&mut queue, 8), "cacacaca");
        assert_eq!((queue.head(), queue.flows.len()), (None, 0));
    }

    #[test]
    fn requests_of_higher_cost_are_served_less_often() {
        let mut queue = FairQueue::default();
        (0..40).for_each(|ticket| queue.enter(&'a', ticket, 3));
        (40..80).for_each(|ticket| queue.enter(&'b', ticket, 1));
        let mut served = [0, 0];
        for _ in 0..40 {
            let cost = *queue.head().unwrap().1;
            let (ticket, _) = queue.serve(cost).unwrap();
            served[usize::from(ticket >= 40)] += 1;
        }
        assert_eq!(served, [10, 30]);
    }

    #[test]
    fn a_repeated_request_keeps_its_place_in_the_queue() {
        let mut queue = FairQueue::default();
        (0..3).for_each(|ticket| queue.enter(&'a', ticket, 'a'));
        let (first, _) = queue.serve(1).unwrap();
        let (second, _) = queue.serve(1).unwrap();
        queue.enter_again(second, 'y');
        queue.enter_again(first, 'x');
        assert_eq!(serve(&mut queue, 3), "xya");
    }

    #[test]
    fn a_request_that_leaves_the_queue_leaves_no_state() {
        let mut queue = FairQueue::default();
        (0..4).for_each(|ticket| queue.enter(&(ticket % 2), ticket, ticket));
        assert_eq!((queue.leave(&1, 1), queue.leave(&1, 1), queue.leave(&0, 3)), (Some(1), None, None));
        assert_eq!(queue.leave(&1, 3), Some(3));
        assert_eq!(queue.iter().count(), 2);
        assert_eq!((queue.serve(1), queue.serve(1), queue.serve(1)), (Some((0, 0)), Some((2, 2)), None));
        queue.enter_again(0, 0);
        assert_eq!(queue.leave(&0, 0), Some(0));
        assert!(queue.flows.is_empty() && queue.waiting.is_empty() && queue.idle.is_empty());
    }
}
