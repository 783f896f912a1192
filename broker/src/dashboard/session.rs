//! Who is logged in.
//!
//! A browser holds a name that says nothing; the token behind it stays here, in memory. Where no
//! token is asked for there is nothing to remember: the name only ties forms to the browser that
//! they were made for (WD3).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, header::COOKIE};
use parking_lot::Mutex;
use tasuki_proto::{rpc, wire};
use tokio::time::{Instant, timeout};

use super::{keys::chance, visit::Bearing};
use crate::{connection::Peer, grpc::Carrier};

/// Sessions at once. Past it the one unused the longest ends.
const LOGINS_MAX: usize = 1024;

/// Without a request a session ends after so long: a working day.
const IDLE: Duration = Duration::from_secs(12 * 3600);

/// What may be done without a token is asked for again after so long.
const OWN_FOR: Duration = Duration::from_secs(10);

/// For that answer.
const OWN_WITHIN: Duration = Duration::from_secs(2);

/// How long a name is: 16 bytes, in hexadecimal.
const NAME_CHARS: usize = 32;

/// Over TLS the browser itself sees to it that no other host and no plain page sets it. It knows no
/// ports, so each server of a host has a name of its own.
const COOKIE_SECURE: &str = "__Host-tasuki";
const COOKIE_PLAIN: &str = "tasuki";

/// A token that was shown, and what it may do.
#[derive(Debug)]
pub(super) struct Login {
    /// `Bearer tasuki_…`.
    pub(super) authorization: HeaderValue,
    pub(super) token: wire::WhoAmIResponse,
}

/// What may be done here by visitors who show no token, as the broker says.
#[derive(Debug, Default)]
pub(super) struct OwnScope(Mutex<Option<(Instant, Arc<wire::Scope>)>>);

impl OwnScope {
    /// Nothing, while the broker does not say. Nobody waits for another's question.
    pub(super) async fn get(&self, carrier: Carrier, peer: Option<Arc<Peer>>) -> Arc<wire::Scope> {
        let known = self.0.lock().clone();
        if let Some((_, scope)) = known.filter(|(at, _)| at.elapsed() < OWN_FOR) {
            return scope;
        }
        let ask = rpc::send(Bearing::new(carrier, None, peer), wire::WhoAmIRequest::default());
        let Ok(Ok(said)) = timeout(OWN_WITHIN, ask).await else { return Arc::default() };
        let scope = Arc::new(said.into_inner().scope.unwrap_or_default());
        *self.0.lock() = Some((Instant::now(), Arc::clone(&scope)));
        scope
    }
}

#[derive(Debug)]
pub(super) struct Sessions {
    is_secure: bool,
    cookie: String,
    /// What forms are signed with, until this process ends.
    secret: [u8; 32],
    /// By name.
    logins: Mutex<BTreeMap<String, (Instant, Arc<Login>)>>,
}

