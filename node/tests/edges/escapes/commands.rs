//! Scripts that want more than they are given.

use super::{
    Place, SANDBOXED,
    cases::{self, Case},
    facts, refusal,
};

/// Runs all scripts of a table, each in the place as it was, and returns the names of those that got out.
async fn escaped(cases: &[Case], commands: &str, is_loose: bool) -> Vec<&'static str> {
    let mut out = Vec::new();
    let mut place = Place::new(commands).await;
    // What is rare may leave something behind where nothing keeps it in, such as a mount.
    for case in cases.iter().filter(|it| it.control || !is_loose) {
        let before = place.untouchable();
        let told = match is_loose {
            true => place.loose_script(case.script).await,
            false => place.script(case.script).await,
        };
        let told = facts(&told);
        let (stdout, sandbox) = (told["stdout"].as_str().unwrap(), &told["sandbox"]);
        let expected = if is_loose { "not sandboxed" } else { "landlock+seccomp" };
        assert!(sandbox.as_str().unwrap().starts_with(expected), "{}: {told}", case.name);
        let is_changed = place.untouchable() != before;
        if stdout.contains("escaped") || is_changed {
            out.push(case.name);
        }
        if is_changed {
            // The next one begins anew.
            place.up.stop().await;
            place = Place::new(commands).await;
        } else {
            let all = place.path("root/out");
            std::fs::remove_dir_all(&all).unwrap();
            std::fs::create_dir(&all).unwrap();
        }
    }
    place.up.stop().await;
    out
}

/// Holds CM2.
async fn none_escapes(cases: &[Case]) {
    let out = escaped(cases, SANDBOXED, false).await;
    assert!(out.is_empty(), "escaped: {out:?}");
}

/// A case that cannot get out where nothing keeps it in shows nothing.
async fn all_escape(cases: &[Case]) {
    let loose = format!("{SANDBOXED}sandbox = \"none\"\n");
    let out = escaped(cases, &loose, true).await;
    let kept: Vec<&str> = cases.iter().filter(|it| it.control).map(|it| it.name).collect();
    let kept: Vec<&&str> = kept.iter().filter(|it| !out.contains(it)).collect();
    assert!(kept.is_empty(), "kept in by nothing: {kept:?}");
}

#[tokio::test]
#[ignore = "needs landlock"]
async fn files_outside() {
    none_escapes(&cases::FILES).await;
}

#[tokio::test]
async fn files_outside_without_a_sandbox() {
    all_escape(&cases::FILES).await;
}

#[tokio::test]
#[ignore = "needs landlock"]
async fn what_runs_by_itself() {
    none_escapes(&cases::PROTECTED).await;
}

#[tokio::test]
async fn what_runs_by_itself_without_a_sandbox() {
    all_escape(&cases::PROTECTED).await;
}

#[tokio::test]
#[ignore = "needs landlock and perl"]
async fn what_builds_run() {
    none_escapes(&cases::BUILDS).await;
}

#[tokio::test]
#[ignore = "needs perl"]
async fn what_builds_run_without_a_sandbox() {
    all_escape(&cases::BUILDS).await;
}

#[tokio::test]
#[ignore = "needs landlock and perl"]
async fn other_processes() {
    none_escapes(&cases::PROCESSES).await;
}

#[tokio::test]
#[ignore = "needs perl"]
async fn other_processes_without_a_sandbox() {
    all_escape(&cases::PROCESSES).await;
}

#[tokio::test]
#[ignore = "needs landlock and perl"]
async fn sockets() {
    none_escapes(&cases::SOCKETS).await;
}

