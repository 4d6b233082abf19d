#!/usr/bin/env bash
# Makes a machine ready for Sidestack: a Docker Engine that answers, Compose >= 2.20, and for
# building it a C compiler and cargo. What is there is used as it is; a running engine is never
# restarted or reconfigured. The second run takes a fraction of a second and says nothing.
#
#   COMPOSE_SUITE=sid   the Debian suite Compose is taken from where it is missing (default trixie)

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

COMPOSE_SUITE="${COMPOSE_SUITE:-trixie}"
COMPOSE_LEAST="2.20.0"

debian_like() {
    case "$(os_field ID)" in debian | ubuntu) have apt-get ;; *) return 1 ;; esac
}

apt_install() { # apt_install PACKAGE…, on the machine itself
    local rc=0
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2 || rc=$?
    [ "$rc" -ne 126 ] || die "installing $*: neither root nor a password-less sudo" \
        "run as root: apt-get install $*"
    [ "$rc" -eq 0 ] || die "installing $*: apt could not read its package lists" \
        "check the network and apt's proxy settings, then: apt-get update"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" \
        >&2 </dev/null || die "installing $*: apt failed" "run as root: apt-get install $*"
}

engine_answer() { timeout 15 docker version --format '{{.Server.Version}}' 2>&1; }

start_engine() {
    # Reached only when this script has just installed the engine.
    if [ -d /run/systemd/system ]; then
        as_root systemctl start docker || die "starting Docker: systemctl failed" "systemctl status docker"
    else
        say "starting dockerd (no service manager here); its log is /var/log/dockerd.log"
        as_root sh -c 'setsid dockerd >/var/log/dockerd.log 2>&1 </dev/null &'
    fi
    local i
    for ((i = 0; i < 60; i++)); do
        if engine_answer >/dev/null; then return 0; fi
        sleep 0.5
    done
    die "starting Docker: the new engine did not answer within 30 s" "see /var/log/dockerd.log"
}

need_engine() {
    local answer rc=0
    if ! have docker && ! have dockerd; then
        if ! debian_like; then
            die "no Docker Engine on this machine" "install Docker Engine 20.10 or newer and its CLI, then run this again"
        fi
        say "installing Docker Engine (docker.io)"
        local packages=(docker.io)
        # Newer suites have the client in a package of its own.
        if apt-cache show docker-cli >/dev/null 2>&1; then packages+=(docker-cli); fi
        apt_install "${packages[@]}"
        engine_answer >/dev/null || start_engine
        return 0
    fi
    have docker || die "dockerd is here, but not its command line, \`docker\`" "install the Docker CLI (Debian: docker-cli or docker.io)"
    answer="$(engine_answer)" || rc=$?
    [ "$rc" -ne 0 ] || return 0
    case "$rc:$answer" in
        124:*) die "Docker does not answer: \`docker version\` was still waiting after 15 s" \
            "look at the engine's log; \`docker context ls\` shows which engine is asked" ;;
        *"permission denied"*) die "Docker refuses this user: $answer" \
            "run as root, or add the user to the group docker and log in again" ;;
        *) die "Docker is installed but no engine answers: $answer" \
            "start it: \`systemctl start docker\`, or without systemd, as root: \`dockerd >/var/log/dockerd.log 2>&1 &\`" ;;
    esac
}

compose_version() { # prints x.y.z of the CLI plugin, or fails
    local v
    v="$(docker compose version --short 2>/dev/null)" || return 1
    v="${v#v}"
    [[ "$v" =~ ^[0-9]+\.[0-9]+ ]] || return 1
    printf '%s' "${v%%[-+~]*}"
}

at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

need_compose() {
    local found unpacked plugin
    if found="$(compose_version)" && at_least "$found" "$COMPOSE_LEAST"; then return 0; fi
    if ! debian_like; then
        die "Docker Compose $COMPOSE_LEAST or newer is needed, found: ${found:-none}" \
            "install the Compose plugin of the Docker CLI (\`docker compose version\` must answer)"
    fi
    plugin="${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins/docker-compose"
    if [ "$(os_field ID)" = ubuntu ]; then
        say "installing Docker Compose (docker-compose-v2)"
        apt_install docker-compose-v2
    else
        say "installing Docker Compose from $COMPOSE_SUITE as a CLI plugin of this user"
        unpacked="$(mktemp -d)"
        # shellcheck disable=SC2064
        trap "rm -rf '$unpacked'" EXIT
        apt_unpack "$COMPOSE_SUITE" docker-compose "$unpacked"
        found="$(find "$unpacked" -type f -path '*cli-plugins/docker-compose' | head -n 1)"
        [ -n "$found" ] || die "installing Compose: the package of $COMPOSE_SUITE holds no CLI plugin" \
            "try COMPOSE_SUITE=sid, or install Compose $COMPOSE_LEAST or newer by hand"
        mkdir -p "$(dirname "$plugin")"
        # Renamed into place: a running Compose keeps the file that it was started from.
        install -m 0755 "$found" "$plugin.new"
        mv -f "$plugin.new" "$plugin"
    fi
    found="$(compose_version)" || die "Compose was installed, but \`docker compose version\` fails" \
        "look at $plugin"
    at_least "$found" "$COMPOSE_LEAST" || die "Compose $found was installed, $COMPOSE_LEAST is needed" \
        "an older plugin may hide it: $plugin"
    say "Docker Compose $found is ready"
}

need_toolchain() {
    local missing=()
    if ! have cc; then missing+=("a C compiler (Debian: apt-get install gcc libc6-dev)"); fi
    if ! have cargo; then
        # A login shell's PATH is not always ours.
        if [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
            missing+=("cargo in PATH (it is in ${CARGO_HOME:-$HOME/.cargo}/bin)")
        else
            missing+=("Rust 1.89 or newer with cargo (rustup, or a distribution's cargo that is new enough)")
        fi
    fi
    [ "${#missing[@]}" -eq 0 ] || die "cannot build: missing $(printf '%s; ' "${missing[@]}")" \
        "install it and run this again"
}

need_engine
need_compose
need_toolchain
