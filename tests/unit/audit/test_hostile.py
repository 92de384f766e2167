"""Whatever stands in a node's files, the audit ends with findings and not with a traceback."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.audit.nodes import ROOTS, node, of, spec

from regauge.audit import as_document, leftover_files, listed_devices
from regauge.base import pretty_json
from regauge.model.node_files import NodeFile, RuntimeProgram

WORDS = st.sampled_from(
    [
        b"[plugins]\ncri = 1\n",
        b'[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = "yes"\ncdi_spec_dirs = "x"\ncontainerd = [1]\n',
        b"[crio.runtime]\nruntimes = {a = 1, b = {runtime_path = 7}}\n",
        b"version = 3\nimports = 7\n",
        b'{"Data": "[]", "Checksum": 0}',
        b'{"Data": "{}", "Checksum": -1}',
        b'{"Data": "{\\"ClaimInfoStateList\\": [{\\"DriverState\\": 1}]}", "Checksum": 1}',
        b'{"preparedClaims": [1]}',
        b'{"v1": 7, "claims": {"x": 1}}',
        b"[" * 5000,
        b"a: &a [*a]",
        b"kind: x/y\ndevices: 7",
        spec().encode(),
        spec("gpu0", "deviceNodes: [{path: x}]").encode(),
        spec("gpu0", "hooks: [{hookName: prestart, path: y}]", "mounts: [{hostPath: '', containerPath: z}]").encode(),
    ]
)
DATA = st.one_of(st.none(), st.binary(max_size=200), WORDS)
PATHS = st.sampled_from(
    [
        "/etc/containerd/config.toml",
        "/etc/crio/crio.conf",
        "/etc/nvidia-container-runtime/config.toml",
    ]
)
CHECKPOINTS = st.sampled_from(["/x/dra_manager_state", "/k/plugins/d/checkpoint.json", "driver-checkpoint.json"])


def files(paths: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[NodeFile, ...]]:
    one = st.builds(lambda path, data: NodeFile(path, data, ROOTS, "" if data is not None else "broken"), paths, DATA)
    return st.lists(one, max_size=3).map(tuple)


@settings(max_examples=150, deadline=None)
@given(
    specs=st.dictionaries(st.sampled_from(["a.yaml", "b.json", "c.yml"]), DATA, max_size=3),
    configs=files(PATHS),
    checkpoints=files(CHECKPOINTS),
    build=st.text(max_size=80),
    version=st.sampled_from(
        ["", "containerd://", "containerd://x", "containerd://1.7", "cri-o://v1.2.3.4", "docker://20"]
    ),
)
def test_any_content(
    specs: dict[str, bytes | None],
    configs: tuple[NodeFile, ...],
    checkpoints: tuple[NodeFile, ...],
    build: str,
    version: str,
) -> None:
    run = {name: NodeFile(f"/var/run/cdi/{name}", data, ROOTS, "broken") for name, data in specs.items()}
    found = node(
        run=run,
        configs=configs,
        checkpoints=checkpoints,
        programs=(RuntimeProgram("/usr/bin/containerd", build),),
        runtime_version=version,
        runtime_classes={"c": "h"},
        paths={"/": None},
        all_paths=True,
    )
    audit = of(found)
    assert pretty_json([as_document(one) for one in audit.findings])
    assert all(one.why and one.fix for one in audit.findings)
    unreadable = {f"/var/run/cdi/{name}" for name, data in specs.items() if data is None}
    assert not unreadable & {one.path for one in leftover_files(found)}
    listed_devices(found)
