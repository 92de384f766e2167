"""Rules about places: who may write the directories and files, where links lead, files that no runtime looks at.

Whoever can write a spec can mount any path of the host into a container and have programs run as root on the host. So the
directories, all that is above them and the files are root's, and nobody else may write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from regauge.audit.cdi_node import CdiNode, within
from regauge.audit.findings import Evidence, Finding, Layer, Severity
from regauge.base import Where
from regauge.cdi import is_spec_file
from regauge.cdi.runtimes import DEFAULT_DIRECTORIES
from regauge.model.node_files import NodeDirectory, NodeFile, PathFacts

_WRITABLE_BY_OTHERS = 0o022
_STICKY = 0o1000
_READABLE_BY_ALL = 0o444
_TEMPORARY = re.compile(r"\..*\.tmp|spec\..*\.tmp|.*~|\..*\.sw[a-z]|.*\.(?:bak|old|orig|rpmsave|dpkg-old)")


def directories(node: CdiNode) -> Iterator[Finding]:
    """CDI-NO-DIRECTORY, CDI-UNLISTED, CDI-PERMISSIONS: the directories themselves and what is above them."""
    places = node.files.spec_directories
    if places and not any(place.exists for place in places):
        names = " and ".join(place.path for place in places)
        yield Finding(
            "CDI-NO-DIRECTORY", Severity.WARNING, Layer.INSTALLATION, names,
            f"neither of the CDI directories is there: {names}",
            "No device can be injected on this node; drivers make the directory when they write their first spec.",
            "install the driver or run the generator of the specs; check that its volume is mounted from the host",
        )  # fmt: skip
    for place in places:
        if place.facts is not None:
            yield from _open(place.path, place.facts, "directory")
        if place.facts is not None and place.facts.kind not in ("directory", ""):
            yield from _not_a_directory(place)
        for above, facts in node.files.paths.items():
            if facts is not None and facts.kind == "directory" and above != place.path and within(place.path, above):
                yield from _open_above(place.path, above, facts)


def files(node: CdiNode) -> Iterator[Finding]:
    """CDI-PERMISSIONS, CDI-LINK-OUT, CDI-IGNORED, CDI-UNREADABLE-BY-OTHERS: what is in the directories."""
    for place in node.files.spec_directories:
        for file in place.files:
            if not is_spec_file(file.path):
                yield from _ignored(file)
                continue
            if file.facts is not None:
                yield from _open(file.path, file.facts, "file")
                yield from _link(place, file, file.facts)
                yield from _private(file, file.facts)


def elsewhere(node: CdiNode) -> Iterator[Finding]:
    """CDI-ELSEWHERE: specs in directories that neither are the CDI directories nor are read by a runtime."""
    for place in node.files.other_directories:
        found = [file.path for file in place.files if is_spec_file(file.path)]
        if found and not node.reads(place):
            usual = place.path in DEFAULT_DIRECTORIES
            read = ", ".join(one.path for one in node.files.spec_directories)
            lost = tuple(name for name, path in node.unread_definitions.items() if path in found)
            yield Finding(
                "CDI-ELSEWHERE", Severity.ERROR if usual else Severity.WARNING, Layer.INJECTION, place.path,
                f"{len(found)} specs are in {place.path}, where no runtime looks: they read {read}",
                "What they define cannot be resolved; containers that ask for it do not start.",
                f"have them written to {node.files.spec_directories[-1].path}, or add the directory to cdi_spec_dirs",
                tuple(Evidence(Where(file=path), "no runtime reads it") for path in found[:8]), lost,
            )  # fmt: skip


def _not_a_directory(place: NodeDirectory) -> Iterator[Finding]:
    yield Finding(
        "CDI-NO-DIRECTORY", Severity.ERROR, Layer.INSTALLATION, place.path,
        f"{place.path} is no directory but a {place.facts.kind if place.facts else 'thing of unknown kind'}",
        "Runtimes cannot list it, and skip it with all directories after it.",
        "remove it and have the directory made anew",
    )  # fmt: skip


def _open(path: str, facts: PathFacts, what: str) -> Iterator[Finding]:
    if facts.uid not in (None, 0) or (facts.mode is not None and facts.mode & _WRITABLE_BY_OTHERS):
        mode = 0o755 if what == "directory" else 0o644
        yield Finding(
            "CDI-PERMISSIONS", Severity.ERROR, Layer.INSTALLATION, path,
            f"the {what} {path} can be written by others than root ({_owner(facts)})",
            "Who can write a spec can have any path of the host mounted into a container, and any program run as root on"
            " the host.",
            f"chown root:root {path} && chmod {mode:o} {path}; find out who set it so",
            (Evidence(Where(file=path), _owner(facts)),),
        )  # fmt: skip


def _open_above(path: str, above: str, facts: PathFacts) -> Iterator[Finding]:
    others = facts.mode is not None and bool(facts.mode & _WRITABLE_BY_OTHERS) and not facts.mode & _STICKY
    if others or facts.uid not in (None, 0):
        yield Finding(
            "CDI-PERMISSIONS", Severity.ERROR, Layer.INSTALLATION, above,
            f"{above}, above {path}, can be written by others than root ({_owner(facts)})",
            f"Who can write there can put another directory in the place of {path}.",
            f"chown root:root {above} && chmod go-w {above}",
            (Evidence(Where(file=above), _owner(facts)),),
        )  # fmt: skip


def _link(place: NodeDirectory, file: NodeFile, facts: PathFacts) -> Iterator[Finding]:
    if facts.link_to is not None and not within(facts.link_to, place.real):
        yield Finding(
            "CDI-LINK-OUT", Severity.ERROR, Layer.INSTALLATION, file.path,
            f"{file.path} is a link to {facts.link_to}, out of its directory",
            "Runtimes follow it: what is written there decides, whoever may write there; and where it leads to another"
            " file system, the spec may be missing at start.",
            "put the file itself into the directory",
            (Evidence(Where(file=file.path), f"link to {facts.link_to} ({_owner(facts)})"),),
        )  # fmt: skip


def _private(file: NodeFile, facts: PathFacts) -> Iterator[Finding]:
    if facts.mode is not None and facts.mode & _READABLE_BY_ALL != _READABLE_BY_ALL:
        yield Finding(
            "CDI-UNREADABLE-BY-OTHERS", Severity.NOTE, Layer.INJECTION, file.path,
            f"{file.path} can be read by its owner only ({_owner(facts)})",
            "Runtimes that do not run as root, and tools that show devices, do not see it.",
            f"chmod 644 {file.path}, unless that is meant",
        )  # fmt: skip


def _ignored(file: NodeFile) -> Iterator[Finding]:
    if file.facts is not None and file.facts.kind == "directory":
        what, why = "a directory", "Runtimes do not look into directories below a CDI directory."
    elif _TEMPORARY.fullmatch(file.path.rpartition("/")[2]):
        what, why = (
            "left over from writing or editing",
            "Runtimes do not read it; a writer was interrupted, or it is old.",
        )
    else:
        what, why = (
            "not named .json or .yaml",
            "Runtimes read only these two, in small letters; .yml is not one of them.",
        )
    yield Finding(
        "CDI-IGNORED", Severity.WARNING, Layer.INJECTION, file.path,
        f"{file.path} is {what}, so no runtime looks at it", why,
        "rename or move it if it is a spec, else remove it",
    )  # fmt: skip


def _owner(facts: PathFacts) -> str:
    mode = "mode unknown" if facts.mode is None else f"mode {facts.mode:04o}"
    return f"{mode}, uid {facts.uid}, gid {facts.gid}"