#[tokio::test]
#[ignore = "needs perl"]
async fn sockets_without_a_sandbox() {
    all_escape(&cases::SOCKETS).await;
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
#[ignore = "needs landlock and perl"]
async fn system_calls() {
    none_escapes(&cases::CALLS).await;
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
#[ignore = "needs perl"]
async fn system_calls_without_a_sandbox() {
    all_escape(&cases::CALLS).await;
}

/// Holds CM2.
#[tokio::test]
#[ignore = "needs landlock"]
async fn protected_names_do_not_stay_where_commands_write() {
    let place = Place::new(SANDBOXED).await;
    for (script, left) in cases::ASIDE {
        let told = place.script(&format!("{script}; echo x > out/file")).await;
        let told = facts(&told);
        assert_eq!(told["set_aside"], serde_json::json!([left]), "{script}: {told}");
        let path = place.path("root").join(left);
        assert!(path.symlink_metadata().is_err(), "{script}");
        assert!(place.path("root/out/file").exists());
    }
    // What was there before is no command's, and nothing runs beside it.
    std::fs::create_dir_all(place.path("root/out/mine/.git")).unwrap();
    let told = place.script("true").await;
    assert_eq!(refusal(&told), "command_forbidden", "{told}");
    assert!(place.path("root/out/mine/.git").exists());
}

/// Holds CM2.
#[tokio::test]
#[ignore = "needs landlock"]
async fn what_the_operator_protects_is_protected_from_commands() {
    let place = Place::new(SANDBOXED).await;
    std::fs::write(place.path("root/out/k.pem"), "mine\n").unwrap();
    let told = place.script("echo EVIL > out/k.pem").await;
    assert_eq!(refusal(&told), "command_forbidden", "{told}");
    assert!(told.to_string().contains("out/k.pem"), "{told}");
    assert_eq!(std::fs::read_to_string(place.path("root/out/k.pem")).unwrap(), "mine\n");
    std::fs::remove_file(place.path("root/out/k.pem")).unwrap();
    std::fs::write(place.path("root/.git/config"), "[core]\n\thooksPath = out/hooks\n").unwrap();
    let told = place.script("mkdir out/hooks; echo EVIL > out/hooks/pre-commit").await;
    assert_eq!(facts(&told)["set_aside"], serde_json::json!(["out/hooks"]), "{told}");
    let repository = "mkdir -p out/r/objects out/r/refs; echo 'ref: refs/heads/main' > out/r/HEAD";
    let told = place.script(repository).await;
    assert_eq!(facts(&told)["set_aside"], serde_json::json!(["out/r/HEAD"]), "{told}");
    assert!(!place.path("root/out/r/HEAD").exists());
}

/// Holds CM2.
#[tokio::test]
#[ignore = "needs landlock"]
async fn commands_do_not_follow_a_root_that_is_swapped() {
    let place = Place::new(SANDBOXED).await;
    let script = place.filled("cat kept; echo x > out/new");
    std::fs::create_dir(place.path("outside/out")).unwrap();
    std::fs::rename(place.path("root"), place.path("root.o")).unwrap();
    std::os::unix::fs::symlink(place.path("outside"), place.path("root")).unwrap();
    let asked = serde_json::json!({ "argv": ["sh", "-c", script] });
    let told = place.call("run_command", asked).await;
    assert_eq!(refusal(&told), "command_forbidden", "{told}");
    assert!(told.to_string().contains("restart the node"), "{told}");
    assert!(!place.path("outside/out/new").exists());
}

/// Holds CM1.
#[tokio::test]
#[ignore = "needs landlock"]
async fn what_is_not_allowed_does_not_run() {
    let place = Place::new(SANDBOXED).await;
    let run = async |argv: &[&str], cwd: &str| {
        place.call("run_command", serde_json::json!({ "argv": argv, "cwd": cwd })).await
    };
    for argv in [&["touch", "out/x"][..], &["/bin/sh", "-c", "true"], &["./sh"], &["cargo", "run"]]
    {
        assert_eq!(refusal(&run(argv, "").await), "command_forbidden", "{argv:?}");
    }
    for cwd in ["..", "/", "src/../..", "src/a.txt", "nowhere"] {
        assert_eq!(refusal(&run(&["sh", "-c", "true"], cwd).await), "invalid_argument", "{cwd}");
    }
    for argv in [&[][..], &[""], &["sh", "a\0b"]] {
        assert_eq!(refusal(&run(argv, "").await), "invalid_argument", "{argv:?}");
    }
    // A program of the project is not found by its name.
    std::fs::write(place.path("root/no-such-program"), "#!/bin/sh\necho escaped\n").unwrap();
    let told = run(&["no-such-program"], "").await;
    assert_eq!(facts(&told)["exit_code"], 127, "{told}");
    let told = run(&["sh", "-c", "pwd; cat"], "src").await;
    let root = place.path("root/src").canonicalize().unwrap();
    assert_eq!(facts(&told)["stdout"], format!("{}\n", root.display()));
    let asked = serde_json::json!({ "argv": ["sh", "-c", "cat; exit 3"], "stdin": "words" });
    let told = place.call("run_command", asked).await;
    assert_eq!((&facts(&told)["stdout"], &facts(&told)["exit_code"]), (&"words".into(), &3.into()));
}

/// Holds RC1.
#[tokio::test]
async fn without_a_sandbox_its_user_is_asked_and_a_client_that_cannot_is_refused() {
    let place = Place::new("sandbox = \"none\"\n").await;
    let told = place.script("echo ran > {outside}/ran").await;
    assert_eq!(refusal(&told), "command_forbidden");
    assert!(!place.path("outside/ran").exists());
    let told = place.loose_script("echo ran > {outside}/ran").await;
    assert!(facts(&told)["sandbox"].as_str().unwrap().starts_with("not sandboxed"), "{told}");
    assert!(place.path("outside/ran").exists());
}

/// A build script of a crate runs as part of a build.
#[tokio::test]
#[ignore = "needs landlock and a linker"]
async fn a_build_script_stays_in() {
    let cargo = std::path::PathBuf::from(std::env::var_os("CARGO").unwrap());
    let toolchain = cargo.parent().unwrap().parent().unwrap().display();
    let commands = format!(
        "timeout_sec = 60\nwrite = [\"target\"]\nread = [\"{toolchain}\"]\n\
         env = [\"PATH={toolchain}/bin:/usr/local/bin:/usr/bin:/bin\"]\n"
    );
    let place = Place::new(&commands).await;
    let build = place.filled(
        "fn main() {\n    assert!(std::fs::write(\"{outside}/new\", \"x\").is_err());\n    \
         assert!(std::fs::read(\"{home}/.ssh/id\").is_err());\n    \
         assert!(std::fs::write(\"../root/src/main.rs\", \"x\").is_err());\n    \
         println!(\"cargo::rustc-env=RAN=1\");\n}\n",
    );
    let manifest = "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    for (path, text) in [
        ("Cargo.toml", manifest),
        ("Cargo.lock", "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\n"),
        ("build.rs", &build),
        ("src/main.rs", "fn main() { println!(env!(\"RAN\")); }\n"),
    ] {
        let asked = serde_json::json!({ "path": path, "content": text });
        facts(&place.call("fs_write", asked).await);
    }
    let argv = ["cargo", "build", "--offline", "--locked"];
    let told = place.call("run_command", serde_json::json!({ "argv": argv })).await;
    assert_eq!(facts(&told)["exit_code"], 0, "{told}");
    assert!(place.path("root/target/debug/a").exists());
    assert_eq!(std::fs::read_dir(place.path("outside")).unwrap().count(), 2);
}
