"""What is written is read again as the same, by us, by YAML 1.1 readers and by JSON readers."""

from __future__ import annotations

import json
import string

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regauge.base import InputError
from regauge.cdi import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
    annotate,
    annotated_devices,
    annotation_key,
    document_of,
    file_for,
    is_qualified,
    minimum_version,
    parse,
    parse_device,
    read_spec,
    spec_name,
    split_device,
    to_json,
    to_yaml,
    with_minimum_version,
)
from regauge.cdi.reading import _short_cut

LETTERS = st.sampled_from(string.ascii_letters + string.digits)
INSIDE = string.ascii_letters + string.digits + "_.-"
PARTS = st.builds(
    lambda a, b, c: a + b + c, st.sampled_from(string.ascii_letters), st.text(INSIDE, max_size=6), LETTERS
)
NAMES = st.builds(lambda a, b, c: a + b + c, LETTERS, st.text(INSIDE + ":", max_size=6), LETTERS)
WORDS = "yes ~ 0x10 1e3 12:30:45 2026-01-01 << a: null é 😀 ' \" \\ \x7f \u200b \ufeff --- ... %a { [ &a *a !a |"
SPACED = ["- a", "a: b", "a #b", " a", "a ", "a\nb", "\t", "\x85", "\u2028"]
AWKWARD = st.sampled_from([*WORDS.split(), *SPACED])
TEXTS = AWKWARD | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
ENV = st.builds(lambda name, value: f"{name}={value}", PARTS, TEXTS)
UINT32 = st.integers(0, 2**32 - 1)
INT63 = st.integers(0, 2**63 - 1)


def tuples(of: st.SearchStrategy, most: int = 2) -> st.SearchStrategy:
    return st.lists(of, max_size=most).map(tuple)


NODES = st.builds(
    DeviceNode,
    path=TEXTS,
    host_path=TEXTS | st.just(""),
    type=st.sampled_from(["", "b", "c", "u", "p"]),
    major=INT63,
    minor=INT63,
    file_mode=st.none() | UINT32,
    permissions=st.sampled_from(["", "r", "rwm", "none"]),
    uid=st.none() | UINT32,
    gid=st.none() | UINT32,
)
HOOKS = st.builds(
    Hook,
    hook_name=st.sampled_from(["prestart", "poststop"]),
    path=TEXTS,
    args=tuples(TEXTS),
    env=tuples(ENV),
    timeout=st.none() | st.integers(-(2**63), 2**63 - 1),
)
MOUNTS = st.builds(
    Mount, host_path=TEXTS, container_path=TEXTS, options=tuples(TEXTS), type=st.sampled_from(["", "bind"])
)
RDT = st.builds(
    IntelRdt, clos_id=PARTS, schemata=st.none() | tuples(TEXTS), mem_bw_schema=TEXTS, enable_monitoring=st.booleans()
)
EDITS = st.builds(
    ContainerEdits,
    env=tuples(ENV),
    device_nodes=tuples(NODES),
    net_devices=tuples(st.builds(NetDevice, host_interface_name=TEXTS, name=TEXTS), 1),
    hooks=tuples(HOOKS),
    mounts=tuples(MOUNTS),
    intel_rdt=st.none() | RDT,
    additional_gids=tuples(UINT32),
)
ANNOTATIONS = st.dictionaries(TEXTS, TEXTS | st.just(""), max_size=2)
SPECS = st.builds(
    lambda kind, annotations, edits, devices: with_minimum_version(
        Spec(kind=kind, annotations=annotations, container_edits=edits, devices=tuple(devices))
    ),
    st.builds(lambda vendor, name: f"{vendor}/{name}", PARTS, PARTS),
    ANNOTATIONS,
    EDITS,
    st.lists(
        st.builds(
            Device,
            name=NAMES,
            annotations=ANNOTATIONS,
            container_edits=EDITS.filter(lambda edits: not edits.is_empty()),
        ),
        min_size=1,
        max_size=2,
        unique_by=lambda device: device.name,
    ),
)
MANY = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.row(30, how="unit")
@MANY
@given(SPECS)
def test_written_and_read_again(spec: Spec) -> None:
    assert read_spec(to_json(spec)) == spec
    assert read_spec(to_yaml(spec)) == spec


@MANY
@given(SPECS)
def test_other_readers_see_the_same(spec: Spec) -> None:
    document = document_of(spec)
    assert json.loads(to_json(spec)) == document
    by_yaml_1_1 = yaml.safe_load(to_yaml(spec))
    assert {"containerEdits": {}, **by_yaml_1_1} == document


@MANY
@given(SPECS)
def test_the_short_cut_reads_what_the_long_way_reads(spec: Spec) -> None:
    text = to_json(spec).decode()
    short = _short_cut(text)
    assert short in (None, spec)
    if text.isascii() and "\\" not in text and "\x7f" not in text and not spec.annotations:
        assert short == spec
    assert parse(" " + text).spec == spec  # a leading space takes the long way


@MANY
@given(SPECS)
def test_one_version_less_is_refused_for_the_last_device(spec: Spec) -> None:
    order = ["0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"]
    needed = minimum_version(spec)
    assert spec.cdi_version == needed
    single = Spec(kind=spec.kind, devices=spec.devices[-1:], container_edits=spec.container_edits)
    needed = minimum_version(single)
    if needed != "0.3.0":
        lower = order[order.index(needed) - 1]
        with pytest.raises(InputError, match=needed):
            read_spec(to_json(with_version(single, lower)))


def with_version(spec: Spec, version: str) -> Spec:
    return Spec(cdi_version=version, kind=spec.kind, devices=spec.devices, container_edits=spec.container_edits)


@MANY
@given(PARTS, PARTS, NAMES)
def test_qualified_names(vendor: str, class_name: str, device: str) -> None:
    name = f"{vendor}/{class_name}={device}"
    assert parse_device(name) == (vendor, class_name, device) == split_device(name)
    assert str(parse_device(name)) == name
    assert is_qualified(name)
    for bad in (
        f"-{name}",
        f"{name}-",
        f"{name}\n",
        f"{vendor}={device}",
        f"/{name}",
        f"{vendor}//{class_name}={device}",
    ):
        assert not is_qualified(bad)
        with pytest.raises(InputError):
            parse_device(bad)


@MANY
@given(st.lists(st.builds(lambda a, b, c: f"{a}/{b}={c}", PARTS, PARTS, NAMES), min_size=1, max_size=4))
def test_annotations_carry_devices(devices: list[str]) -> None:
    before = {"other": "kept"}
    after = annotate(before, "vendor.dev", "pod/1", devices)
    key = annotation_key("vendor.dev", "pod/1")
    assert key == "cdi.k8s.io/vendor.dev_pod_1"
    assert annotated_devices(after) == ([key], devices)
    assert before == {"other": "kept"} and after["other"] == "kept"
    with pytest.raises(InputError, match="in use"):
        annotate(after, "vendor.dev", "pod/1", devices)


def test_names_of_files() -> None:
    spec = with_minimum_version(
        Spec(kind="v.com/c", devices=(Device(name="a", container_edits=ContainerEdits(env=("A=1",))),))
    )
    assert spec_name("v.com/c") == "v.com-c"
    assert spec_name("v.com/c", "pod/uid") == "v.com-c_pod_uid"
    assert file_for(spec, spec_name(spec.kind))[0] == "v.com-c.yaml"
    assert file_for(spec, "x.json")[1][:1] == b"{"
    for bad in ("../x", "/etc/passwd", "a/b", "", ".."):
        with pytest.raises(InputError, match="name of a spec file"):
            file_for(spec, bad)
