//! Every bound that both sides of the wire know, with its unit and its reason.

/// An id, in bytes. Ids are parts of keys in the journal and of file names.
pub const ID_BYTES_MAX: usize = 64;

/// One text of a handover, in bytes. An agent reads it whole, in one tool result.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// A reason given for a reclaim, in bytes. It is kept inside the record.
pub const REASON_BYTES_MAX: usize = 1024;

/// One gRPC message, in bytes: two texts and their frame, with room to spare.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Participants of one loop.
pub const PARTICIPANTS_MAX: usize = 64;

/// Roles of one node.
pub const ROLES_MAX: usize = 64;

/// Toolsets of one role.
pub const TOOLSETS_MAX: usize = 16;

/// Loops of one workspace. Each stays in memory while the workspace is awake.
pub const LOOPS_MAX: usize = 20_000;

/// How far below a client's highest counter a key is still answered.
pub const KEY_WINDOW: u64 = 256;

/// The longest hold of one wait, in milliseconds: clients that wait longer ask again.
pub const HOLD_MS_MAX: u64 = 30 * 60 * 1000;

/// Waits open on one stream. One HTTP/2 connection broke down somewhere between 2,000 and
/// 4,000 concurrent streams; these share one, and the bound keeps a broken client small.
pub const WAITS_PER_STREAM_MAX: usize = 4096;

/// Loops in one page of a list: 64 participants each have some 4 KiB.
pub const LOOPS_PAGE_MAX: u32 = 200;

/// Entries in one page of a history.
pub const HISTORY_PAGE_MAX: u32 = 100;

/// Between two heartbeats of a node at most, in milliseconds.
pub const HEARTBEAT_MS: u64 = 10_000;

/// Silence after which a node is taken to be away, in milliseconds: four heartbeats and a half.
pub const NODE_SILENT_MS_MAX: u64 = 45_000;

/// The lease of a held turn unless configured, and how long after its last sign of life a role
/// counts as present, in milliseconds.
pub const LEASE_MS: u64 = 15 * 60 * 1000;

/// The workspace of a caller that names none.
pub const WORKSPACE_DEFAULT: &str = "default";

/// The loop every workspace starts with.
pub const LOOP_DEFAULT: &str = "main";

/// Until an invitation expires unless it says otherwise, in milliseconds: an hour.
pub const INVITATION_MS: u64 = 3600 * 1000;

/// The longest time an invitation can be used, a rotated secret stays good, in milliseconds:
/// 30 days.
pub const INVITATION_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

/// The longest time after which a token expires, or an issue that nobody works on lapses, in
/// milliseconds: 100 years. What is to last longer has no end.
pub const LASTING_MS_MAX: u64 = 100 * 365 * 24 * 3600 * 1000;

/// How long the old secret of a rotated token stays good unless said otherwise, in milliseconds.
pub const OVERLAP_MS: u64 = 10 * 60 * 1000;

/// A thread's file name, in bytes: file systems end at 255, and people add to names.
pub const FILE_NAME_BYTES_MAX: usize = 200;

/// The subject of a thread, in bytes. Listings show it.
pub const SUBJECT_BYTES_MAX: usize = 1024;

/// Receivers of one entry.
pub const RECEIVERS_MAX: usize = 32;

/// Roles with a copy of one thread. A receiver is a bit of a 64-bit word.
pub const THREAD_PARTICIPANTS_MAX: usize = 64;

/// Entries of one thread. An agent that answers 10,000 times answers itself.
pub const THREAD_ENTRIES_MAX: usize = 10_000;

/// Threads of one workspace: at some 200 bytes each, 400 MB of the broker's memory.
pub const THREADS_MAX: usize = 2_000_000;

/// How often mail is handed and not seen until it is put aside as a dead letter.
pub const HANDED_MAX: u32 = 10;

/// A sender's own name for a message, in bytes.
pub const CLIENT_REF_BYTES_MAX: usize = 64;

/// Names of its own that are remembered of each sender.
pub const CLIENT_REFS_MAX: usize = 256;

/// Letters of a role, written while others of it were under way, that are known when they are said
/// again: four times as many as a role may have calls under way.
pub const LETTERS_KNOWN_MAX: usize = 64;

/// Until mail lapses, at most, in milliseconds: a year.
pub const MAIL_EXPIRES_MS_MAX: u64 = 365 * 24 * 3600 * 1000;

/// Threads in one page of a box, and unless said otherwise.
pub const BOX_PAGE_MAX: u32 = 1000;
pub const BOX_PAGE: u32 = 100;

/// Entries in one page of a thread: each is a read of the journal.
pub const THREAD_PAGE_MAX: u32 = 1000;

/// Threads moved by one call.
pub const MOVES_MAX: usize = 100;

/// Files attached to one entry.
pub const ATTACHMENTS_MAX: usize = 16;

/// One attached file, in bytes.
pub const ATTACHMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// All attached files of a workspace, in bytes: 4 GiB. The journal keeps them for good.
pub const ATTACHMENTS_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// One message of an attached file's bytes.
pub const CHUNK_BYTES_MAX: usize = 256 * 1024;

