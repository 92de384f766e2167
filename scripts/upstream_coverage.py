"""Measures how much of upstream's allocator the random cases of the tests reach, statement by statement.

    upstream_coverage.py [--unreached] [--write]

The reference programs are built with Go's coverage, answer cases of the generator that the tests compare with, and tell
which statements ran.
Prints a table; --unreached adds every block that did not run, --write puts the table into docs/conformance.md. A package
must reach 90 %, or unreachable.json beside this file must say of every block that did not run why it cannot. Needs Go.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.unit.allocator.generator import Generator  # noqa: E402
from tests.unit.allocator.test_against_reference import PROGRAMS  # noqa: E402

ENOUGH_PERCENT = 90.0
CASES = {"1.37": 2000, "1.36": 2000, "1.35": 8000, "1.34": 16000}
PLACE = ROOT / ".cache" / "coverage"
PAGE = ROOT / "docs" / "conformance.md"
PACKAGES = ("stable", "incubating", "experimental")
MODULE = "k8s.io/dynamic-resource-allocation"
BLOCK = re.compile(rf"{MODULE}/structured/internal/(\w+)/(\S+):(\d+)\.\d+,(\d+)\.\d+ (\d+) (\d+)")
FUNCTION = re.compile(r"func (?:\([^)]*\) )?(\w+)")


@dataclass(frozen=True, slots=True)
class Block:
    """Statements that did not run: where, how many, in which function, and how the first lines read."""

    file: str
    line: int
    statements: int
    function: str
    text: str


@dataclass(slots=True)
class Package:
    """What is counted of one package of one minor."""

    minor: str
    name: str
    statements: int = 0
    reached: int = 0
    blocks: list[Block] = field(default_factory=list)

    @property
    def percent(self) -> float:
        return 100 * self.reached / self.statements


def build() -> None:
    """The reference programs with coverage of upstream's allocator, built where they are older than their sources."""
    covered = ",".join(
        ("oracle", *(f"oracle{minor.removeprefix('1.')}" for minor in PROGRAMS), f"{MODULE}/structured/...")
    )
    command = ["bash", str(ROOT / "scripts" / "build_oracles.sh"), str(PLACE), "-cover", f"-coverpkg={covered}"]
    subprocess.run(command, check=True, env={**os.environ, "ONLY": "allocator"}, stderr=subprocess.DEVNULL)


def run(minor: str) -> list[Package]:
    """The cases of the tests, answered by the program of `minor` while it counts."""
    program = PLACE / PROGRAMS[minor].replace("/", "-")
    if not program.exists():
        sys.exit("no Go on this machine: nothing can be measured")
    data = PLACE / f"data-{minor}"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    generator = Generator(1, minor)
    cases = (generator.case(number) for number in range(CASES[minor]))
    lines = "".join(json.dumps({**case, "timeoutMillis": 1000}) + "\n" for case in cases)
    environment = {**os.environ, "GOCOVERDIR": str(data)}
    subprocess.run([program], input=lines, text=True, check=True, stdout=subprocess.DEVNULL, env=environment)
    text = PLACE / f"data-{minor}.txt"
    subprocess.run(["go", "tool", "covdata", "textfmt", f"-i={data}", f"-o={text}"], check=True)
    return counted(minor, text.read_text())


def counted(minor: str, profile: str) -> list[Package]:
    packages = {name: Package(minor, name) for name in PACKAGES}
    for match in BLOCK.finditer(profile):
        name, file, first, _, statements, count = match.groups()
        if name not in packages:
            continue
        package = packages[name]
        package.statements += int(statements)
        package.reached += int(statements) * (int(count) > 0)
        if count == "0":
            package.blocks.append(_block(minor, name, file, int(first), int(statements)))
    return list(packages.values())


@cache
def _source(minor: str, package: str, file: str) -> list[str]:
    """The lines of a file of upstream's allocator in the version that the program of `minor` is built on."""
    asked = ["go", "list", "-m", "-f", "{{.Dir}}", f"-modfile={_module_file(minor)}", MODULE]
    place = ROOT / "tests" / "oracles" / "allocator"
    found = subprocess.run(asked, check=True, capture_output=True, text=True, cwd=place).stdout.strip()
    return (Path(found) / "structured" / "internal" / package / file).read_text().splitlines()


def _block(minor: str, package: str, file: str, line: int, statements: int) -> Block:
    lines = _source(minor, package, file)
    above = (FUNCTION.match(text) for text in reversed(lines[:line]))
    function = next((found[1] for found in above if found), "")
    return Block(file, line, statements, function, " ".join(text.strip() for text in lines[line - 1 : line + 2]))


def _module_file(minor: str) -> Path:
    _, _, version = PROGRAMS[minor].partition("/")
    return ROOT / "tests" / "oracles" / "allocator" / f"{version or 'go'}.mod"


def explained(packages: list[Package]) -> tuple[list[str], dict[tuple[str, str], dict[str, int]]]:
    """What is wrong, and for each package below the mark how many statements each reason accounts for."""
    rules = json.loads((Path(__file__).parent / "unreachable.json").read_text())
    used, wrong = set(), []
    reasons: dict[tuple[str, str], dict[str, int]] = {}
    for package in packages:
        if package.percent >= ENOUGH_PERCENT:
            continue
        counts: dict[str, int] = defaultdict(int)
        for block in package.blocks:
            number = next((n for n, rule in enumerate(rules) if _applies(rule, block, package.minor)), None)
            if number is None:
                wrong.append(f"{package.minor} {package.name} {block.file}:{block.line} has no reason: {block.text}")
                continue
            used.add(number)
            counts[rules[number]["why"]] += block.statements
        reasons[package.minor, package.name] = dict(counts)
    wrong += [f"no block needs the reason {rule}" for number, rule in enumerate(rules) if number not in used]
    return wrong, reasons


def _applies(rule: dict[str, Any], block: Block, minor: str) -> bool:
    if block.function in rule.get("functions", ()) or any(text in block.text for text in rule.get("texts", ())):
        return True
    return block.line in rule.get("lines", {}).get(f"{minor} {block.file}", ())


def table(packages: list[Package], reasons: dict[tuple[str, str], dict[str, int]]) -> str:
    lines = ["| minor | cases | stable | incubating | experimental |", "|---|---|---|---|---|"]
    for minor in PROGRAMS:
        cells = [f"{one.percent:.0f} % of {one.statements}" for one in packages if one.minor == minor]
        lines.append(f"| {minor} | {CASES[minor]} | {' | '.join(cells)} |")
    for (minor, name), counts in reasons.items():
        said = "; ".join(f"{count} {why}" for why, count in sorted(counts.items(), key=lambda one: -one[1]))
        lines += ["", f"What {minor}'s {name} does not reach: {said}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--unreached", action="store_true", help="also print every block that did not run")
    parser.add_argument("--write", action="store_true", help="put the table into docs/conformance.md")
    options = parser.parse_args()
    build()
    packages = [package for minor in PROGRAMS for package in run(minor)]
    wrong, reasons = explained(packages)
    for package in packages if options.unreached else ():
        for block in package.blocks:
            print(f"{package.minor} {package.name}/{block.file}:{block.line} {block.function}: {block.text[:150]}")
    shown = table(packages, reasons)
    print(shown)
    if options.write:
        before, start, rest = PAGE.read_text().partition("<!-- coverage -->\n")
        _, end, after = rest.partition("<!-- end of coverage -->\n")
        PAGE.write_text(f"{before}{start}{shown}{end}{after}")
    print(*wrong, sep="\n", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
