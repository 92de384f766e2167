"""Random expressions, most of which compile: every function that is declared is called with fitting arguments."""

from __future__ import annotations

import json
import random
from typing import Any

from regauge.cel.environment import Environment, Overload
from regauge.cel.types import Type, parse_type, substitute

DEVICE: dict[str, Any] = {
    "driver": "d.example.com",
    "allowMultipleAllocations": True,
    "attributes": {
        "s": {"string": "Hello-World"},
        "n": {"string": "42"},
        "ip": {"string": "10.1.2.3"},
        "net": {"string": "10.0.0.0/8"},
        "url": {"string": "https://user@ex.example.com:80/p/q?a=b&a=c"},
        "ts": {"string": "2024-01-02T03:04:05.5Z"},
        "dur": {"string": "1h3m"},
        "i": {"int": 7},
        "neg": {"int": -3},
        "big": {"int": 9223372036854775807},
        "b": {"bool": True},
        "v": {"version": "1.2.3-rc.1+b5"},
        "ss": {"strings": ["a", "b", "a"]},
        "ii": {"ints": [3, 1, 2]},
        "other.example.com/s": {"string": "x"},
    },
    "capacity": {"m": {"value": "10Gi"}, "milli": {"value": "2500m"}, "other.example.com/m": {"value": "5"}},
}

