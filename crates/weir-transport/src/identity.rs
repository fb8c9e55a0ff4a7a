//! Who the receiver is: a certificate that it keeps in a file, and how a sender knows it again.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use noq_proto::crypto;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use noq_proto::rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use noq_proto::rustls::pki_types::pem::PemObject;
use noq_proto::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use noq_proto::rustls::version::TLS13;
use noq_proto::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, ServerConfig,
    SignatureScheme,
};
use noq_proto::{EndpointConfig, RandomConnectionIdGenerator};
use ring::digest::{Context, SHA256, digest};
use ring::hmac;

use crate::Error;

/// What both ends must speak (RFC 7301); the number is that of the messages in `messages.rs`.
const ALPN: &[u8] = b"weir-send/1";
/// The name in certificates that are made here; whoever pins the fingerprint does not look at it.
const NAME: &str = "weir.invalid";
/// Bytes of a connection's identifier, which each packet to the receiver carries: enough to tell apart the few
/// connections that it takes at a time, and to make guessing one as hard as guessing a TCP sequence number.
const IDENTIFIER: usize = 4;

/// The SHA-256 of a certificate. Its text is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, certificate).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    /// Reads what [`Display`](fmt::Display) writes, and what openssl(1) does: colons between bytes, capital letters.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits: Vec<char> = text.chars().filter(|letter| *letter != ':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return Err(format!("a fingerprint has 64 hexadecimal digits; this has {}", digits.len()));
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let value =
                |digit: char| digit.to_digit(16).ok_or_else(|| format!("'{digit}' is no hexadecimal digit"));
            *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

/// A receiver's certificate and key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads a certificate, perhaps with those that signed it, and its key from a file in PEM; if there is no such
    /// file, makes a certificate that signs itself and writes it there, for its owner's eyes alone.
    ///
    /// # Errors
    /// If the file cannot be read, written or understood.
    pub fn load_or_make(path: &Path) -> Result<Self, Error> {
        let wrong = |what: &dyn fmt::Display| Error::Identity(format!("{}: {what}", path.display()));
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = made().map_err(|error| wrong(&error))?;
                write_secret(path, text.as_bytes()).map_err(|error| wrong(&error))?;
                text.into_bytes()
            }
            Err(error) => return Err(wrong(&error)),
        };
        Self::from_pem(&text).map_err(|error| wrong(&error))
    }

    /// Makes one that is kept nowhere.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make() -> Result<Self, Error> {
        let text = made().map_err(|error| Error::Identity(error.to_string()))?;
        Self::from_pem(text.as_bytes()).map_err(Error::Identity)
    }

    fn from_pem(text: &[u8]) -> Result<Self, String> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(text)
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        if chain.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(text)
            .map_err(|error| format!("there is no private key in it: {error}"))?;
        Ok(Self { chain, key })
    }

    /// By what senders know it.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }

    /// Its secret is the same whenever it is used: a receiver that was started anew can tell senders at once that it
    /// knows nothing of their connections (RFC 9000 section 10.3.2).
    pub(crate) fn endpoint(&self) -> EndpointConfig {
        let mut secret = Context::new(&SHA256);
        secret.update(b"weir stateless reset");
        secret.update(self.key.secret_der());
        let reset = hmac::Key::new(hmac::HMAC_SHA256, secret.finish().as_ref());
        let mut config = EndpointConfig::new(Arc::new(reset));
        config.cid_generator(Arc::new(|| Box::new(RandomConnectionIdGenerator::new(IDENTIFIER))));
        config
    }

    /// A server's cryptography.
    pub(crate) fn server(&self) -> Result<Arc<dyn crypto::ServerConfig>, Error> {
        let wrong = |error: &dyn fmt::Display| Error::Identity(error.to_string());
        let mut tls = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .and_then(|tls| {
                tls.with_no_client_auth().with_single_cert(self.chain.clone(), self.key.clone_key())
            })
            .map_err(|error| wrong(&error))?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Arc::new(QuicServerConfig::try_from(tls).map_err(|error| wrong(&error))?))
    }
}

