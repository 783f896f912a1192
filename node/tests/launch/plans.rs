//! What a launch would do, and what it refuses before it does anything.

use std::{collections::BTreeSet, fs, path::Path};

use super::world::{Said, World};

/// The steps of a dry run, without the commands that would be started.
fn steps(world: &World, said: &Said) -> String {
    let lines = said.out.lines().filter(|line| !line.starts_with("    "));
    world.plain(&lines.map(|line| format!("{line}\n")).collect::<String>())
}

/// A home as it is before anything ran: no node has a port of its own.
fn untouched() -> World {
    let world = World::new();
    fs::remove_file(world.path(".config/tasuki/tasuki.toml")).unwrap();
    world
}

fn files(at: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        found.insert(path.display().to_string());
        if path.is_dir() {
            files(&path, found);
        }
    }
}

#[test]
fn a_dry_run_shows_every_step_and_changes_nothing() {
    let world = untouched();
    world.client("claude", "exit 1");
    world.client("codex", "exit 1");
    let look = || {
        let mut found = BTreeSet::new();
        files(&world.path("."), &mut found);
        found
    };
    let before = look();
    let said = world.run(
        "launch A=claude-code B=codex --dry-run --terminal print --agents-md \
                          --role A",
    );
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(
        steps(&world, &said),
        "node     tasuki up --detach\n\
         A: claude-code in ~/project\n  \
         connect  claude-code: would change ~/.claude.json (tasuki)\n  \
         prompt   --append-system-prompt\n  \
         prompt   ~/project/AGENTS.md\n  \
         start    A: claude-code, a terminal of yours\n"
    );
    assert!(said.out.contains("    claude --append-system-prompt"), "{}", said.out);
    assert!(said.out.contains("-- 'Begin. You play the role A;"), "{}", said.out);
    assert_eq!(look(), before);
    assert_eq!(world.calls(), [""; 0]);
}

#[test]
fn two_roles_of_one_client_have_a_server_each_and_leave_the_other_alone() {
    let world = untouched();
    world.client("claude", "");
    let said = world.run("launch A=claude-code B=claude-code --dry-run --terminal print");
    assert_eq!(said.code, 0, "{said:?}");
    for expected in [
        "~/.claude.json (tasuki)\n",
        "~/.claude.json (tasuki-B)\n",
        "--disallowedTools mcp__tasuki-B -- ",
        "--disallowedTools mcp__tasuki -- ",
        "its tools are those of the server tasuki-B.",
    ] {
        assert!(world.plain(&said.out).contains(expected), "{expected}: {}", said.out);
    }
}