/// The name of an attached file, and its media type, in bytes.
pub const ATTACHMENT_NAME_BYTES_MAX: usize = 255;

/// Sealed words, in bytes: a text, a subject, and keys for each receiver.
pub const SEALED_BYTES_MAX: usize = 320 * 1024;

/// Entries taken over by one call.
pub const IMPORT_ENTRIES_MAX: usize = 1000;

/// The latest time that is taken from a caller, in milliseconds since 1970: the end of the year
/// 9999, behind which dates have no form that others read.
pub const TIME_MS_MAX: u64 = 253_402_300_799_999;

/// Hits of one search, and unless said otherwise.
pub const HITS_MAX: u32 = 100;
pub const HITS: u32 = 20;

/// Keys of nodes in one roster, those kept for reading alone included.
pub const ROSTER_KEYS_MAX: usize = 256;

/// A roster, in bytes: 256 nodes of a few roles each. It is kept inside the record.
pub const ROSTER_BYTES_MAX: usize = 96 * 1024;

/// Keys that nodes made known and nobody vouched for yet, of one workspace.
pub const PENDING_KEYS_MAX: usize = 256;

/// The same of one token, which is one machine's.
pub const PENDING_KEYS_PER_TOKEN_MAX: usize = 64;

/// Issues of one workspace. Those that are over stay, a few hundred bytes each.
pub const ISSUES_MAX: usize = 100_000;

/// Tasks of one workspace: at some 500 bytes each, 100 MB of the broker's memory.
pub const TASKS_MAX: usize = 200_000;

/// Tasks made by one command.
pub const TASKS_PER_CALL_MAX: usize = 200;

/// Tasks that one task is blocked by.
pub const BLOCKERS_MAX: usize = 64;

/// The most points of one task. Sums stay far from what a counter holds.
pub const POINTS_MAX: u32 = 1000;

/// Submissions of one task. A worker that submits 1,000 times answers itself.
pub const SUBMISSIONS_MAX: usize = 1000;

/// Messages of one task.
pub const TASK_MESSAGES_MAX: usize = 1000;

/// Files that one submission or delivery changed.
pub const CHANGED_FILES_MAX: usize = 4096;

/// All names of files of one submission, or of one grant of locks, in bytes. They are kept inside
/// the record.
pub const FILES_BYTES_MAX: usize = 256 * 1024;

/// Deliveries of one workspace.
pub const DELIVERIES_MAX: usize = 100_000;

/// Evidence attached to one delivery.
pub const EVIDENCE_MAX: usize = 32;

/// Commands of one piece of evidence.
pub const COMMANDS_MAX: usize = 256;

/// Workers of one workspace.
pub const WORKERS_MAX: usize = 4096;

/// One document, in bytes. An agent reads it whole.
pub const DOC_BYTES_MAX: usize = 256 * 1024;

/// Documents of one issue, of one task, or shared ones of a workspace.
pub const DOCS_MAX: usize = 256;

/// Versions of one document.
pub const DOC_VERSIONS_MAX: u32 = 10_000;

/// A file or pattern that is locked, in bytes.
pub const LOCK_PATH_BYTES_MAX: usize = 1024;

/// Which repository a locked file is in, in bytes.
pub const REPOSITORY_BYTES_MAX: usize = 128;

/// Files and patterns of one grant of locks.
pub const LOCK_FILES_MAX: usize = 1024;

/// Files locked in one workspace. Each takes some 200 bytes.
pub const LOCKS_MAX: usize = 200_000;

/// Patterns with wildcards locked in one workspace. Every file that is to be locked is compared
/// with each of its repository.
pub const LOCK_PATTERNS_MAX: usize = 1024;

/// What comparing the files of one call with those that are locked may take, in steps of some
/// nanoseconds: a workspace does nothing else meanwhile. A thousand files and a thousand patterns of
/// the usual length take about that.
pub const LOCK_STEPS_MAX: usize = 8 * 1024 * 1024;

/// The longest lease that can be asked for, in milliseconds: 24 hours.
pub const SWARM_LEASE_MS_MAX: u64 = 24 * 3600 * 1000;

/// What is said of one task, one submission, one verdict or one delivery, in bytes: a fourth of a
/// message, so that a delivery is read with its verdict and evidence.
pub const SWARM_WORDS_BYTES_MAX: usize = 1024 * 1024;

/// Issues, tasks, deliveries or locks in one page of a list, and unless said otherwise.
pub const SWARM_PAGE_MAX: u32 = 200;
pub const SWARM_PAGE: u32 = 50;

/// References beside a text, in bytes.
pub const REFS_BYTES_MAX: usize = 16 * 1024;

/// Why an issue, a task or a claim ends or begins again, in bytes. It is kept inside the record.
pub const WHY_BYTES_MAX: usize = 16 * 1024;

/// Documents written with an issue.
pub const NEW_DOCS_MAX: usize = 64;
