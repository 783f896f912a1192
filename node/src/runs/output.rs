//! Long outputs, of which the broker keeps the beginning: the rest is in a file of the node that ran
//! the step, and is read by way of the broker from anywhere else.

use std::path::Path;

use tasuki_proto::{run::StepId, wire};

/// A part of what the broker does not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// It may cut a character at either end.
    Part(Vec<u8>),
    /// The node does not have it, or there is nothing from there on.
    Gone,
    /// The node is not connected, or does not answer.
    Away,
}

impl Rest {
    /// What the node that ran the step answered.
    pub fn answered(answer: wire::ReadOutputResponse) -> Self {
        if answer.is_away { Self::Away } else { Self::found(answer.content) }
    }

    fn found(part: Vec<u8>) -> Self {
        if part.is_empty() { Self::Gone } else { Self::Part(part) }
    }

    /// What this node has in a file of its own; `None`: it has none.
    pub fn own(directory: &Path, step: StepId, offset: u64, limit: u32) -> Option<Self> {
        #[cfg(unix)]
        {
            super::worker::read_output(directory, step, offset, limit).map(Self::found)
        }
        #[cfg(not(unix))]
        {
            let _ = (directory, step, offset, limit);
            None
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;
    use crate::runs::worker::output_file;

    #[test]
    fn a_file_of_this_node_is_read_in_parts() {
        let place = tempfile::tempdir().unwrap();
        let step = StepId { run: "run_1700000000000_00af".parse().unwrap(), number: 1 };
        let own = |offset, limit| Rest::own(place.path(), step, offset, limit);
        assert_eq!(own(0, 10), None, "there is none");
        let file = output_file(place.path(), step);
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "héllo").unwrap();
        let part = |bytes: &[u8]| Some(Rest::Part(bytes.to_vec()));
        assert_eq!(own(0, 2), part(b"h\xc3"));
        assert_eq!(own(2, 10), part(b"\xa9llo"));
        for offset in [6, 7, u64::from(u32::MAX)] {
            assert_eq!(own(offset, 10), Some(Rest::Gone), "{offset}");
        }
        assert_eq!(own(u64::MAX, 10), None, "no file is so long");
    }
}
