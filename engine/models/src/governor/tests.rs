//! The governor with many who ask, in time that passes only when all of them wait.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;

use futures_util::FutureExt;
use futures_util::future::join_all;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_mins(30);

fn governor(limits: ProviderLimits) -> Arc<Governor> {
    let governor = Arc::new(Governor::new(Retries { first: SECOND, longest: 8 * SECOND, ..Retries::default() }));
    governor.keep(&limits);
    governor
}

fn requests(limit: u32) -> ProviderLimits {
    ProviderLimits { requests_per_minute: Some(limit), ..ProviderLimits::default() }
}

fn in_flight(limit: u32) -> ProviderLimits {
    ProviderLimits { in_flight: Some(limit), ..ProviderLimits::default() }
}

fn subtree(run: RunKey, number: usize) -> Subtree {
    Subtree::of(run, &TaskId::from(format!("0/1.{number}").as_str()))
}

fn queued(governor: &Arc<Governor>, tokens: u64) -> Queued {
    governor.enqueue(subtree(RunKey(0), 1), demand(tokens), PATIENCE)
}

fn demand(input: u64) -> Demand {
    Demand { input, output: 0 }
}

/// Whether no request is in flight or waiting.
fn is_at_rest(governor: &Governor) -> bool {
    governor.state().is_at_rest()
}

#[test]
fn a_subtree_is_a_child_of_the_root_with_all_below_it() {
    let run = RunKey::unique();
    let of = |task: &str| Subtree::of(run, &TaskId::from(task));
    assert_eq!(of("0/2.1"), of("0/2.1/3.2/1.1"));
    assert_eq!(of("0/2.1"), of("0/2.1/retry.2"));
    assert_ne!(of("0/2.1"), of("0/2.10"));
    assert_ne!(of("0"), of("0/2.1"));
    assert_ne!(of("0/2.1"), Subtree::of(RunKey::unique(), &TaskId::from("0/2.1")));
}

#[tokio::test(start_paused = true)]
async fn limits_of_a_minute_are_kept_exactly_and_used_up() {
    let (governor, begun) = (governor(requests(60)), Instant::now());
    let asking = (0..300).map(|_| {
        let governor = &governor;
        async move {
            let permit = queued(governor, 1).admitted().await.unwrap();
            let at = begun.elapsed();
            tokio::time::sleep(SECOND / 10).await;
            permit.answered(None);
            at
        }
    });
    let mut admitted = join_all(asking).await;
    admitted.sort_unstable();
    for (first, at) in admitted.iter().enumerate() {
        let within = admitted[first..].iter().take_while(|later| later.saturating_sub(*at) < 60 * SECOND).count();
        assert!(within <= 60, "{within} requests in the minute from {at:?}");
    }
    let last = *admitted.last().unwrap();
    assert!(last < 241 * SECOND, "300 requests of 60 a minute need four minutes, not {last:?}");
    assert!(is_at_rest(&governor));
}