impl Sessions {
    pub(super) fn new(secure_port: Option<u16>) -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the system's random source works");
        let cookie = match secure_port {
            Some(port) => format!("{COOKIE_SECURE}-{port}"),
            None => COOKIE_PLAIN.to_owned(),
        };
        Self { is_secure: secure_port.is_some(), cookie, secret, logins: Mutex::default() }
    }

    /// The name that a request shows.
    pub(super) fn name(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|it| it.to_str().ok());
        let mut all =
            cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
        let (_, name) = all.find(|(cookie, _)| *cookie == self.cookie)?;
        let is_name = name.len() == NAME_CHARS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_name.then(|| name.to_owned())
    }

    /// A new name, and the header that gives it to a browser.
    pub(super) fn begin(&self) -> (String, HeaderValue) {
        let name = chance();
        let header = self.header(&name, "");
        (name, header)
    }

    /// The header that takes the name from a browser.
    pub(super) fn forgotten(&self) -> HeaderValue {
        self.header("", "; Max-Age=0")
    }

    fn header(&self, name: &str, more: &str) -> HeaderValue {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let cookie = &self.cookie;
        let text = format!("{cookie}={name}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
        HeaderValue::from_str(&text).expect("a header of letters")
    }

    /// What a form of this browser must carry.
    pub(super) fn form_token(&self, name: &str) -> String {
        blake3::keyed_hash(&self.secret, name.as_bytes()).to_hex().to_string()
    }

    /// Whether a form was made for this browser.
    pub(super) fn is_form_token(&self, name: &str, shown: &str) -> bool {
        // Compared in constant time.
        blake3::Hash::from_hex(shown)
            .is_ok_and(|shown| shown == blake3::keyed_hash(&self.secret, name.as_bytes()))
    }

    /// Remembers who is behind a name.
    pub(super) fn log_in(&self, name: String, login: Login, now: Instant) {
        let mut logins = self.logins.lock();
        logins.retain(|_, (used, _)| now.duration_since(*used) < IDLE);
        if LOGINS_MAX <= logins.len() {
            let oldest = logins.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                logins.remove(&oldest);
            }
        }
        logins.insert(name, (now, Arc::new(login)));
    }

    pub(super) fn log_out(&self, name: &str) {
        self.logins.lock().remove(name);
    }

    /// Who is behind a name.
    pub(super) fn login(&self, name: &str, now: Instant) -> Option<Arc<Login>> {
        let mut logins = self.logins.lock();
        let (used, login) = logins.get_mut(name)?;
        if IDLE <= now.duration_since(*used) {
            logins.remove(name);
            return None;
        }
        *used = now;
        Some(Arc::clone(login))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        let authorization = HeaderValue::from_static("Bearer tasuki_x");
        Login { authorization, token: wire::WhoAmIResponse::default() }
    }

    #[test]
    fn a_session_ends_when_nobody_used_it_for_long() {
        let (sessions, start) = (Sessions::new(Some(7422)), Instant::now());
        sessions.log_in("a".to_owned(), login(), start);
        let used = start + IDLE - Duration::from_secs(1);
        assert!(sessions.login("a", used).is_some());
        assert!(sessions.login("a", start + IDLE).is_some(), "it was used meanwhile");
        assert!(sessions.login("a", start + IDLE + IDLE).is_none());
        assert!(sessions.login("a", start).is_none(), "it does not come back");
    }

    #[test]
    fn the_session_unused_the_longest_gives_way() {
        let (sessions, start) = (Sessions::new(None), Instant::now());
        let at = |number: u64| start + Duration::from_millis(number);
        for number in 0..=LOGINS_MAX as u64 {
            sessions.log_in(number.to_string(), login(), at(number));
        }
        let now = at(LOGINS_MAX as u64);
        assert!(sessions.login("0", now).is_none() && sessions.login("1", now).is_some());
        sessions.log_out("1");
        assert!(sessions.login("1", now).is_none());
    }

    /// Holds WD3.
    #[test]
    fn a_form_is_good_in_the_browser_that_it_was_made_for() {
        let sessions = Sessions::new(None);
        let token = sessions.form_token("a");
        assert!(sessions.is_form_token("a", &token));
        assert!(!sessions.is_form_token("b", &token));
        assert!(!sessions.is_form_token("a", "") && !sessions.is_form_token("a", &token[1..]));
        assert!(!Sessions::new(None).is_form_token("a", &token));
    }

    #[test]
    fn a_name_is_read_from_its_own_cookie_alone() {
        let name = "0123456789abcdef0123456789abcdef";
        let shown = |cookies: &str, secure_port| {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, cookies.parse().unwrap());
            Sessions::new(secure_port).name(&headers)
        };
        let own = Some(name.to_owned());
        assert_eq!(shown(&format!("x=1; tasuki={name}; y=2"), None), own);
        let secure = format!("__Host-tasuki-7422={name}");
        assert_eq!(shown(&secure, Some(7422)), own);
        assert_eq!(shown(&secure, Some(7423)), None, "another server of this host");
        assert_eq!(shown(&format!("tasuki={name}"), Some(7422)), None);
        assert_eq!(shown("tasuki=short", None), None);
        assert_eq!(shown(&format!("tasuki={}", name.replace('a', "/")), None), None);
    }
}
