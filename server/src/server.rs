//! A running server: threads of models, connections, the way out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use dikast_core::Error;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::config::Config;
use crate::connections::Connections;
use crate::error::ServeError;
use crate::http::router;
use crate::metrics::Metrics;
use crate::model::{ModelSource, Registry, Start};
use crate::signals::Signals;

/// A running server. Dropped, it runs on; [`Server::join`] waits for its end.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<Notify>,
    ready: mpsc::Receiver<()>,
    thread: JoinHandle<Result<(), ServeError>>,
}

/// What threads of models report.
enum Report {
    Ready,
    Ended(String, Result<(), Error>),
}

impl Server {
    /// Checks the settings, listens, and starts loading the models. The port answers from now on: `/livez` with 200,
    /// `/readyz` with 503 until every model has answered a warm-up request.
    ///
    /// # Errors
    /// Settings that contradict each other, and an address that cannot be listened on.
    pub fn start(config: Config, models: Vec<ModelSource>) -> Result<Self, ServeError> {
        check(&config, &models)?;
        let tls = config.tls.as_ref().map(crate::tls::acceptor).transpose()?;
        crate::http::cors(&config.cors_origins)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("dikast-http")
            .build()
            .map_err(ServeError::System)?;
        let address = config.listen;
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(|source| ServeError::Listen { address, source })?;
        let bound = listener.local_addr().map_err(ServeError::System)?;
        let signals = if config.signals {
            let _inside = runtime.enter();
            Some(Signals::new().map_err(ServeError::System)?)
        } else {
            None
        };
        let stop = Arc::new(Notify::new());
        let (ready_sender, ready) = mpsc::channel();
        let job = Job {
            config: Arc::new(config),
            models,
            listener,
            tls,
            signals,
            stop: stop.clone(),
            ready: ready_sender,
        };
        let thread = std::thread::Builder::new()
            .name("dikast-server".to_owned())
            .spawn(move || {
                let outcome = runtime.block_on(job.run());
                // Threads that prepare requests of clients who left are not waited for.
                runtime.shutdown_background();
                outcome
            })
            .map_err(ServeError::System)?;
        Ok(Self { address: bound, stop, ready, thread })
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until every model is ready; false if the server ended before.
    pub fn wait_ready(&self) -> bool {
        self.ready.recv().is_ok()
    }

    /// Ends the server as SIGTERM does: no new work, everything accepted is answered.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// A model that did not load or whose device went away for good, and requests that were cut off.
    pub fn join(self) -> Result<(), ServeError> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err(ServeError::Setting("the server's thread panicked".to_owned())))
    }
}

fn check(config: &Config, models: &[ModelSource]) -> Result<(), ServeError> {
    let setting = |message: String| Err(ServeError::Setting(message));
    if models.is_empty() {
        return setting("no model to serve".to_owned());
    }
    for (i, model) in models.iter().enumerate() {
        if model.id().is_empty() || models[..i].iter().any(|other| other.id() == model.id()) {
            return setting(format!("model {:?}: each needs a name of its own", model.id()));
        }
    }
    if config.keys.iter().any(|key| key.secret.trim().is_empty()) {
        return setting("an empty key found; every caller would know it".to_owned());
    }
    if config.rate.is_some() && config.keys.is_empty() {
        return setting("a rate of requests for each key found, and no key".to_owned());
    }
    if config.batch_tokens == 0
        || config.queue_tokens == 0
        || config.queue_requests == 0
        || config.connections == 0
    {
        return setting("a limit of 0 found; nothing could be served".to_owned());
    }
    if !config.listen.ip().is_loopback() && config.keys.is_empty() && !config.insecure {
        return Err(ServeError::NoKey(config.listen));
    }
    Ok(())
}

struct Job {
    config: Arc<Config>,
    models: Vec<ModelSource>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    signals: Option<Signals>,
    stop: Arc<Notify>,
    ready: mpsc::Sender<()>,
}

