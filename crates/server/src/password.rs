//! SCRAM-SHA-256 (RFC 5802, RFC 7677): password verifiers in PostgreSQL's notation, and the server's side of
//! the exchange.
//!
//! A verifier is `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`. It authenticates a client, but does not
//! allow anyone who reads it to log in. The same verifier checks a password that a client sends as it is, as
//! Flight's handshake does.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

use crate::error::ServerError;

/// The name of the mechanism.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";

/// Iterations of new verifiers.
const ITERATIONS: u32 = 16_384;

/// The fewest iterations of a verifier: those of RFC 7677.
const LEAST_ITERATIONS: u32 = 4_096;

/// The most iterations of a verifier. Flight's handshake computes them on the server.
const MOST_ITERATIONS: u32 = 10_000_000;

/// Bytes of a salt, and of a nonce.
const RANDOM_BYTES: usize = 18;

/// Checks a password without containing it.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

/// Without the keys.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{MECHANISM}${}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(self.stored_key),
            STANDARD.encode(self.server_key)
        )
    }
}

fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

fn sha256(message: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, message).as_ref());
    bytes
}

/// Compares without a branch on the contents.
fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differs = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differs) == 0
}

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], ServerError> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| ServerError::Failed("the system has no random numbers".to_string()))?;
    Ok(bytes)
}

fn salted(password: &str, salt: &[u8], iterations: NonZeroU32) -> [u8; 32] {
    // Like PostgreSQL: a password that SASLprep refuses is used as it is.
    let prepared = stringprep::saslprep(password);
    let bytes = prepared.as_deref().unwrap_or(password).as_bytes();
    let mut key = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, bytes, &mut key);
    key
}

impl Verifier {
    /// The verifier of a password, with a random salt.
    ///
    /// # Errors
    /// An empty password.
    pub fn of(password: &str) -> Result<Self, ServerError> {
        if password.is_empty() {
            return Err(ServerError::Password("it is empty"));
        }
        let iterations = NonZeroU32::new(ITERATIONS).ok_or(ServerError::Password("no iterations"))?;
        Ok(Self::with_salt(
            password,
            random::<RANDOM_BYTES>()?.to_vec(),
            iterations,
        ))
    }

    fn with_salt(password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Self {
        let salted = salted(password, &salt, iterations);
        Self {
            iterations,
            stored_key: sha256(&mac(&salted, b"Client Key")),
            server_key: mac(&salted, b"Server Key"),
            salt,
        }
    }

    /// Parses PostgreSQL's notation.
    ///
    /// # Errors
    /// The problem.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const NOTATION: &str = "expected SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey, as galatea serve hash-password prints it";
        let mut parts = text.trim().split('$');
        let (Some(MECHANISM), Some(parameters), Some(keys), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NOTATION);
        };
        let (iterations, salt) = parameters.split_once(':').ok_or(NOTATION)?;
        let (stored, server) = keys.split_once(':').ok_or(NOTATION)?;
        let iterations: NonZeroU32 = iterations.parse().map_err(|_| NOTATION)?;
        if !(LEAST_ITERATIONS..=MOST_ITERATIONS).contains(&iterations.get()) {
            return Err("the number of iterations is from 4096 to 10000000");
        }
        let key = |text: &str| -> Option<[u8; 32]> { STANDARD.decode(text).ok()?.try_into().ok() };
        let salt = STANDARD.decode(salt).map_err(|_| NOTATION)?;
        if salt.len() < 8 {
            return Err("the salt has fewer than 8 bytes");
        }
        Ok(Self {
            iterations,
            salt,
            stored_key: key(stored).ok_or(NOTATION)?,
            server_key: key(server).ok_or(NOTATION)?,
        })
    }

    /// A verifier for a user who does not exist. Its salt depends on the name, as that of a real user does,
    /// and no password matches it.
    pub(crate) fn decoy(user: &str, secret: &[u8; 32]) -> Self {
        let salt = mac(secret, user.as_bytes())[..RANDOM_BYTES].to_vec();
        Self {
            iterations: NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN),
            salt,
            stored_key: mac(secret, b"no client has this key"),
            server_key: mac(secret, b"no server has this key"),
        }
    }

    /// Whether the password is the right one. Takes the time of all iterations.
    pub(crate) fn accepts(&self, password: &str) -> bool {
        let salted = salted(password, &self.salt, self.iterations);
        same(&sha256(&mac(&salted, b"Client Key")), &self.stored_key)
    }
}

/// The server's side of an exchange, after the client's first message.
#[derive(Debug)]
pub(crate) struct Exchange {
    verifier: Verifier,
    /// The channel binding header of the client, as the last message repeats it.
    binding: String,
    nonce: String,
    client_first_bare: String,
    server_first: String,
}

/// A message of the exchange is wrong, or the password is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) &'static str);

impl Exchange {
    /// Reads the first message of the client. Returns the exchange and the server's answer.
    pub(crate) fn begin(message: &[u8], verifier: Verifier) -> Result<(Self, String), Refused> {
        let nonce = random::<RANDOM_BYTES>().map_err(|_| Refused("the system has no random numbers"))?;
        Self::with_nonce(message, verifier, &STANDARD.encode(nonce))
    }