#[test]
fn the_variables_of_the_original_launcher_open_an_ide_on_each_project() {
    let world = untouched();
    for name in ["bin/idea", "bin/other"] {
        fs::copy("/bin/sh", world.path(name)).unwrap();
    }
    fs::create_dir(world.path("b")).unwrap();
    let mut command = world.command(&["launch", "--dry-run"]);
    command.env("PROJECT_A_PATH", world.path("project")).env("PROJECT_B_PATH", world.path("b"));
    command.env("IDEA_B_PATH", world.path("bin/other"));
    let output = command.output().unwrap();
    let out = world.plain(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(output.status.code(), Some(0), "{out}");
    assert!(
        out.contains("A: idea in ~/project\n") && out.contains("    idea ~/project\n"),
        "{out}"
    );
    assert!(out.contains("B: idea in ~/b\n") && out.contains("    ~/bin/other ~/b\n"), "{out}");
    assert!(out.contains("paste what `tasuki connect jetbrains --role A --print` prints"), "{out}");
}

#[test]
fn a_cloned_repository_launches_nothing_until_its_user_trusts_it() {
    let world = untouched();
    world.client("claude", "exit 1");
    let evil = world.path("bin/claude");
    world.write(
        "project/tasuki.toml",
        &format!(
            "[[launch.agent]]\nrole = \"A\"\nclient = \"claude-code\"\ncommand = [{:?}]\n",
            evil.display()
        ),
    );
    let said = world.run("launch");
    assert_eq!(said.code, 2, "{said:?}");
    assert!(
        said.err.contains("`launch` is not taken from") && said.err.contains("tasuki trust"),
        "{}",
        said.err
    );
    assert_eq!(world.calls(), [""; 0]);
    // What its user types is not the repository's.
    let typed = world.run("launch A=claude-code --dry-run --terminal print");
    assert_eq!(typed.code, 0, "{typed:?}");
    assert!(typed.out.contains("    claude --append-system-prompt"), "{}", typed.out);

    world.done("trust");
    let trusted = world.run("launch --dry-run --terminal print");
    assert_eq!(trusted.code, 0, "{trusted:?}");
    assert!(world.plain(&trusted.out).contains("    ~/bin/claude --append-"), "{}", trusted.out);
}

#[test]
fn what_cannot_be_launched_is_refused_before_anything_is_done() {
    let world = untouched();
    for (line, code, expected) in [
        ("launch", 2, "There are no agents to launch."),
        ("launch A", 2, "takes ROLE=CLIENT"),
        ("launch A=emacs", 2, "there are claude-code, codex"),
        ("launch A=codex --role B", 2, "No agent of B is to be launched."),
        ("launch A=codex B=codex --agents-md", 2, "would tell A and B to every agent there"),
        ("launch A=codex --wait 2h", 2, "--wait is 2h; it takes at most 1h"),
        ("launch-agent A", 2, "A was not launched here."),
    ] {
        let said = world.run(line);
        assert_eq!(said.code, code, "{line}: {said:?}");
        assert!(said.err.contains(expected), "{line}: {said:?}");
    }
}

#[test]
fn what_is_wrong_in_the_configuration_is_told_with_its_line() {
    let world = untouched();
    world.write(
        ".config/tasuki/tasuki.toml",
        "[launch]\nterminal = \"vt100\"\nwait = \"1d\"\n[[launch.agent]]\nrole = \"A\"\n\
         [[launch.agent]]\nrole = \"A\"\nclient = \"emacs\"\n[[launch.agent]]\nrole = \"a b\"\n\
         client = \"codex\"\non_exit = \"panic\"\nrestarts = 1000\ncommand = []\ncolor = 1\n",
    );
    let said = world.run("launch");
    assert_eq!(said.code, 2, "{said:?}");
    for expected in [
        "toml:2: `launch` has `terminal`, which is \"vt100\"; there are auto, tmux, window, print",
        "toml:3: `launch` has `wait`, which is 1d; it takes at most 1h",
        "toml:4: `launch.agent` lacks `client`",
        "toml:8: `launch.agent` has `client`, which names \"emacs\"",
        "toml:10: `launch.agent` has `role`, which is \"a b\"",
        "`launch.agent` has `on_exit`, which is \"panic\"; there are restart, next, give-back",
        "`launch.agent` has `restarts`, which takes a number from 0 to 100",
        "`launch.agent` has `command`, which takes a program and its arguments",
        "`launch.agent` has no setting \"color\"",
    ] {
        assert!(said.err.contains(expected), "{expected}: {}", said.err);
    }
}

#[test]
fn a_prompt_is_taken_out_of_agents_md_again() {
    let world = untouched();
    let begin = "<!-- tasuki launch: begin -->";
    let path = world.write(
        "project/AGENTS.md",
        &format!("# Rules\n\n{begin}\nYou are A.\n<!-- tasuki launch: end -->\n"),
    );
    assert!(world.done("launch A=codex --undo").contains("was taken out of"));
    assert_eq!(fs::read_to_string(path).unwrap(), "# Rules\n");
    assert!(world.done("launch A=codex --undo").contains("No AGENTS.md has a prompt"));
}