/// A new certificate and its key, in PEM.
fn made() -> Result<String, rcgen::Error> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    Ok(format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem()))
}

/// Writes a file that is whole or not there, and that only its owner can read.
fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    // One that was left by a process that ended in between.
    let _ = fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// How a sender knows the receiver.
#[derive(Clone, Debug)]
pub enum Trust {
    /// By the fingerprint of its certificate.
    Fingerprint(Fingerprint),
    /// By a certificate for its name that one of the authorities in this PEM file has signed.
    Authorities(std::path::PathBuf),
}

/// A sender's cryptography, and what its receiver turned out to be if that is not what was expected.
pub(crate) struct Expected {
    pub(crate) crypto: Arc<dyn crypto::ClientConfig>,
    found: Arc<Mutex<Option<Fingerprint>>>,
    trust: Trust,
}

impl Expected {
    pub(crate) fn new(trust: &Trust) -> Result<Self, Error> {
        let wrong = |error: &dyn fmt::Display| Error::Trust(error.to_string());
        let found = Arc::default();
        let provider = Arc::new(provider::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(&error))?;
        let mut tls = match trust {
            Trust::Fingerprint(expected) => {
                let pinned = Pinned { expected: *expected, found: Arc::clone(&found), provider };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(pinned)).with_no_client_auth()
            }
            Trust::Authorities(path) => {
                let named = |error: &dyn fmt::Display| wrong(&format!("{}: {error}", path.display()));
                let mut roots = RootCertStore::empty();
                let certificates = CertificateDer::pem_file_iter(path).map_err(|error| named(&error))?;
                for certificate in certificates {
                    roots.add(certificate.map_err(|error| named(&error))?).map_err(|error| named(&error))?;
                }
                if roots.is_empty() {
                    return Err(named(&"there is no certificate in it"));
                }
                builder.with_root_certificates(roots).with_no_client_auth()
            }
        };
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = Arc::new(QuicClientConfig::try_from(tls).map_err(|error| wrong(&error))?);
        Ok(Self { crypto, found, trust: trust.clone() })
    }

    /// The receiver has another certificate than the pinned one: which is expected, and which it has.
    pub(crate) fn mismatch(&self) -> Option<Error> {
        let found = (*self.found.lock().unwrap_or_else(PoisonError::into_inner))?;
        match self.trust {
            Trust::Fingerprint(expected) => Some(Error::Fingerprint { expected, found }),
            Trust::Authorities(_) => None,
        }
    }
}

/// Accepts the certificate of one fingerprint, whatever its names, dates and signers.
#[derive(Debug)]
struct Pinned {
    expected: Fingerprint,
    found: Arc<Mutex<Option<Fingerprint>>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let found = Fingerprint::of(certificate);
        if found == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Err(TlsError::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        // QUIC has TLS 1.3 alone (RFC 9001 section 4.2).
        Err(TlsError::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        // The receiver proves that it has the certificate's key.
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::{Fingerprint, Identity};

    #[test]
    fn an_identity_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/identity.pem");
        let first = Identity::load_or_make(&path).unwrap().fingerprint();
        assert_eq!(Identity::load_or_make(&path).unwrap().fingerprint(), first);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        std::fs::write(&path, "nothing").unwrap();
        assert!(Identity::load_or_make(&path).err().unwrap().to_string().contains("no certificate"));
    }

    #[test]
    fn a_fingerprint_is_read_as_others_write_it() {
        let text = "00ff".repeat(16);
        let fingerprint: Fingerprint = text.parse().unwrap();
        assert_eq!(fingerprint.to_string(), text);
        let colons = vec!["00:FF"; 16].join(":");
        assert_eq!(colons.parse(), Ok(fingerprint));
        assert!("00ff".parse::<Fingerprint>().unwrap_err().contains("64"));
        assert!("0g".repeat(32).parse::<Fingerprint>().unwrap_err().contains('g'));
    }
}
