use std::time::Duration;

use dikast_core::Error;

use super::*;

struct Texts(Vec<u32>);

impl Work<u32> for Texts {
    fn sequences(&self) -> Vec<&u32> {
        self.0.iter().collect()
    }
}

fn limits() -> Limits {
    Limits {
        batch_tokens: 100,
        max_wait: Duration::ZERO,
        queue_tokens: 1000,
        queue_requests: 50,
        longest_wait: Duration::from_secs(3600),
    }
}

/// A request whose sequences have these tokens.
fn push(queue: &Arc<Queue<u32>>, tokens: &[u32]) -> Result<Ticket<u32>, Refused> {
    let loads = tokens.iter().map(|&n| Load { tokens: n as usize, outputs: 1 }).collect();
    queue.push(Arc::new(Texts(tokens.to_vec())), loads, Span::none())
}

/// Takes a batch, answers each sequence with its own tokens, says what was in it.
fn turn(queue: &Queue<u32>) -> Vec<u32> {
    let batch = queue.take().expect("a batch");
    let sequences: Vec<u32> = batch.sequences().into_iter().copied().collect();
    let logits = sequences.iter().map(|&n| vec![n as f32]).collect();
    queue.finish(&batch, 0, Duration::from_millis(1), logits);
    sequences
}

fn done(mut ticket: Ticket<u32>) -> Result<Vec<f32>, Error> {
    pollster::block_on(ticket.done()).map(|done| done.logits.concat())
}

#[test]
fn a_batch_is_packed_by_tokens_oldest_first() {
    let queue = Queue::new(limits());
    let a = push(&queue, &[60]).expect("room");
    let b = push(&queue, &[50]).expect("room");
    let c = push(&queue, &[30, 5]).expect("room");
    // The second does not fit beside the first; the third does, and the second is next.
    assert_eq!(turn(&queue), [60, 30, 5]);
    assert_eq!(turn(&queue), [50]);
    assert_eq!([done(a), done(b), done(c)], [Ok(vec![60.0]), Ok(vec![50.0]), Ok(vec![30.0, 5.0])]);
    assert_eq!(queue.depth(), 0);
}

#[test]
fn a_large_request_takes_turns_with_small_ones() {
    let queue = Queue::new(limits());
    let large = push(&queue, &[90; 4]).expect("room");
    let small = push(&queue, &[20]).expect("room");
    assert_eq!(turn(&queue), [90]);
    assert_eq!(turn(&queue), [20]);
    assert_eq!(turn(&queue), [90]);
    let later = push(&queue, &[95]).expect("room");
    assert_eq!(turn(&queue), [90]);
    assert_eq!(turn(&queue), [95]);
    assert_eq!(turn(&queue), [90]);
    assert_eq!(done(large).map(|l| l.len()), Ok(4));
    assert!(done(small).is_ok() && done(later).is_ok());
}

#[test]
fn a_sequence_over_the_budget_runs_alone() {
    let queue = Queue::new(limits());
    let tickets = [push(&queue, &[500]), push(&queue, &[10])];
    assert_eq!(turn(&queue), [500]);
    assert_eq!(turn(&queue), [10]);
    assert!(tickets.iter().all(Result::is_ok));
}

#[test]
fn a_full_queue_refuses_and_says_when() {
    let queue = Queue::new(limits());
    // More than the queue holds, but nobody else is there.
    let huge = push(&queue, &[2000]).expect("alone");
    let refused = push(&queue, &[1]).map(drop);
    assert!(matches!(refused, Err(Refused::Full { retry_after }) if retry_after >= Duration::from_secs(1)));
    assert!(queue.refuses().is_some());
    drop(huge);
    assert_eq!(queue.refuses(), None);
    let many: Vec<_> = (0..60).map(|_| push(&queue, &[1])).collect();
    assert_eq!(many.iter().filter(|t| t.is_ok()).count(), 50);
}

#[test]
fn who_leaves_is_not_computed() {
    let queue = Queue::new(limits());
    let a = push(&queue, &[10]).expect("room");
    let b = push(&queue, &[20]).expect("room");
    drop(a);
    assert_eq!(queue.depth(), 1);
    assert_eq!(turn(&queue), [20]);
    assert_eq!(done(b), Ok(vec![20.0]));
    // Gone while it runs: its tokens are free again and nothing of it is left.
    let c = push(&queue, &[600, 600]).expect("room");
    let batch = queue.take().expect("a batch");
    drop(c);
    queue.finish(&batch, 0, Duration::from_millis(1), vec![vec![1.0]]);
    assert_eq!(queue.depth(), 0);
    assert!(push(&queue, &[1000]).is_ok());
}

#[test]
fn failures_reach_their_requests() {
    let queue = Queue::new(limits());
    let (a, b) = (push(&queue, &[90, 90]).expect("room"), push(&queue, &[90]).expect("room"));
    let batch = queue.take().expect("a batch");
    let error = Error::Internal("x".into());
    queue.fail(&batch, &error);
    assert_eq!(done(a), Err(error.clone()));
    assert_eq!(turn(&queue), [90]);
    assert!(done(b).is_ok());
    let c = push(&queue, &[1]).expect("room");
    queue.abandon(&error);
    assert_eq!(done(c), Err(error));
    assert_eq!(push(&queue, &[1]).map(drop), Err(Refused::Closed));
    assert!(queue.take().is_none());
}

