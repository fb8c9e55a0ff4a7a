#!/usr/bin/env python3
"""Makes the pictures of docs/images out of what the commands really print.

    pictures.py page PAGE.html OUT.svg HEADING...   charts of a report, of a sweep's or of a suite's page
    pictures.py top OUT.svg COMMAND...              the last screen of COMMAND, such as: weir top dev eth0 -n 12
    pictures.py hunts WEIR FOLDER                   FOLDER/hunt-NAME.svg: what hunts have found, run by the command WEIR

`page` takes the charts as the page has them, with their headings and legends. `top` gives COMMAND a terminal of 120 x
16 characters, and needs the Python package pyte, which knows what a terminal does with what it is sent. `hunts` puts each
scenario of examples/hunts/found beside the same without what it is laid to.
"""

import html
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SANS = "system-ui, -apple-system, 'Segoe UI', sans-serif"
MONO = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
INK, MUTED = "#1f2933", "#5b6470"


def words(piece):
    """What a piece of a page says, without its elements."""
    return html.unescape(re.sub(r"<[^>]+>", "", piece)).strip()


def label(x, y, size, colour, text, weight=400):
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}">{html.escape(text)}</text>'
    )


def write(out, width, height, font, ground, parts):
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="{font}">'
    )
    back = f'<rect width="{width}" height="{height}" rx="8" fill="{ground}"/>'
    Path(out).write_text("\n".join([head, back, *parts, "</svg>", ""]), encoding="utf-8")


def page(name, out, wanted):
    """The charts of the sections with these headings, two beside each other, or three where only that fills the rows."""
    text = Path(name).read_text(encoding="utf-8")
    sections = {words(h): rest for h, rest in re.findall(r"<section><h2>(.*?)</h2>(.*?)</section>", text, re.S)}
    whole, gap, parts, y = 1192, 24, [], 34
    for heading in wanted:
        if heading not in sections:
            sys.exit(f"{name} has no section {heading!r}, but {', '.join(map(repr, sections))}")
        section = sections[heading]
        note = words(re.search(r'<p class="note">(.*?)</p>', section, re.S).group(1))
        # There is nothing to hover over in a picture.
        note = re.sub(r" Hover [^.]*\.", "", note)
        parts.append(label(gap, y, 19, INK, heading, 600))
        parts.append(label(gap, y + 21, 13, MUTED, note))
        x, y = gap, y + 43
        legend = re.search(r'<ul class="legend">(.*?)</ul>', section, re.S)
        for item in re.findall(r"<li>(.*?)</li>", legend.group(1) if legend else "", re.S):
            if x + 8 * len(words(item)) + 17 > whole:
                x, y = gap, y + 20
            colour = re.search(r'fill="(#\w+)"', item)
            if colour:
                parts.append(f'<rect x="{x}" y="{y - 10}" width="11" height="11" rx="2" fill="{colour.group(1)}"/>')
                x += 17
            parts.append(label(x, y, 13, INK, words(item)))
            x += 8 * len(words(item)) + 16
        y += 29
        charts = re.findall(r"(?:<figcaption>([^<]*)</figcaption>\s*)?(<svg[^>]* xmlns=.*?</svg>)", section, re.S)
        columns = 3 if len(charts) % 6 == 3 else 2
        width = (whole - (columns + 1) * gap) // columns
        for first in range(0, len(charts), columns):
            below = 0
            for column, (caption, chart) in enumerate(charts[first : first + columns]):
                left = gap + column * (width + gap)
                box = re.search(r'viewBox="(0 0 ([\d.]+) ([\d.]+))"', chart)
                height = round(width * float(box.group(3)) / float(box.group(2)))
                inner = re.sub(r'<g class="hover".*?</g>|<title>.*?</title>|^<svg[^>]*>|</svg>$', "", chart, flags=re.S)
                # Coordinates, and not what stands at the axes.
                inner = re.sub(r'="[^"]*"', lambda it: re.sub(r"(\d+\.\d)\d+", r"\1", it.group()), inner)
                caption = words(caption)
                if 8 * len(caption) > width:
                    caption = caption.removeprefix(f"{heading}: ")
                parts.append(label(left, y, 14, INK, caption, 600))
                # How the chart's text stands, where that is said once for all of it.
                root = re.match(r"<svg[^>]*>", chart).group()
                style = "".join(re.findall(r' (?:font-size|text-anchor)="[^"]*"', root))
                frame = f'x="{left}" y="{y + 6}" width="{width}" height="{height}" viewBox="{box.group(1)}"'
                parts += [f"<svg {frame}{style}>", inner + "</svg>"]
                below = max(below, height)
            y += below + 36
        y += 14
    write(out, whole, y - 20, SANS, "#ffffff", parts)


