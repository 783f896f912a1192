//! Agents in a real tmux: what they show is read.

use std::process::Command;

use super::world::World;

/// Ends the terminals of a world, whatever became of the test.
struct Terminals(Command);

impl Terminals {
    fn of(world: &World) -> Self {
        let mut command = Command::new("tmux");
        command.arg("kill-server").env("TMUX_TMPDIR", world.path("tmux")).env_remove("TMUX");
        Self(command)
    }

    fn end(&mut self) {
        drop(self.0.output());
    }
}

impl Drop for Terminals {
    fn drop(&mut self) {
        self.end();
    }
}

#[tokio::test]
#[ignore = "needs tmux: agents run in it, and what they show is read"]
async fn a_session_that_shows_a_used_up_quota_is_followed_and_one_whose_window_closes_gives_back() {
    let world = World::new();
    let mut terminals = Terminals::of(&world);
    world.client("claude", "echo '5-hour limit reached ∙ resets 3pm'; stay");
    world.client("codex", "touch \"$HOME/plays/begun\"; stay");
    let said = world.run("launch A=claude-code A=codex --terminal tmux --wait 2m");
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("connected after"), "{said:?}");
    assert!(said.out.ends_with("tmux attach -t tasuki-default\n"), "{said:?}");
    world.until("the next agent plays", |it| it.path("plays/begun").exists()).await;
    let calls = world.calls();
    assert!(calls[1].contains("quota used up: 5-hour limit reached ∙ resets 3pm"), "{calls:?}");

    terminals.end();
    world.until("the turn comes back", |it| it.turn().0 == "B").await;
    assert!(world.turn().1.contains("ended without a handover: its window was closed"));
}

#[tokio::test]
#[ignore = "needs tmux: what an agent showed last is told"]
async fn an_agent_that_dies_is_told_with_what_it_showed_last() {
    let world = World::new();
    let _terminals = Terminals::of(&world);
    world.client("codex", "");
    world.write("bin/codex", "#!/bin/sh\necho 'cannot find the model'\nexit 9\n");
    let launch = "[launch]\nterminal = \"tmux\"\n[[launch.agent]]\nrole = \"B\"\n\
                  client = \"codex\"\nrestarts = 0\n";
    let ports = "listen = \"127.0.0.1:0\"\nbroker_listen = \"127.0.0.1:0\"\ndashboard = \"off\"\n";
    world.write(".config/tasuki/tasuki.toml", &format!("{ports}{launch}"));
    let said = world.run("launch --wait 2m");
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.out.contains("cannot find the model"), "{said:?}");
}

#[tokio::test]
#[ignore = "needs tmux: it runs what stands in some of its arguments"]
async fn a_directorys_name_runs_nothing_and_a_persons_window_stays() {
    let world = World::new();
    let _terminals = Terminals::of(&world);
    let tmux = |words: &[&str]| {
        let mut command = Command::new("tmux");
        command.args(words).env("TMUX_TMPDIR", world.path("tmux")).env_remove("TMUX");
        let output = command.env("HOME", world.path("")).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    tmux(&["new-session", "-d", "-s", "tasuki-default", "-n", "B", "sleep 600"]);
    world.client("claude", "stay");
    let place = world.path("project/#(touch $HOME/run)");
    std::fs::create_dir_all(&place).unwrap();
    world.client("codex", "stay");
    let line = ["launch", "A.x=claude-code", "B=codex", "--terminal", "tmux", "--wait", "2m"];
    let said = world.command(&line).current_dir(&place).output().unwrap();
    let told = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(7), "{told}");
    assert!(told.contains("has a window B that no launch opened"), "{told}");
    assert!(told.contains("connected after"), "{told}");
    assert!(!world.path("run").exists(), "what stands in a directory's name was run");
    let windows = tmux(&["list-windows", "-t", "tasuki-default", "-F", "#{window_name}"]);
    assert!(windows.starts_with("B\nA_x-"), "{windows}");
}
