//! Real directories: which agents are found, and which are not.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

struct Disk(TempDir);

impl Disk {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn agent(&self, path: &str, name: &str) {
        self.write(path, &format!("---\nname: {name}\ndescription: d\n---\n{path}\n"));
    }

    fn find(&self, start: &str, scope: Scope) -> Agents {
        let users = user_dirs(&self.path("home"), None);
        let projects = project_dirs(&self.path(start), &users);
        Agents::find(&users, &projects, scope)
    }

    /// What was found and passed over, a line each.
    fn render(&self, start: &str, scope: Scope) -> String {
        let agents = self.find(start, scope);
        let here = format!("{}/", self.0.path().display());
        let found = agents.agents.values().map(|found| {
            let runner = found.runner().unwrap_or("-");
            format!("{} {} {runner}\n", found.agent.name, found.path.display())
        });
        let skipped = agents
            .skipped
            .iter()
            .map(|skipped| format!("skipped {}: {}\n", skipped.path.display(), skipped.why));
        found.chain(skipped).collect::<String>().replace(&here, "")
    }
}

#[test]
fn each_scope_has_its_directories_and_a_project_overrides_its_user() {
    let disk = Disk::new();
    disk.agent("home/.pi/agent/agents/scout.md", "scout");
    disk.agent("home/.claude/agents/planner.md", "planner");
    disk.agent("home/.tasuki/agents/lead.md", "lead");
    disk.agent("home/work/p/.pi/agents/planner.md", "planner");
    disk.agent("home/work/.claude/agents/reviewer.md", "reviewer");
    disk.agent("home/work/.pi/agents/far.md", "far");
    disk.write("home/work/p/.pi/agents/notes.txt", "no agent");
    assert_eq!(
        disk.render("home/work/p/src", Scope::User),
        "lead home/.tasuki/agents/lead.md -\n\
         planner home/.claude/agents/planner.md claude\n\
         scout home/.pi/agent/agents/scout.md pi\n"
    );
    // The nearest `.pi/agents`, and the nearest `.claude/agents`; the home's is the user's.
    assert_eq!(
        disk.render("home/work/p/src", Scope::Project),
        "planner home/work/p/.pi/agents/planner.md pi\n\
         reviewer home/work/.claude/agents/reviewer.md claude\n"
    );
    assert_eq!(disk.render("home/other", Scope::Project), "");
    assert_eq!(
        disk.render("home/work/p/src", Scope::Both),
        "lead home/.tasuki/agents/lead.md -\n\
         planner home/work/p/.pi/agents/planner.md pi\n\
         reviewer home/work/.claude/agents/reviewer.md claude\n\
         scout home/.pi/agent/agents/scout.md pi\n\
         skipped home/.claude/agents/planner.md: `planner` is already defined in \
         home/work/p/.pi/agents/planner.md\n"
    );
    let both = disk.find("home/work/p/src", Scope::Both);
    assert_eq!(
        both.available(),
        "lead (user), planner (project), reviewer (project), scout (user)"
    );
    assert_eq!(disk.find("nowhere", Scope::Project).available(), "none");
}

#[test]
fn pis_own_variable_names_its_directory() {
    let disk = Disk::new();
    disk.agent("elsewhere/agents/scout.md", "scout");
    disk.agent("home/.pi/agent/agents/old.md", "old");
    let users = user_dirs(&disk.path("home"), Some(&disk.path("elsewhere")));
    let found = Agents::find(&users, &[], Scope::User);
    assert_eq!(found.available(), "scout (user)");
}

/// Holds AF2.
#[test]
fn one_name_in_two_files_of_a_scope_is_the_first_ones() {
    let disk = Disk::new();
    disk.agent("p/.pi/agents/a.md", "scout");
    disk.agent("p/.pi/agents/b.md", "scout");
    disk.agent("p/.tasuki/agents/z.md", "scout");
    assert_eq!(
        disk.render("p", Scope::Project),
        "scout p/.tasuki/agents/z.md -\n\
         skipped p/.pi/agents/a.md: `scout` is already defined in p/.tasuki/agents/z.md\n\
         skipped p/.pi/agents/b.md: `scout` is already defined in p/.tasuki/agents/z.md\n"
    );
}

/// Holds AF1.
#[test]
fn a_projects_links_out_of_it_are_not_followed_and_a_users_are() {
    let disk = Disk::new();
    disk.agent("outside/x.md", "x");
    disk.agent("p/docs/inner.md", "inner");
    disk.agent("p/.pi/agents/own.md", "own");
    symlink("../../docs/inner.md", disk.path("p/.pi/agents/inner.md")).expect("a link");
    symlink(disk.path("outside/x.md"), disk.path("p/.pi/agents/x.md")).expect("a link");
    symlink("gone.md", disk.path("p/.pi/agents/dangling.md")).expect("a link");
    fs::create_dir_all(disk.path("p/.claude")).expect("a directory");
    disk.agent("other/y.md", "y");
    symlink(disk.path("other"), disk.path("p/.claude/agents")).expect("a link");
    fs::create_dir_all(disk.path("home/.tasuki")).expect("a directory");
    symlink(disk.path("outside"), disk.path("home/.tasuki/agents")).expect("a link");
    assert_eq!(
        disk.render("p", Scope::Both),
        "inner p/.pi/agents/inner.md pi\nown p/.pi/agents/own.md pi\n\
         x home/.tasuki/agents/x.md -\n\
         skipped p/.pi/agents/dangling.md: No such file or directory (os error 2)\n\
         skipped p/.pi/agents/x.md: a symbolic link that leads out of the project\n\
         skipped p/.claude/agents: a symbolic link that leads out of the project\n"
    );
}

#[test]
fn a_file_that_is_no_agent_is_named_with_the_reason() {
    let disk = Disk::new();
    disk.write("home/.pi/agent/agents/a.md", "# no front matter");
    disk.write("home/.pi/agent/agents/b.md", "---\nname: noDesc\n---\n");
    fs::create_dir_all(disk.path("home/.pi/agent/agents/c.md")).expect("a directory");
    let big = format!("---\nname: d\ndescription: d\n---\n{}", "é".repeat(AGENT_FILE_BYTES_MAX));
    disk.write("home/.pi/agent/agents/d.md", &big);
    fs::write(disk.path("home/.pi/agent/agents/e.md"), b"---\nname: \xff\n---\n").expect("a file");
    assert_eq!(
        disk.render("p", Scope::User),
        "skipped home/.pi/agent/agents/a.md: line 1: the file does not start with front matter \
         (`---`)\n\
         skipped home/.pi/agent/agents/b.md: line 1: `description` is missing\n\
         skipped home/.pi/agent/agents/c.md: not a regular file\n\
         skipped home/.pi/agent/agents/d.md: line 1: larger than 128 KiB\n\
         skipped home/.pi/agent/agents/e.md: not UTF-8\n"
    );
}

/// Holds AF3.
#[test]
fn a_directory_is_read_to_a_bound() {
    let disk = Disk::new();
    for number in 0..FILES_MAX + 2 {
        let name = format!("a{number:04}");
        disk.agent(&format!("home/.tasuki/agents/{name}.md"), &name);
    }
    let found = disk.find("p", Scope::User);
    assert_eq!(found.agents.len(), FILES_MAX);
    assert!(found.agents.contains_key("a0255") && !found.agents.contains_key("a0256"));
    assert_eq!(found.skipped.len(), 1);
    assert_eq!(found.skipped[0].why, "more than 256 agents; the last 2 were not read");
}
