"""What the benches of several processes have in common: where things are, how launchers are called, tables, and
charts of lines as SVG."""

import math
import os
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
PROGRAM = BUILD / "cli" / "lockstep"
LAUNCHERS = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.hydra"}
# As root, and with more ranks than cores: both are refused otherwise.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def environment():
    return os.environ | ENVIRONMENT


def progress(text):
    print(text, file=sys.stderr, flush=True)


def machine():
    """What the figures are of, as one line."""
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if "model name" in l), "?")
    return f"{os.cpu_count()} cores ({model}), load {os.getloadavg()[0]:.1f}"


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def spread(values, form=",.0f"):
    """Median, and from least to most."""
    return (format(statistics.median(values), form),
            f"{format(min(values), form)} - {format(max(values), form)}")


def size(count):
    """65536 -> 64 KiB"""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.4g} {unit}"
        count /= 1024


# Of the lines of a chart, in this order; and dashes where there are more.
COLOURS = ("#1b6ca8", "#d1495b", "#2a9d8f", "#e09f3e", "#6a4c93", "#5c677d")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 330, 62, 24, 46, 52


def _ticks(low, high, log):
    if log:
        low, high = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
        return [10.0 ** e for e in range(low, high + 1)]
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    step *= next(f for f in (1, 2, 5, 10) if (high - low) / (f * step) <= 6)
    return [round(i * step, 9) for i in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _panel(out, at, title, lines, axes):
    """One set of axes. Lines: {name: [(x, y, low, high)]}; low and high may be None."""
    points = [p for line in lines.values() for p in line]
    xs = sorted({p[0] for p in points})
    values = [v for p in points for v in p[1:] if v is not None] + list(axes.get("marks", {}).values())
    log, even = axes.get("log", False), axes.get("even", False)
    ticks = _ticks(min(values) if log else 0, max(values), log)
    low, high = (ticks[0], ticks[-1]) if log else (0, max(ticks[-1], max(values)) * 1.04)

    def across(x):
        share = x / xs[-1] if even else math.log(x / xs[0]) / (math.log(xs[-1] / xs[0]) or 1)
        return at + LEFT + (WIDTH - LEFT - RIGHT) * share

    def up(y):
        share = math.log(y / low) / math.log(high / low) if log else (y - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    left, right = at + LEFT, at + WIDTH - RIGHT
    out.append(f'<text x="{left}" y="22" font-weight="bold">{title}</text>')
    for y in ticks:
        out.append(f'<line x1="{left}" x2="{right}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for name, y in axes.get("marks", {}).items():
        out.append(f'<line x1="{left}" x2="{right}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#444" '
                   f'stroke-dasharray="2 3"/><text x="{right}" y="{up(y) - 4:.1f}" '
                   f'text-anchor="end" fill="#444" stroke="white" stroke-width="3" '
                   f'paint-order="stroke">{name}</text>')
    shown = _ticks(0, xs[-1], False) if even else xs[::2] if len(xs) > 9 else xs
    for x in shown:
        out.append(f'<text x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 16}" '
                   f'text-anchor="middle">{axes["name"](x)}</text>')
    out.append(f'<text x="{(left + right) / 2}" y="{HEIGHT - BOTTOM + 36}" '
               f'text-anchor="middle">{axes["x"]}</text>')
    out.append(f'<text transform="translate({at + 14} {(HEIGHT - BOTTOM + TOP) / 2}) rotate(-90)" '
               f'text-anchor="middle">{axes["y"]}</text>')
    for i, (name, line) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        for x, _, least, most in line:
            if least is not None:
                out.append(f'<line x1="{across(x):.1f}" x2="{across(x):.1f}" y1="{up(least):.1f}" '
                           f'y2="{up(most):.1f}" stroke="{colour}" stroke-opacity="0.45" stroke-width="3"/>')
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y, *_ in line)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        out += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.6" fill="{colour}"/>'
                for x, y, *_ in line]


def chart(path, panels, axes):
    """Panels: {title: lines}, all with the same names of lines; axes: x, y, name(x), log, even
    (x from 0 on, not by its logarithm), marks {name: y}."""
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    columns = 1 if len(panels) == 1 else 2
    width, height = WIDTH * len(panels), HEIGHT + 22 * -(-len(names) // columns)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, (title, lines) in enumerate(panels.items()):
        _panel(out, i * WIDTH, title, lines, axes)
    for i, name in enumerate(names):
        x, y = LEFT + i % columns * (width - LEFT) / 2, HEIGHT + 6 + 22 * (i // columns)
        out.append(f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" '
                   f'stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="3"/>'
                   f'<text x="{x + 30}" y="{y + 4}">{name}</text>')
    Path(path).write_text("\n".join(out) + "\n</svg>\n")
