//! Logins of browsers: a random cookie per login, kept in memory until it expires or the server ends.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;

use crate::error::ServerError;
use crate::password;
use crate::state::Account;

/// The name of the cookie.
pub(super) const COOKIE: &str = "galatea";

/// The time after which a login expires.
const VALID: Duration = Duration::from_secs(12 * 60 * 60);

/// Logins at once. One more ends the least recently used one.
const LOGINS: NonZeroUsize = NonZeroUsize::new(256).expect("above zero");

/// The logins, by the hash of the cookie.
#[derive(Debug)]
pub(super) struct Logins(Mutex<LruCache<String, (Arc<Account>, Instant)>>);

impl Default for Logins {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(LOGINS)))
    }
}

impl Logins {
    /// Logs an account in. Returns the value of the header `Set-Cookie`.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn add(&self, account: &Arc<Account>, is_encrypted: bool) -> Result<String, ServerError> {
        let secret = password::new_token()?;
        let login = (Arc::clone(account), Instant::now());
        self.0.lock().put(password::token_hash(&secret), login);
        Ok(cookie(&secret, VALID.as_secs(), is_encrypted))
    }

    /// The account of a cookie.
    pub(super) fn get(&self, secret: &str) -> Option<Arc<Account>> {
        let mut logins = self.0.lock();
        let key = password::token_hash(secret);
        let (account, since) = logins.get(&key)?;
        if since.elapsed() < VALID {
            return Some(Arc::clone(account));
        }
        logins.pop(&key);
        None
    }

    /// Ends a login. Returns the value of the header `Set-Cookie`.
    pub(super) fn end(&self, secret: &str) -> String {
        self.0.lock().pop(&password::token_hash(secret));
        cookie("", 0, false)
    }
}

fn cookie(secret: &str, seconds: u64, is_encrypted: bool) -> String {
    let secure = if is_encrypted { "; Secure" } else { "" };
    format!("{COOKIE}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Limits, Role};

    #[test]
    fn logins_are_found_until_they_end() {
        let role = Arc::new(Role::local(Limits::default(), false));
        let account = Account::new("ann", &role).expect("an account");
        let logins = Logins::default();
        let header = logins.add(&account, true).expect("a cookie");
        let value = header
            .strip_prefix("galatea=")
            .and_then(|rest| rest.split(';').next());
        let secret = value.expect("a cookie").to_string();
        assert!(header.contains("HttpOnly; SameSite=Strict; Secure"), "{header}");
        assert!(logins.get(&secret).is_some() && logins.get("").is_none());
        assert!(!format!("{logins:?}").contains(&secret));
        assert!(logins.end(&secret).contains("Max-Age=0"));
        assert!(logins.get(&secret).is_none());
    }
}
