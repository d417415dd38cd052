//! TLS: a certificate chain and its key.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, version};

use crate::error::ServeError;

/// What a server shows to clients who speak TLS 1.2 or 1.3.
#[derive(Clone)]
pub struct Tls {
    /// The certificate and those that lead to a known one, as PEM.
    pub certificates: Vec<u8>,
    /// The certificate's private key, as PEM.
    pub key: Vec<u8>,
}

/// Without the key.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// What takes connections over.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, ServeError> {
    let setting =
        |what: &str, why: &dyn std::fmt::Display| ServeError::Setting(format!("TLS: {what}: {why}"));
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&tls.certificates)
        .collect::<Result<_, _>>()
        .map_err(|e| setting("the certificates", &e))?;
    if chain.is_empty() {
        return Err(setting("the certificates", &"no CERTIFICATE section found"));
    }
    let key = PrivateKeyDer::from_pem_slice(&tls.key).map_err(|e| setting("the key", &e))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|e| setting("versions", &e))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| setting("certificate and key", &e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
