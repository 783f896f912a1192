//! Every limit that both sides of the wire know, with its unit and its reason.
//!
//! `docs/limits.md` is generated from this file: a plain comment begins a section, a constant is a
//! row, and its doc comment is what users read.

// Names, texts and calls

/// An id or a name: of a role, a loop, a workspace, an issue. Ids are parts of keys in the journal
/// and of file names.
pub const ID_BYTES_MAX: usize = 64;

/// One text of a handover, a message or an issue. An agent reads it whole, in one tool result.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;

/// The reason of a reclaim. It is stored in the record itself.
pub const REASON_BYTES_MAX: usize = 1024;

/// A label: a program's version, a model, the name of a tool. All of it is printable.
pub const LABEL_BYTES_MAX: usize = 200;

/// One gRPC message: two texts and their frame, with room to spare.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How far below a client's highest counter an idempotency key is still answered.
pub const KEY_WINDOW: u64 = 256;

/// The latest time that is accepted from a caller, since 1970: the end of the year 9999. Later
/// dates have no form that other programs read.
pub const TIME_MS_MAX: u64 = 253_402_300_799_999;

/// The workspace of a caller that names none.
pub const WORKSPACE_DEFAULT: &str = "default";

// Loops, nodes and waits

/// The loop that every workspace starts with.
pub const LOOP_DEFAULT: &str = "main";

/// Loops of one workspace. Each stays in memory while the workspace is in use.
pub const LOOPS_MAX: usize = 20_000;

/// Participants of one loop.
pub const PARTICIPANTS_MAX: usize = 64;

/// Loops in one page of a list: 64 participants each take some 4 KiB.
pub const LOOPS_PAGE_MAX: u32 = 200;

/// Entries in one page of a history.
pub const HISTORY_PAGE_MAX: u32 = 100;

/// Roles of one node, and roles that one token or invitation names.
pub const ROLES_MAX: usize = 1000;

/// Toolsets of one role.
pub const TOOLSETS_MAX: usize = 16;

/// The longest hold of one wait. Clients that wait longer call again.
pub const HOLD_MS_MAX: u64 = 30 * 60 * 1000;

/// Waits open on one stream. One HTTP/2 connection broke down somewhere between 2,000 and
/// 4,000 concurrent streams; these waits share one, and the limit keeps a broken client small.
pub const WAITS_PER_STREAM_MAX: usize = 4096;

/// The longest pause between two heartbeats of a node.
pub const HEARTBEAT_MS: u64 = 10_000;

/// Silence after which a node counts as away: four heartbeats and a half.
pub const NODE_SILENT_MS_MAX: u64 = 45_000;

/// Default lease of a held turn, and how long after its last sign of life a role counts as
/// present.
pub const LEASE_MS: u64 = 15 * 60 * 1000;

// Loops and costs without a person

/// The role of a person, in every workspace. No node hosts it, so no agent plays it.
pub const ROLE_HUMAN: &str = "human";

/// Turns that end in a loop, and no person acts in it meanwhile, until it is paused; by default.
pub const TURNS_ALONE: u32 = 200;

/// The most that can be asked for. For no limit, give 0.
pub const TURNS_ALONE_MAX: u32 = 1_000_000;

/// How often the same handovers come one after the other until their loop is paused.
pub const CYCLE_TIMES: usize = 3;

/// How far a letter may be from what a person last did until its sender is paused, in hops; by
/// default. Each turn is a hop, too, so it is more than the turns that a loop may take.
pub const HOPS: u32 = 300;

/// The most that can be asked for. For no limit, give 0.
pub const HOPS_MAX: u32 = 65_535;

/// Roles of one workspace that have a budget or are paused.
pub const BUDGETS_MAX: usize = 4096;

/// Calls or tokens of one budget, and of one report.
pub const BUDGET_MAX: u64 = 9_007_199_254_740_992;

// Invitations and tokens

/// Default lifetime of an invitation.
pub const INVITATION_MS: u64 = 3600 * 1000;

/// The longest lifetime of an invitation, and the longest overlap of a rotated token's secrets.
pub const INVITATION_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

/// The longest lifetime of a token that expires, and of an idle issue. For
/// longer, give no end.
pub const LASTING_MS_MAX: u64 = 100 * 365 * 24 * 3600 * 1000;

/// Default time for which the old secret of a rotated token stays valid.
pub const OVERLAP_MS: u64 = 10 * 60 * 1000;

