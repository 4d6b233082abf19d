"""A shop front of one page: which revision serves it, its variables, and a counter in each store.

    GET /        the page, as text (as HTML for a browser)
    GET /status  the same as JSON
    GET /health  200 when both stores answer, else 503
    /hit         (GET or POST) counts one up in both stores; /hit?by=7 counts seven up
"""

import html
import json
import os
import signal
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import psycopg2
import redis

PORT = 8080


def sql(*statements):
    """Runs the statements in one transaction on a connection of their own; the last one's value."""
    connection = psycopg2.connect(os.environ["DATABASE_URL"], connect_timeout=3)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS hits (id int PRIMARY KEY, n bigint NOT NULL)")
            cursor.execute("INSERT INTO hits VALUES (1, 0) ON CONFLICT DO NOTHING")
            for text, values in statements:
                cursor.execute(text, values)
            return cursor.fetchone()[0]
    finally:
        connection.close()


def cache():
    return redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=3)


def status():
    count = sql(("SELECT n FROM hits WHERE id = 1", ()))
    connections = sql(("SHOW max_connections", ()))
    return {
        "title": os.environ.get("PAGE_TITLE", ""),
        "text": os.environ.get("PAGE_TEXT", ""),
        "revision": os.environ.get("SIDESTACK_REVISION", ""),
        "log_level": os.environ.get("LOG_LEVEL", ""),
        "postgres_hits": count,
        "redis_hits": int(cache().get("hits") or 0),
        "postgres_max_connections": int(connections),
    }


def hit(by):
    sql(("UPDATE hits SET n = n + %s WHERE id = 1 RETURNING n", (by,)))
    cache().incrby("hits", by)


def page(facts, as_html):
    lines = [
        facts["title"],
        facts["text"],
        f"revision {facts['revision'] or 'unknown'}, log level {facts['log_level']}",
        f"PostgreSQL has counted {facts['postgres_hits']} (at most {facts['postgres_max_connections']} connections)",
        f"Redis has counted {facts['redis_hits']}",
    ]
    if not as_html:
        return "\n".join(lines) + "\n"
    first, *rest = (html.escape(line) for line in lines)
    body = "".join(f"<p>{line}</p>" for line in rest)
    return (
        f"<!doctype html><meta charset=utf-8><title>{first}</title><h1>{first}</h1>{body}"
        '<form method=post action="/hit"><button>Count one up</button></form>\n'
    )


class Handler(BaseHTTPRequestHandler):
    def answer(self, code, text, kind="text/plain"):
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        url = urlsplit(self.path)
        as_html = "text/html" in self.headers.get("Accept", "")
        try:
            if url.path == "/hit":
                hit(int(parse_qs(url.query).get("by", ["1"])[0]))
            elif url.path == "/health":
                status()
                return self.answer(200, "ok\n")
            elif url.path == "/status":
                return self.answer(200, json.dumps(status()) + "\n", "application/json")
            elif url.path != "/":
                return self.answer(404, "no such page\n")
            self.answer(200, page(status(), as_html), "text/html" if as_html else "text/plain")
        except ValueError:
            self.answer(400, "`by` is not a number\n")
        except (psycopg2.Error, redis.RedisError, KeyError) as error:
            # The class says enough here; a message could hold a connection string.
            self.answer(503, f"a store does not answer: {type(error).__name__}\n")

    do_POST = do_GET

    def log_message(self, format, *args):
        if os.environ.get("LOG_LEVEL") == "debug":
            super().log_message(format, *args)


def check():
    """The container's own health command: exits 0 when the page's stores answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=2) as answer:
            return 0 if answer.status == 200 else 1
    except OSError as error:
        print(error)
        return 1


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        sys.exit(check())
    # As process 1, Python would ignore TERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"serving on port {PORT}")
    ThreadingHTTPServer(("0.0.0.0", PORT), Handler).serve_forever()