impl Job {
    async fn run(self) -> Result<(), ServeError> {
        let Self { config, models, listener, tls, signals, stop, ready } = self;
        let metrics = Metrics::new().map_err(|error| ServeError::Setting(error.to_string()))?;
        let metrics = Arc::new(metrics);
        let slots: Vec<_> = models.iter().map(|model| Arc::new(model.slot(&config))).collect();
        let registry = Registry::new(slots.clone(), config.any_model);
        let app = Arc::new(App::new(config.clone(), registry, metrics.clone()));
        let (reports, mut reported) = unbounded_channel();
        let mut threads = Vec::new();
        for (model, slot) in models.into_iter().zip(slots) {
            let (config, metrics, log) = (config.clone(), metrics.clone(), app.log);
            let start = move |ready| Start { slot, config, metrics, log, ready };
            threads.push(spawn(model, reports.clone(), start)?);
        }
        drop(reports);
        let mut connections = Connections::new(listener, router(app.clone())?, tls, &config);

        // Until it is told to end, or a model ends.
        let mut waiting = threads.len();
        let outcome = loop {
            tokio::select! {
                () = connections.accept() => {}
                () = stop.notified() => break Ok(()),
                () = Signals::received(signals.as_ref()) => break Ok(()),
                report = reported.recv() => match report {
                    Some(Report::Ready) => {
                        waiting -= 1;
                        if waiting == 0 {
                            app.log.event("ready", "every model answers");
                            // Nobody may wait for it.
                            let _ = ready.send(());
                        }
                    }
                    Some(Report::Ended(id, Err(source))) => break Err(ServeError::Model { id, source }),
                    Some(Report::Ended(id, Ok(()))) => {
                        let source = Error::Internal("its thread ended".to_owned());
                        break Err(ServeError::Model { id, source });
                    }
                    None => break Ok(()),
                },
            }
        };
        app.drain();
        app.log.event("draining", "no new requests; those inside are answered");
        let end = Instant::now() + config.grace;
        let cut = finish(&app, &mut connections, end).await;
        for slot in app.models.slots() {
            if let Some(loaded) = slot.loaded() {
                loaded.close();
                if cut > 0 {
                    let message = "the server ends; the same request may succeed elsewhere".to_owned();
                    loaded.abandon(&Error::DeviceLost { device: "this server".to_owned(), message });
                }
            }
        }
        connections.end(end.max(Instant::now() + Duration::from_secs(1))).await;
        // Threads that still load, or run a batch that nobody waits for, end with the process.
        threads.retain(|thread| !thread.is_finished());
        outcome.and(if cut == 0 { Ok(()) } else { Err(ServeError::Cut { requests: cut }) })
    }
}

/// Answers probes, and refusals, until all running requests are answered; how many are not at the end.
async fn finish(app: &App, connections: &mut Connections, end: Instant) -> usize {
    while app.in_flight() > 0 {
        let soon = (Instant::now() + Duration::from_millis(10)).min(end);
        // Accepting goes on: a balancer has to see that this server is not ready.
        if timeout_at(soon, connections.accept()).await.is_err() && Instant::now() >= end {
            break;
        }
        if Instant::now() >= end {
            break;
        }
        sleep(Duration::ZERO).await;
    }
    app.in_flight()
}

/// Starts the thread of a model.
fn spawn(
    model: ModelSource,
    reports: UnboundedSender<Report>,
    start: impl FnOnce(Box<dyn FnOnce() + Send>) -> Start + Send + 'static,
) -> Result<JoinHandle<()>, ServeError> {
    let id = model.id().to_owned();
    let name = format!("dikast-{id}").chars().filter(|c| *c != '\0').take(15).collect();
    let run = move || {
        let ready = {
            let reports = reports.clone();
            // The server may have ended meanwhile.
            Box::new(move || drop(reports.send(Report::Ready)))
        };
        let serve = std::panic::AssertUnwindSafe(|| model.serve(start(ready)));
        let outcome = std::panic::catch_unwind(serve)
            .unwrap_or_else(|_| Err(Error::Internal("its thread panicked; see standard error".to_owned())));
        let _ = reports.send(Report::Ended(id, outcome));
    };
    std::thread::Builder::new().name(name).spawn(run).map_err(ServeError::System)
}
