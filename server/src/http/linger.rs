//! Bodies that are refused before they have arrived.
//!
//! A connection that is closed while its client still sends is reset, and the client may never see why. The rest of such a
//! body is read and thrown away beside the answer, up to a limit of bytes and time.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::EXPECT;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How much of a refused body is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Most bytes.
    pub(super) bytes: u64,
    /// Longest time.
    pub(super) time: Duration,
}

/// A body whose rest is read when it is dropped.
pub(super) struct Lingering {
    /// Absent after its end.
    body: Option<Body>,
    patience: Patience,
    /// The client waits for a word before it sends.
    waits: bool,
}

impl Lingering {
    /// The body of a request.
    pub(super) fn around(body: Body, headers: &HeaderMap, patience: Patience) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let waits = headers.get(EXPECT).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        Body::new(Self { body: Some(body), patience, waits })
    }
}

impl HttpBody for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // Reading it is the word that the client waits for.
        self.waits = false;
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !self.waits && !body.is_end_stream()) else { return };
        // Outside of a runtime nobody waits for an answer.
        if let Ok(runtime) = Handle::try_current() {
            let Patience { bytes, time } = self.patience;
            runtime.spawn(timeout(time, discard(body, bytes)));
        }
    }
}

async fn discard(mut body: Body, most: u64) {
    let mut seen = 0;
    while let Some(Ok(frame)) = body.frame().await {
        seen += frame.data_ref().map_or(0, |data| data.len() as u64);
        if seen > most {
            return;
        }
    }
}
