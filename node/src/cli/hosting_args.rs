//! Options of `tasuki up` and `tasuki node`: roles, and how agents reach them.

use super::{Flags, background::detach};
use crate::{config::Key, toolset::usable_toolsets};

#[derive(Debug, clap::Args)]
pub(crate) struct HostingArgs {
    /// Address on which the node serves MCP [default: 127.0.0.1:7421]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Workspace [default: default]
    #[arg(long, value_name = "NAME")]
    workspace: Option<String>,
    // The toolsets are listed in one place.
    #[arg(long = "role", value_name = "NAME[=SET,SET…]", help = roles_help())]
    roles: Vec<String>,
    /// Role that several agents may play at once; repeatable [default: none]
    #[arg(long, value_name = "ROLE")]
    shared: Vec<String>,
    /// Use TLS and require tokens on loopback addresses too; elsewhere they are always required
    #[arg(long)]
    secure: bool,
    /// Name or address under which other machines reach this one
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Certificate in PEM, with --tls-key [default: a self-signed one]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<String>,
    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<String>,
    /// How long one waiting call is held open [default: as long as the client allows]
    #[arg(long, value_name = "DURATION")]
    hold: Option<String>,
    #[command(flatten)]
    pub(super) background: detach::Args,
}

fn roles_help() -> String {
    format!(
        "Role with its toolsets, in order; repeatable [default: A and B]. Toolsets: {}; \
         SET:full lists more of its tools, SET:quiet fewer",
        usable_toolsets()
    )
}

impl HostingArgs {
    pub(crate) fn flags(&self, flags: &mut Flags) {
        flags.set(Key::Listen, "--listen", self.listen.as_ref());
        flags.set(Key::Workspace, "--workspace", self.workspace.as_ref());
        flags.set_all(Key::Roles, "--role", &self.roles);
        flags.set_all(Key::Shared, "--shared", &self.shared);
        let secure = self.secure.then(|| "yes".to_owned());
        flags.set(Key::Secure, "--secure", secure.as_ref());
        flags.set(Key::Advertise, "--advertise", self.advertise.as_ref());
        flags.set(Key::TlsCert, "--tls-cert", self.tls_cert.as_ref());
        flags.set(Key::TlsKey, "--tls-key", self.tls_key.as_ref());
        flags.set(Key::Hold, "--hold", self.hold.as_ref());
    }
}
