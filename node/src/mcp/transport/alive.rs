//! Finding out that the other end of a silent connection is gone: a machine that was switched off,
//! or a network in between, says nothing.

use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// Silence after which the other end is asked for a sign of life.
const IDLE: Duration = Duration::from_secs(7);

/// Between two such questions; after the second without an answer it is gone, 15 s in all.
const PAUSE: Duration = Duration::from_secs(4);
const QUESTIONS: u32 = 2;

/// Until what was written must have arrived, in milliseconds.
#[cfg(target_os = "linux")]
const UNTAKEN_MS_MAX: u32 = 15_000;

/// Has the system end the connection when the other end is gone.
pub(in crate::mcp) fn ends_with_its_peer(stream: &TcpStream) {
    let set = || {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, IDLE)?;
        sockopt::set_tcp_keepintvl(stream, PAUSE)?;
        sockopt::set_tcp_keepcnt(stream, QUESTIONS)?;
        #[cfg(target_os = "linux")]
        sockopt::set_tcp_user_timeout(stream, UNTAKEN_MS_MAX)?;
        Ok::<(), rustix::io::Errno>(())
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "TCP keep-alive");
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_system_is_told_to_ask() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        ends_with_its_peer(&stream);
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let asked = (IDLE + PAUSE * QUESTIONS).as_secs();
        assert!(asked <= 15, "{asked} s");
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), IDLE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), PAUSE);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), QUESTIONS);
    }
}