// Mail

/// A thread's file name: file systems end at 255, and people add to names.
pub const FILE_NAME_BYTES_MAX: usize = 200;

/// The subject of a thread, a task or an issue. Lists show it.
pub const SUBJECT_BYTES_MAX: usize = 1024;

/// Receivers of one message.
pub const RECEIVERS_MAX: usize = 32;

/// Roles that take part in one thread. A participant is a bit of a 64-bit word.
pub const THREAD_PARTICIPANTS_MAX: usize = 64;

/// Entries of one thread. Two agents that answer each other in a circle end there.
pub const THREAD_ENTRIES_MAX: usize = 10_000;

/// Threads of one workspace: at some 200 bytes each, 400 MB of the broker's memory.
pub const THREADS_MAX: usize = 2_000_000;

/// How often mail is handed without being seen before it becomes a dead letter.
pub const HANDED_MAX: u32 = 10;

/// A sender's own reference for a message (`--ref`, `client_ref`).
pub const CLIENT_REF_BYTES_MAX: usize = 64;

/// References remembered of each sender.
pub const CLIENT_REFS_MAX: usize = 256;

/// Messages of a role, written while others of it were under way, whose repeats are recognised:
/// four times as many as a role may have calls under way.
pub const LETTERS_KNOWN_MAX: usize = 64;

/// The longest time after which mail can be told to lapse.
pub const MAIL_EXPIRES_MS_MAX: u64 = 365 * 24 * 3600 * 1000;

/// Threads in one page of a box.
pub const BOX_PAGE_MAX: u32 = 1000;

/// Threads in one page of a box, by default.
pub const BOX_PAGE: u32 = 100;

/// Entries in one page of a thread: each is a read of the journal.
pub const THREAD_PAGE_MAX: u32 = 1000;

/// Threads moved by one call.
pub const MOVES_MAX: usize = 100;

/// Results of one search.
pub const HITS_MAX: u32 = 100;

/// Results of one search, by default.
pub const HITS: u32 = 20;

/// Entries imported by one call.
pub const IMPORT_ENTRIES_MAX: usize = 1000;

// Attached files

/// Files attached to one message.
pub const ATTACHMENTS_MAX: usize = 16;

/// One attached file.
pub const ATTACHMENT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// All attached files of a workspace. The journal keeps them for good.
pub const ATTACHMENTS_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// One message of an attached file's upload or download.
pub const CHUNK_BYTES_MAX: usize = 256 * 1024;

/// The name of an attached file, and its media type.
pub const ATTACHMENT_NAME_BYTES_MAX: usize = 255;

// Private mail

/// An encrypted text: the text, its subject, and keys for each receiver.
pub const SEALED_BYTES_MAX: usize = 320 * 1024;

/// Keys of nodes in one roster, including those that may only read older mail.
pub const ROSTER_KEYS_MAX: usize = 256;

/// A roster: 256 nodes of a few roles each, or three of 1,000 whose names are as long as may be. It
/// is stored in the record itself.
pub const ROSTER_BYTES_MAX: usize = 256 * 1024;

/// Keys of one workspace that wait for approval.
pub const PENDING_KEYS_MAX: usize = 256;

/// Keys of one token, which belongs to one machine, that wait for approval.
pub const PENDING_KEYS_PER_TOKEN_MAX: usize = 64;

/// Roles of all keys of one workspace that wait for approval. One message carries them, with the
/// roster.
pub const PENDING_ROLES_MAX: usize = 32_000;

/// Roles of all keys of one token that wait for approval: a quarter of what all share.
pub const PENDING_ROLES_PER_TOKEN_MAX: usize = 8_000;

// Issues, tasks and deliveries

/// Issues of one workspace. Closed ones stay and take a few hundred bytes each.
pub const ISSUES_MAX: usize = 100_000;

/// Tasks of one workspace: at some 500 bytes each, 100 MB of the broker's memory.
pub const TASKS_MAX: usize = 200_000;

/// Tasks created by one command.
pub const TASKS_PER_CALL_MAX: usize = 200;

/// Tasks that one task is blocked by.
pub const BLOCKERS_MAX: usize = 64;

/// Points of one task. Sums stay far below what a counter holds.
pub const POINTS_MAX: u32 = 1000;

/// Submissions of one task. A worker that submits in a circle ends there.
pub const SUBMISSIONS_MAX: usize = 1000;

