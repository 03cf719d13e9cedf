//! The certificate and key of TLS, for both protocols.

use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

use crate::config::TlsFiles;
use crate::error::ServerError;

/// The name of the Postgres protocol in the negotiation of TLS.
const POSTGRES: &[u8] = b"postgresql";

/// Selects the implementation of cryptography for the TLS of tonic, unless the process has selected one. The
/// dependencies of a program enable two, and then tonic cannot choose.
pub(crate) fn select_provider() {
    if CryptoProvider::get_default().is_none() {
        // Another thread may have been faster.
        let _ = ring::default_provider().install_default();
    }
}

/// A certificate chain and its private key, in PEM.
#[derive(Clone)]
pub(crate) struct Pem {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Pem {
    /// Reads the files.
    pub(crate) fn read(files: &TlsFiles) -> Result<Self, ServerError> {
        let read = |path: &std::path::Path| {
            std::fs::read(path).map_err(|cause| ServerError::File {
                path: path.to_path_buf(),
                cause,
            })
        };
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
        })
    }

    /// The acceptor of connections of the Postgres protocol.
    ///
    /// # Errors
    /// The certificate or the key has a wrong format, or they do not belong together.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, ServerError> {
        let wrong = |error: &dyn std::fmt::Display| ServerError::Tls(error.to_string());
        let certificates = CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|error| wrong(&error))?;
        if certificates.is_empty() {
            return Err(ServerError::Tls(
                "the file of the certificate contains none".to_string(),
            ));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| wrong(&error))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(|error| wrong(&error))?;
        config.alpn_protocols = vec![POSTGRES.to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
