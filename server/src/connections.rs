//! Connections: accepted up to a limit, each served as HTTP/1.1, all ended together.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::config::Config;

/// Bytes of a head and of what is read ahead of a body.
const BUFFER: usize = 64 << 10;
/// Headers of a request.
const HEADERS: usize = 100;
/// How long a server that ends waits for requests on connections that are open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// All connections of a server.
pub(crate) struct Connections {
    listener: TcpListener,
    router: Router,
    graceful: GracefulShutdown,
    room: Arc<Semaphore>,
    /// Permits of `room`.
    most: u32,
    http: http1::Builder,
    tls: Option<TlsAcceptor>,
    /// How long a client may take to agree on TLS.
    handshake: Duration,
}

impl Connections {
    pub(crate) fn new(
        listener: TcpListener,
        router: Router,
        tls: Option<TlsAcceptor>,
        config: &Config,
    ) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(config.read_timeout)
            .max_buf_size(BUFFER)
            .max_headers(HEADERS);
        let most = u32::try_from(config.connections.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let room = Arc::new(Semaphore::new(most as usize));
        let graceful = GracefulShutdown::new();
        Self { listener, router, graceful, room, most, http, tls, handshake: config.read_timeout }
    }

    /// Accepts one connection and serves it beside. May be dropped at any time.
    pub(crate) async fn accept(&self) {
        // Further ones wait in the system's own queue.
        let Ok(permit) = self.room.clone().acquire_owned().await else { return };
        let stream = match self.listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of files, most likely: others have to end first.
                sleep(Duration::from_millis(50)).await;
                return;
            }
        };
        // Answers are small and somebody waits for them.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(self.router.clone());
        let (http, watcher, tls) = (self.http.clone(), self.graceful.watcher(), self.tls.clone());
        let handshake = self.handshake;
        tokio::spawn(async move {
            // How a connection broke is the client's business.
            let _ = match tls {
                None => watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await,
                Some(tls) => {
                    let Ok(Ok(stream)) = timeout(handshake, tls.accept(stream)).await else { return };
                    watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await
                }
            };
            drop(permit);
        });
    }

    /// Answers who is connected already, lets answers that are on their way arrive, then closes.
    pub(crate) async fn end(self, end: Instant) {
        // The system has taken connections that this server has not seen; closed now, they would be reset.
        while timeout(Duration::ZERO, self.accept()).await.is_ok() {
            if Instant::now() >= end {
                break;
            }
        }
        drop(self.listener);
        // Their requests are on the way; every answer closes its connection from now on.
        let all = self.room.acquire_many(self.most);
        let _ = timeout_at(end.min(Instant::now() + LAST_WORDS), all).await;
        let _ = timeout_at(end, self.graceful.shutdown()).await;
    }
}
