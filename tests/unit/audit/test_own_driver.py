"""What the audit knows of this project's own driver: the files that it wrote, and its checkpoint."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from tests.unit.audit.nodes import ROOTS, node, spec

from regauge.audit import audit_cdi, leftover_files, listed_devices
from regauge.driver import Stack
from regauge.driver.checkpoint import ClaimState, Owner, PreparedClaim, Record, encode
from regauge.model.node_files import NodeFile

UID = "7b0c2d1e-0000-4000-8000-00000000000a"
CHECKPOINT = "/var/lib/kubelet/plugins/gpu.acme.test/checkpoint.json"


def checkpoint(*claims: str) -> bytes:
    """As the driver writes it."""
    prepared = {uid: PreparedClaim(uid=uid, namespace="n", name="c", state=ClaimState.COMPLETED) for uid in claims}
    owners = {"gpu0": Owner(stack=Stack.DEVICE_PLUGIN), "gpu1": Owner(stack=Stack.DRA)}
    return encode(Record("boot-1", prepared, owners))


def files_of(data: bytes) -> tuple[NodeFile, ...]:
    """The checkpoint beside a kubelet's that has no claim."""
    claims = json.dumps({"ClaimInfoStateList": []})
    kubelet = json.dumps({"Data": claims, "Checksum": zlib.crc32(claims.encode())}).encode()
    facts = replace(ROOTS, modified_s=500.0)
    return NodeFile("/var/lib/kubelet/dra_manager_state", kubelet, ROOTS), NodeFile(CHECKPOINT, data, facts)


@pytest.mark.row(37, how="unit")
def test_its_specs_are_known_by_its_checkpoint() -> None:
    """They are named after the CDI kind, which need not be the driver's name."""
    run = {
        "acme.org-gpu.yaml": spec(kind="acme.org/gpu"),
        f"acme.org-gpu_{UID}.yaml": spec(f"claim-{UID}-gpu1", kind="acme.org/gpu"),
        "else.yaml": spec("gpu7", kind="else.org/gpu"),
    }
    listed = listed_devices(node(run=run, checkpoints=files_of(checkpoint(UID))))
    assert {one.name.device: (one.generator.name, one.generator.how) for one in listed} == {
        "gpu0": ("gpu.acme.test", "its checkpoint has these devices"),
        f"claim-{UID}-gpu1": ("gpu.acme.test", "its checkpoint has this claim"),
        "gpu7": ("unknown", "neither its annotations, its name nor its hooks tell"),
    }


def test_a_checkpoint_without_claims_is_understood_and_a_broken_one_is_not() -> None:
    """What was prepared for a claim that is in neither goes; nothing goes as long as one of them cannot be trusted."""
    name = f"k8s.gpu.acme.test-claim_{UID}.yaml"
    left = node(run={name: spec(f"{UID}-a0", kind="k8s.gpu.acme.test/claim")}, checkpoints=files_of(checkpoint()))
    assert [one.path for one in leftover_files(left)] == [f"/var/run/cdi/{name}"]
    assert not any(CHECKPOINT in one.what for one in audit_cdi(left).unknown)
    broken = replace(left, checkpoints=files_of(checkpoint().replace(b"boot-1", b"boot-2")))
    assert leftover_files(broken) == ()
    (told,) = [one for one in audit_cdi(broken).unknown if CHECKPOINT in one.what]
    assert told.why == "its checksum does not match its content"