/// Questions and answers of one task.
pub const TASK_MESSAGES_MAX: usize = 1000;

/// Changed files of one submission or delivery.
pub const CHANGED_FILES_MAX: usize = 4096;

/// All file names of one submission, or of one grant of locks. They are stored in the record
/// itself.
pub const FILES_BYTES_MAX: usize = 256 * 1024;

/// Deliveries of one workspace.
pub const DELIVERIES_MAX: usize = 100_000;

/// Pieces of evidence attached to one delivery.
pub const EVIDENCE_MAX: usize = 32;

/// Commands of one piece of evidence.
pub const COMMANDS_MAX: usize = 256;

/// Workers of one workspace.
pub const WORKERS_MAX: usize = 4096;

/// One document. An agent reads it whole.
pub const DOC_BYTES_MAX: usize = 256 * 1024;

/// Documents of one issue, of one task, or shared by a workspace.
pub const DOCS_MAX: usize = 256;

/// Documents written together with an issue.
pub const NEW_DOCS_MAX: usize = 64;

/// Versions of one document.
pub const DOC_VERSIONS_MAX: u32 = 10_000;

/// The longest lease that can be asked for.
pub const SWARM_LEASE_MS_MAX: u64 = 24 * 3600 * 1000;

/// All texts of one task, one submission, one verdict or one delivery: a fourth of a gRPC message,
/// so that a delivery can be read with its verdict and evidence.
pub const SWARM_WORDS_BYTES_MAX: usize = 1024 * 1024;

/// Issues, tasks, deliveries or locks in one page of a list.
pub const SWARM_PAGE_MAX: u32 = 200;

/// Issues, tasks, deliveries or locks in one page of a list, by default.
pub const SWARM_PAGE: u32 = 50;

/// References that go with a text.
pub const REFS_BYTES_MAX: usize = 16 * 1024;

/// The reason for closing, reopening, canceling or resetting something. It is stored in the record
/// itself.
pub const WHY_BYTES_MAX: usize = 16 * 1024;

// Locks

/// A locked file or pattern.
pub const LOCK_PATH_BYTES_MAX: usize = 1024;

/// The name of a locked file's repository.
pub const REPOSITORY_BYTES_MAX: usize = 128;

/// Files and patterns of one lock.
pub const LOCK_FILES_MAX: usize = 1024;

/// Locked files of one workspace. Each takes some 200 bytes.
pub const LOCKS_MAX: usize = 200_000;

/// Locked patterns with wildcards in one workspace. A file to be locked is compared with those of
/// its repository whose segments begin and end as its own do.
pub const LOCK_PATTERNS_MAX: usize = 1024;

/// Steps, of some nanoseconds each, to compare the files of one call with those that are locked: a
/// workspace does nothing else meanwhile. A thousand files and a thousand patterns of the usual
/// length take less than half of them. Patterns that begin with `**` are compared one by one: some
/// two hundred with a thousand others.
pub const LOCK_STEPS_MAX: usize = 8 * 1024 * 1024;

// Runs of agents

/// Runs of one workspace. Past it the oldest that ended are forgotten.
pub const RUNS_MAX: usize = 10_000;

/// Runs of one workspace that have not ended.
pub const OPEN_RUNS_MAX: usize = 1024;

/// Runs of one workspace that have not ended and one token asked for. Without tokens a node counts,
/// or else a role or a person.
pub const OPEN_RUNS_PER_TOKEN_MAX: usize = 256;

/// How long a run is remembered after it ended.
pub const RUN_KEPT_MS: u64 = 7 * 24 * 3600 * 1000;

/// Steps of one run.
pub const RUN_STEPS_MAX: usize = 64;

/// Steps that run at the same time in one workspace: what each reports stays in memory meanwhile.
pub const RUNNING_STEPS_MAX: usize = 1024;

/// Steps of a parallel run at the same time, by default.
pub const RUN_CONCURRENCY: u32 = 4;

/// Runs below one another, by default: one that starts itself in a circle ends there.
pub const RUN_DEPTH: u32 = 3;

/// The deepest that can be asked for.
pub const RUN_DEPTH_MAX: u32 = 16;

/// Steps of a run and all below it, by default.
pub const RUN_TREE_STEPS: u32 = 64;

/// The most steps of a run and all below it that can be asked for.
pub const RUN_TREE_STEPS_MAX: u32 = 1024;

