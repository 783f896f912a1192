//! Tasks of other MCP servers: an id says which server has the task and whose it is, sealed as the ids
//! of this node's own tasks are.
//!
//! The server decides how long its task lives and what becomes of it.

use tasuki_proto::id::RoleId;

use super::seal::{OF_A_SERVER, TaskKey};

/// A server's own id of a task, in bytes.
const OWN_ID_BYTES_MAX: usize = 1024;

/// An id in characters: names at their limit and what is fixed.
const TASK_ID_CHARS_MAX: usize = 4 * 1024;

/// A task that a server made for a role's call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mcp) struct ServerTask {
    pub role: RoleId,
    pub server: String,
    /// The server's own when it made the task.
    pub incarnation: u64,
    /// The server's own id of the task.
    pub own_id: String,
}

impl ServerTask {
    /// `None`: the server's own id is too long.
    pub(super) fn seal(&self, key: &TaskKey, instance: &str, nonce: [u8; 8]) -> Option<String> {
        if OWN_ID_BYTES_MAX < self.own_id.len() {
            return None;
        }
        let mut bytes = vec![OF_A_SERVER];
        bytes.extend(nonce);
        bytes.extend(self.incarnation.to_le_bytes());
        for text in [self.role.as_str(), instance, &self.server, &self.own_id] {
            bytes.extend(u16::try_from(text.len()).ok()?.to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        Some(key.seal(bytes))
    }

    /// `None`: this key and instance made no such id.
    pub(super) fn open(key: &TaskKey, id: &str, instance: &str) -> Option<Self> {
        if TASK_ID_CHARS_MAX < id.len() {
            return None;
        }
        let bytes = key.open_seal(id)?;
        let rest = bytes.strip_prefix(&[OF_A_SERVER])?;
        let (_nonce, rest) = rest.split_first_chunk::<8>()?;
        let (incarnation, mut rest) = rest.split_first_chunk()?;
        let incarnation = u64::from_le_bytes(*incarnation);
        let mut text = || {
            let (length, after) = rest.split_first_chunk()?;
            let (text, after) = after.split_at_checked(u16::from_le_bytes(*length).into())?;
            rest = after;
            str::from_utf8(text).ok()
        };
        let role = text()?.parse().ok()?;
        if text()? != instance {
            return None;
        }
        let (server, own_id) = (text()?.to_owned(), text()?.to_owned());
        Some(Self { role, server, incarnation, own_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_opens_for_the_agent_it_was_made_for() {
        let key = TaskKey::of_process();
        let task = ServerTask {
            role: "dev".parse().unwrap(),
            server: "files".to_owned(),
            incarnation: 7,
            own_id: "x".repeat(OWN_ID_BYTES_MAX),
        };
        let id = task.seal(&key, "claude-1", [7; 8]).unwrap();
        assert!(id.len() <= TASK_ID_CHARS_MAX);
        assert_eq!(ServerTask::open(&key, &id, "claude-1").as_ref(), Some(&task));
        assert_eq!(ServerTask::open(&key, &id, "claude-2"), None);
        assert_eq!(ServerTask::open(&key, &id[1..], "claude-1"), None);
        assert_eq!(ServerTask::open(&TaskKey::of_process(), &id, "claude-1"), None);
        let too_long = ServerTask { own_id: "x".repeat(OWN_ID_BYTES_MAX + 1), ..task };
        assert_eq!(too_long.seal(&key, "claude-1", [7; 8]), None);
    }
}
