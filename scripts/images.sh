#!/usr/bin/env bash
# Makes sure that the images of images/images.txt are on the Docker Engine: pulled where a
# registry answers, else made here as stand-ins (label dev.sidestack.stand-in=1). What is there
# is left alone, except a stand-in whose recipe has changed.
#
#   scripts/images.sh [--pull] [IMAGE…]     --pull: replace stand-ins by the real images

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# How long a registry may take to begin an answer; once it does, a pull may take its time.
REGISTRY_PATIENCE_S=8
PULL_LIMIT_S=900

registry=unknown
replace=no

# The first pull decides for the run whether a registry answers.
pull() {
    local image="$1" log pid waited=0
    [ "$registry" != absent ] || return 1
    log="$(mktemp)"
    timeout "$PULL_LIMIT_S" docker pull "$image" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        if [ "$registry" = unknown ]; then
            if grep -q 'Pulling from' "$log"; then
                registry=present
                say "pulling $image"
            elif [ "$waited" -ge $((REGISTRY_PATIENCE_S * 10)) ]; then
                kill "$pid" 2>/dev/null || :
                break
            fi
        fi
        sleep 0.1
        waited=$((waited + 1))
    done
    if wait "$pid" && [ "$waited" -ge 0 ]; then
        registry=present
        rm -f "$log"
        return 0
    fi
    if [ "$registry" = unknown ]; then
        registry=absent
        say "no image registry answers; making stand-ins ($(tail -n 1 "$log" | cut -c1-120))"
    else
        say "pulling $image failed: $(tail -n 1 "$log" | cut -c1-160)"
    fi
    rm -f "$log"
    return 1
}

# What a stand-in is made of, as one digest: its label tells an up-to-date one from an old one.
recipe_digest() {
    local made_by="$1"
    case "$made_by" in
        */) (cd "$REPO/images/$made_by" && find . -type f -print0 | sort -z | xargs -0 sha256sum) ;;
        *) declare -f "make_$made_by" ;;
    esac | sha256sum | cut -c1-16
}

labels_for() { printf 'LABEL dev.sidestack.stand-in=1 dev.sidestack.stand-in.recipe=%s' "$1"; }

make_busybox() {
    local image="$1" digest="$2" tmp name
    tmp="$(mktemp -d)"
    apt_unpack trixie busybox-static "$tmp/deb"
    mkdir -p "$tmp"/root/{bin,etc,root,tmp,var/www,usr/bin,usr/sbin,sbin}
    chmod 1777 "$tmp/root/tmp"
    chmod 0700 "$tmp/root/root"
    install -m 0755 "$(find "$tmp/deb" -type f -perm -0111 -name busybox | head -n 1)" "$tmp/root/bin/busybox"
    for name in $("$tmp/root/bin/busybox" --list); do
        [ "$name" = busybox ] || ln -s busybox "$tmp/root/bin/$name"
    done
    ln -s ../../bin/env "$tmp/root/usr/bin/env"
    printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n' >"$tmp/root/etc/passwd"
    printf 'root:x:0:\nnobody:x:65534:\n' >"$tmp/root/etc/group"
    tar -C "$tmp/root" --owner=0 --group=0 --numeric-owner -c . |
        docker import --change 'CMD ["sh"]' --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
            --change "$(labels_for "$digest")" - "$image" >/dev/null
    rm -rf "$tmp"
}

