"""Generated cases, answered by the reference program and by us at the same time."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.unit.cdi.comparing import ask_oracle, differences

HEAD = "cdiVersion: 1.1.0\nkind: v/c\n"
DEVICE = HEAD + "devices:\n- name: a\n  containerEdits: "
JSON = '{"cdiVersion":"1.1.0","kind":"v/c","devices":[{"name":"a","containerEdits":'

# Words, a bar for a space.
WORDS = r"""
~ null Null NULL nUll true True TRUE tRue false yes Yes y n on off OFF 0 1 -1 +5 007 08 09 0o17 0O17 0x1F 0X1f 0b101 0B1 -0x10
-0b1 +0o7 1_000 1__0 _1 0_7 1.0 10.5 -0.5 .5 5. . .. -.5 +.5e1 1e3 1E-2 1e1 1e400 .inf -.inf +.INF .nan 0000:00:01.0 12:30:45
2026-01-01 2026-01-01T00:00:00Z 4294967295 4294967296 9223372036854775807 9223372036854775808
-9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616 9223372036854775808.0 -1e30 1e30
0x 0b2 0o8 -- - -a +a 1a a_1 << = "1" '1' "true" 'yes' "" '' "~" "\x41" "\u00e9" "\t" é 1.5e3 0.0 -0 00 000 +0
1,5 "0x10" "\/" "a\\/b" !!str|5 !!int|5 !!int|"5" !!int|a !!float|5 !!float|5.5 !!bool|true !!bool|yes !!null|~ !!null|x
!!binary|QQ== !!binary|! !foo|5 !!timestamp|2026-01-01
"""
SCALARS = WORDS.split()

FIELDS = {
    "text": DEVICE + "{{hooks: [{{hookName: prestart, path: {}}}]}}\n",
    "name": HEAD + "devices:\n- name: {}\n  containerEdits: {{env: [A=1]}}\n",
    "int64": DEVICE + "{{hooks: [{{hookName: prestart, path: /h, timeout: {}}}]}}\n",
    "uint32": DEVICE + "\n    deviceNodes:\n    - path: /dev/x\n      uid: {}\n",
    "uint32s": DEVICE + "{{additionalGids: [{}, 1]}}\n",
    "texts": DEVICE + "{{env: [A=1], hooks: [{{hookName: prestart, path: /h, args: [{}, z]}}]}}\n",
    "bool": DEVICE + "{{intelRdt: {{enableMonitoring: {}}}}}\n",
    "map": DEVICE + "{{env: [A=1]}}\n  annotations: {{k: {}}}\n",
    "key": DEVICE + "{{env: [A=1]}}\n  annotations: {{{}: v}}\n",
    "edits": DEVICE + "{}\n",
    "list": DEVICE + "{{env: {}, mounts: [{{hostPath: a, containerPath: b}}]}}\n",
}

STRUCTURES = [
    HEAD + "devices: [~]\n",
    HEAD + "devices: [~, {name: a, containerEdits: {env: [A=1]}}]\n",
    HEAD + "containerEdits: ~\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n",
    HEAD + "~: 1\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n",
    HEAD + "[a]: 1\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n",
    HEAD + "{a: b}: 1\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n",
    HEAD + "'kind': v/c\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n",
    HEAD + "devices: [{name: a, containerEdits: &e {env: [A=1]}}, {name: b, containerEdits: {<<: *e, env: [B=1]}}]\n",
    HEAD
    + "devices: [{name: a, containerEdits: &e {env: [A=1]}}, {name: b, containerEdits: {<<: [*e, {mounts: []}]}}]\n",
    HEAD + "devices: [{name: a, containerEdits: &e {env: [A=1]}}, {name: b, containerEdits: {<<: [*e, 5]}}]\n",
    HEAD + "devices: [{name: a, containerEdits: {<<: {foo: 1}, env: [A=1]}}]\n",
    HEAD + "devices: [{name: a, containerEdits: {<<: {<<: {env: [A=1]}}}}]\n",
    HEAD + "devices: [{name: a, containerEdits: {'<<': {env: [A=1]}}}]\n",
    HEAD + "devices: [{name: a, containerEdits: {<<: {env: [A=1]}, <<: {env: [B=1]}}}]\n",
    HEAD + "devices: [{name: a, containerEdits: {<<: 5}}]\n",
    HEAD + "devices: [{name: a, containerEdits: &x {<<: *x, env: [A=1]}}]\n",
    HEAD + "devices: &d [*d]\n",
    HEAD + "devices: [{name: &n a, containerEdits: {env: [A=1]}}, {name: *n, containerEdits: {env: [A=1]}}]\n",
    HEAD + "devices: [{name: *n, containerEdits: {env: [A=1]}}]\n",
    HEAD + "devices: {name: a}\n",
    HEAD + "devices: a\n",
    "cdiVersion: 1.1.0\nkind: [v/c]\n",
    "cdiVersion: {a: b}\nkind: v/c\n",
    'cdiVersion: >-\n  1.1.0\nkind: |-\n  v/c\ndevices: [{name: a, containerEdits: {env: ["A=\\n1"]}}]\n',
    "---\ncdiVersion: 1.1.0\nkind: v/c\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n...\n",
    "%YAML 1.1\n---\ncdiVersion: 1.1.0\nkind: v/c\ndevices: [{name: a, containerEdits: {env: [A=1]}}]\n",
    HEAD + "devices: [{name: a, containerEdits: {env: [A=1]}}]\n---\n{ not yaml",
    "--- ~\n",
    "---\n",
    "...\n",
    "\n\n",
    "cdiVersion: 1.1.0\n\tkind: v/c\n",
    "cdiVersion: 1.1.0\nkind: v/c: d\n",
    HEAD + "devices:\n- {name: a, containerEdits: {env: [A=1]}, annotations: {a: [b]}}\n",
    HEAD + "devices:\n- {name: a, containerEdits: {env: [A=1]}, annotations: {a: 1, a: 2}}\n",
    HEAD + "devices:\n- {name: a, containerEdits: {env: [[A=1]]}}\n",
    JSON + '{"env":["A=\\ud83d\\ude00"]}}]}',
    JSON + '{"env":["A=\\u00e9\\/\\b"]}}]}',
    '{"cdiVersion"\n:"1.1.0","kind":"v/c","devices":[{"name":"a","containerEdits":{"env":["A=1"]}}]}',
    JSON + '{"env":["A=\x7f"]}}]}',
    JSON + '{"env":["A=1"]}}],}',
    '{"cdiVersion":"1.1.0","kind":"v/c","devices":[{"name":"a","name":"a","containerEdits":{"env":["A=1"]}}]}',
    JSON + '{"additionalGids":[1.0,2e0]}}]}',
    JSON + '{"additionalGids":[1.5,true]}}]}',
    '{"cdiVersion":1.10,"kind":"v/c","devices":[]}',
]


def validate(text: str) -> dict[str, Any]:
    return {"op": "validate", "spec": text}


@pytest.mark.row(169, how="oracle")
def test_scalars_in_every_kind_of_field() -> None:
    texts = [text.format(scalar.replace("|", " ")) for text in FIELDS.values() for scalar in SCALARS]
    cases = [validate(text) for text in texts]
    assert differences(cases, ask_oracle(cases)) == []


@pytest.mark.row(169, how="oracle")
def test_structures() -> None:
    cases = [validate(text) for text in STRUCTURES]
    assert differences(cases, ask_oracle(cases)) == []


class Maker:
    """Random specs and runtime configurations: mostly valid, from few values, so that they collide."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def some(self, make: Any, most: int = 2) -> list[Any]:
        return [make() for _ in range(self.chance.randrange(most + 1))]

    def maybe(self, document: dict[str, Any], name: str, make: Any, odds: float = 0.4) -> None:
        if self.chance.random() < odds:
            document[name] = make()

    def env(self) -> str:
        return self.chance.choice(["A=1", "B=2", "A=3", "PATH=/x", "C=", "D=a=b"] * 6 + ["bad", "=x", ""])

    def path(self) -> str:
        return self.chance.choice(["/dev/a", "/dev/b", "/dev/null", "/dev/zero", "/etc/passwd", "/dev/gone", "rel"])

    def node(self) -> dict[str, Any]:
        node: dict[str, Any] = {"path": self.path()}
        self.maybe(node, "hostPath", self.path)
        self.maybe(node, "type", lambda: self.chance.choice(["c", "c", "b", "u", "p", ""] * 3 + ["x"]), 0.8)
        self.maybe(node, "major", lambda: self.chance.choice([0, 1, 10, 10] * 4 + [-1]), 0.8)
        self.maybe(node, "minor", lambda: self.chance.choice([0, 3, 5] * 5 + [-1]))
        self.maybe(node, "fileMode", lambda: self.chance.choice([0, 438, 432]))
        self.maybe(node, "permissions", lambda: self.chance.choice(["r", "rw", "none", "mrw", ""] * 4 + ["x"]))
        self.maybe(node, "uid", lambda: self.chance.choice([0, 7]))
        self.maybe(node, "gid", lambda: self.chance.choice([0, 8]))
        return node

    def mount(self) -> dict[str, Any]:
        where = self.chance.choice(["/a", "/a/b", "/dev/pts", "/a/../b", "//c//d", "rel", "/", "../x/y", "/a/"])
        mount: dict[str, Any] = {"hostPath": self.chance.choice(["/h", "/k"]), "containerPath": where}
        self.maybe(mount, "type", lambda: self.chance.choice(["bind", "tmpfs"]))
        self.maybe(
            mount,
            "options",
            lambda: self.some(lambda: self.chance.choice(["ro", "bind", "rbind", "idmap", "ridmap"]), 3),
        )
        return mount

    def hook(self) -> dict[str, Any]:
        names = ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]
        hook: dict[str, Any] = {
            "hookName": self.chance.choice(names * 4 + ["x"]),
            "path": self.chance.choice(["/h", "/k", "h"]),
        }
        self.maybe(hook, "args", lambda: self.some(lambda: self.chance.choice(["a", "-b"])))
        self.maybe(hook, "env", lambda: self.some(self.env))
        self.maybe(hook, "timeout", lambda: self.chance.choice([0, 5, -1]))
        return hook

    def net(self) -> dict[str, Any]:
        host = self.chance.choice(["e0", "e1", "e2", "e3", "e4"])
        return {"hostInterfaceName": host, "name": self.chance.choice(["n" + host, "n" + host, "n" + host, "n0"])}

    def rdt(self) -> dict[str, Any]:
        rdt: dict[str, Any] = {}
        self.maybe(rdt, "closID", lambda: self.chance.choice(["a", "b", "/", "a/b", ".."]))
        self.maybe(rdt, "schemata", lambda: self.some(lambda: "L3:0=f"))
        self.maybe(rdt, "memBwSchema", lambda: "MB:0=70")
        self.maybe(rdt, "enableMonitoring", lambda: self.chance.random() < 0.5)
        return rdt

    def edits(self, odds: float = 0.35) -> dict[str, Any]:
        edits: dict[str, Any] = {}
        for name, make in (
            ("env", self.env),
            ("deviceNodes", self.node),
            ("netDevices", self.net),
            ("hooks", self.hook),
            ("mounts", self.mount),
        ):
            self.maybe(edits, name, lambda make=make: self.some(make, 3), odds)
        self.maybe(edits, "intelRdt", self.rdt, odds / 2)
        self.maybe(edits, "additionalGids", lambda: self.some(lambda: self.chance.choice([0, 5, 6]), 3), odds)
        return edits

    def spec(self, names: str = "abc") -> dict[str, Any]:
        version = self.chance.choice(["1.1.0"] * 8 + ["0.3.0", "0.5.0", "0.6.0", "0.7.0", "1.0.0", "v1.1.0", "2.0.0"])
        kind = self.chance.choice(["v/c"] * 6 + ["w/c", "w/d.e", "1/c", "v", "v/c-"])
        spec: dict[str, Any] = {"cdiVersion": version, "kind": kind}
        self.maybe(spec, "annotations", lambda: {"k": "v"}, 0.15)
        spec["devices"] = [
            {"name": name, "containerEdits": self.edits() or {"env": ["Z=1"]}}
            for name in self.chance.sample(names, self.chance.randrange(1, len(names) + 1))
        ]
        self.maybe(spec, "containerEdits", self.edits, 0.5)
        return spec

    def dirs(self) -> list[dict[str, Any]]:
        names = ["a.json", "b.yaml", "c.json", "d.yml", ".e.json"]
        made = []
        for _ in range(self.chance.randrange(1, 4)):
            files = {name: json.dumps(self.spec()) for name in self.chance.sample(names, self.chance.randrange(4))}
            made.append({"files": files})
        return made

    def oci(self) -> dict[str, Any]:
        oci: dict[str, Any] = {"ociVersion": "1.0.2"}
        user = {"uid": self.chance.choice([0, 1000]), "gid": self.chance.choice([0, 1000])}
        self.maybe(user, "additionalGids", lambda: [6], 0.3)
        env = lambda: self.some(lambda: self.chance.choice(["PATH=/bin", "A=0", "A", "B=0"]), 4) or ["Q=1"]  # noqa: E731
        self.maybe(oci, "process", lambda: {"user": user, "env": env(), "cwd": "/"}, 0.8)
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev/pts", "source": "devpts"},
        ]
        self.maybe(oci, "mounts", lambda: mounts, 0.7)
        linux: dict[str, Any] = {"namespaces": [{"type": "pid"}] + [{"type": "user"}] * (self.chance.random() < 0.5)}
        mapping = [{"containerID": 0, "hostID": 1000, "size": 10}]
        self.maybe(linux, "uidMappings", lambda: mapping, 0.6)
        self.maybe(linux, "gidMappings", lambda: mapping, 0.6)
        self.maybe(
            linux,
            "devices",
            lambda: [
                {"path": "/dev/a", "type": "c", "major": 9, "minor": 9},
                {"path": "/dev/q", "type": "b", "major": 9, "minor": 1},
            ],
        )
        self.maybe(linux, "resources", lambda: {"devices": [{"allow": False, "access": "rwm"}]}, 0.7)
        self.maybe(linux, "netDevices", lambda: {"e0": {"name": "old"}}, 0.3)
        self.maybe(oci, "linux", lambda: linux, 0.8)
        self.maybe(oci, "hooks", lambda: {"poststop": [{"path": "/first"}]}, 0.4)
        return oci


