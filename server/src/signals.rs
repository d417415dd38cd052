//! The signals that end a server.

use std::io;

use tokio::sync::watch;

/// SIGTERM and SIGINT; on other systems Ctrl-C.
pub(crate) struct Signals(watch::Receiver<bool>);

impl Signals {
    /// Takes the signals over. Needs a runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let (sender, receiver) = watch::channel(false);
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
                let mut signal = signal(kind)?;
                let sender = sender.clone();
                tokio::spawn(async move {
                    while signal.recv().await.is_some() {
                        sender.send_replace(true);
                    }
                });
            }
        }
        #[cfg(not(unix))]
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                sender.send_replace(true);
            }
        });
        Ok(Self(receiver))
    }

    /// Waits for one of them; for ever without signals.
    pub(crate) async fn received(signals: Option<&Self>) {
        let Some(Self(receiver)) = signals else { return std::future::pending().await };
        if receiver.clone().wait_for(|received| *received).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
