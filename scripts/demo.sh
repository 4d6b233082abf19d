#!/usr/bin/env bash
# Two revisions of examples/shop side by side, each with its own data, then the first moved to the
# second in place. Everything it makes stands in .sidestack/demo: a copy of the example and a store
# of its own. A second run finds everything as it should be, changes nothing, and shows it.
#
#   scripts/demo.sh            run or show it
#   scripts/demo.sh clean      remove it, with its data

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

DEMO="$WORK/demo"
SHOP="$DEMO/shop"
BIN="${CARGO_TARGET_DIR:-$REPO/target}/debug/sidestack"
export SIDESTACK_HOME="$DEMO/home"

heading() { printf '\n== %s\n' "$*"; }

# Shows the command as a user would type it, then runs it in the example's folder.
sidestack() {
    printf '\n$ sidestack %s\n' "$*"
    (cd "$SHOP" && "$BIN" "$@")
}

quietly() { (cd "$SHOP" && "$BIN" "$@"); }

build() {
    say "building the binary (the first time takes a few minutes)"
    (cd "$REPO" && cargo build -q -p sidestack) || die "building the binary failed" "cargo build -p sidestack"
}

# The paths and values of a JSON document on standard input, one `path<TAB>value` a line
# (`.data.services[0].name<TAB>web`), so that the demo needs no tool for JSON.
json_lines() {
    awk '
        { text = text $0 "\n" }
        function blank() { while (substr(text, at, 1) ~ /[ \t\r\n]/) at++ }
        function str(   from, c) {
            from = ++at
            while ((c = substr(text, at, 1)) != "\"") { if (c == "") exit 1; at += (c == "\\") ? 2 : 1 }
            return substr(text, from, at++ - from)
        }
        function value(path,   c, n, key, from) {
            blank(); c = substr(text, at, 1)
            if (c == "{" || c == "[") {
                at++; n = 0; blank()
                while ((substr(text, at, 1)) !~ /[\]}]/) {
                    if (at > length(text)) exit 1
                    if (c == "{") { key = str(); blank(); at++; value(path "." key) }
                    else value(path "[" n++ "]")
                    blank(); if (substr(text, at, 1) == ",") { at++; blank() }
                }
                at++
            } else if (c == "\"") print path "\t" str()
            else {
                from = at
                while (substr(text, at, 1) ~ /[-+.0-9a-zA-Z]/) at++
                if (at == from) exit 1
                print path "\t" substr(text, from, at - from)
            }
        }
        END { at = 1; value("") }'
}

# The revision that instance $1 is to run; empty when there is no such instance.
revision_of() {
    local lines n
    lines="$(quietly ls --json | json_lines)" || die "reading \`sidestack ls --json\`"
    n="$(awk -F '\t' -v name="$1" '$1 ~ /\.instance$/ && $2 == name { sub(/\.instance$/, "", $1); print $1; exit }' <<<"$lines")"
    [ -z "$n" ] || awk -F '\t' -v path="$n.revision" '$1 == path { print $2 }' <<<"$lines"
}

# Where the host reaches the page of instance $1: 127.0.0.1:PORT.
page_address() {
    local lines service address
    lines="$(quietly describe "$1" --json | json_lines)" || die "reading \`sidestack describe $1 --json\`"
    service="$(awk -F '\t' '$1 ~ /\.services\[[0-9]+\]\.name$/ && $2 == "web" { sub(/\.name$/, "", $1); print $1 }' <<<"$lines")"
    address="$(awk -F '\t' -v path="$service.addresses[0].host" '$1 == path { print $2 }' <<<"$lines")"
    [ -n "$address" ] || die "\`sidestack describe $1 --json\` names no address of the service web" \
        "sidestack ls; the demo starts afresh after \`make demo-clean\`"
    printf '%s' "$address"
}

# http METHOD ADDRESS PATH: the body of the answer. The shell does it, so curl is not needed.
http() {
    timeout 15 bash -c '
        exec 3<>"/dev/tcp/${2%:*}/${2##*:}" || exit 1
        printf "%s %s HTTP/1.0\r\nHost: %s\r\nContent-Length: 0\r\n\r\n" "$1" "$3" "$2" >&3
        cat <&3' http "$@" | sed '1,/^\r*$/d'
}

page() {
    local address
    address="$(page_address "$1")"
    printf '\n%s  http://%s/\n' "$1" "$address"
    http GET "$address" / | sed 's/^/    /'
}

