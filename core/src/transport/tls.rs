//! TLS 1.3 over TCP, for both sides.
//!
//! The cryptography is ring's: as fast here as its alternative, at half the size and time to build.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
    ServerConfig, SignatureScheme,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use x509_cert::der::Decode;

use super::{ByteStream, Security};
use crate::error::{Error, Result};
use crate::options::TlsMode;
use crate::watched::Watched;

/// What is spoken within TLS.
const PROTOCOL: &[u8] = b"lightstream/1";

/// The first byte of every TLS connection.
pub(super) const HANDSHAKE: u8 = 0x16;

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())))
}

fn unusable(what: &str, path: &Path, why: impl fmt::Display) -> Error {
    Error::invalid_argument(format!("the {what} in {path:?} cannot be used: {why}"))
}

/// The same where it is PEM that cannot be read.
fn unreadable(what: &str, path: &Path, error: pem::Error) -> Error {
    match error {
        pem::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            Error::not_found(format!("there is no file {path:?} to read the {what} from"))
        }
        error => unusable(what, path, error),
    }
}

fn certificates(what: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(what, path, error))?;
    if certificates.is_empty() {
        return Err(unusable(what, path, "there is no certificate in it"));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable("private key", path, error))
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("certificate authority", path)? {
        roots
            .add(certificate)
            .map_err(|error| unusable("certificate authority", path, error))?;
    }
    Ok(roots)
}

/// The authorities that this system trusts.
fn system_authorities() -> Result<Arc<RootCertStore>> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    if let Some(roots) = ROOTS.get() {
        return Ok(Arc::clone(roots));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}"));
        return Err(Error::unavailable(format!(
            "this system has no certificate authorities to check the server against{}; name one with the option tls_ca",
            why.unwrap_or_default()
        ))
        .with_retryable(false));
    }
    Ok(Arc::clone(ROOTS.get_or_init(|| Arc::new(roots))))
}

/// Takes every certificate, and checks only that the server holds its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// How one connection is secured.
pub(super) struct Secured<'a> {
    pub(super) security: &'a Security,
    /// Whether the server is told what is to be spoken.
    pub(super) says_protocol: bool,
}

/// What a client needs for the next connection. Files are read each time, so that new certificates are taken up.
fn client_config(secured: &Secured<'_>) -> Result<ClientConfig> {
    let security = secured.security;
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| Error::internal("TLS cannot be set up").with_source(error))?;
    let verifier: Arc<dyn ServerCertVerifier> = if security.mode == Some(TlsMode::SkipVerify) {
        Arc::new(Anybody(provider))
    } else {
        let roots = match &security.ca {
            Some(path) => Arc::new(authorities(path)?),
            None => system_authorities()?,
        };
        WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| {
                Error::invalid_argument(format!("no server can be checked: {error}"))
            })?
    };
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match (&security.cert, &security.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(cert), Some(key)) => {
            let chain = certificates("client certificate", cert)?;
            builder
                .with_client_auth_cert(chain, private_key(key)?)
                .map_err(|error| unusable("client certificate", cert, error))?
        }
        _ => {
            return Err(Error::invalid_argument(
                "the options tls_cert and tls_key go together: one of them is missing",
            ));
        }
    };
    if secured.says_protocol {
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
    }
    Ok(config)
}

/// Makes a connection secure, with a server of this name.
pub(super) async fn connect(
    stream: TcpStream,
    host: &str,
    secured: &Secured<'_>,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let name = secured.security.server_name.as_deref().unwrap_or(host);
    let server = ServerName::try_from(name.to_owned()).map_err(|_| {
        Error::invalid_argument(format!(
            "{name:?} is no name that a certificate could be for"
        ))
    })?;
    let config = Arc::new(client_config(secured)?);
    TlsConnector::from(config)
        .connect(server, stream)
        .await
        .map_err(|error| match refusal(&error) {
            Some(refusal) => refusal,
            None if error.kind() == io::ErrorKind::UnexpectedEof => Error::unavailable(
                "the server ended the connection during the TLS handshake; perhaps it does not speak TLS there (tls=off)",
            ),
            None => Error::unavailable(format!("the TLS handshake failed: {error}")),
        })
}

