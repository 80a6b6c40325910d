//! What a server's certificate is checked for.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore};
use rustls::{Error, SignatureScheme};

use crate::options::OptionsError;

/// Which authorities are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those of the operating system.
    System,
    /// Those in a PEM file.
    File(std::path::PathBuf),
}

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Nothing: encryption against eavesdropping only.
    Nothing,
    /// That a trusted authority signed the certificate.
    Chain,
    /// That, and that it is for this host.
    ChainAndName,
}

pub(crate) fn client(check: Check, roots: &Roots) -> Result<ClientConfig, OptionsError> {
    let provider = Arc::new(ring::default_provider());
    let bad = |error: &dyn std::fmt::Display| OptionsError::Tls(error.to_string());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(&error))?;
    if check == Check::ChainAndName {
        return Ok(builder
            .with_root_certificates(load(roots)?)
            .with_no_client_auth());
    }
    let chain = match check {
        Check::Nothing => None,
        _ => Some(
            WebPkiServerVerifier::builder_with_provider(Arc::new(load(roots)?), provider.clone())
                .build()
                .map_err(|error| bad(&error))?,
        ),
    };
    let verifier = Arc::new(AnyName { chain, provider });
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

fn load(roots: &Roots) -> Result<RootCertStore, OptionsError> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!(%error, "a system certificate was not read");
            }
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                return Err(OptionsError::NoSystemRoots);
            }
        }
        Roots::File(path) => read(path, &mut store).map_err(|reason| OptionsError::Roots {
            path: path.display().to_string(),
            reason,
        })?,
    }
    Ok(store)
}

fn read(path: &Path, store: &mut RootCertStore) -> Result<(), String> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        store.add(certificate).map_err(|error| error.to_string())?;
    }
    if store.is_empty() {
        return Err("it holds no certificate".into());
    }
    Ok(())
}

/// Accepts a certificate for any host: from a trusted authority, or from anybody.
#[derive(Debug)]
struct AnyName {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is checked last, so that these two mean that all else is well.
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
