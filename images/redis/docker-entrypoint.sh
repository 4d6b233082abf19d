#!/bin/sh
# Start-up of the Redis stand-in, written from the documented behaviour of the official image.
set -e

# `docker run redis:7 --appendonly yes` and `docker run redis:7 my.conf` mean the server.
if [ "${1#-}" != "$1" ] || [ "${1%.conf}" != "$1" ]; then
    set -- redis-server "$@"
fi

if [ "$1" = redis-server ]; then
    # Reachable from other containers: the network's isolation stands in for protected mode,
    # unless the caller says otherwise.
    configured=
    for arg; do
        case "$arg" in --protected-mode | --bind | --requirepass | *.conf) configured=1 ;; esac
    done
    if [ -z "$configured" ]; then set -- "$@" --protected-mode no; fi
    if [ "$(id -u)" = 0 ]; then
        find . \! -user redis -exec chown redis '{}' +
        exec setpriv --reuid=redis --regid=redis --init-groups "$0" "$@"
    fi
fi

if [ "$(umask)" = 0022 ]; then umask 0077; fi

exec "$@"