make_debian() {
    local image="$1" digest="$2" tmp uri run keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ "$(os_field ID)" = debian ] && uri="$(apt_archive_uri)" ||
        die "making $image: no registry answers, and this machine has no Debian archive configured" \
            "give the machine access to an image registry, or run on Debian"
    tmp="$(mktemp -d /var/tmp/sidestack-debian.XXXXXX)"
    apt_unpack trixie debootstrap "$tmp/deb"
    run=(env DEBOOTSTRAP_DIR="$tmp/deb/usr/share/debootstrap" "$tmp/deb/usr/sbin/debootstrap"
        --variant=minbase "--cache-dir=$tmp/cache")
    if [ -r "$keyring" ]; then run+=("--keyring=$keyring"); fi
    mkdir -p "$tmp/cache"
    as_root "${run[@]}" bookworm "$tmp/root" "$uri" >"$tmp/log" 2>&1 || {
        local rc=$?
        tail -n 5 "$tmp/log" >&2
        as_root rm -rf "$tmp"
        [ "$rc" -ne 126 ] || die "making $image: debootstrap needs root" "run \`make images\` once as root"
        die "making $image: debootstrap failed (above are its last lines)" "check the network and the configured Debian mirror"
    }
    # As in the official slim image: no service starts in a container, no documentation is
    # unpacked, and dpkg does not sync every file (half the time of every later install).
    as_root sh -eu -c '
        cd "$1"
        printf "#!/bin/sh\nexit 101\n" >usr/sbin/policy-rc.d
        chmod 0755 usr/sbin/policy-rc.d
        printf "force-unsafe-io\n" >etc/dpkg/dpkg.cfg.d/docker-apt-speedup
        for d in doc man info locale groff lintian linda; do
            printf "path-exclude /usr/share/%s/*\n" "$d"
            rm -rf "usr/share/$d"/*
        done >etc/dpkg/dpkg.cfg.d/docker
        printf "path-include /usr/share/doc/*/copyright\n" >>etc/dpkg/dpkg.cfg.d/docker
        mkdir -p usr/share/man/man1 usr/share/man/man7
        printf "Acquire::Languages \"none\";\nAPT::AutoRemove::SuggestsImportant \"false\";\n" >etc/apt/apt.conf.d/docker-image
        printf "DPkg::Post-Invoke { \"rm -f /var/cache/apt/archives/*.deb || true\"; };\n" >etc/apt/apt.conf.d/docker-clean
        rm -rf var/lib/apt/lists/* var/cache/apt/*.bin var/cache/apt/archives/*.deb var/log/* \
            var/cache/ldconfig/* etc/hostname etc/resolv.conf dev/* proc/* sys/*
    ' sh "$tmp/root"
    as_root tar -C "$tmp/root" --numeric-owner -c . |
        docker import --change 'CMD ["bash"]' --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
            --change "$(labels_for "$digest")" - "$image" >/dev/null
    as_root rm -rf "$tmp"
}

make_from_dockerfile() {
    local image="$1" digest="$2" folder="$3" log
    log="$(mktemp)"
    # BuildKit is used where the CLI has it; the recipes also build with the classic builder.
    docker build --pull=false --label "dev.sidestack.stand-in.for=$image" \
        --label dev.sidestack.stand-in=1 --label "dev.sidestack.stand-in.recipe=$digest" \
        -t "$image" "$REPO/images/$folder" >"$log" 2>&1 </dev/null || {
        tail -n 15 "$log" >&2
        rm -f "$log"
        die "building $image from images/$folder failed (above are its last lines)" \
            "containers must reach the configured Debian mirror: check DNS and proxy settings of the engine"
    }
    rm -f "$log"
}

ensure() {
    local image="$1" made_by="$2" digest there began=$SECONDS
    digest="$(recipe_digest "$made_by")"
    # Empty: not here. "real": pulled. Else the digest of the recipe that made the stand-in.
    there="$(docker image inspect --format \
        '{{with .Config.Labels}}{{with index . "dev.sidestack.stand-in.recipe"}}{{.}}{{else}}real{{end}}{{else}}real{{end}}' \
        "$image" 2>/dev/null || :)"
    if [ "$there" = real ] || { [ "$there" = "$digest" ] && [ "$replace" = no ]; }; then return 0; fi
    if [ -z "$there" ] || [ "$replace" = yes ]; then
        if pull "$image"; then
            say "$image: pulled ($((SECONDS - began)) s)"
            return 0
        fi
        [ "$there" != "$digest" ] || return 0
    fi
    say "$image: making a stand-in"
    case "$made_by" in
        */) make_from_dockerfile "$image" "$digest" "${made_by%/}" ;;
        *) "make_$made_by" "$image" "$digest" ;;
    esac
    say "$image: made ($((SECONDS - began)) s)"
}

main() {
    local wanted=() image made_by
    while [ $# -gt 0 ]; do
        case "$1" in
            --pull) replace=yes ;;
            -*) die "unknown option \`$1\`" "usage: scripts/images.sh [--pull] [IMAGE…]" ;;
            *) wanted+=("$1") ;;
        esac
        shift
    done
    have docker || die "no \`docker\` here" "scripts/setup.sh prepares the machine"
    timeout 15 docker version >/dev/null 2>&1 || die "the Docker Engine does not answer" "scripts/setup.sh tells why"
    # Two runs at once would make everything twice.
    exec 9>"${TMPDIR:-/tmp}/sidestack-images-$(id -u).lock"
    flock 9
    while read -r image made_by; do
        case "$image" in '' | '#'*) continue ;; esac
        if [ "${#wanted[@]}" -gt 0 ] && [[ " ${wanted[*]} " != *" $image "* ]]; then continue; fi
        ensure "$image" "$made_by"
    done <"$REPO/images/images.txt"
}

main "$@"