#[test]
fn a_closed_queue_is_emptied_first() {
    let queue = Queue::new(limits());
    let a = push(&queue, &[1]).expect("room");
    queue.close();
    assert_eq!(turn(&queue), [1]);
    assert!(queue.take().is_none());
    assert!(done(a).is_ok());
}

#[test]
fn the_device_waits_for_company_but_not_for_a_full_batch() {
    let limits = Limits { max_wait: Duration::from_secs(3600), ..limits() };
    let queue = Queue::new(limits);
    let a = push(&queue, &[40]).expect("room");
    let worker = std::thread::spawn({
        let queue = queue.clone();
        move || turn(&queue)
    });
    // It would wait an hour for one more; a batch's worth of tokens sends it off.
    let b = push(&queue, &[60]).expect("room");
    assert_eq!(worker.join().expect("it ends"), [40, 60]);
    assert!(done(a).is_ok() && done(b).is_ok());
}

#[test]
fn a_lone_request_waits_for_company_and_then_runs_alone() {
    let max_wait = Duration::from_millis(20);
    let queue = Queue::new(Limits { max_wait, ..limits() });
    let mut a = push(&queue, &[40]).expect("room");
    assert_eq!(turn(&queue), [40]);
    assert!(pollster::block_on(a.done()).is_ok_and(|done| done.waited >= max_wait));
    // Whose turn came once does not wait again.
    let b = push(&queue, &[90, 20]).expect("room");
    assert_eq!((turn(&queue), turn(&queue)), (vec![90], vec![20]));
    assert!(done(b).is_ok());
}

#[test]
fn several_devices_share_a_request_and_finish_in_any_order() {
    let queue = Queue::new(limits());
    let large = push(&queue, &[90, 80, 70]).expect("room");
    let small = push(&queue, &[60]).expect("room");
    let batches: Vec<_> = (0..4).map(|_| queue.take().expect("a batch")).collect();
    for (device, batch) in batches.iter().enumerate().rev() {
        let logits = batch.sequences().into_iter().map(|&n| vec![n as f32]).collect();
        queue.finish(batch, device, Duration::from_millis(1), logits);
    }
    assert_eq!([done(large), done(small)], [Ok(vec![90.0, 80.0, 70.0]), Ok(vec![60.0])]);
    assert_eq!(queue.depth(), 0);
}

/// One request comes while both devices are idle: the second one takes what the first one has no room for.
#[test]
fn an_idle_device_takes_what_another_one_left() {
    let queue = Queue::new(limits());
    let (tell, told) = std::sync::mpsc::channel();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (queue, tell) = (queue.clone(), tell.clone());
            std::thread::spawn(move || {
                let batch = queue.take();
                // Neither goes on before both have something.
                let _ = tell.send(());
                batch
            })
        })
        .collect();
    // Both sleep, most likely, when it comes.
    std::thread::sleep(Duration::from_millis(50));
    let large = push(&queue, &[90, 80]).expect("room");
    for _ in 0..2 {
        told.recv_timeout(Duration::from_secs(60)).expect("an idle device sleeps beside work");
    }
    for (device, worker) in workers.into_iter().enumerate() {
        let batch = worker.join().expect("it ends").expect("a batch");
        let logits = batch.sequences().into_iter().map(|&n| vec![n as f32]).collect();
        queue.finish(&batch, device, Duration::from_millis(1), logits);
    }
    assert_eq!(done(large), Ok(vec![90.0, 80.0]));
}

#[test]
fn the_last_device_that_leaves_refuses_who_waits() {
    let queue = Queue::new(limits());
    let error = Error::Internal("gone".into());
    queue.join();
    queue.join();
    let waiting = push(&queue, &[1]).expect("room");
    assert!(!queue.leave(Some(&error)));
    assert_eq!((queue.depth(), queue.refuses()), (1, None));
    assert!(queue.leave(Some(&error)));
    assert_eq!(done(waiting), Err(error));
    assert_eq!(queue.refuses(), Some(Refused::Closed));
}

#[test]
fn all_workers_learn_of_the_end() {
    let queue = Queue::new(limits());
    let a = push(&queue, &[1]).expect("room");
    let batch = queue.take().expect("a batch");
    let idle = std::thread::spawn({
        let queue = queue.clone();
        move || queue.take().is_none()
    });
    queue.close();
    queue.finish(&batch, 0, Duration::from_millis(1), vec![vec![1.0]]);
    assert!(idle.join().expect("it ends"));
    assert!(done(a).is_ok());
}

#[test]
fn who_would_wait_in_vain_is_refused_at_once() {
    let queue = Queue::new(Limits { longest_wait: Duration::from_secs(1), ..limits() });
    let first = push(&queue, &[100]).expect("room");
    let batch = queue.take().expect("a batch");
    // Ten tokens a second.
    queue.finish(&batch, 0, Duration::from_secs(10), vec![vec![1.0]]);
    assert!(done(first).is_ok());
    // Nobody else is there; then there are three seconds of work.
    let alone = push(&queue, &[30]).expect("room");
    let refused = push(&queue, &[1]).map(drop);
    assert!(matches!(refused, Err(Refused::Full { retry_after }) if retry_after >= Duration::from_secs(1)));
    // Another device halves the wait, which is still too long; a third one does not.
    queue.join();
    queue.join();
    assert!(push(&queue, &[1]).is_err());
    queue.join();
    queue.join();
    assert!(push(&queue, &[1]).is_ok());
    drop(alone);
}
