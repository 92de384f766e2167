"""Transcripts of kubectl with a real cluster, and the same commands on ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import shared
from tests.unit.cluster.up.served import Served

from regauge.cluster.api import Api
from regauge.cluster.serving import custom_kinds
from regauge.model import Kind, find_kind, read_documents
from regauge.model.kinds import CUSTOM_RESOURCE_DEFINITION, POD, RESOURCE_CLAIM

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r'"?20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z"?')
_DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} 20\d\d [\d:]{8} \+0000")
_AGE = r"(?:\d{1,3}(?:[ydhs]|m)(?:\d+(?:d|h|m|s))?|<unknown>|<invalid>)"
_SUFFIX = r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}(?=$|[^a-z0-9])"
_GENERATED = re.compile(r"[a-z][a-z0-9-]*-[bcdfghjklmnpqrstvwxz2456789]{5}(?=$|[^a-z0-9-])")
_NODES = r"\b(?:a100|h100|l4|l40s|canary|mixed|mig|t4|cpu|gpu-node)-\d+\b"
_SPACES = re.compile(r"[ \t]+")


@dataclass(frozen=True)
class Transcript:
    """One command with its input, and what it printed and ended with."""

    name: str
    command: str
    stdin: str
    stdout: str
    stderr: str
    code: int
    within_s: int = 0


def transcripts() -> Iterator[Transcript]:
    for path in sorted(Path(shared("vectors/stories/kubectl")).glob("[0-9]*.txt")):
        text = path.read_text()
        head, _, rest = text.partition("\n--- stdout\n")
        stdout, _, rest = rest.partition("--- stderr\n")
        stderr, _, code = rest.rpartition("--- exit ")
        first, _, below = head.partition("\n")
        stdin = below.removesuffix("EOF") if first.endswith("<<'EOF'") else ""
        before, _, command = first.removesuffix(" <<'EOF'").partition("kubectl ")
        limit = re.findall(r"timeout (\d+)", before)
        within_s = int(limit[0]) if limit else 0
        yield Transcript(path.stem, command, stdin, stdout, stderr, int(code), within_s)


def load_estate(api: Api) -> None:
    """The small estate as it stood when the transcripts were recorded, uids and statuses kept."""
    documents = [
        document.object
        for path in sorted(Path(shared("estates/small")).glob("*.yaml"))
        if path.stem != "version"
        for document in read_documents(path.read_bytes(), path.name)
    ]
    kinds: dict[tuple[str, str], Kind] = {}
    documents.sort(key=lambda item: item["kind"] != CUSTOM_RESOURCE_DEFINITION.kind)
    for item in documents:
        found = find_kind(item["apiVersion"], item["kind"]) or kinds.get((item["apiVersion"], item["kind"]))
        if found is None:
            continue
        api.restore(found, item)
        if found == CUSTOM_RESOURCE_DEFINITION:
            for kind in custom_kinds(item):
                kinds[kind.api_version, kind.kind] = kind


def renamed(server: Served, command: str) -> str:
    """With the generated names that the estate has now: it was made again after the transcripts."""
    for name in set(_GENERATED.findall(command)):
        stem = name[: -len("xxxxx")]
        for kind in (POD, RESOURCE_CLAIM):
            found = [item["metadata"]["name"] for item in server.api.list(kind)]
            if kind == RESOURCE_CLAIM:
                stem = re.sub(_SUFFIX, "<rand>", name)
                found = [item for item in found if re.sub(_SUFFIX, "<rand>", item) == stem]
            match = next((item for item in found if item.startswith(stem) or kind == RESOURCE_CLAIM), None)
            if match:
                command = command.replace(name, match)
                break
    return command


def plain(text: str, server: Served) -> str:
    """Without what no two runs have in common: times, uids, ages, the width of columns, what the client logs; and without
    the devices and nodes that were chosen, which the estate has chosen anew since the recording.
    """
    text = text.replace(server.server.removeprefix("https://"), "<server>").replace(str(server.directory), "<dir>")
    text = text.replace("kubernetes-admin", "admin")
    text = re.sub(r"containerd://\S+", "containerd://<id>", text)
    text = re.sub(r"X509SHA256=[0-9a-f]+", "X509SHA256=<hash>", text)
    text = re.sub(r"\bgpu-\d+\b", "gpu-<n>", text)
    text = re.sub(_NODES, "<node>", text)
    text = re.sub(r"\bzone-[a-c]\b", "<zone>", text)
    text = re.sub(_SUFFIX, "<rand>", text)
    for old, new in ((_UID, "<uid>"), (_TIME, "<time>"), (_DATE, "<date>")):
        text = old.sub(new, text)
    text = re.sub(r'(resourceVersion"?: ?)"\d+"', r'\1"<rv>"', text)
    text = re.sub(r"(Resource Version: +)\d+", r"\1<rv>", text)
    text = re.sub(rf"(?m)(?<!for )(?<![^\s(]){_AGE}(\s\(x\d+ over {_AGE}\))?(?=\s|$)", "<age>", text)
    text = re.sub(r"<age>( \(x<n> over <age>\))", "<age>", text)
    text = re.sub(r"20\d\d-\d\d-\d\d [\d:]{8}\.\d+ \+0000", "<mtime>", text)
    text = re.sub(r"/tmp/(LIVE|MERGED)-\d+", r"/tmp/\1-<n>", text)
    text = re.sub(r"(?m)^[EWI]\d{4} [\d:.]+ +\d+ ", "<klog> ", text)
    lines = (_SPACES.sub(" ", line).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if not line.startswith("<klog>"))


def difference(server: Served, recorded: Transcript) -> str:
    """What differs, "" when it is all the same."""
    done = server.kubectl(renamed(server, recorded.command), recorded.stdin, within_s=recorded.within_s)
    if done.returncode != recorded.code:
        return f"exit {done.returncode}, not {recorded.code}: {done.stderr.strip()[-300:]}"
    for name, ours, theirs in (("stdout", done.stdout, recorded.stdout), ("stderr", done.stderr, recorded.stderr)):
        have, want = plain(ours, server), plain(theirs, server)
        if have != want and sorted(have.splitlines()) != sorted(want.splitlines()):
            return f"{name}: {_first_difference(have, want)}"
    return ""


def _first_difference(have: str, want: str) -> str:
    ours, theirs = have.splitlines(), want.splitlines()
    for number in range(max(len(ours), len(theirs))):
        left = ours[number] if number < len(ours) else "<end>"
        right = theirs[number] if number < len(theirs) else "<end>"
        if left != right:
            return f"line {number + 1}: {left[:160]!r} instead of {right[:160]!r}"
    return ""