_ATOMS = {
    "int": ["0", "1", "-1", "2", "7", "250", "9223372036854775807", "-9223372036854775808", "0x1F"],
    "uint": ["0u", "1u", "7u", "18446744073709551615u"],
    "double": ["0.0", "1.0", "-1.5", "2.5e3", "1e300", "7.0", "0.1"],
    "bool": ["true", "false", "device.allowMultipleAllocations"],
    "bytes": ['b"abc"', 'b"\\xff"', 'b""'],
    "null": ["null"],
    "duration": ['duration("1h")', 'duration("-1.5s")', 'duration("0")'],
    "timestamp": ['timestamp("2024-02-29T23:59:59.25Z")', 'timestamp("1969-12-31T23:00:00-01:00")'],
    "type": ["int", "string", "type", "list", "google.protobuf.Timestamp"],
    "string": [
        '""', '"a"', '"Hello-World"', '"42"', '"1.5"', '"true"', '"10Gi"', '"1.0"', '"v1.2"', '"1.2.3"', '"10.0.0.1"',
        '"10.1.0.0/16"', '"fe80::1"', '"2001:db8::/32"', '"https://a.b:80/c?d=e"', '"h\\u00e9llo"', '"a,b,,c"',
        '"[a-z]+"', '"(l+)o"', '"%s-%d"', '"2024-01-02T03:04:05Z"', '"UTC"', '"-07:30"', '"1m30s"', '"my-name"',
        "device.driver", "'\\t\"q\"'",
    ],
}  # fmt: skip
_STRUCTS = {
    "kubernetes.Quantity": [
        'quantity("1Gi")', 'quantity("1500m")', 'quantity("1.0")', 'quantity("0")', 'quantity("1Ei")', 'quantity("-5k")',
        'device.capacity["d.example.com"].m', 'device.capacity["d.example.com"].milli',
    ],
    "kubernetes.Semver": ['semver("1.2.3")', 'semver("1.2.3-rc.1")', 'semver("v2", true)', 'semver("0.0.1+x")'],
    "net.IP": ['ip("10.1.2.3")', 'ip("fe80::1")', 'ip("::")', 'ip("127.0.0.1")', 'ip("224.0.0.1")'],
    "net.CIDR": ['cidr("10.0.0.0/8")', 'cidr("10.1.2.3/16")', 'cidr("2001:db8::1/32")', 'cidr("0.0.0.0/0")'],
    "kubernetes.URL": ['url("https://a.b:80/c%20d?e=f&e=g#h")', 'url("http://[::1]/x")', 'url("/abs")'],
    "kubernetes.NamedFormat": ["format.dns1123Label()", "format.uuid()", "format.date()", "format.qualifiedName()"],
}  # fmt: skip
_ATTRIBUTES = [*DEVICE["attributes"], "missing"]
_OPERATORS = {"_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "_&&_", "_||_", "@in"}
_LEAVES = [parse_type(kind) for kind in ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")]


class Generator:
    """`expression()` gives the next one."""

    def __init__(self, seed: int, environment: Environment) -> None:
        self.random = random.Random(seed)
        self.variables: list[str] = []
        self.overloads = [
            (name, overload)
            for name, overloads in environment.functions.items()
            for overload in overloads
            if not (name.startswith("@") and name != "@in")
            and "authorization" not in overload.id
            and "kubernetes.authorization" not in " ".join(map(str, (*overload.args, overload.result)))
            and name not in ("cel.@mapInsert", "_?._", "@not_strictly_false")
        ]

    def expression(self) -> str:
        self.variables = []
        return self.make(parse_type("bool"), self.random.randint(2, 4))

    def pick(self, values: list[str]) -> str:
        return self.random.choice(values)

    def make(self, kind: Type, depth: int) -> str:
        roll = self.random.random()
        if roll < 0.10:
            return self.dynamic()
        if roll < 0.12:
            return f"dyn({self.make(kind, depth - 1)})" if depth > 0 else self.leaf(kind)
        if roll < 0.13:
            kind = self.random.choice(_LEAVES)
        if depth <= 0 or roll < 0.2:
            return self.leaf(kind)
        if roll < 0.45:
            special = self.special(kind, depth)
            if special:
                return special
        fitting = [(name, over, bound) for name, over in self.overloads if (bound := self.fit(over, kind)) is not None]
        if not fitting:
            return self.leaf(kind)
        name, overload, bound = self.random.choice(fitting)
        return self.call(name, overload, bound, depth)

    def fit(self, overload: Overload, kind: Type) -> dict[Type, Type] | None:
        bound: dict[Type, Type] = {}

        def unify(pattern: Type, wanted: Type) -> bool:
            if pattern.kind == "param":
                return bound.setdefault(pattern, wanted) == wanted
            if pattern.kind != wanted.kind or pattern.name != wanted.name:
                return False
            return len(pattern.params) == len(wanted.params) and all(map(unify, pattern.params, wanted.params))

        return bound if unify(overload.result, kind) else None

    def call(self, name: str, overload: Overload, bound: dict[Type, Type], depth: int) -> str:
        for param in overload.params:
            bound.setdefault(param, self.random.choice(_LEAVES[:5]))
        args = [self.make(substitute(bound, arg, params_to_dyn=True), depth - 1) for arg in overload.args]
        if name in _OPERATORS:
            symbol = "in" if name == "@in" else name.strip("_")
            return f"({args[0]} {symbol} {args[1]})"
        if name == "!_":
            return f"!({args[0]})"
        if name == "-_":
            return f"-({args[0]})"
        if name == "_?_:_":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if name in ("_[_]", "_[?_]"):
            return f"{args[0]}[{'?' if '?' in name else ''}{args[1]}]"
        if overload.member:
            return f"({args[0]}).{name}({', '.join(args[1:])})"
        return f"{name}({', '.join(args)})"

    def leaf(self, kind: Type) -> str:
        if self.variables and self.random.random() < 0.4:
            return self.pick(self.variables)
        if kind.kind in _ATOMS:
            return self.pick(_ATOMS[kind.kind])
        if kind.name in _STRUCTS:
            return self.pick(_STRUCTS[kind.name])
        if kind.kind == "list":
            return "[" + ", ".join(self.leaf(kind.params[0]) for _ in range(self.random.randint(0, 3))) + "]"
        if kind.kind == "map":
            entries = [
                f"{self.leaf(kind.params[0])}: {self.leaf(kind.params[1])}" for _ in range(self.random.randint(0, 2))
            ]
            return "{" + ", ".join(entries) + "}"
        if kind.name == "optional_type":
            return self.pick(["optional.none()", f"optional.of({self.leaf(kind.params[0])})", self.dynamic("?")])
        return self.dynamic()

    def dynamic(self, mark: str = "") -> str:
        name = self.pick(_ATTRIBUTES)
        domain, _, inner = name.rpartition("/")
        domain = domain or self.pick(["d.example.com"] * 9 + ["nope.example.com"])
        if mark or self.random.random() < 0.1:
            return f'device.attributes["{domain}"].?{inner}'
        if self.random.random() < 0.1:
            return f'device.attributes["{domain}"]["{inner}"]'
        return f'device.attributes["{domain}"].{inner}'

    def special(self, kind: Type, depth: int) -> str:
        name = f"x{len(self.variables)}"
        if kind.kind == "bool":
            macro = self.pick(["all", "exists", "exists_one", "has", "two", "optional"])
            if macro == "has":
                return f"has({self.dynamic()})".replace(".?", ".")
            if macro == "optional":
                return f"{self.dynamic('?')}.orValue({self.make(kind, depth - 1)})"
            over = self.over(depth)
            if macro == "two":
                body = self.inside([name, name + "v"], kind, depth)
                return f"({over}).{self.pick(['all', 'exists', 'existsOne'])}({name}, {name}v, {body})"
            return f"({over}).{macro}({name}, {self.inside([name], kind, depth)})"
        if kind.kind == "list":
            over = self.over(depth)
            body = self.inside([name], kind.params[0], depth)
            return self.pick(
                [
                    f"({over}).map({name}, {body})",
                    f"({over}).filter({name}, {self.inside([name], parse_type('bool'), depth)})",
                    f"({over}).transformList({name}, {name}v, {self.inside([name, name + 'v'], kind.params[0], depth)})",
                    f"({over}).sortBy({name}, {body})",
                ]
            )
        if kind.name == "optional_type":
            return f"{self.dynamic('?')}.optMap({name}, {self.inside([name], kind.params[0], depth)})"
        body = self.inside([name], kind, depth)
        return f"cel.bind({name}, {self.make(self.random.choice(_LEAVES), depth - 1)}, {body})"

    def inside(self, names: list[str], kind: Type, depth: int) -> str:
        self.variables += names
        body = self.make(kind, depth - 1)
        del self.variables[-len(names) :]
        return body

    def over(self, depth: int) -> str:
        kind = self.pick(["list(int)", "list(string)", "list(double)", "map(string, int)", "list(dyn)"])
        if kind == "list(dyn)":
            return self.pick(
                ['device.attributes["d.example.com"].ss', 'device.attributes["d.example.com"].ii', "device.attributes"]
            )
        return self.make(parse_type(kind), depth - 1)


def device(environment: Environment) -> dict[str, Any]:
    """The device of all expressions; one with lists cannot be looked at where lists are not known."""
    without = () if environment.reads_lists else ("ss", "ii")
    known = {name: value for name, value in DEVICE["attributes"].items() if name not in without}
    return {**DEVICE, "attributes": known}


def case(name: str, expression: str, environment: Environment) -> str:
    """The line that the reference program reads."""
    features = {"ConsumableCapacity": environment.consumable_capacity}
    if environment.minor > 35:
        features["ListTypeAttributes"] = environment.list_attributes
    line = {"name": name, "cel": expression, "device": device(environment), "features": features}
    return json.dumps({**line, "newExpr": not environment.stored})
