//! Against a real Secret Service: gnome-keyring on a private session bus, in processes of their own. Says that it was
//! skipped where those are not installed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::*;

const STEP: &str = "SIDESTACK_KEYCHAIN_TEST_STEP";
const VALUE: &str = "canary p\u{e4}ss\n two \"lines\"\n";

/// Not a test of its own: what the processes of the tests below do.
#[test]
fn step() {
    let Some(step) = std::env::var_os(STEP) else {
        return;
    };
    let start = Instant::now();
    match step.to_str().unwrap() {
        "write" => {
            keychain_set("shop", "stripe", &SecretValue::new("old".into())).unwrap();
            keychain_set("shop", "stripe", &SecretValue::new(VALUE.into())).unwrap();
        }
        "read" => assert_eq!(keychain_get("shop", "stripe").unwrap().expose(), VALUE),
        "delete" => {
            keychain_delete("shop", "stripe").unwrap();
            for gone in [keychain_get("shop", "stripe").map(drop), keychain_delete("shop", "stripe")] {
                assert!(matches!(gone, Err(SecretError::NoEntry { .. })), "{gone:?}");
            }
        }
        "locked" => {
            let error = keychain_get("shop", "stripe").unwrap_err();
            let expected = matches!(error, SecretError::Locked { .. } | SecretError::TimedOut { .. });
            assert!(expected, "{error}");
        }
        "none" => {
            for error in [
                keychain_get("shop", "stripe").unwrap_err(),
                keychain_set("shop", "stripe", &SecretValue::new(VALUE.into())).unwrap_err(),
            ] {
                assert!(matches!(error, SecretError::NoKeychain { .. }), "{error}");
                assert!(!format!("{error} {error:?}").contains("canary"));
                assert!(error.to_string().contains("`keychain:shop/stripe`"), "{error}");
            }
        }
        other => panic!("no step {other}"),
    }
    assert!(start.elapsed() < Duration::from_secs(11), "took {:?}", start.elapsed());
}

fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// Runs a shell script with `STEP NAME` as a function that runs one of the steps above in a process of its own.
fn script(home: &Path, program: &str, arguments: &[&str], text: &str) {
    let text = format!(
        r#"
        set -e
        step() {{
            {STEP}="$1" "$EXE" --exact secrets::keychain::tests::step >"$HOME/log" 2>&1 &&
                grep -q "1 passed" "$HOME/log" || {{ cat "$HOME/log"; exit 1; }}
        }}
        until_there() {{
            for _ in $(seq 200); do
                dbus-send --session --print-reply --dest=org.freedesktop.DBus / \
                    org.freedesktop.DBus.NameHasOwner string:org.freedesktop.secrets | grep -q true && return
                sleep 0.05
            done
            echo "no Secret Service came"; exit 1
        }}
        {text}"#
    );
    let output = Command::new(program)
        .args(arguments)
        .args(["sh", "-c", &text])
        .env_remove("DBUS_SESSION_BUS_ADDRESS")
        .env("EXE", std::env::current_exe().unwrap())
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env_remove("XDG_DATA_HOME")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn entries_are_seen_by_other_processes_and_a_locked_keyring_is_an_error() {
    if !installed("dbus-run-session") || !installed("gnome-keyring-daemon") {
        skipped("needs dbus-run-session and gnome-keyring-daemon");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let daemon = "gnome-keyring-daemon --foreground --components=secrets";
    let unlocked = format!(
        "printf '\\n' | {daemon} --unlock >/dev/null 2>&1 & trap \"kill $!\" EXIT; until_there\n\
         step write; step read; step delete; step write\n"
    );
    script(home.path(), "dbus-run-session", &["--"], &unlocked);
    // The keyring of the first session has a password now, and nobody gives it.
    let locked = format!("{daemon} </dev/null >/dev/null 2>&1 & trap \"kill $!\" EXIT; until_there\nstep locked\n");
    script(home.path(), "dbus-run-session", &["--"], &locked);
}

#[test]
fn a_bus_without_a_keychain_is_an_error_at_once() {
    if !installed("dbus-run-session") {
        skipped("needs dbus-run-session");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("bus.conf");
    let text = "<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><policy context=\"default\">\
                <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/>\
                </policy></busconfig>";
    std::fs::write(&config, text).unwrap();
    let config = format!("--config-file={}", config.display());
    script(home.path(), "dbus-run-session", &[&config, "--"], "step none\n");
}

#[test]
fn no_bus_is_an_error_at_once() {
    let home = tempfile::tempdir().unwrap();
    let start = Instant::now();
    script(home.path(), "env", &[], "step none\n");
    assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
}

#[test]
fn names_are_checked_before_the_keychain_is_asked() {
    for (service, account) in [("", "a"), ("s", ""), ("s/t", "a"), ("s", "a\nb")] {
        let error = keychain_get(service, account).unwrap_err();
        assert!(matches!(error, SecretError::BadReference(_)), "{error}");
    }
}
