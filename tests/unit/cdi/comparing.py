"""How our answers are held against the reference program's, and the few places where they differ on purpose."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from typing import Any

from tests.support import oracle

from regauge.cdi import HostDevice, NoHostDevice, conformance

# What the reference says, by pattern, and the code that ours must carry for the same error.
ERROR_CODES = [
    (r"nil pointer dereference|invalid \(nil\)", "null-entry"),
    (r"unmarshal CDI Spec: EOF|no Spec data", "empty"),
    (r"already defined at line|already set in type", "duplicate-key"),
    (r"field .* not found in type", "unknown-field"),
    (r"cannot unmarshal|cannot decode|map merge requires|base64 data", "type"),
    (r"contains itself|excessive aliasing", "alias"),
    (r"yaml: ", "syntax"),
    (r"invalid version", "version-unknown"),
    (r"must be at least v", "version-too-low"),
    (r"invalid vendor\. ", "vendor"),
    (r"invalid class\. ", "class"),
    (r"invalid hook .*: invalid environment", "hook-env"),
    (r"invalid environment variable", "env"),
    (r"empty\) device path", "node-path"),
    (r": invalid type ", "node-type"),
    (r"negative\) device number", "node-number"),
    (r"invalid permissions", "node-permissions"),
    (r"invalid hook name", "hook-name"),
    (r"with empty path", "hook-path"),
    (r"empty host path", "mount-host-path"),
    (r"empty container path", "mount-container-path"),
    (r"invalid ClosID", "clos-id"),
    (r"duplicate HostInterfaceName", "net-host-duplicate"),
    (r"duplicate Name", "net-name-duplicate"),
    (r"empty HostInterfaceName", "net-host"),
    (r"empty Name", "net-name"),
    (r"empty device edits", "empty-edits"),
    (r"multiple device", "device-duplicate"),
    (r"no devices", "no-devices"),
    (r"failed add device", "device-name"),
    (r"conflicting device", "conflict"),
]


class Host:
    """What the cases tagged `host:` look at, as on any Linux machine."""

    def device(self, path: str) -> HostDevice | NoHostDevice:
        known = {"/dev/null": HostDevice("c", 1, 3, 0o666), "/dev/zero": HostDevice("c", 1, 5, 0o666)}
        if path == "/etc/passwd":
            return NoHostDevice("not a device node")
        return known.get(path) or NoHostDevice("no such file or directory")


def reference_code(error: str) -> str:
    """The code of the first thing the reference complains of: it lists all that cannot be unmarshalled."""
    error = re.sub(r"(?s)(unmarshal errors:\n.*?)\n.*", r"\1", error)
    return next(code for pattern, code in ERROR_CODES if re.search(pattern, error))


def difference(case: dict[str, Any], expect: dict[str, Any]) -> str | None:
    """Where our answer to the case is not the reference's; None when it is."""
    ours = conformance(case, Host())
    theirs = dict(expect)
    op = case["op"]
    if theirs["ok"] != ours["ok"]:
        return f"ok: reference {theirs['ok']}, ours {ours['ok']}: {theirs.get('error')} / {ours.get('error')}"
    if not theirs["ok"] and (op == "validate" or op == "write"):
        wanted = reference_code(theirs["error"])
        if op == "validate" and ours["code"] != wanted:
            return f"code: reference {wanted}, ours {ours['code']}: {theirs['error']} / {ours['error']}"
        if wanted == "null-entry":
            return None  # the reference crashes, or finds it only after reading; ours ends with the reading
    if op == "list":
        wanted = {path: sorted(map(reference_code, errors)) for path, errors in theirs["errors"].items()}
        if wanted != {path: sorted(codes) for path, codes in ours["codes"].items()}:
            return f"errors: reference {wanted}, ours {ours['codes']}"
    if op == "inject" and not ours["ok"]:
        theirs.pop("oci"), ours.pop("oci")  # the reference may leave it half edited, ours is never touched
    theirs, ours = comparable(theirs), comparable(ours)
    return None if theirs == ours else f"reference {json.dumps(theirs)}\nours {json.dumps(ours)}"


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs on purpose: texts of errors, file mode, `[]` for `null`, an empty `schemata` kept."""
    dropped = ("id", "error", "errors", "code", "codes", "mode", "json_schema_ok", "panic")
    answer = json.loads(json.dumps({name: value for name, value in answer.items() if name not in dropped}))
    spec = answer.get("spec")
    if spec:
        spec["devices"] = spec["devices"] or []
        for part in [spec, *spec["devices"]]:
            rdt = part["containerEdits"].get("intelRdt", {})
            if rdt.get("schemata") == []:
                del rdt["schemata"]
    return answer


def ask_oracle(cases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reference program's answers, in order."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([oracle("cdi")], input=lines, capture_output=True, text=True, timeout=100, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(cases: list[dict[str, Any]], answers: list[dict[str, Any]]) -> list[str]:
    assert len(cases) == len(answers)
    found = []
    for case, answer in zip(cases, answers, strict=True):
        text = difference(case, answer)
        if text:
            found.append(f"{json.dumps(case)[:1500]}\n{text[:1500]}")
    return found