@pytest.mark.row(169, how="oracle")
def test_random_specs() -> None:
    maker = Maker(1)
    cases = [validate(json.dumps(maker.spec(), indent=maker.chance.choice([None, 1]))) for _ in range(1500)]
    answers = ask_oracle(cases)
    assert 100 < sum(answer["ok"] for answer in answers) < 1400
    assert differences(cases, answers) == []


@pytest.mark.row(2, how="oracle")
def test_random_directories() -> None:
    maker = Maker(2)
    cases = [{"op": "list", "dirs": maker.dirs()} for _ in range(300)]
    answers = ask_oracle(cases)
    assert sum(bool(answer["errors"]) for answer in answers) > 50
    assert differences(cases, answers) == []


@pytest.mark.row(2, how="oracle")
def test_random_injections() -> None:
    maker = Maker(3)
    cases = []
    for _ in range(1500):
        devices = maker.some(lambda: maker.chance.choice(["v/c=a", "v/c=b", "v/c=c", "w/c=a"]), 3)
        spec = maker.spec()
        dirs = maker.dirs() if maker.chance.random() < 0.3 else [{"files": {"a.json": json.dumps(spec)}}]
        cases.append({"op": "inject", "dirs": dirs, "devices": devices, "oci": maker.oci()})
    answers = ask_oracle(cases)
    assert sum(answer["ok"] for answer in answers) > 300
    assert differences(cases, answers) == []