/// The lease of a step that runs. Each report renews it.
pub const STEP_LEASE_MS: u64 = 60_000;

/// The system prompt of a step.
pub const SYSTEM_PROMPT_BYTES_MAX: usize = 128 * 1024;

/// The output of a step that the broker keeps. The rest stays at the node that ran it.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// What is read at once of the rest, from that node.
pub const OUTPUT_READ_BYTES_MAX: u32 = 256 * 1024;

/// All that a step wrote, as its node counts it. A larger count is refused.
pub const WRITTEN_BYTES_MAX: u64 = 1024 * 1024 * 1024 * 1024;

/// Each number in what a step says that it used: tokens, turns, millionths of a dollar. Larger ones
/// are not exact in the JSON of most programs.
pub const STEP_USAGE_MAX: u64 = 9_007_199_254_740_992;

/// Parts that an output comes in: each is a text of its own.
pub const OUTPUT_PARTS_MAX: usize = 4;

/// The newest output of a step that runs, for those who watch.
pub const PARTIAL_BYTES_MAX: usize = 64 * 1024;

/// What a step says about why it failed.
pub const STEP_ERROR_BYTES_MAX: usize = 16 * 1024;

/// Questions and reports of one step.
pub const STEP_MESSAGES_MAX: usize = 64;

/// Questions and reports of one step after which it may only ask: the rest is kept for questions.
pub const STEP_REPORTS_MAX: usize = 56;

/// One report of a step. A question may be as long as any text.
pub const REPORT_BYTES_MAX: usize = 64 * 1024;

/// The file of a report. It fits into one gRPC message, with the report's text.
pub const RUN_FILE_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Files that one step hands over.
pub const STEP_FILES_MAX: usize = 8;

/// Runners or labels of one node.
pub const RUNNERS_MAX: usize = 64;

// Tools that roles export

/// Tools that one role exports.
pub const EXPORTED_TOOLS_MAX: usize = 200;

/// The name of one.
pub const TOOL_NAME_BYTES_MAX: usize = 128;

/// What `tools/list` says of one.
pub const TOOL_LISTING_BYTES_MAX: usize = 32 * 1024;

/// Names, listings and callers of all tools of a role: the broker has them in memory.
pub const EXPORTS_BYTES_MAX: usize = 1024 * 1024;

/// Roles, or patterns of them, that may call one tool.
pub const TOOL_CALLERS_MAX: usize = 64;

/// Arguments of a call.
pub const TOOL_ARGUMENTS_BYTES_MAX: usize = 1024 * 1024;

/// What a call answers. It fits into one gRPC message.
pub const TOOL_RESULT_BYTES_MAX: usize = 3 * 1024 * 1024;

/// What is recorded of the arguments of a call, and of its result, where that is asked for.
pub const TOOL_RECORD_BYTES_MAX: usize = 16 * 1024;

/// What nodes say of a call to one another, as `_meta`.
pub const TOOL_META_BYTES_MAX: usize = 1024;

/// One notification of progress. A longer one is left out.
pub const TOOL_PROGRESS_BYTES_MAX: usize = 4096;

// Boards

/// Boards of one workspace. What belongs to each stays in memory while the workspace is in use; its
/// values do not.
pub const BOARDS_MAX: usize = 20_000;

/// Checkpoints of all boards of one workspace: at some 200 bytes each, 200 MB of the broker's
/// memory.
pub const CHECKPOINTS_MAX: usize = 1_000_000;

/// Checkpoints of one board.
pub const BOARD_CHECKPOINTS_MAX: usize = 200_000;

/// Channels of one board, and of one update.
pub const BOARD_CHANNELS_MAX: usize = 256;

/// The name of a channel.
pub const CHANNEL_NAME_BYTES_MAX: usize = 128;

/// The value of one channel, as JSON.
pub const CHANNEL_BYTES_MAX: usize = 1024 * 1024;

/// The values of all channels of a board together: one gRPC message carries them.
pub const BOARD_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Messages in a channel with the reducer `add_messages`: the broker keeps in memory which there
/// are.
pub const CHANNEL_MESSAGES_MAX: usize = 20_000;

/// A key that names an update, or one message, of a board.
pub const BOARD_KEY_BYTES_MAX: usize = 200;

/// Boards or checkpoints in one page of a list.
pub const BOARDS_PAGE_MAX: u32 = 200;

/// The same where the request names no limit.
pub const BOARDS_PAGE: u32 = 50;

