"""Rules about specs by themselves: invalid files, names in conflict, names that shadow others, who writes a kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from regauge.audit.cdi_node import CdiNode, names_in, place_in
from regauge.audit.findings import Evidence, Finding, Layer, Severity
from regauge.audit.generators import UNKNOWN
from regauge.base import Where
from regauge.cdi import SpecFile


def invalid_files(node: CdiNode) -> Iterator[Finding]:
    """CDI-INVALID, CDI-UNREADABLE: files that give no devices. They hide nothing but themselves."""
    for file in node.catalog.unusable:
        errors = [one for one in file.findings if one.severity == "error"]
        evidence = tuple(Evidence(one.where, f"{one.code}: {one.what}") for one in errors)
        fix = (
            "; ".join(dict.fromkeys(one.fix for one in errors if one.fix))
            or "correct the file, or have it written anew"
        )
        if errors[0].code == "unreadable":
            yield Finding(
                "CDI-UNREADABLE", Severity.ERROR, Layer.INJECTION, file.path, f"{file.path} {errors[0].what}",
                "What it defines cannot be resolved, and nothing can be said about it here either.",
                "make it readable for the runtime and for this program (run as root); look at the disk if that is not it",
                evidence,
            )  # fmt: skip
            continue
        yield Finding(
            "CDI-INVALID", Severity.ERROR, Layer.INJECTION, file.path,
            f"{file.path} is not a valid spec: {errors[0].what}",
            "Runtimes drop the whole file, and containers that ask for a device in it do not start. Other files are not"
            " touched by it.",
            f"{fix}; regauge cdi validate {file.path} lists all that is wrong",
            evidence,
        )  # fmt: skip


def conflicts(node: CdiNode) -> Iterator[Finding]:
    """CDI-CONFLICT: two files of one directory define the same device, so nobody can use it."""
    by_name = defaultdict(list)
    for conflict in node.catalog.conflicts:
        by_name[conflict.name].append(conflict)
    for name, found in by_name.items():
        files = tuple(dict.fromkeys(path for one in found for path in (one.other, one.file)))
        hidden = next((one.hidden for one in found if one.hidden), None)
        more = f" The definition in {hidden}, which should win, is dropped with them." if hidden else ""
        yield Finding(
            "CDI-CONFLICT", Severity.ERROR, Layer.INJECTION, name,
            f"{name} is defined by {' and by '.join(files)}, in the same directory",
            f"Runtimes then use neither: a container that asks for it does not start (unresolvable CDI devices).{more}",
            "find out who writes which of the files, keep one, and have the other not written or in a directory of its own"
            " priority",
            tuple(_definition(node, path, name) for path in (*files, *((hidden,) if hidden else ()))),
            (name,),
        )  # fmt: skip


def shadowed(node: CdiNode) -> Iterator[Finding]:
    """CDI-SHADOWED: a later directory replaces a definition. That is how it is meant, and good to know."""
    for name, winner, hidden in node.hidden:
        yield Finding(
            "CDI-SHADOWED", Severity.NOTE, Layer.INJECTION, name,
            f"{name} in {winner.file.path} replaces the one in {hidden}",
            "A directory that comes later has priority; containers get the edits of the later one only.",
            "nothing, if that is meant; else remove one of the two",
            (_definition(node, winner.file.path, name), _definition(node, hidden, name)),
            (name,),
        )  # fmt: skip


def generators(node: CdiNode) -> Iterator[Finding]:
    """CDI-TWO-GENERATORS: two programs write specs of one kind."""
    by_kind: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for file in node.catalog.files:
        if file.spec is not None and node.generators[file.path].name != UNKNOWN:
            by_kind[file.spec.kind][node.generators[file.path].name].append(file.path)
    for kind, found in by_kind.items():
        if len(found) < 2:
            continue
        evidence = tuple(
            Evidence(Where(file=path), f"written by {name}: {node.generators[path].how}")
            for name, paths in found.items()
            for path in paths
        )
        yield Finding(
            "CDI-TWO-GENERATORS", Severity.WARNING, Layer.INSTALLATION, kind,
            f"specs of the kind {kind} are written by {' and by '.join(found)}",
            "They overwrite or shadow each other's devices, and one goes stale when only the other is run again.",
            "let one of them write this kind; switch CDI off in the other",
            evidence,
        )  # fmt: skip


def odd_specs(node: CdiNode) -> Iterator[Finding]:
    """CDI-ODD: valid, but some runtimes stumble over it."""
    for file in node.catalog.files:
        for found in file.findings:
            if file.spec is not None and found.severity == "warning":
                yield Finding(
                    "CDI-ODD", Severity.WARNING, Layer.INJECTION, file.path,
                    f"{file.path}: {found.what}",
                    "The file is valid, but does not everywhere do what it says.",
                    found.fix or "have it written without",
                    (Evidence(found.where, found.code),),
                    tuple(names_in(file)),
                )  # fmt: skip


def _definition(node: CdiNode, path: str, name: str) -> Evidence:
    file = node.by_name[path]
    return Evidence(place_in(node, file, _path_of(file, name)), f"defines {name}, {_by(node, path)}")


def _path_of(file: SpecFile, name: str) -> tuple[str | int, ...]:
    assert file.spec is not None
    return ("devices", names_in(file).index(name), "name")


def _by(node: CdiNode, path: str) -> str:
    generator = node.generators[path]
    return f"writer {generator.name}" + ("" if generator.name == UNKNOWN else f" ({generator.how})")
