"""The YAML reader beside the real kubectl, which converts a file without a cluster."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.support import kubectl

from regauge.base import InputError
from regauge.model import read_documents
from regauge.model.manifest_yaml import LinedDict

SCALARS = """y n Y NO off true False ~ null 010 0o10 08 0x1F 0b11 0_1 1_000 +5 -7 .5 1. 1e3 1.5e-3 2026-01-01 12:30:45
0000:00:01.0 1.2.3 18446744073709551615 18446744073709551616 -9223372036854775808 99999999999999999999 << = 0x 1e 1__0
'8' "yes" !!str\\ 8 !!float\\ 3 !!binary\\ aGk= !custom\\ x 0.1 1E3 .inf1 -.5 _1 1_ 0o8 0b2""".replace(
    "\\ ", "\0"
).split()
_SAME = {dict: (LinedDict,)}
KEYS = ["1", "1.5", "y", "off", "010", "a b", "1e3"]  # no two that become one: of those Go keeps either


def _manifest() -> str:
    lines = ["apiVersion: example.com/v1", "kind: Foo", "metadata: {name: a}", "spec:"]
    lines += [f"  s{number}: {text.replace(chr(0), ' ')}" for number, text in enumerate(SCALARS)]
    lines += ["  keys:", *(f"    {key}: k{number}" for number, key in enumerate(KEYS))]
    lines += ["  anchor: &a {x: 1, z: [1, 2]}", "  alias: *a", "  merged:", "    <<: *a", "    z: 3"]
    lines += [
        "  block: |",
        "    two",
        "    lines",
        "  folded: >-",
        "    one",
        "    line",
        "  empty:",
        "  nested: [[], {}]",
    ]
    return "\n".join(lines) + "\n"


def _kubectl_reads(path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(kubectl()), "label", "--local", "-f", str(path), "x=y", "-o", "json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_scalar_and_key_means_what_kubectl_makes_of_it(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(_manifest())
    answer = _kubectl_reads(path)
    assert answer.returncode == 0, answer.stderr
    theirs = json.loads(answer.stdout)["spec"]
    ours = next(read_documents(path.read_bytes(), "m.yaml")).object["spec"]
    wide = {key for key, value in theirs.items() if isinstance(value, int) and abs(value) >= 2**63}
    assert {key: float(theirs.pop(key)) for key in wide} == {key: float(ours.pop(key)) for key in wide}
    assert ours == theirs
    assert not {key for key in theirs if type(ours[key]) not in (type(theirs[key]), *_SAME.get(type(theirs[key]), ()))}


@pytest.mark.parametrize("text", ["~: x", "a: *none", "a: !!binary '%'", "a: - b", "a: [1", "\ta: 1"])
def test_what_kubectl_refuses_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(f"apiVersion: example.com/v1\nkind: Foo\nmetadata: {{name: a}}\nspec:\n  {text}\n")
    assert _kubectl_reads(path).returncode != 0
    with pytest.raises(InputError, match=r"m\.yaml"):
        list(read_documents(path.read_bytes(), "m.yaml"))