# Counts only where nothing has been counted yet, so that a second run writes nothing.
count_once() {
    local address
    address="$(page_address "$1")"
    if http GET "$address" /status | grep -q '"postgres_hits": 0,.*"redis_hits": 0,'; then
        printf 'POST http://%s/hit?by=%s\n' "$address" "$2"
        http POST "$address" "/hit?by=$2" >/dev/null
    fi
}

copy_example() {
    if [ -d "$SHOP" ]; then return 0; fi
    mkdir -p "$DEMO"
    rm -rf "$SHOP.new"
    cp -R "$REPO/examples/shop" "$SHOP.new"
    # A repository of its own, so that the demo is a workspace like a user's and not a part of this one.
    if have git; then
        git -C "$SHOP.new" init -q -b main
        git -C "$SHOP.new" add -A
        git -C "$SHOP.new" -c user.name=demo -c user.email=demo@example.invalid \
            -c commit.gpgsign=false commit -qm "the shop as it was"
    fi
    mv "$SHOP.new" "$SHOP"
}

# The change: a variable, a setting of the database, a text of the page.
edit_example() {
    sed -i 's/LOG_LEVEL: debug/LOG_LEVEL: warning/; s/max_connections: 50/max_connections: 80/' "$SHOP/sidestack.yaml"
    sed -i 's/PAGE_TEXT: Everything must go/PAGE_TEXT: Fresh stock has arrived/' "$SHOP/compose.yaml"
}

edited() { grep -q 'LOG_LEVEL: warning' "$SHOP/sidestack.yaml" && grep -q 'Fresh stock' "$SHOP/compose.yaml"; }

run() {
    "$REPO/scripts/setup.sh"
    "$REPO/scripts/images.sh" debian:bookworm-slim postgres:17 redis:7
    build
    copy_example
    local main before after
    main="$(revision_of main)"

    if [ -n "$main" ] && [ "$main" != r1 ]; then
        heading "The demo has been run: both instances are kept as they are"
        sidestack start main
        sidestack start r2
    else
        if ! edited; then
            heading "The shop as it is"
            sidestack up
        fi
        count_once main 3

        heading "A variable, a setting of the database and a text of the page are changed"
        edit_example
        ! have git || git -C "$SHOP" --no-pager diff -U0 | grep -E '^[-+] ' || :

        heading "The changed shop, beside the first one"
        sidestack up --beside
    fi
    count_once r2 40

    heading "Both run, each with its own address and its own data"
    sidestack ls
    page main
    page r2

    heading "What differs, and where a value comes from"
    sidestack diff @r1 @r2
    sidestack env --explain LOG_LEVEL

    if [ "$(revision_of main)" = r1 ]; then
        heading "The first one is moved to revision 2, in place"
        before="$(page_address main)"
        sidestack up main@r2
        after="$(page_address main)"
        [ "$before" = "$after" ] || die "the address changed from $before to $after"
        http GET "$after" /status | grep -q '"postgres_hits": 3, "redis_hits": 3,' ||
            die "the data of main did not stay: $(http GET "$after" /status)"
        page main
        printf '\nThe address is still %s, and its data stayed.\n' "$after"
        sidestack ls
    fi

    cat <<TEXT

Both keep running. To look further, in $SHOP:

    export SIDESTACK_HOME=$SIDESTACK_HOME
    alias sidestack=$BIN
    sidestack describe r2        # services, addresses, images, volumes
    sidestack history            # the revisions
    sidestack logs web -f
    sidestack --help

To remove both with their data: make demo-clean
TEXT
}

clean() {
    local target
    if [ ! -d "$DEMO" ]; then
        say "no demo here"
        return 0
    fi
    if [ -d "$SIDESTACK_HOME" ] && [ -d "$SHOP" ]; then
        build
        while read -r target; do
            [ -z "$target" ] || sidestack rm --volumes -y "$target"
        done < <(quietly ls --all --json | json_lines | awk -F '\t' '$1 ~ /\.target$/ { print $2 }')
        [ -z "$(quietly ls --all --json | json_lines | awk -F '\t' '$1 ~ /\.target$/')" ] ||
            die "some instances are still there, so $DEMO is kept" "sidestack ls --all"
    fi
    rm -rf "$DEMO"
    say "the demo is removed"
}

case "${1:-run}" in
    run) run ;;
    clean) clean ;;
    *) die "unknown word \`$1\`" "usage: scripts/demo.sh [clean]" ;;
esac