@pytest.mark.row(30, how="oracle")
def test_written_files() -> None:
    texts = [
        "a b",
        "a: b",
        "a #b",
        "#a",
        "- a",
        "-a",
        "y",
        "12:30",
        "2026-01-01",
        "é",
        "a'b",
        'a"b',
        "{a}",
        "a,b",
        "*a",
        "%a",
        "@a",
        "`a",
        "a\\b",
        "1e3",
        "null",
        " a",
        "a ",
        "a:",
        "?a",
        "[",
        "!x",
        "&x",
        "a&b<c>",
        "0x1",
        "~a",
        "~",
        "+",
        ".",
    ]
    cases = []
    for text in texts:
        spec = {
            "cdiVersion": "1.1.0",
            "kind": "v/c",
            "annotations": {"k": text},
            "devices": [
                {
                    "name": "a",
                    "containerEdits": {"env": [f"A={text}"], "mounts": [{"hostPath": text, "containerPath": text}]},
                }
            ],
        }
        cases += [
            {"op": "write", "spec": json.dumps(spec), "name": name, "dirs": [{}]} for name in ("x.yaml", "y.json")
        ]
    answers = ask_oracle(cases)
    for answer in answers:  # Go's JSON escapes what HTML would take for a tag
        for name, content in answer["files"].items():
            if name.endswith(".json"):
                answer["files"][name] = json.dumps(json.loads(content), separators=(",", ":"), ensure_ascii=False)
    assert differences(cases, answers) == []


def test_random_names() -> None:
    chance = random.Random(4)
    letters = "aZ09_.-:/= é,"
    texts = ["".join(chance.choice(letters) for _ in range(chance.randrange(8))) for _ in range(1500)]
    texts += [
        f"{one}/{two}={three}" for one, two, three in zip(texts[:500], texts[500:1000], texts[1000:], strict=True)
    ]
    cases: list[dict[str, Any]] = [{"op": "parse", "name": text} for text in texts]
    cases += [
        {"op": "annotation_key", "plugin": text, "device": other} for text, other in zip(texts[:1000], texts[500:])
    ]
    cases += [{"op": "annotation_parse", "annotations": {"cdi.k8s.io/x": text}} for text in texts]
    assert differences(cases, ask_oracle(cases)) == []
