//! The line that lets one node join: where the broker is, how to know it, and a code that works
//! once.
//!
//! `tasuki://HOST:PORT/TRUST/CODE`, made of characters that no shell touches. TRUST is the SHA-256
//! of the broker's certificate in base64url, or `ca` when authorities vouch for it. Whoever has
//! the line can join, so it is passed on like a password; it is worth nothing once used.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::token::Secret;

const SCHEME: &str = "tasuki://";
const AUTHORITIES: &str = "ca";

/// Why a text is no invitation. Says nothing of its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInvitation {
    #[error("an invitation begins with tasuki://")]
    Scheme,
    #[error("an invitation has a host and a port after tasuki://, such as host:7420")]
    Address,
    #[error("the broker's fingerprint in it is not complete; copy the whole line")]
    Fingerprint,
    #[error("the code in it is not complete; copy the whole line")]
    Code,
}

/// The SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    /// As `openssl x509 -fingerprint -sha256` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let colon = if i == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidInvitation;

    /// With colons, as it is printed, or without.
    fn from_str(text: &str) -> Result<Self, InvalidInvitation> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(InvalidInvitation::Fingerprint);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| InvalidInvitation::Fingerprint)?;
            let digit = u8::from_str_radix(pair, 16);
            *byte = digit.map_err(|_| InvalidInvitation::Fingerprint)?;
        }
        Ok(Self(bytes))
    }
}

/// How a node knows that it speaks to its broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// It has this certificate, and no other.
    Pinned(Fingerprint),
    /// An authority that this machine trusts vouches for its name.
    Authorities,
}

/// What an invitation's line says. `Debug` does not show the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// `HOST:PORT`; an IPv6 address in brackets.
    pub address: String,
    pub trust: Trust,
    pub code: Secret,
}

impl Invitation {
    /// The whole line, code included.
    pub fn expose(&self) -> String {
        let trust = match self.trust {
            Trust::Pinned(fingerprint) => URL_SAFE_NO_PAD.encode(fingerprint.0),
            Trust::Authorities => AUTHORITIES.to_owned(),
        };
        format!("{SCHEME}{}/{trust}/{}", self.address, self.code.expose())
    }
}

impl FromStr for Invitation {
    type Err = InvalidInvitation;

    fn from_str(text: &str) -> Result<Self, InvalidInvitation> {
        let rest = text.trim().strip_prefix(SCHEME).ok_or(InvalidInvitation::Scheme)?;
        let (address, rest) = rest.split_once('/').ok_or(InvalidInvitation::Fingerprint)?;
        let (trust, code) = rest.split_once('/').ok_or(InvalidInvitation::Code)?;
        let (host, port) = address.rsplit_once(':').ok_or(InvalidInvitation::Address)?;
        let is_host = !host.is_empty()
            && (host.starts_with('[') == host.ends_with(']'))
            && (host.starts_with('[') || !host.contains(':'))
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b));
        if !is_host || port.parse::<u16>().is_err() {
            return Err(InvalidInvitation::Address);
        }
        let trust = if trust == AUTHORITIES {
            Trust::Authorities
        } else {
            let bytes = URL_SAFE_NO_PAD.decode(trust).ok().and_then(|it| it.try_into().ok());
            Trust::Pinned(Fingerprint(bytes.ok_or(InvalidInvitation::Fingerprint)?))
        };
        let code = code.parse().map_err(|_| InvalidInvitation::Code)?;
        Ok(Self { address: address.to_owned(), trust, code })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation(address: &str, trust: Trust) -> Invitation {
        Invitation { address: address.to_owned(), trust, code: Secret::new([0xfb; 32]) }
    }

    #[test]
    fn an_invitation_survives_being_passed_on() {
        let pinned = Trust::Pinned(Fingerprint([0xfe; 32]));
        for address in ["host:7420", "10.1.2.3:1", "[fd00::1]:7420", "a-b.example:65535"] {
            for trust in [pinned, Trust::Authorities] {
                let line = invitation(address, trust).expose();
                assert!(line.bytes().all(|b| b.is_ascii_alphanumeric() || b":/.-_[]".contains(&b)));
                assert_eq!(line.parse(), Ok(invitation(address, trust)));
                assert_eq!(format!(" {line}\n").parse(), Ok(invitation(address, trust)));
            }
        }
    }

    #[test]
    fn what_is_not_whole_is_refused_by_name() {
        let line = invitation("host:7420", Trust::Pinned(Fingerprint([1; 32]))).expose();
        let cut = &line[..line.len() - 1];
        for (bad, why) in [
            ("https://host:7420/ca/x", InvalidInvitation::Scheme),
            ("tasuki://host/ca/x", InvalidInvitation::Address),
            ("tasuki://:7420/ca/x", InvalidInvitation::Address),
            ("tasuki://a@b:7420/ca/x", InvalidInvitation::Address),
            ("tasuki://fd00::1:7420/ca/x", InvalidInvitation::Address),
            ("tasuki://host:7420", InvalidInvitation::Fingerprint),
            ("tasuki://host:7420/AAAA/x", InvalidInvitation::Fingerprint),
            ("tasuki://host:7420/ca", InvalidInvitation::Code),
            (cut, InvalidInvitation::Code),
        ] {
            assert_eq!(bad.parse::<Invitation>(), Err(why), "{bad}");
        }
    }

    #[test]
    fn a_fingerprint_reads_what_it_prints() {
        let fingerprint = Fingerprint([0xa0; 32]);
        let text = fingerprint.to_string();
        assert_eq!(text.parse(), Ok(fingerprint));
        assert_eq!(text.replace(':', "").to_lowercase().parse(), Ok(fingerprint));
        assert!("A0:A0".parse::<Fingerprint>().is_err());
    }
}
