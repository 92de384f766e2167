"""Runs the benchmarks named on the command line, or all, and prints a table."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench


def main(names: list[str]) -> int:
    """0, or 2 when a name is not a benchmark."""
    known = sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    print(f"{'benchmark':<58}{'ours':>11}{'peer':>11}{'ratio':>8}")
    for name in names or known:
        for what, ours_s, peer_s in importlib.import_module(f"bench.{name}").run():
            peer = "-" if peer_s is None else f"{peer_s * 1000:.2f} ms"
            ratio = "-" if not peer_s else f"{ours_s / peer_s:.2f}"
            print(f"{name + ': ' + what:<58}{ours_s * 1000:>8.2f} ms{peer:>11}{ratio:>8}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
