#!/usr/bin/env python3
"""Runs commands and draws what they really printed as an animated SVG, a terminal with a scroll.

    scripts/recording.py OUT.svg [--cwd DIR] [--title TEXT] COMMAND…

Each COMMAND is a line for `sh -c`, shown behind a `$`. A command that begins with `:` is run and
not shown (`:sed -i …`); one that begins with `#` is only shown. Lines appear at the pace at which
they came, long waits shortened. Standard library only. No colours: the programs see no terminal.
"""

import argparse
import html
import subprocess
import sys
import time

WIDTH = 108
ROWS = 30
CHAR = 7.8
LINE = 18
PAD = 14
BAR = 30
# Seconds.
LONGEST_WAIT = 1.2
TYPING = 0.9
END = 6.0


def run(command, cwd):
    """The lines of a command with the seconds since its start at which they came."""
    began = time.monotonic()
    child = subprocess.Popen(["sh", "-c", command], cwd=cwd, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = [(time.monotonic() - began, raw.decode("utf-8", "replace").rstrip("\n"))
             for raw in child.stdout]
    if child.wait() != 0:
        sys.exit(f"recording: `{command}` ended with {child.returncode}: {lines[-1:]}")
    return lines


def record(commands, cwd):
    """All lines as (seconds from the start of the recording, text, is it typed)."""
    now, shown = 0.4, []
    for command in commands:
        if command.startswith(":"):
            run(command[1:], cwd)
            continue
        if command.startswith("#"):
            shown.append((now, command, True))
            now += TYPING
            continue
        shown.append((now, "$ " + command, True))
        now, before = now + TYPING, 0.0
        for at, text in run(command, cwd):
            now += min(at - before, LONGEST_WAIT)
            before = at
            shown.append((now, text if len(text) <= WIDTH else text[: WIDTH - 1] + "…", False))
        now += TYPING
        shown.append((now, "", False))
    return shown, now + END


def draw(shown, total, title):
    """The SVG: every line is there, becomes visible at its time, and the whole scrolls."""
    width = int(WIDTH * CHAR + 2 * PAD)
    height = BAR + ROWS * LINE + 2 * PAD
    share = lambda at: f"{at / total * 100:.2f}%"
    css = ["text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}",
           ".p{fill:#8fbcbb;font-weight:600}", ".r{fill:#a3be8c}", ".t{fill:#7b8494}"]
    body, scroll = [], ["0%{transform:translateY(0)}"]
    top = 0
    for number, (at, text, typed) in enumerate(shown):
        css.append(f"@keyframes l{number}{{0%,{share(max(at - 0.01, 0))}{{opacity:0}}{share(at)},100%{{opacity:1}}}}"
                   f".l{number}{{animation:l{number} {total:.1f}s step-end infinite}}")
        kind = "p" if typed else "r" if ": ready (" in text else ""
        if text:
            body.append(f'<text class="{kind} l{number}" x="{PAD}" y="{BAR + PAD + (number + 1) * LINE - 5}" '
                        f'xml:space="preserve">{html.escape(text)}</text>')
        wanted = max(0, number + 1 - ROWS)
        if wanted != top:
            scroll.append(f"{share(max(at - 0.01, 0))}{{transform:translateY(-{top * LINE}px)}}")
            scroll.append(f"{share(at)}{{transform:translateY(-{wanted * LINE}px)}}")
            top = wanted
    scroll.append(f"100%{{transform:translateY(-{top * LINE}px)}}")
    css.append(f"@keyframes s{{{''.join(scroll)}}}.s{{animation:s {total:.1f}s step-end infinite}}")
    # Whoever wants no motion gets the end of it.
    css.append(f"@media (prefers-reduced-motion:reduce){{text{{animation:none!important}}"
               f".s{{animation:none;transform:translateY(-{top * LINE}px)}}}}")
    dots = "".join(f'<circle cx="{18 + 18 * n}" cy="15" r="5" fill="{c}"/>'
                   for n, c in enumerate(("#bf616a", "#ebcb8b", "#a3be8c")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img"><title>{html.escape(title)}</title><style>{"".join(css)}</style>'
            f'<rect width="{width}" height="{height}" rx="8" fill="#20242c"/>{dots}'
            f'<text class="t" x="{width // 2}" y="19" text-anchor="middle">{html.escape(title)}</text>'
            f'<clipPath id="c"><rect y="{BAR}" width="{width}" height="{height - BAR - 4}"/></clipPath>'
            f'<g clip-path="url(#c)"><g class="s">{"".join(body)}</g></g></svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--cwd")
    parser.add_argument("--title", default="sidestack")
    parser.add_argument("commands", nargs="+", metavar="COMMAND")
    args = parser.parse_args()
    shown, total = record(args.commands, args.cwd)
    with open(args.out, "w", encoding="utf-8") as out:
        out.write(draw(shown, total, args.title))
    for _, text, _ in shown:
        print(text)


if __name__ == "__main__":
    main()
