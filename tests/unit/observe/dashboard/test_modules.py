"""The page's own modules, where there is a program that runs them: they apply deltas as the server means them, and move
the mark over every device."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support import missing

import regauge.observe.dashboard as dashboard
from regauge.observe.dashboard import applied, delta_between

STATIC = Path(dashboard.__file__).with_name("static")


def run(script: str, given: Any, tmp_path: Path) -> Any:
    """What a script answers, to which the page's modules are `page/NAME.js`."""
    node = shutil.which("node")
    if node is None:
        missing("node")
    shutil.copytree(STATIC, tmp_path / "page")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "main.js").write_text(
        f'import {{ readFileSync }} from "node:fs";\nconst given = JSON.parse(readFileSync(0));\n{script}'
    )
    told = subprocess.run(
        [node, "main.js"], input=json.dumps(given).encode(), capture_output=True, cwd=tmp_path, timeout=60, check=False
    )
    assert told.returncode == 0, told.stderr.decode()
    return json.loads(told.stdout)


def random_tables(chance: random.Random) -> dict[str, dict[str, dict[str, str]]]:
    return {
        table: {key: {"state": chance.choice(["free", "held"])} for key in "abcdefg" if chance.random() < 0.5}
        for table in ("devices", "nodes", "waiting")
        if chance.random() < 0.8
    }


def test_the_page_applies_deltas_as_the_server_does(tmp_path: Path) -> None:
    chance = random.Random(7)
    pairs = [(random_tables(chance), random_tables(chance)) for _ in range(300)]
    deltas = [delta_between(old, new) for old, new in pairs]
    given = [
        {"old": old, "delta": {"put": delta.put, "gone": delta.gone}}
        for (old, _), delta in zip(pairs, deltas, strict=True)
    ]
    script = """
import { apply } from "./page/store.js";
const maps = (tables) => new Map(Object.entries(tables).map(([name, rows]) => [name, new Map(Object.entries(rows))]));
const plain = (tables) => Object.fromEntries([...tables].map(([name, rows]) => [name, Object.fromEntries(rows)]));
console.log(JSON.stringify(given.map(({ old, delta }) => {
  const tables = maps(old);
  const touched = apply(tables, delta);
  return [plain(tables), Object.fromEntries(Object.entries(touched).map(([name, ids]) => [name, [...ids].sort()]))];
})));
"""
    for (old, new), delta, (tables, touched) in zip(pairs, deltas, run(script, given, tmp_path), strict=True):
        assert {name: rows for name, rows in tables.items() if rows} == applied(old, delta)
        assert applied(old, delta) == {name: rows for name, rows in new.items() if rows}
        for name in delta.put.keys() | delta.gone.keys():
            assert set(touched[name]) == set(delta.put.get(name, ())) | set(delta.gone.get(name, ()))


MOVES = """
import { SIZES, arranged, cornerOf, hit, moved, structured } from "./page/layout.js";
const devices = new Map(Object.entries(given.devices));
const nodes = new Map(Object.entries(given.nodes));
const found = new Set(given.found);
const answers = [];
for (const by of ["pool", "source", "devicePool", "none"]) for (const size of Object.values(SIZES)) {
  const layout = arranged(structured(devices, nodes, by), found, given.width, size);
  const reached = {};
  for (const keys of [["ArrowRight"], ["ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft"]]) {
    const seen = new Set([layout.order[0]]);
    for (const id of seen) for (const key of keys) seen.add(moved(layout, id, key, 300));
    reached[keys.length] = seen.size;
  }
  const missed = layout.order.filter((id) => {
    const corner = cornerOf(layout, id);
    return hit(layout, corner.x + size.cell / 2, corner.y + size.cell / 2)?.id !== id;
  });
  const corners = new Set(layout.order.map((id) => { const c = cornerOf(layout, id); return `${c.x} ${c.y}`; }));
  const wide = Math.max(...layout.order.map((id) => cornerOf(layout, id).x + size.cell));
  answers.push({ order: layout.order.length, reached, missed, corners: corners.size, wide, height: layout.height });
}
console.log(JSON.stringify(answers));
"""


@pytest.mark.parametrize("width", [300, 1000])
def test_every_device_has_a_place_of_its_own_and_the_arrows_go_to_all_of_them(tmp_path: Path, width: int) -> None:
    chance = random.Random(width)
    nodes = {f"n{number}": {"pool": f"pool-{number % 3}"} for number in range(40)}
    devices = {
        f"{source}/{name}/{number}": {"node": name, "source": source}
        for name in nodes
        for source in chance.sample(["gpu", "nic", "fpga"], chance.randint(1, 2))
        for number in range(chance.randint(1, 11))
    }
    found = [name for name in devices if chance.random() < 0.8]
    for answer in run(MOVES, {"devices": devices, "nodes": nodes, "found": found, "width": width}, tmp_path):
        assert answer["order"] == answer["corners"] == len(found)
        assert answer["reached"] == {"1": len(found), "4": len(found)}
        assert answer["missed"] == []
        assert answer["wide"] <= width
