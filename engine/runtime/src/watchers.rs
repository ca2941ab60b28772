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

    /// Whether there is a receiver, including the one that is kept for the first watcher.
    pub(crate) fn is_watched(&self) -> bool {
        self.channel.get().is_some_and(|channel| channel.sender.receiver_count() > 0)
    }

    /// Sends `news` to all watchers. Until the first one comes, news is kept for it.
    pub(crate) fn send(&self, news: T) {
        // The watchers may be gone.
        let _unwatched = self.channel().sender.send(news);
    }

    /// Returns a receiver of later news. The receiver of the first watcher also has the earlier news.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::broadcast::error::TryRecvError;

    use super::Watchers;

    #[test]
    fn the_first_watcher_also_gets_what_was_sent_before() {
        let watchers = Watchers::new(4);
        watchers.send(1);
        let (mut first, mut second) = (watchers.watch(), watchers.watch());
        watchers.send(2);
        assert_eq!((first.try_recv(), first.try_recv()), (Ok(1), Ok(2)));
        assert_eq!((second.try_recv(), second.try_recv()), (Ok(2), Err(TryRecvError::Empty)));
    }

    #[test]
    fn a_run_is_watched_while_somebody_holds_a_receiver() {
        let watchers = Watchers::<u32>::new(4);
        assert!(!watchers.is_watched());
        let watcher = watchers.watch();
        assert!(watchers.is_watched());
        drop(watcher);
        assert!(!watchers.is_watched());
    }

    #[test]
    fn news_end_with_the_run() {
        let watchers = Arc::new(Watchers::<u32>::new(4));
        let mut watcher = watchers.watch();
        drop(watchers);
        assert_eq!(watcher.try_recv(), Err(TryRecvError::Closed));
    }
}