#[tokio::test(start_paused = true)]
async fn tokens_that_were_not_used_let_the_next_through() {
    let limits = ProviderLimits { tokens_per_minute: Some(1_000), ..ProviderLimits::default() };
    let (governor, begun) = (governor(limits), Instant::now());
    let first = queued(&governor, 900).admitted().await.unwrap();
    let mut large = queued(&governor, 800);
    let mut second = pin!(large.admitted());
    assert!(second.as_mut().now_or_never().is_none());
    // Something small does not pass something large that waits.
    let mut small = queued(&governor, 10);
    let mut third = pin!(small.admitted());
    assert!(third.as_mut().now_or_never().is_none());
    first.answered(Some(150));
    let second = second.await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    third.await.unwrap().answered(Some(10));
    // More was used than was thought: the next minute pays for it.
    second.answered(Some(2_000));
    queued(&governor, 1).admitted().await.unwrap().answered(None);
    assert_eq!(begun.elapsed(), 60 * SECOND);
    assert!(is_at_rest(&governor));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_while_the_provider_wants_to_be_left_alone() {
    let (governor, begun) = (governor(in_flight(2)), Instant::now());
    let refused = queued(&governor, 1).admitted().await.unwrap();
    let answered = queued(&governor, 1).admitted().await.unwrap();
    let mut next = queued(&governor, 1);
    let mut next = pin!(next.admitted());
    assert!(next.as_mut().now_or_never().is_none());
    // The next request is admitted, but picks that up only when it is polled. Before that the provider asks for a
    // pause.
    answered.answered(None);
    let pushback = refused.congested(true, Some(5 * SECOND)).unwrap();
    assert_eq!(pushback, Pushback { pause: 5 * SECOND, last_answer: Some(Duration::ZERO) });
    assert!(next.as_mut().now_or_never().is_none(), "what was admitted and not picked up waits again");
    next.await.unwrap().answered(None);
    assert_eq!(begun.elapsed(), 5 * SECOND);
    // A provider that is overloaded and does not say for how long is asked less at a time, and still asked.
    let overloaded = queued(&governor, 1).admitted().await.unwrap();
    assert_eq!(overloaded.congested(false, None), None);
    queued(&governor, 1).admitted().await.unwrap().answered(None);
    assert_eq!(begun.elapsed(), 5 * SECOND);
    assert!(is_at_rest(&governor));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_wait_too_long_is_refused_at_once() {
    let (governor, begun) = (governor(in_flight(1)), Instant::now());
    let refused = queued(&governor, 1).admitted().await.unwrap();
    let waiting = (0..5).map(|_| async { queued(&governor, 1).admitted().await.map(drop) });
    let refusing = async {
        tokio::time::sleep(SECOND).await;
        refused.congested(true, Some(PATIENCE + SECOND))
    };
    let (waiting, _) = futures_util::future::join(join_all(waiting), refusing).await;
    assert_eq!(waiting, vec![Err(Paused { left: PATIENCE + SECOND }); 5]);
    assert_eq!(begun.elapsed(), SECOND);
    assert!(is_at_rest(&governor));
    // Once what is left is bearable, it is waited for.
    tokio::time::advance(2 * SECOND).await;
    queued(&governor, 1).admitted().await.unwrap().answered(None);
    assert_eq!(begun.elapsed(), PATIENCE + 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn subtrees_share_alike_however_many_of_each_ask() {
    let (governor, run) = (governor(in_flight(2)), RunKey::unique());
    let served: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    let until = Instant::now() + 100 * SECOND;
    let asking =
        [4, 8, 16, 36].into_iter().enumerate().flat_map(|(number, clients)| (0..clients).map(move |_| number)).map(|number| {
            let (governor, served) = (&governor, &served);
            async move {
                while Instant::now() < until {
                    let permit = governor.enqueue(subtree(run, number), demand(1), PATIENCE).admitted().await.unwrap();
                    tokio::time::sleep(SECOND / 10).await;
                    // Who still waits at the end shows nothing.
                    served[number].fetch_add(usize::from(Instant::now() < until), Ordering::Relaxed);
                    permit.answered(None);
                }
            }
        });
    join_all(asking).await;
    let served: Vec<usize> = served.into_iter().map(AtomicUsize::into_inner).collect();
    println!("of 64 who ask, {served:?} requests of the four subtrees with 4, 8, 16 and 36 of them");
    let whole: usize = served.iter().sum();
    assert!(whole >= 1_990, "{whole} requests, two at a time, ten a second");
    assert!(served.iter().all(|served| (490..=510).contains(served)), "{served:?}");
    assert!(is_at_rest(&governor));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_leaves_the_queue_and_no_other_is_lost() {
    let governor = governor(ProviderLimits { in_flight: Some(4), ..requests(100) });
    let asking = (0..1_000u64).map(|number| {
        let governor = &governor;
        async move {
            let mut queued = queued(governor, 1);
            // Two of three are cancelled: in the queue, as timer, admitted and not picked up, or in flight.
            let work = async {
                let permit = queued.admitted().await.unwrap();
                tokio::time::sleep(SECOND * 2).await;
                permit.answered(None);
            };
            match number % 3 {
                0 => work.await,
                _ => drop(tokio::time::timeout(Duration::from_millis(number * 137 % 200_000), work).await),
            }
        }
    });
    join_all(asking).await;
    assert!(is_at_rest(&governor));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_who_wait_are_woken_when_it_is_their_turn_and_not_before() {
    let (governor, looks) = (governor(requests(100_000)), AtomicUsize::new(0));
    let run = RunKey::unique();
    let asking = (0..10_000).map(|number| {
        let (governor, looks) = (&governor, &looks);
        async move {
            let mut queued = governor.enqueue(subtree(run, number % 100), demand(1), PATIENCE);
            let permit = {
                let mut admitted = pin!(queued.admitted());
                let counted = poll_fn(|context| {
                    looks.fetch_add(1, Ordering::Relaxed);
                    admitted.as_mut().poll(context)
                });
                counted.await.unwrap()
            };
            tokio::time::sleep(SECOND / 100).await;
            permit.answered(None);
        }
    });
    join_all(asking).await;
    let looks = looks.into_inner();
    println!("10,000 who wait looked {looks} times");
    assert!((10_000..=30_000).contains(&looks), "{looks}");
    assert!(is_at_rest(&governor));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_made_again_is_before_all_others() {
    let governor = governor(in_flight(1));
    let mut again = queued(&governor, 1);
    let refused = again.admitted().await.unwrap();
    let order = Mutex::new(Vec::new());
    let others = (0..3).map(|_| async {
        let permit = queued(&governor, 1).admitted().await.unwrap();
        order.lock().unwrap().push("another");
        permit.answered(None);
    });
    let again = async {
        tokio::task::yield_now().await;
        refused.congested(true, None);
        let permit = again.admitted().await.unwrap();
        order.lock().unwrap().push("again");
        permit.answered(None);
    };
    futures_util::future::join(join_all(others), again).await;
    assert_eq!(*order.lock().unwrap(), ["again", "another", "another", "another"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_while_nothing_is_left() {
    let (governor, begun) = (governor(in_flight(2)), Instant::now());
    let left = |amount, seconds| Left { quota: Quota::Requests, amount, most: None, reset: SECOND * seconds };
    let first = queued(&governor, 1).admitted().await.unwrap();
    let second = queued(&governor, 1).admitted().await.unwrap();
    let mut next = queued(&governor, 1);
    let mut next = pin!(next.admitted());
    assert!(next.as_mut().now_or_never().is_none());
    // The next request is admitted, but picks that up only when it is polled. Before that the second answer begins.
    first.announce(&[left(1, 7)]);
    first.answered(None);
    second.announce(&[left(0, 7)]);
    assert!(next.as_mut().now_or_never().is_none(), "what was admitted and not picked up waits again");
    second.answered(None);
    next.await.unwrap().answered(None);
    assert_eq!(begun.elapsed(), 7 * SECOND);
    // What is left is used up, and not more, until an answer or the reset brings more.
    let permit = queued(&governor, 1).admitted().await.unwrap();
    permit.announce(&[left(3, 5)]);
    permit.answered(None);
    for _ in 0..3 {
        drop(queued(&governor, 1).admitted().await.unwrap());
    }
    assert_eq!(begun.elapsed(), 7 * SECOND);
    queued(&governor, 1).admitted().await.unwrap().answered(None);
    assert_eq!(begun.elapsed(), 12 * SECOND);
    // A distant reset is not waited for. A provider that needs the time sends `Retry-After`.
    let permit = queued(&governor, 1).admitted().await.unwrap();
    permit.announce(&[left(0, 1_000_000)]);
    permit.answered(None);
    queued(&governor, 1).admitted().await.unwrap().answered(None);
    assert_eq!(begun.elapsed(), 72 * SECOND);
    // A rejection that sends a time sets the pause. No pause is made up.
    let refused = queued(&governor, 1).admitted().await.unwrap();
    refused.announce(&[left(0, 3)]);
    assert_eq!(refused.congested(true, None).map(|pushback| pushback.pause), Some(3 * SECOND));
    queued(&governor, 1).admitted().await.unwrap().answered(None);
    assert_eq!(begun.elapsed(), 75 * SECOND);
    assert!(is_at_rest(&governor));
}
