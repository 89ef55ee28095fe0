//! Help texts, version and completion.

use crate::process::Scratch;

fn printed(test: &str, arguments: &[&str]) -> String {
    let ended = Scratch::new(test).run(arguments).succeeded();
    assert_eq!(ended.stderr, "");
    ended.stdout
}

#[test]
fn every_command_has_its_help() {
    insta::assert_snapshot!("help", printed("help", &["--help"]));
    insta::assert_snapshot!("help_run", printed("help-run", &["run", "--help"]));
    insta::assert_snapshot!("help_broker", printed("help-broker", &["broker", "--help"]));
    insta::assert_snapshot!("help_topics", printed("help-topics", &["topics", "--help"]));
    insta::assert_snapshot!("help_presets", printed("help-presets", &["presets", "--help"]));
    insta::assert_snapshot!("presets", printed("presets", &["presets"]));
    insta::assert_snapshot!(
        "presets_show",
        printed("presets-show", &["presets", "show", "three-topics-512b"])
    );
    insta::assert_snapshot!(
        "help_topics_create",
        printed("help-create", &["topics", "create", "--help"])
    );
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = printed("version", &["--version"]);
    assert!(
        version.starts_with(&format!("plimsoll {}", env!("CARGO_PKG_VERSION"))),
        "{version}"
    );
}

#[test]
fn completions_know_the_options_of_run() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&format!("completion-{shell}"), &["completion", shell]);
        assert!(script.contains("producers-per-topic"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scratch = Scratch::new("broken-pipe");
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let script = format!("{{ '{program}' completion bash; echo \"status $?\" >&2; }} | head -c 10");
    let shell = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(scratch.path())
        .output();
    let told = String::from_utf8(shell.expect("sh runs").stderr).expect("text");
    assert_eq!(told, "status 0\n");
}
