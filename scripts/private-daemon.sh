#!/usr/bin/env bash
# A Docker Engine of its own beside the machine's, for tests that restart, kill, stop or fill one.
# Needs root. It lives in a network namespace of its own, since two daemons in one rewrite each
# other's packet filter rules; so whatever talks to its *published ports* must run there too
# (`nsenter --net=/run/netns/NAME …`), while its socket is an ordinary file. It has no way out:
# carry images over with `docker save` and `docker load`.
#
#   scripts/private-daemon.sh start DIR [--suite bookworm|trixie|sid]
#       prints the socket's path; NAME is in DIR/netns, the daemon's pid in DIR/dockerd.pid.
#       Without --suite, the machine's own dockerd; with one, that suite's (kept in .sidestack).
#   scripts/private-daemon.sh restart DIR   the same daemon again, also after a kill
#   scripts/private-daemon.sh stop DIR      ends it, removes its namespace and its data root

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() { die "${1:-what to do?}" "usage: scripts/private-daemon.sh start|restart|stop DIR [--suite bookworm|trixie|sid]"; }

# Puts that suite's engine below .sidestack/engines, and prints the folder of its binaries.
engine_of() {
    local suite="$1" dir="$WORK/engines/$1"
    if [ ! -x "$dir/usr/sbin/dockerd" ]; then
        rm -rf "$dir.new"
        apt_unpack "$suite" docker.io "$dir.new"
        apt_unpack "$suite" containerd "$dir.new"
        mv "$dir.new" "$dir"
    fi
    printf '%s' "$dir/usr/sbin:$dir/usr/bin"
}

# Whether process $1 still runs and was started for the folder $2: a pid alone may be a stranger's.
is_ours() {
    [ -n "$1" ] && [ -r "/proc/$1/cmdline" ] && tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | grep -qF -- "$2/"
}

# Every process of this daemon: its own programs (by executable, and by this folder in their
# arguments or by this network namespace), and what runs in its containers (by control group).
# Nothing else matches, also not a shell that happens to name the folder.
pids_of() {
    local dir="$1" netns="$2" pid ids space=""
    ids="$(ls "$dir/data/containers" 2>/dev/null | tr '\n' '|' || :)"
    ids="${ids%|}"
    if [ -e "/run/netns/$netns" ]; then space="$(stat -Lc %d:%i "/run/netns/$netns")"; fi
    for pid in /proc/[0-9]*; do
        pid="${pid#/proc/}"
        case "$(basename "$(readlink "/proc/$pid/exe" 2>/dev/null)" 2>/dev/null)" in
            dockerd | containerd | containerd-shim* | docker-proxy | runc)
                if is_ours "$pid" "$dir" ||
                    [ "$(stat -Lc %d:%i "/proc/$pid/ns/net" 2>/dev/null)" = "${space:-none}" ]; then
                    printf '%s\n' "$pid"
                    continue
                fi
                ;;
        esac
        if [ -n "$ids" ] && grep -qsE "/docker[/-]($ids)" "/proc/$pid/cgroup"; then printf '%s\n' "$pid"; fi
    done
}

launch() {
    local dir="$1" path netns driver pid i
    path="$(cat "$dir/path")"
    netns="$(cat "$dir/netns")"
    driver="$(cat "$dir/driver")"
    if [ ! -e "/run/netns/$netns" ]; then ip netns add "$netns"; fi
    # Not `ip netns exec`: it hides the cgroup mounts, and the daemon refuses to start.
    nsenter --net="/run/netns/$netns" ip link set lo up
    rm -f "$dir/docker.sock"
    if ! is_ours "$(cat "$dir/dockerd.pid" 2>/dev/null)" "$dir"; then rm -f "$dir/dockerd.pid"; fi
    # The killed daemon's containerd dies with it, and stays a zombie where process 1 does not reap;
    # the new daemon would take that for a containerd that runs, and wait for it in vain.
    local held="$dir/exec/containerd/containerd.pid"
    if [ -e "$held" ] && ! is_ours "$(cat "$held")" "$dir"; then rm -f "$held"; fi
    PATH="$path:$PATH" setsid nsenter --net="/run/netns/$netns" dockerd \
        --config-file "$dir/daemon.json" --data-root "$dir/data" --exec-root "$dir/exec" \
        --pidfile "$dir/dockerd.pid" --storage-driver "$driver" -H "unix://$dir/docker.sock" \
        >>"$dir/dockerd.log" 2>&1 </dev/null &
    pid=$!
    for ((i = 0; i < 300; i++)); do
        if [ -S "$dir/docker.sock" ] && timeout 5 docker -H "unix://$dir/docker.sock" version >/dev/null 2>&1; then
            printf '%s\n' "$dir/docker.sock"
            return 0
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 5 "$dir/dockerd.log" >&2
    die "the private daemon did not come up within 30 s (above: the end of $dir/dockerd.log)"
}