GROUND = "#12161c"
COLOURS = {
    "default": "#d8dee6",
    "red": "#ff7b72",
    "brown": "#e3b341",
    "magenta": "#d2a8ff",
    "cyan": "#56d4dd",
    "brightblack": "#7d8794",
}


def screen(command, columns, rows):
    """What stands on a terminal when COMMAND has drawn last, before it cleans up: its cells."""
    import fcntl
    import termios

    import pyte

    child, master = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm", COLUMNS=str(columns), LINES=str(rows))
        os.execvp(command[0], command)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    shown = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(shown)
    drawn = None
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if b"\x1b[6n" in data:
            # The terminal is asked where its cursor stands.
            os.write(master, b"\x1b[1;1R")
        # Leaving the other screen takes away what is wanted here.
        stream.feed(data.split(b"\x1b[?1049l")[0])
        if any(line.strip() for line in shown.display):
            drawn = [[shown.buffer[row][column] for column in range(columns)] for row in range(rows)]
        if not data or b"\x1b[?1049l" in data:
            break
    os.waitpid(child, 0)
    return drawn


def top(out, command):
    """A terminal's screen with its colours."""
    columns, rows, step, line, pad = 120, 16, 8.43, 19, 16
    parts = []
    for row, cells in enumerate(screen(command, columns, rows)):
        looks = [(cell.fg, cell.bold, cell.reverse) for cell in cells]
        start = 0
        while start < columns:
            end = next((i for i in range(start, columns) if looks[i] != looks[start]), columns)
            colour, bold, reverse = looks[start]
            fill = COLOURS.get(colour, colour if colour.startswith("#") else "#" + colour)
            x, y = pad + start * step, pad + row * line
            if reverse:
                fill = GROUND
                wide = (end - start) * step
                parts.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{line}" fill="{COLOURS["default"]}"/>'
                )
            # Each word at its place, so that columns stand whatever font a reader has.
            for word in re.finditer(r"\S+", "".join(cell.data for cell in cells[start:end])):
                at, wide = x + word.start() * step, len(word.group()) * step
                parts.append(
                    f'<text x="{at:.1f}" y="{y + 14}" fill="{fill}" font-weight="{700 if bold else 400}" '
                    f'textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs">{html.escape(word.group())}</text>'
                )
            start = end
    style = "<style>text { font-size: 14px }</style>"
    write(out, round(columns * step + 2 * pad), rows * line + 2 * pad, MONO, GROUND, [style, *parts])


# What is taken out of each scenario that was found (and what comes in its place), what is then left is called, and the
# chart that shows the difference. crates/weir-hunt/tests/found.rs holds that there is one.
RATES, VERDICTS = "Who gets the link?", "Who answers to congestion?"
FOUND = {
    "shrew-reno": (r'^bursts = ".*"\n', "", "the same UDP, evenly spread", RATES),
    "shrew-cubic": (r'^bursts = ".*"\n', "", "the same UDP, evenly spread", RATES),
    "bbr-starves": (r'"bbr1"', '"cubic"', "Cubic also in the flow called bbr", RATES),
    "law-confound": (r'"paper"', '"robust"', "judged by preset robust", VERDICTS),
    "law-honest": (r'^receive_window = ".*"\n', "", "without the receiver's window", VERDICTS),
    "trace": (r'"pcc-vivace"', '"cubic"', "Cubic on the same link", RATES),
}


def hunts(weir, folder):
    """A picture of each scenario that was found, with the other way on its left."""
    for name, (what, instead, called, chart) in FOUND.items():
        found = Path(__file__).parents[1] / "examples/hunts/found" / f"{name}.toml"
        text, changes = re.subn(what, instead, found.read_text(encoding="utf-8"), flags=re.M)
        if changes != 1:
            sys.exit(f"{found}: {what} is there {changes} times, not once")
        with tempfile.TemporaryDirectory() as made:
            other = Path(made) / "other.toml"
            other.write_text(text.replace(f'name = "{name}"', f'name = "{called}"', 1), encoding="utf-8")
            run = [weir, "run", other, found, "--on", "sim", "--out", f"{made}/out"]
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
            page(f"{made}/out/report.html", f"{folder}/hunt-{name}.svg", [chart])


if __name__ == "__main__":
    if len(sys.argv) > 4 and sys.argv[1] == "page":
        page(sys.argv[2], sys.argv[3], sys.argv[4:])
    elif len(sys.argv) > 3 and sys.argv[1] == "top":
        top(sys.argv[2], sys.argv[3:])
    elif len(sys.argv) == 4 and sys.argv[1] == "hunts":
        hunts(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)
