"""The checkpoint's form: kept so that the version before and the one after can read it, and trusted by its bytes alone."""

from __future__ import annotations

import hashlib
import json

import pytest

from regauge.base import InputError
from regauge.driver import Stack
from regauge.driver.checkpoint import ClaimState, HeldDevice, Owner, PreparedClaim, Record, decode, encode

# What the first version wrote. Later ones may write more fields; these must stay, and mean the same.
FIRST = {
    "bootId": "boot-1",
    "claims": {
        "uid-1": {
            "uid": "uid-1",
            "namespace": "team",
            "name": "train",
            "state": "PrepareCompleted",
            "devices": [
                {
                    "device": "gpu-0",
                    "pool": "n1",
                    "requests": ["r"],
                    "shareId": "s-1",
                    "admin": True,
                    "identity": ["uuid=GPU-0"],
                    "cdiIds": ["example.com/gpu=claim-uid-1-gpu-0"],
                    "consumed": {"memory": "1Gi"},
                }
            ],
        }
    },
    "owners": {"gpu-0": {"stack": "dra", "identity": ["uuid=GPU-0"]}, "gpu-1": {"stack": "device-plugin"}},
}
HELD = HeldDevice(
    device="gpu-0",
    pool="n1",
    requests=("r",),
    share_id="s-1",
    admin=True,
    identity=("uuid=GPU-0",),
    cdi_ids=("example.com/gpu=claim-uid-1-gpu-0",),
    consumed={"memory": "1Gi"},
)
CLAIM = PreparedClaim(uid="uid-1", namespace="team", name="train", state=ClaimState.COMPLETED, devices=(HELD,))
RECORD = Record(
    "boot-1",
    {"uid-1": CLAIM},
    {"gpu-0": Owner(stack=Stack.DRA, identity=("uuid=GPU-0",)), "gpu-1": Owner(stack=Stack.DEVICE_PLUGIN)},
)


def as_file(body: object, **layout: object) -> bytes:
    """A checkpoint with this content, as any version writes it."""
    line = json.dumps(body, **layout).encode()  # type: ignore[arg-type]  # the options of json.dumps
    head = {"format": "regauge.dev/driver-checkpoint", "sha256": hashlib.sha256(line).hexdigest()}
    return json.dumps(head).encode() + b"\n" + line + b"\n"


def test_the_version_before_reads_what_is_written_now() -> None:
    """It knows these fields, finds them under the same names, and leaves alone what it does not know."""
    head, body, rest = encode(RECORD).split(b"\n")
    assert json.loads(body) == FIRST
    assert json.loads(head) == {"format": "regauge.dev/driver-checkpoint", "sha256": hashlib.sha256(body).hexdigest()}
    assert rest == b""


@pytest.mark.parametrize("layout", [{}, {"sort_keys": True}, {"separators": (",", ":")}])
def test_what_the_version_before_wrote_is_read(layout: dict[str, object]) -> None:
    assert decode(as_file(FIRST, **layout), "f") == RECORD


def test_what_a_later_version_adds_is_passed_over() -> None:
    later = json.loads(json.dumps(FIRST))
    later["network"] = {"x": 1}
    later["claims"]["uid-1"]["since"] = "2030-01-01"
    later["claims"]["uid-1"]["devices"][0]["lane"] = [1, 2]
    later["owners"]["gpu-0"]["by"] = None
    assert decode(as_file(later), "f") == RECORD


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"boot-1", b"boot-2", "its checksum does not match its content"),
        (b'"gpu-0"', b'"gpu-0" ', "its checksum does not match its content"),
        (b"driver-checkpoint", b"other-checkpoint", "it is of the format 'regauge.dev/other-checkpoint'"),
        (b"\n", b"", "it does not begin as a checkpoint does"),
    ],
)
def test_the_checksum_is_over_the_bytes(old: bytes, new: bytes, why: str) -> None:
    """Also over those that mean nothing: what was written is not judged by what it would be if it were written anew."""
    with pytest.raises(InputError, match=why):
        decode(encode(RECORD).replace(old, new), "f")


def test_content_of_another_kind_is_said() -> None:
    with pytest.raises(InputError, match="its content cannot be understood"):
        decode(as_file({**FIRST, "claims": {"uid-1": {"uid": 1}}}), "f")