    fn with_nonce(message: &[u8], verifier: Verifier, nonce: &str) -> Result<(Self, String), Refused> {
        let message = str::from_utf8(message).map_err(|_| Refused("the message is not UTF-8"))?;
        let mut parts = message.splitn(3, ',');
        let (Some(flag), Some(authzid), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Refused("the first message has no header"));
        };
        // `p` requires a channel binding, which the server does not offer.
        if !(flag == "n" || flag == "y") {
            return Err(Refused("channel binding is not supported"));
        }
        let binding = format!("{flag},{authzid},");
        let client_nonce = (bare.split(',').find_map(|part| part.strip_prefix("r=")))
            .filter(|nonce| !nonce.is_empty())
            .ok_or(Refused("the first message has no nonce"))?;
        let nonce = format!("{client_nonce}{nonce}");
        let server_first = format!(
            "r={nonce},s={},i={}",
            STANDARD.encode(&verifier.salt),
            verifier.iterations
        );
        let exchange = Self {
            verifier,
            binding,
            nonce,
            client_first_bare: bare.to_string(),
            server_first: server_first.clone(),
        };
        Ok((exchange, server_first))
    }

    /// Checks the last message of the client. Returns the server's answer, which proves the server's
    /// knowledge of the verifier to the client.
    pub(crate) fn finish(&self, message: &[u8]) -> Result<String, Refused> {
        let message = str::from_utf8(message).map_err(|_| Refused("the message is not UTF-8"))?;
        let (without_proof, proof) =
            (message.rsplit_once(",p=")).ok_or(Refused("the last message has no proof"))?;
        let part = |name: &str| without_proof.split(',').find_map(|part| part.strip_prefix(name));
        if part("c=") != Some(STANDARD.encode(&self.binding).as_str()) {
            return Err(Refused("the channel binding differs"));
        }
        if part("r=") != Some(self.nonce.as_str()) {
            return Err(Refused("the nonce differs"));
        }
        let proof = STANDARD.decode(proof).ok();
        let proof: [u8; 32] = (proof.and_then(|proof| proof.try_into().ok()))
            .ok_or(Refused("the proof is not a SHA-256 value in base 64"))?;
        let exchanged = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let signature = mac(&self.verifier.stored_key, exchanged.as_bytes());
        let mut client_key = [0; 32];
        for (byte, (proof, signature)) in client_key.iter_mut().zip(proof.iter().zip(signature)) {
            *byte = proof ^ signature;
        }
        if !same(&sha256(&client_key), &self.verifier.stored_key) {
            return Err(Refused("the password is wrong"));
        }
        let signature = mac(&self.verifier.server_key, exchanged.as_bytes());
        Ok(format!("v={}", STANDARD.encode(signature)))
    }
}

/// The SHA-256 of a token, in hexadecimal notation.
pub fn token_hash(token: &str) -> String {
    sha256(token.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A random token.
///
/// # Errors
/// The system has no random numbers.
pub fn new_token() -> Result<String, ServerError> {
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random::<32>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn exchange_matches_the_rfc() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::with_salt("pencil", salt, NonZeroU32::new(4096).unwrap());
        assert_eq!(Verifier::parse(&verifier.to_string()), Ok(verifier.clone()));
        let first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let (exchange, answer) = Exchange::with_nonce(first, verifier, nonce).unwrap();
        assert_eq!(
            answer,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(
            exchange.finish(last.as_bytes()).unwrap(),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
        let wrong = last.replace("p=dH", "p=dI");
        assert_eq!(
            exchange.finish(wrong.as_bytes()),
            Err(Refused("the password is wrong"))
        );
        let other = last.replace("c=biws", "c=eSws");
        assert_eq!(
            exchange.finish(other.as_bytes()),
            Err(Refused("the channel binding differs"))
        );
    }

    #[test]
    fn verifier_accepts_only_its_password() {
        let verifier = Verifier::of("correct horse").unwrap();
        assert!(verifier.accepts("correct horse"));
        assert!(!verifier.accepts("correct horse ") && !verifier.accepts(""));
        assert!(!Verifier::decoy("ann", &[7; 32]).accepts("correct horse"));
        assert_eq!(Verifier::decoy("ann", &[7; 32]), Verifier::decoy("ann", &[7; 32]));
        assert!(Verifier::of("").is_err());
        assert!(!format!("{verifier:?}").contains("key"));
    }

    #[test]
    fn wrong_verifiers_and_messages_are_refused() {
        for text in [
            "",
            "md5abc",
            "SCRAM-SHA-256$4096:AAAA",
            "SCRAM-SHA-256$1:W22ZaJ0SNY7soEsUEjb6gQ==$A:B",
        ] {
            assert!(Verifier::parse(text).is_err(), "{text}");
        }
        let verifier = || Verifier::decoy("ann", &[1; 32]);
        for message in [
            &b"\xff"[..],
            b"",
            b"n,,n=user",
            b"p=tls-unique,,n=u,r=x",
            b"n,,n=u,r=",
        ] {
            assert!(Exchange::begin(message, verifier()).is_err(), "{message:?}");
        }
        let (exchange, _) = Exchange::begin(b"n,,n=u,r=abc", verifier()).unwrap();
        for message in [&b"\xff"[..], b"", b"c=biws,r=abc", b"c=biws,r=abc,p=AA=="] {
            assert!(exchange.finish(message).is_err(), "{message:?}");
        }
    }

    #[test]
    fn tokens_are_hashed() {
        assert_eq!(
            token_hash("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_ne!(new_token().unwrap(), new_token().unwrap());
    }
}
