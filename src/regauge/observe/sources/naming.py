"""Sources as the command line names them: `KIND`, or `KIND=PLACE`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from regauge.base import Files, InputError, Where
from regauge.observe.ports import Source
from regauge.observe.sources.mappings import Mappings, known_mappings, read_mappings
from regauge.observe.sources.nvml import nvml_source
from regauge.observe.sources.pod_resources import PodResourcesSource
from regauge.observe.sources.scraped import ScrapedSource, Target, check_url
from regauge.observe.sources.textfile import TextFileSource
from regauge.pluginapi import PluginNet

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
KUBELET_URL = "https://127.0.0.1:10250/metrics"
DRIVER_SOCKET = "unix:/run/regauge/driver.sock"
KINDS = {
    "pod-resources": "the kubelet's pod resources API; the kubelet's directory, by default /var/lib/kubelet",
    "nvml": "NVIDIA GPUs of this machine, by NVML",
    "exporter": "an exporter of device metrics, such as dcgm-exporter; its URL",
    "file": "a file with metrics, or a directory of *.prom files; its path",
    "driver": f"the metrics of a driver; its URL, by default {DRIVER_SOCKET}; NAME@URL where they do not tell its name",
    "kubelet": f"the kubelet's own metrics, with the pod's token; its URL, by default {KUBELET_URL}",
    "kubelet-insecure": "the same, whatever certificate it shows: most kubelets have one that nobody signed",
}
"""The kinds of sources, and what is read there."""
MAPPING = "mapping"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What sources are made of. `node` is the name of this node, "" for an exporter that serves no node alone. `account` is
    where the pod's token and the cluster's certificate authority are."""

    net: PluginNet
    files: Files
    node: str = ""
    mappings: Mappings = field(default_factory=known_mappings)
    account: str = ACCOUNT


def make_sources(texts: Iterable[str], around: Surroundings) -> tuple[Source, ...]:
    """The sources of these names, each once. `mapping=FILE` is none: what it says is understood of all the others, beside
    what is shipped. Raises `InputError`.
    """
    names = tuple(dict.fromkeys(texts))
    for text in names:
        if text.partition("=")[0] == MAPPING:
            around = replace(around, mappings=_own_mappings(text.partition("=")[2], around) + around.mappings)
    return tuple(make_source(text, around) for text in names if text.partition("=")[0] != MAPPING)


def _own_mappings(path: str, around: Surroundings) -> Mappings:
    if not path:
        raise InputError("mapping: which file?", fix="say mapping=FILE")
    try:
        data = around.files.read(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"it cannot be read: {reason}", where=Where(path), fix="check the path") from None
    return read_mappings(data, path)


def make_source(text: str, around: Surroundings) -> Source:
    """The source of `KIND` or `KIND=PLACE`; the text is its name too. Raises `InputError` for one that cannot be."""
    check_source(text, around)
    kind, _, place = text.partition("=")
    if kind == "nvml":
        return nvml_source(kind, around.node)
    if kind == "pod-resources":
        return PodResourcesSource(text, around.node, around.net, around.files, place.rstrip("/") or "/var/lib/kubelet")
    if kind == "file":
        return TextFileSource(text, place, around.mappings, around.node)
    return ScrapedSource(text, (_target(kind, place, around),), around.mappings)


def check_source(text: str, around: Surroundings) -> None:
    """Raises `InputError` for a text that names no source; what is there is not looked at."""
    kind, _, place = text.partition("=")
    if kind not in KINDS:
        raise InputError(f"there is no source {kind!r}", fix=f"one of {', '.join(KINDS)}")
    if kind in ("exporter", "file") and not place:
        raise InputError(f"source {kind}: where?", fix=f"say {kind}=PLACE: {KINDS[kind]}")
    if kind in ("pod-resources", "nvml") and not around.node:
        raise InputError(f"source {kind} is of one node", fix="say --node NAME")
    if kind not in ("nvml", "pod-resources", "file"):
        _target(kind, place, around)


def _target(kind: str, place: str, around: Surroundings) -> Target:
    if kind.startswith("kubelet"):
        url = check_url(place or KUBELET_URL)
        token, authority = (f"{around.account}/{name}" for name in ("token", "ca.crt"))
        if not url.startswith("https:"):
            return Target(url, around.node)
        insecure = kind == "kubelet-insecure"
        return Target(url, around.node, token_file=token, ca_file="" if insecure else authority, insecure=insecure)
    if kind == "driver":
        driver, at, url = place.rpartition("@")
        if not at:
            driver, url = "", place
        return Target(check_url(url or DRIVER_SOCKET), around.node, driver)
    return Target(check_url(place), around.node)
