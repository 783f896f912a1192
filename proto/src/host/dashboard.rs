//! Where a broker serves its dashboard: metrics, and pages for people.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::echo::echo;

/// Its port where nobody names one.
const PORT: u16 = 7422;

/// How one says that there is to be none.
const OFF: &str = "off";

/// Where it is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dashboard {
    Off,
    /// At the address of [`Dashboard::usual`], or on a free port where somebody has that.
    #[default]
    Usual,
    /// At this address and nowhere else; port 0 takes a free one.
    At(SocketAddr),
}

impl Dashboard {
    /// Where it is unless somebody has that, or anybody says something else.
    pub fn usual() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, PORT).into()
    }
}

impl fmt::Display for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str(OFF),
            Self::Usual => Self::usual().fmt(f),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl FromStr for Dashboard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == OFF {
            return Ok(Self::Off);
        }
        let wrong = |_| {
            let usual = Self::usual();
            format!("is {}; it takes ADDRESS:PORT, such as {usual}, or {OFF}", echo(text))
        };
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
            None => text.to_owned(),
        };
        numeric.parse().map(Self::At).map_err(wrong)
    }
}

impl<'de> Deserialize<'de> for Dashboard {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dashboard_is_at_an_address_or_off() {
        for (text, dashboard) in [
            ("off", Dashboard::Off),
            ("127.0.0.1:0", Dashboard::At(([127, 0, 0, 1], 0).into())),
            ("127.0.0.1:7422", Dashboard::At(Dashboard::usual())),
        ] {
            assert_eq!(text.parse(), Ok(dashboard), "{text}");
            assert_eq!(dashboard.to_string(), text);
        }
        assert_eq!("localhost:1".parse(), Ok(Dashboard::At(([127, 0, 0, 1], 1).into())));
        for wrong in ["", "7422", "localhost", "OFF", "127.0.0.1"] {
            assert!(wrong.parse::<Dashboard>().unwrap_err().contains("127.0.0.1:7422"), "{wrong}");
        }
    }
}
