# shellcheck shell=bash
# Shared by the scripts in this folder; sourced, never run.
#
# Progress goes to standard error, so that a caller may use standard output for data.
# Everything that is fetched from a Debian archive goes through apt with the machine's own
# configured mirror and keyring: only the suite differs, and the lists and the cache are private,
# so the machine's own package state is neither read nor changed.

set -euo pipefail

REPO="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
WORK="$REPO/.sidestack"

say() { printf '%s\n' "sidestack: $*" >&2; }

# die STEP-THAT-FAILED [HINT]
die() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf 'hint: %s\n' "$2" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# as_root CMD…: runs it, through sudo where we are not root. False without either.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 126
    fi
}

os_field() { # os_field ID|VERSION_CODENAME
    [ -r /etc/os-release ] || return 0
    # A subshell: the file sets a dozen names.
    # shellcheck disable=SC1091
    (. /etc/os-release && eval "printf '%s' \"\${$1:-}\"")
}

# Writes the machine's own archive entry for suite $1 into the folder $2 (sources.list.d form).
# Everything but the suite stays as configured: address, options, keyring, also an inline key.
apt_write_source() {
    local suite="$1" dir="$2" own file
    own="$(os_field VERSION_CODENAME)"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -r "$file" ] || continue
        awk -v own="$own" -v suite="$suite" '
            BEGIN { RS = ""; FS = "\n" }
            {
                deb = 0; mine = 0; off = 0; out = ""; skip = 0
                for (i = 1; i <= NF; i++) {
                    line = $i
                    if (line ~ /^#/) continue
                    key = tolower(line); sub(/:.*/, "", key)
                    value = line; sub(/^[^:]*:[ \t]*/, "", value)
                    if (line ~ /^[ \t]/) { if (!skip) out = out line "\n"; continue }
                    skip = 0
                    if (key == "types") { if ((" " value " ") ~ / deb /) deb = 1; line = "Types: deb" }
                    else if (key == "enabled") { if (tolower(value) ~ /^(no|false|0)/) off = 1 }
                    else if (key == "suites") {
                        n = split(value, s, /[ \t]+/)
                        for (j = 1; j <= n; j++) if (s[j] == own || s[j] == "stable") mine = 1
                        line = "Suites: " suite
                    }
                    else if (key == "components") { line = "Components: main"; skip = 1 }
                    out = out line "\n"
                }
                if (deb && mine && !off) { printf "%s", out; exit }
            }' "$file" >"$dir/archive.sources"
        [ ! -s "$dir/archive.sources" ] || return 0
    done
    rm -f "$dir/archive.sources"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -r "$file" ] || continue
        awk -v own="$own" -v suite="$suite" '
            $1 == "deb" {
                options = ""; rest = $0
                sub(/^[ \t]*deb[ \t]+/, "", rest)
                if (match(rest, /^\[[^]]*\][ \t]+/)) {
                    options = substr(rest, 1, RLENGTH); rest = substr(rest, RLENGTH + 1)
                }
                split(rest, f, /[ \t]+/)
                if (f[2] == own || f[2] == "stable") { print "deb " options f[1] " " suite " main"; exit }
            }' "$file" >"$dir/archive.list"
        [ ! -s "$dir/archive.list" ] || return 0
    done
    rm -f "$dir/archive.list"
    return 1
}

# The address of the machine's own archive, for debootstrap.
apt_archive_uri() {
    local dir uri
    dir="$(mktemp -d)"
    apt_write_source "$(os_field VERSION_CODENAME)" "$dir" || { rm -rf "$dir"; return 1; }
    uri="$(sed -nE 's/^URIs:[ \t]*([^ \t]+).*/\1/p' "$dir"/archive.* | head -n 1)"
    [ -n "$uri" ] || uri="$(sed -E 's/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/' "$dir"/archive.* | head -n 1)"
    rm -rf "$dir"
    printf '%s' "$uri"
}

# apt_private SUITE ARG…: apt-get with private lists and cache for that suite.
apt_private() {
    local suite="$1" root="$WORK/apt/$1"
    shift
    mkdir -p "$root/parts" "$root/lists/partial" "$root/cache/archives/partial"
    apt-get -qq \
        -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$root/parts" \
        -o "Dir::State::lists=$root/lists" -o "Dir::Cache=$root/cache" \
        -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o APT::Get::List-Cleanup=0 \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Retries=3 -o Acquire::http::Timeout=20 \
        -o APT::Update::Post-Invoke::= -o APT::Update::Post-Invoke-Success::= \
        "$@"
}

# apt_unpack SUITE PACKAGE FOLDER: fetches a package of that suite and unpacks it there.
# Nothing is installed, no maintainer script runs.
apt_unpack() {
    local suite="$1" package="$2" into="$3" root="$WORK/apt/$1" deb
    have apt-get && have dpkg || die "fetching \`$package\`: no apt on this machine"
    if [ ! -e "$root/fresh" ] || [ -n "$(find "$root/fresh" -mmin +720 2>/dev/null)" ]; then
        mkdir -p "$root/parts"
        apt_write_source "$suite" "$root/parts" ||
            die "fetching \`$package\`: no archive entry for this release in the apt sources" \
                "add the Debian archive to /etc/apt/sources.list.d"
        say "reading the package list of $suite"
        apt_private "$suite" update >&2 ||
            die "fetching \`$package\`: the configured Debian mirror did not give the list of $suite" \
                "check the network and the proxy settings of apt (\`apt-get update\`)"
        touch "$root/fresh"
    fi
    mkdir -p "$root/debs" "$into"
    (cd "$root/debs" && rm -f -- "$package"_*.deb && apt_private "$suite" download "$package" >&2) ||
        die "fetching \`$package\`: the configured Debian mirror did not give it (suite $suite)" \
            "check the network; COMPOSE_SUITE chooses another suite for Compose"
    for deb in "$root/debs/$package"_*.deb; do
        dpkg -x "$deb" "$into" || die "unpacking \`$deb\`"
    done
    rm -f -- "$root/debs/$package"_*.deb
}
