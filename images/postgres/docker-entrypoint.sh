#!/usr/bin/env bash
# Start-up of the PostgreSQL stand-in, written from the documented behaviour of the official
# image: the first start makes the cluster, with a temporary server that only listens on the
# Unix socket, so that nobody reaches the database over TCP before it is complete.
set -Eeuo pipefail

INIT_DIR=/docker-entrypoint-initdb.d

# file_env NAME [DEFAULT]: NAME from itself or from the file that NAME_FILE names, never both.
file_env() {
    local name="$1" file_name="${1}_FILE" value="${2:-}"
    if [ -n "${!name:-}" ] && [ -n "${!file_name:-}" ]; then
        echo >&2 "error: both $name and $file_name are set (but are exclusive)"
        exit 1
    fi
    if [ -n "${!name:-}" ]; then
        value="${!name}"
    elif [ -n "${!file_name:-}" ]; then
        value="$(<"${!file_name}")"
    fi
    export "$name"="$value"
    unset "$file_name"
}

# True for flags that make the server print something and leave.
asks_only_for_help() {
    local arg
    for arg; do
        case "$arg" in -'?' | --help | --describe-config | -V | --version) return 0 ;; esac
    done
    return 1
}

prepare_directories() {
    local user
    user="$(id -u)"
    mkdir -p "$PGDATA"
    chmod 00700 "$PGDATA" || :
    mkdir -p /var/run/postgresql || :
    chmod 03775 /var/run/postgresql || :
    if [ -n "${POSTGRES_INITDB_WALDIR:-}" ]; then
        mkdir -p "$POSTGRES_INITDB_WALDIR"
        [ "$user" -ne 0 ] || find "$POSTGRES_INITDB_WALDIR" \! -user postgres -exec chown postgres '{}' +
        chmod 700 "$POSTGRES_INITDB_WALDIR"
    fi
    if [ "$user" -eq 0 ]; then
        find "$PGDATA" \! -user postgres -exec chown postgres '{}' +
        find /var/run/postgresql \! -user postgres -exec chown postgres '{}' +
    fi
}

refuse_no_password() {
    if [ -z "$POSTGRES_PASSWORD" ] && [ "$POSTGRES_HOST_AUTH_METHOD" != trust ]; then
        cat >&2 <<-'MESSAGE'
		Error: Database is uninitialized and superuser password is not specified.
		       You must specify POSTGRES_PASSWORD to a non-empty value for the
		       superuser. For example, "-e POSTGRES_PASSWORD=password" on "docker run".

		       You may also use "POSTGRES_HOST_AUTH_METHOD=trust" to allow all
		       connections without a password. This is *not* recommended.
		MESSAGE
        exit 1
    fi
}

make_cluster() {
    local args=(--username="$POSTGRES_USER")
    if [ -n "${POSTGRES_INITDB_WALDIR:-}" ]; then args+=(--waldir "$POSTGRES_INITDB_WALDIR"); fi
    # The variable holds shell words ("--data-checksums --locale=C"), as documented. The
    # password goes through a pipe, so that it stands in no argument list and in no file; an
    # empty one (only with `trust`) is not given at all, because initdb refuses it.
    if [ -n "$POSTGRES_PASSWORD" ]; then
        eval 'initdb "${args[@]}" --pwfile=<(printf "%s\n" "$POSTGRES_PASSWORD") '"${POSTGRES_INITDB_ARGS:-}"
    else
        eval 'initdb "${args[@]}" '"${POSTGRES_INITDB_ARGS:-}"
    fi
}

write_hba() {
    local method="$POSTGRES_HOST_AUTH_METHOD"
    if [ "$1" = postgres ]; then shift; fi
    if [ -z "$method" ]; then method="$(postgres -C password_encryption "$@")"; fi
    {
        printf '\n'
        if [ "$method" = trust ]; then printf '# warning: trust is enabled for all connections\n'; fi
        printf 'host all all all %s\n' "$method"
    } >>"$PGDATA/pg_hba.conf"
}

sql() { # sql [--dbname NAME] ARG…, over the socket, stopping at the first error
    local query=(psql -v ON_ERROR_STOP=1 --no-psqlrc --username "$POSTGRES_USER" --no-password)
    if [ "${1:-}" = --dbname ]; then query+=(--dbname "$2"); shift 2; else query+=(--dbname "$POSTGRES_DB"); fi
    PGHOST='' PGHOSTADDR='' "${query[@]}" "$@"
}

start_temporary_server() {
    if [ "$1" = postgres ]; then shift; fi
    # Only the socket, so that a client over TCP cannot take this for the real server.
    NOTIFY_SOCKET='' PGUSER="${PGUSER:-$POSTGRES_USER}" pg_ctl -D "$PGDATA" \
        -o "$(printf '%q ' "$@" -c listen_addresses='' -p "${PGPORT:-5432}")" -w start
}

make_database() {
    local known
    known="$(sql --dbname postgres --set db="$POSTGRES_DB" --tuples-only --no-align <<<"SELECT 1 FROM pg_database WHERE datname = :'db'")"
    if [ -z "$known" ]; then
        sql --dbname postgres --set db="$POSTGRES_DB" <<<'CREATE DATABASE :"db"'
    fi
}

run_init_files() {
    local file
    for file in "$INIT_DIR"/*; do
        case "$file" in
            "$INIT_DIR/*") ;;
            *.sh)
                if [ -x "$file" ]; then
                    echo "$0: running $file"
                    "$file"
                else
                    echo "$0: sourcing $file"
                    # shellcheck disable=SC1090
                    . "$file"
                fi
                ;;
            *.sql) echo "$0: running $file"; sql -f "$file" ;;
            *.sql.gz) echo "$0: running $file"; gunzip -c "$file" | sql ;;
            *.sql.xz) echo "$0: running $file"; xzcat "$file" | sql ;;
            *.sql.zst) echo "$0: running $file"; zstd -dc "$file" | sql ;;
            *) echo "$0: ignoring $file" ;;
        esac
    done
}

if [ "${1:0:1}" = - ]; then set -- postgres "$@"; fi

if [ "$1" = postgres ] && ! asks_only_for_help "$@"; then
    prepare_directories
    if [ "$(id -u)" -eq 0 ]; then
        exec setpriv --reuid=postgres --regid=postgres --init-groups \
            env HOME=/var/lib/postgresql "${BASH_SOURCE[0]}" "$@"
    fi
    if [ -s "$PGDATA/PG_VERSION" ]; then
        echo
        echo 'PostgreSQL Database directory appears to contain a database; Skipping initialization'
        echo
    else
        file_env POSTGRES_PASSWORD
        file_env POSTGRES_USER postgres
        file_env POSTGRES_DB "$POSTGRES_USER"
        file_env POSTGRES_INITDB_ARGS
        : "${POSTGRES_HOST_AUTH_METHOD:=}"
        refuse_no_password
        ls "$INIT_DIR/" >/dev/null
        make_cluster
        write_hba "$@"
        # Init scripts call psql without a password, as on the official image.
        export PGPASSWORD="${PGPASSWORD:-$POSTGRES_PASSWORD}"
        start_temporary_server "$@"
        make_database
        run_init_files
        pg_ctl -D "$PGDATA" -m fast -w stop
        unset PGPASSWORD
        echo
        echo 'PostgreSQL init process complete; ready for start up.'
        echo
    fi
fi

exec "$@"
