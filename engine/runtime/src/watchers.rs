//! Channels to those who watch a run. Most runs have no watcher, so each channel is made when it is first needed.

use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::sync::broadcast;

/// The watchers of one kind of news about a run.
pub(crate) struct Watchers<T> {
    /// Number of messages that a watcher may lag behind before it misses some.
    capacity: usize,
    channel: OnceLock<Channel<T>>,
}

struct Channel<T> {
    sender: broadcast::Sender<T>,
    /// For the first watcher: everything since the channel was made.
    from_start: Mutex<Option<broadcast::Receiver<T>>>,
}

impl<T: Clone> Watchers<T> {
    /// Returns a channel without watchers.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, channel: OnceLock::new() }
    }

    /// Whether somebody watches, or something was sent for the first one who will.
    pub(crate) fn is_watched(&self) -> bool {
        self.channel.get().is_some_and(|channel| channel.sender.receiver_count() > 0)
    }

    /// Sends `news` to the watchers. Before there was one, it is kept for the first.
    pub(crate) fn send(&self, news: T) {
        // The watchers may be gone.
        let _unwatched = self.channel().sender.send(news);
    }

    /// Returns what is sent from now on; for the first watcher also what was sent before.
    pub(crate) fn watch(&self) -> broadcast::Receiver<T> {
        let channel = self.channel();
        let from_start = channel.from_start.lock().unwrap_or_else(PoisonError::into_inner).take();
        from_start.unwrap_or_else(|| channel.sender.subscribe())
    }

    fn channel(&self) -> &Channel<T> {
        self.channel.get_or_init(|| {
            let (sender, from_start) = broadcast::channel(self.capacity);
            Channel { sender, from_start: Mutex::new(Some(from_start)) }
        })
    }
}
