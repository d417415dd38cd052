//! Connections to the server, kept and used again.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Result;
use crate::mix::Ask;

/// An open connection.
pub(crate) type Connection = SendRequest<Full<Bytes>>;

/// Connections that nobody uses now.
#[derive(Debug)]
pub(crate) struct Pool {
    address: SocketAddr,
    idle: Mutex<Vec<Connection>>,
}

/// What came back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The server's own times of an answer.
    pub(crate) parts: Option<Parts>,
    /// It says when to come again.
    pub(crate) retry_after: bool,
}

/// Times of an answer inside the server, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) prepare: f64,
    pub(crate) queue: f64,
    pub(crate) inference: f64,
}

impl Pool {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, idle: Mutex::new(Vec::new()) }
    }

    /// A connection that was used before, or a new one.
    pub(crate) async fn take(&self) -> Result<Connection> {
        loop {
            let kept = self.idle.lock().map_err(|_| "a task panicked")?.pop();
            let Some(mut kept) = kept else { break };
            // The server may have closed it meanwhile.
            if kept.ready().await.is_ok() {
                return Ok(kept);
            }
        }
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (connection, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move { drop(driver.await) });
        Ok(connection)
    }

    /// Keeps a connection for others.
    pub(crate) fn put(&self, connection: Connection) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.push(connection);
        }
    }

    /// Sends a request and waits for its answer. Dropped, it closes the connection: the client has left.
    pub(crate) async fn send(&self, ask: &Ask, timeout: Duration) -> Result<Reply> {
        let asked = async {
            let mut connection = self.take().await?;
            let request = Request::post(&ask.path)
                .header(HOST, self.address.to_string())
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(Bytes::from(ask.body.clone())))?;
            let response = connection.send_request(request).await?;
            let (head, body) = response.into_parts();
            body.collect().await?;
            self.put(connection);
            let status = head.status.as_u16();
            Ok(Reply {
                status,
                parts: parts(&head.headers),
                retry_after: head.headers.contains_key("retry-after"),
            })
        };
        tokio::time::timeout(timeout, asked).await.map_err(|_| "no answer in time")?
    }
}

fn parts(headers: &HeaderMap) -> Option<Parts> {
    let number = |name: &'static str| headers.get(HeaderName::from_static(name))?.to_str().ok()?.parse().ok();
    Some(Parts {
        prepare: number("x-prepare-ms")?,
        queue: number("x-queue-ms")?,
        inference: number("x-inference-ms")?,
    })
}