start() {
    local dir="$1" suite="$2" path=/usr/sbin
    [ "$(id -u)" -eq 0 ] || die "a private daemon needs root"
    have ip && have nsenter || die "no \`ip\` or no \`nsenter\`" "Debian: apt-get install iproute2 util-linux"
    if is_ours "$(cat "$dir/dockerd.pid" 2>/dev/null)" "$dir"; then
        printf '%s\n' "$dir/docker.sock"
        return 0
    fi
    # A Unix socket's path holds at most 107 bytes, and containerd makes longer ones below it.
    [ "${#dir}" -le 60 ] || die "the folder's path is too long for sockets below it: $dir" "use a short folder, below /tmp"
    if [ -n "$suite" ] && [ "$suite" != "$(os_field VERSION_CODENAME)" ]; then path="$(engine_of "$suite")"; fi
    PATH="$path:$PATH" have dockerd || die "no \`dockerd\` here" "scripts/setup.sh prepares the machine"
    printf '%s' "$path" >"$dir/path"
    printf 'sst-%s' "$(printf '%s' "$dir" | sha256sum | cut -c1-8)" >"$dir/netns"
    # The storage that works here is the one that the machine's own engine uses, unless it is the
    # image store of containerd, which has other names.
    case "$(timeout 15 docker info --format '{{.Driver}}' 2>/dev/null)" in
        fuse-overlayfs) printf 'fuse-overlayfs' ;;
        vfs) printf 'vfs' ;;
        *) printf 'overlay2' ;;
    esac >"$dir/driver"
    # A file of its own: the machine's daemon.json is not for this one.
    printf '{"log-driver": "json-file", "shutdown-timeout": 5}\n' >"$dir/daemon.json"
    launch "$dir"
}

stop() {
    local dir="$1" netns pids i
    netns="$(cat "$dir/netns" 2>/dev/null || :)"
    [ -n "$netns" ] || die "no private daemon was started in $dir"
    # TERM to the daemon alone: it stops its containers and its containerd.
    pids="$(cat "$dir/dockerd.pid" 2>/dev/null || :)"
    if is_ours "$pids" "$dir"; then
        kill -CONT "$pids" 2>/dev/null || :
        # Nobody waits for what these containers would still do: without this, ten seconds each.
        timeout 10 docker -H "unix://$dir/docker.sock" ps -q 2>/dev/null |
            timeout 10 xargs -r docker -H "unix://$dir/docker.sock" kill >/dev/null 2>&1 || :
        kill -TERM "$pids" 2>/dev/null || :
        for ((i = 0; i < 150; i++)); do
            is_ours "$pids" "$dir" || break
            sleep 0.1
        done
    fi
    # What a killed daemon has left behind.
    for ((i = 0; i < 50; i++)); do
        pids="$(pids_of "$dir" "$netns")"
        [ -n "$pids" ] || break
        # shellcheck disable=SC2086
        kill -KILL $pids 2>/dev/null || :
        sleep 0.1
    done
    awk -v dir="$dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
        while read -r mount; do umount -l "$mount" 2>/dev/null || :; done
    if [ -e "/run/netns/$netns" ]; then ip netns del "$netns"; fi
    rm -rf "$dir/data" "$dir/exec" "$dir/docker.sock" "$dir/dockerd.pid" "$dir/netns" "$dir/path" "$dir/driver" "$dir/daemon.json"
}

[ $# -ge 2 ] || usage
verb="$1" dir="$2" suite=""
shift 2
while [ $# -gt 0 ]; do
    case "$1" in
        --suite) suite="${2:-}"; shift ;;
        *) usage "unknown option \`$1\`" ;;
    esac
    shift
done
case "$suite" in '' | bookworm | trixie | sid) ;; *) usage "unknown suite \`$suite\`" ;; esac
case "$verb" in
    start) mkdir -p "$dir"; dir="$(cd "$dir" && pwd -P)"; start "$dir" "$suite" ;;
    restart | stop)
        [ -d "$dir" ] || die "no folder $dir"
        dir="$(cd "$dir" && pwd -P)"
        if [ "$verb" = stop ]; then stop "$dir"; else
            [ -s "$dir/netns" ] || die "no private daemon was started in $dir"
            launch "$dir"
        fi
        ;;
    *) usage "unknown word \`$verb\`" ;;
esac
