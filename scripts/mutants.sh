#!/usr/bin/env bash
# Proves that the tests of promises (pNN) and of what isolation changes (row_…) can fail: each
# tests/mutants/NAME.patch breaks the program in one place, and the test that its second line names
# must then fail.
#
#   scripts/mutants.sh [NAME …]
#
# The work is done in a work tree of its own under .sidestack/mutants, at HEAD, and in a target
# folder of its own, so that no broken program ever stands where a sound one is looked for.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

TREE="$WORK/mutants"
export CARGO_TARGET_DIR="$REPO/target/mutants"
LOGS="$CARGO_TARGET_DIR/logs"

tree() {
    git -C "$REPO" worktree prune
    if [ -d "$TREE" ]; then
        git -C "$TREE" checkout --quiet --force --detach "$(git -C "$REPO" rev-parse HEAD)"
    else
        git -C "$REPO" worktree add --quiet --force --detach "$TREE" HEAD
    fi
    mkdir -p "$LOGS"
}

# run LOG ARGS…: builds the program and runs one test; 0 passed, 1 failed, 2 not built or not run.
run() {
    local log="$1" code=0
    shift
    (cd "$TREE" && cargo build --quiet -p sidestack && cargo test --quiet --no-run "$@") >"$log" 2>&1 || return 2
    (cd "$TREE" && SIDESTACK_BIN="$CARGO_TARGET_DIR/debug/sidestack" cargo test "$@") >>"$log" 2>&1 || code=1
    grep -Eq '^running [1-9]' "$log" || return 2
    return "$code"
}

tree
[ $# -gt 0 ] || set -- $(cd "$REPO/tests/mutants" && ls -- *.patch | sed 's/\.patch$//')
bad=0
for name in "$@"; do
    patch="$REPO/tests/mutants/$name.patch"
    [ -r "$patch" ] || die "there is no mutant \`$name\`" "tests/mutants has $(cd "$REPO/tests/mutants" && ls | tr '\n' ' ')"
    read -r -a test <<<"$(sed -n 's/^# test: //p' "$patch")"
    git -C "$TREE" checkout --quiet --force .

    code=0
    run "$LOGS/$name.sound" "${test[@]}" || code=$?
    if [ "$code" -ne 0 ]; then
        say "$name: the test does not pass on the sound program; see $LOGS/$name.sound"
        bad=1
        continue
    fi
    if ! (cd "$TREE" && patch --quiet -p1 --fuzz=3 --no-backup-if-mismatch <"$patch"); then
        say "$name: the patch does not apply any more"
        bad=1
        continue
    fi
    code=0
    run "$LOGS/$name.broken" "${test[@]}" || code=$?
    case "$code" in
    1) say "$name: caught ($(sed -n '1s/^# //p' "$patch"))" ;;
    0) say "$name: NOT CAUGHT: $(sed -n '1s/^# //p' "$patch")"; bad=1 ;;
    *) say "$name: the broken program was not built; see $LOGS/$name.broken"; bad=1 ;;
    esac
done
git -C "$TREE" checkout --quiet --force .
exit "$bad"
