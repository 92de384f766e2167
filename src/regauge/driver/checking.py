"""Descriptions and manifests looked at before they are used: what `regauge driver check` says. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regauge.base import InputError
from regauge.driver.description import KIND, Description
from regauge.driver.kinds import DeviceKind
from regauge.driver.opaque import drivers_in, parameters_in, read_config
from regauge.driver.process import check
from regauge.model import Document, read_documents


@dataclass(frozen=True, slots=True)
class CheckedDescription:
    """A description that is right by itself."""

    file: str
    driver: str
    kind: str
    devices: int
    rules: int


@dataclass(slots=True)
class Checked:
    """What was looked at and what is wrong. `foreign` counts parameters for drivers without a description here."""

    descriptions: list[CheckedDescription] = field(default_factory=list)
    parameters: int = 0
    foreign: int = 0
    problems: list[InputError] = field(default_factory=list)


def check_files(files: Sequence[tuple[str, bytes]], kinds: Mapping[str, type[DeviceKind]]) -> Checked:
    """Check files given by name and content, in any order. Raises nothing: what is wrong is in the result."""
    checked = Checked()
    drivers: dict[str, type[DeviceKind]] = {}
    manifests: list[Document] = []
    for name, data in files:
        try:
            documents = list(read_documents(data, name))
            if any(document.kind == KIND for document in documents):
                description = check(data, name, kinds)
                drivers[description.driver] = kinds[description.device_kind]
                checked.descriptions.append(_summary(name, description))
            else:
                manifests.extend(documents)
        except InputError as error:
            checked.problems.append(error)
    for document in manifests:
        _check_parameters(document, drivers, checked)
    if manifests and not drivers and not checked.problems:
        fix = "give the description of devices, too: it names the driver and its kind"
        checked.problems.append(InputError("there is nothing to check the manifests against", fix=fix))
    return checked


def _summary(file: str, description: Description) -> CheckedDescription:
    return CheckedDescription(
        file, description.driver, description.device_kind, len(description.devices), len(description.chosen)
    )


def _check_parameters(document: Document, drivers: Mapping[str, type[DeviceKind]], checked: Checked) -> None:
    for driver in drivers_in(document):
        for where, parameters in parameters_in(document, driver):
            if driver not in drivers:
                checked.foreign += 1
                continue
            checked.parameters += 1
            try:
                read_config(parameters, drivers[driver].CONFIGS, where)
            except InputError as error:
                checked.problems.append(error)
