#!/usr/bin/env bash
# Checks on the repository itself: scripts that parse, files that stay readable, no mirror
# or registry named; and the tools that are not everywhere, when they are here.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO"

LONGEST_SOURCE=700
failed=0
complain() { printf 'error: %s\n' "$*" >&2; failed=1; }

mapfile -t files < <(git ls-files --cached --others --exclude-standard | while read -r f; do [ ! -f "$f" ] || echo "$f"; done)
mapfile -t scripts < <(grep -lE '^#!.*\b(ba)?sh\b' -- "${files[@]}" 2>/dev/null || :; echo scripts/lib.sh)

for script in "${scripts[@]}"; do
    if head -n 1 "$script" | grep -q '/sh$'; then
        sh -n "$script" || complain "$script does not parse"
    else
        bash -n "$script" || complain "$script does not parse"
    fi
    if head -n 1 "$script" | grep -q '^#!' && [ ! -x "$script" ]; then complain "$script is not executable"; fi
done

# Mirrors and registries are the machine's business: their names stand in its configuration.
# (The patterns are written so that they do not find themselves.)
mirrors='(deb|ftp|archive|security|ports|snapshot)[.](debian|ubuntu)[.](org|com)|static[.]crates[.]io|index[.]crates[.]io'
registries='(registry-1|index|auth)[.]docker[.]io|registry[.]hub[.]docker'
for file in "${files[@]}"; do
    case "$file" in Cargo.lock) continue ;; esac
    if grep -nIE -- "$mirrors|$registries" "$file" >&2; then complain "$file names a mirror or a registry"; fi
    case "$file" in
        *.rs)
            if [ "$(wc -l <"$file")" -gt "$LONGEST_SOURCE" ]; then
                complain "$file is longer than $LONGEST_SOURCE lines: split it along its ideas"
            fi
            ;;
    esac
done

if have shellcheck; then
    shellcheck -x -S warning "${scripts[@]}" || complain "shellcheck has something to say"
else
    say "skipped: shellcheck is not installed"
fi
if cargo deny --version >/dev/null 2>&1; then
    # The advisories need the network; the rest does not.
    cargo deny --workspace check bans licenses sources || complain "cargo deny has something to say"
else
    say "skipped: cargo-deny is not installed"
fi
if have typos; then
    typos || complain "typos has something to say"
else
    say "skipped: typos is not installed"
fi

exit "$failed"