/// The peer's refusal of a certificate, where that is what an alert means.
fn certificate_refused(alert: AlertDescription) -> Option<Error> {
    match alert {
        AlertDescription::CertificateRequired => Some(Error::unauthenticated(
            "the server wants a client certificate over TLS (options tls_cert and tls_key)",
        )),
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::DecryptError
        | AlertDescription::AccessDenied => Some(Error::unauthenticated(format!(
            "the peer does not take the certificate shown over TLS ({alert:?})"
        ))),
        _ => None,
    }
}

/// What TLS says is wrong with a connection that was secure, where it was TLS that failed. A client learns only then that
/// its certificate is not taken.
pub(crate) fn broken(error: &io::Error) -> Option<Error> {
    let tls = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let refused = match tls {
        rustls::Error::AlertReceived(alert) => certificate_refused(*alert),
        _ => None,
    };
    Some(refused.unwrap_or_else(|| {
        Error::data_loss(format!("what came over TLS is not what was sent: {tls}"))
            .with_retryable(true)
    }))
}

/// What TLS says is wrong before a connection is secure, where it was TLS that failed.
fn refusal(error: &io::Error) -> Option<Error> {
    let tls = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let lasting = |why: String| Error::unavailable(why).with_retryable(false);
    Some(match tls {
        rustls::Error::InvalidMessage(_) => lasting(
            "TLS is not spoken at the other end; if that is right, say tls=off or use lightstream+tcp://".to_owned(),
        ),
        rustls::Error::InvalidCertificate(error) => lasting(match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the server's certificate is signed by no authority that is trusted here; name the right one with the \
                 option tls_ca"
                    .to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
                "the server's certificate is for another name ({error}); the option tls_server_name says which to expect"
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the server's certificate has expired".to_owned()
            }
            error => format!("the server's certificate is not good: {error}"),
        }),
        rustls::Error::AlertReceived(alert) => certificate_refused(*alert).unwrap_or_else(|| {
            lasting(format!("the peer refuses to speak TLS with this one ({alert:?})"))
        }),
        error => lasting(format!("TLS failed: {error}")),
    })
}

/// A server's certificate, as files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that lead to its authority, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// The authorities that sign clients' certificates, as PEM. With it every client must show one.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    fn load(&self) -> Result<ServerConfig> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| Error::internal("TLS cannot be set up").with_source(error))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(
                    Arc::new(authorities(path)?),
                    provider,
                )
                .build()
                .map_err(|error| unusable("certificate authority", path, error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(
                certificates("certificate", &self.cert)?,
                private_key(&self.key)?,
            )
            .map_err(|error| unusable("certificate", &self.cert, error))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }
}

/// A server's certificate, read again when its files change.
#[derive(Debug)]
pub(crate) struct TlsServer(Watched<Arc<ServerConfig>>);

impl TlsServer {
    /// Reads the files.
    pub(crate) fn try_new(files: TlsFiles) -> Result<Self> {
        let named = [
            Some(&files.cert),
            Some(&files.key),
            files.client_ca.as_ref(),
        ];
        let paths = named.into_iter().flatten().cloned().collect();
        Watched::try_new(paths, move || files.load().map(Arc::new)).map(Self)
    }

    /// Reads the files again. What was in force stays so where they cannot be used.
    pub(crate) fn reload(&self) -> Result<()> {
        self.0.reload()
    }

    /// Makes a connection secure that a client has opened.
    pub(super) async fn accept(&self, stream: TcpStream, peer: String) -> Result<ByteStream> {
        let stream = TlsAcceptor::from(Arc::clone(&*self.0.current().0))
            .accept(stream)
            .await
            .map_err(|error| Error::unavailable(format!("the TLS handshake failed: {error}")))?;
        let certificate = stream.get_ref().1.peer_certificates();
        let subject = match certificate.and_then(<[_]>::first) {
            None => None,
            Some(certificate) => Some(subject(certificate)?),
        };
        let (read, write) = tokio::io::split(stream);
        Ok(ByteStream {
            read: Box::new(read),
            write: Box::new(write),
            peer,
            subject,
        })
    }
}

/// Whose a certificate is, as RFC 4514 writes it.
fn subject(certificate: &CertificateDer<'_>) -> Result<String> {
    let certificate = x509_cert::Certificate::from_der(certificate).map_err(|error| {
        Error::unauthenticated(format!("the client's certificate cannot be read: {error}"))
    })?;
    let subject = certificate.tbs_certificate().subject().to_string();
    if subject.is_empty() {
        return Err(Error::unauthenticated(
            "the client's certificate names no subject",
        ));
    }
    Ok(subject)
}
