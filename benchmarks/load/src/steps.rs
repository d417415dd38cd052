//! Ways to send: one after the other, as fast as answers come, at a rate.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::Result;
use crate::client::Pool;
use crate::mix::Mix;
use crate::report::{Seen, quantiles, resident, round};

/// How long one answer may take where nothing else is said.
const PATIENCE: Duration = Duration::from_secs(120);

/// A step at a rate.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) address: SocketAddr,
    pub(crate) rate: f64,
    pub(crate) time: Duration,
    pub(crate) connections: usize,
    pub(crate) leaving: f64,
    pub(crate) patience: Duration,
    pub(crate) timeout: Duration,
    pub(crate) pid: Option<u32>,
    pub(crate) seed: u64,
}

/// Requests of each kind, one after the other on one connection: whole times, and how much of them the engine did not take.
pub(crate) async fn alone(address: SocketAddr, mix: &Mix, count: usize, idle: Duration) -> Result<Value> {
    let pool = Pool::new(address);
    let mut all = serde_json::Map::new();
    for ask in mix.one_of_each() {
        let mut whole = Vec::new();
        let mut engine = Vec::new();
        let mut beside = Vec::new();
        let mut queued = Vec::new();
        for i in 0..count + 10 {
            let start = Instant::now();
            let reply = pool.send(&ask, PATIENCE).await?;
            let took = milliseconds(start.elapsed());
            let parts = reply.parts.filter(|_| reply.status == 200);
            let parts = parts.ok_or_else(|| format!("{}: status {} or no times", ask.kind, reply.status))?;
            // The first ones warm caches up.
            if i >= 10 {
                whole.push(took);
                engine.push(parts.prepare + parts.inference);
                queued.push(parts.queue);
                beside.push(took - parts.prepare - parts.inference);
            }
        }
        let mut found = json!({
            "whole_ms": quantiles(&mut whole),
            "prepare_and_inference_ms": quantiles(&mut engine),
            "beside_ms": quantiles(&mut beside),
            "of_that_queue_ms": quantiles(&mut queued),
        });
        if !idle.is_zero() {
            sleep(idle).await;
            let start = Instant::now();
            pool.send(&ask, PATIENCE).await?;
            found["after_idle_ms"] = json!(round(milliseconds(start.elapsed())));
        }
        all.insert(ask.kind.clone(), found);
    }
    Ok(Value::Object(all))
}

/// Answers a second when a fixed number of clients ask without a pause.
pub(crate) async fn capacity(address: SocketAddr, mix: &Mix, time: Duration) -> Result<f64> {
    const CLIENTS: usize = 64;
    let pool = Arc::new(Pool::new(address));
    let answered = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    let end = Instant::now() + time;
    for client in 0..CLIENTS {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(client as u64);
        let asks: Vec<_> = (0..256).map(|_| mix.any(&mut rng).clone()).collect();
        let (pool, answered) = (pool.clone(), answered.clone());
        clients.spawn(async move {
            for ask in asks.iter().cycle() {
                if Instant::now() >= end {
                    break;
                }
                if pool.send(ask, PATIENCE).await.is_ok_and(|reply| reply.status == 200)
                    && Instant::now() < end
                {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    while clients.join_next().await.is_some() {}
    Ok(answered.load(Ordering::Relaxed) as f64 / time.as_secs_f64())
}

/// Sends at a rate, with pauses as between independent callers.
pub(crate) async fn open_loop(offer: &Offer, mix: &Mix) -> Result<Value> {
    let pool = Arc::new(Pool::new(offer.address));
    let room = Arc::new(Semaphore::new(offer.connections));
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(offer.seed ^ offer.rate.to_bits());
    let pauses = Exp::new(offer.rate).map_err(|e| e.to_string())?;
    let before = resident(offer.pid);
    let peak = watch_memory(offer.pid);
    let mut clients = JoinSet::new();
    let start = Instant::now();
    let (mut due, mut sent) = (start, 0);
    loop {
        due += Duration::from_secs_f64(pauses.sample(&mut rng));
        if due >= start + offer.time {
            break;
        }
        let ask = mix.any(&mut rng).clone();
        let leaves = (rng.random::<f64>() < offer.leaving).then(|| offer.patience.mul_f64(rng.random()));
        sleep_until(due).await;
        sent += 1;
        let (pool, room, seen, most) = (pool.clone(), room.clone(), seen.clone(), offer.timeout);
        clients.spawn(async move {
            let Ok(_place) = room.acquire().await else { return };
            let outcome = match leaves {
                Some(patience) => timeout(patience, pool.send(&ask, most)).await.ok(),
                None => Some(pool.send(&ask, most).await),
            };
            let took = milliseconds(due.elapsed());
            let Ok(mut seen) = seen.lock() else { return };
            match outcome {
                None => seen.left(),
                Some(Ok(reply)) => seen.status(reply.status, reply.retry_after, took),
                Some(Err(error)) => seen.broken(&error.to_string()),
            }
        });
    }
    while clients.join_next().await.is_some() {}
    let drained = start.elapsed().saturating_sub(offer.time);
    let peak = peak.await;
    let mut step = seen.lock().map_err(|_| "a task panicked")?.json(sent, offer.time.as_secs_f64());
    step["offered"] = json!(round(offer.rate));
    step["drained_after_s"] = json!(round(drained.as_secs_f64()));
    step["server_mib"] = json!({"before": before, "peak": peak, "after": resident(offer.pid)});
    Ok(step)
}

/// The most memory of a process while a step runs; ends when asked for.
fn watch_memory(pid: Option<u32>) -> impl Future<Output = Option<f64>> {
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let watching = tokio::spawn(async move {
        let mut peak = None;
        loop {
            peak = [peak, resident(pid)].into_iter().flatten().reduce(f64::max);
            tokio::select! {
                () = sleep(Duration::from_millis(100)) => {}
                _ = &mut stopped => return peak,
            }
        }
    });
    async move {
        let _ = stop.send(());
        watching.await.ok().flatten()
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