/// Channels that one wait names.
pub const WAIT_CHANNELS_MAX: usize = 16;

/// The name of a result that is stored at a checkpoint.
pub const RESULT_NAME_BYTES_MAX: usize = 128;

/// Results that one call stores.
pub const RESULTS_PER_CALL_MAX: usize = 64;

/// Results at one checkpoint.
pub const CHECKPOINT_RESULTS_MAX: usize = 1024;

/// The results at one checkpoint together: one gRPC message carries them.
pub const CHECKPOINT_RESULTS_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The results of a board together: they stay on disk until their checkpoints are pruned.
pub const BOARD_RESULTS_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Results of all boards of one workspace: at some 200 bytes each, 200 MB of the broker's memory.
pub const RESULTS_MAX: usize = 1_000_000;

/// Forks of forgotten checkpoints that a pruned board keeps: each has a copy of all values.
pub const PRUNED_FORKS_MAX: usize = 64;

// Pipelines

/// Pipelines of one workspace that have not ended.
pub const OPEN_PIPELINES_MAX: usize = 1_000;

/// Pipelines of one workspace. Past it the one that ended first is forgotten when another is started.
pub const PIPELINES_MAX: usize = 2_000;

/// How long a pipeline is remembered after it ended. Its board stays.
pub const PIPELINE_KEPT_MS: u64 = 30 * 24 * 3600 * 1000;

/// Phases of one pipeline.
pub const PIPELINE_PHASES_MAX: usize = 32;

/// What a phase tells its role's node to do.
pub const PHASE_SPEC_BYTES_MAX: usize = 32 * 1024;

/// What all phases of a pipeline tell nodes to do, together.
pub const PIPELINE_SPECS_BYTES_MAX: usize = 128 * 1024;

/// How often a pipeline may go back, by default.
pub const PIPELINE_RETRIES: u32 = 3;

/// How often a pipeline may go back.
pub const PIPELINE_RETRIES_MAX: u32 = 100;

/// Attempts of one pipeline, lost ones included; then it fails.
pub const PIPELINE_ATTEMPTS_MAX: usize = 500;

/// Decisions of people that one pipeline remembers: the newest.
pub const PIPELINE_DECISIONS_MAX: usize = 100;

/// How long an attempt goes on without a sign of life of its node.
pub const PHASE_LEASE_MS: u64 = 60_000;

/// How long one attempt may take, by default.
pub const PHASE_TIMEOUT_MS: u64 = 3600 * 1000;

/// How long one attempt may take.
pub const PHASE_TIMEOUT_MS_MAX: u64 = 24 * 3600 * 1000;

/// How long an approval may be waited for.
pub const APPROVAL_MS_MAX: u64 = 30 * 24 * 3600 * 1000;

/// Why an attempt failed, or a person rejected or canceled something.
pub const PHASE_ERROR_BYTES_MAX: usize = 4 * 1024;

/// Attempts that one node is told of at once.
pub const READY_PHASES_MAX: usize = 1_000;

/// Pipelines in one page of a list.
pub const PIPELINES_PAGE_MAX: u32 = 200;

/// The same where the request names no limit.
pub const PIPELINES_PAGE: u32 = 50;

// Files and commands of a node

/// A path below the root.
pub const FILE_PATH_BYTES_MAX: usize = 4096;

/// Names in a path below the root.
pub const FILE_PATH_NAMES_MAX: usize = 64;

/// What one call of `fs_read` returns. An agent reads it whole.
pub const FILE_READ_BYTES_MAX: usize = 256 * 1024;

/// The file that is read from, or added to: its hash is of all of it.
pub const FILE_SCAN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What one call of `fs_write` writes.
pub const FILE_WRITE_BYTES_MAX: usize = 1024 * 1024;

/// Entries that one call of `fs_list` returns.
pub const FILE_LIST_ENTRIES_MAX: usize = 1000;

/// Directories that such a list goes down.
pub const FILE_LIST_DEPTH_MAX: u64 = 16;

/// Names that are looked at for one list: a directory of millions is not read whole.
pub const FILE_LIST_SCAN_MAX: usize = 100_000;

/// The standard input of a command of `run_command`.
pub const COMMAND_STDIN_BYTES_MAX: usize = 1024 * 1024;

/// What is kept of each output of such a command: its end.
pub const COMMAND_OUTPUT_BYTES_MAX: usize = 64 * 1024;
