"""Rules about images of what serves devices: where they come from, and who vouches for them."""

from __future__ import annotations

from collections.abc import Iterator

from regauge.audit.estate_drivers import drivers
from regauge.audit.ground import Ground, Spot, items, mapping, seen, some
from regauge.model import Document

_KYVERNO = (("kyverno.io", "ClusterPolicy"), ("policies.kyverno.io", "ImageValidatingPolicy"))
_SIGSTORE = ("policy.sigstore.dev", "ClusterImagePolicy")
_HUB = "docker.io/"


def foreign(ground: Ground) -> Iterator[Spot]:
    """IMAGE-FOREIGN: an image of a driver comes from a registry that the owner does not allow."""
    allowed = ground.given.policy.registries
    if not allowed:
        return
    for driver in drivers(ground):
        bad = [
            str(one.get("image"))
            for one in driver.containers
            if not _is_from(full_name(str(one.get("image"))), allowed)
        ]
        if bad:
            what = f"{driver.document.title} runs {some(bad)}; allowed is {some(list(allowed))}"
            yield Spot(driver.document.title, what, tuple(seen(driver.document, one, "image") for one in bad))


def unsigned(ground: Ground) -> Iterator[Spot]:
    """IMAGE-UNSIGNED: signatures are wanted, and no admission policy of the input verifies those of a driver's images."""
    if not ground.given.policy.signatures or _verifying(ground):
        return
    for driver in drivers(ground):
        images = [str(one.get("image")) for one in driver.containers]
        what = f"nothing in the input verifies the signatures of {some(images)} ({driver.document.title})"
        yield Spot(driver.document.title, what, tuple(seen(driver.document, one, "image") for one in images))


def full_name(image: str) -> str:
    """The name of an image with its registry, which is Docker's where none is written."""
    first, slash, _ = image.partition("/")
    return image if slash and ("." in first or ":" in first or first == "localhost") else f"{_HUB}{image}"


def _is_from(image: str, allowed: tuple[str, ...]) -> bool:
    return any(image == one or image.startswith(one if one.endswith("/") else f"{one}/") for one in allowed)


def _verifying(ground: Ground) -> tuple[Document, ...]:
    """Policies that verify images: of Kyverno and of sigstore's controller."""
    kyverno = [
        one
        for kind in _KYVERNO
        for one in ground.snapshot.documents(kind)
        if one.kind == "ImageValidatingPolicy"
        or any(mapping(rule).get("verifyImages") for rule in items(mapping(one.object.get("spec")).get("rules")))
    ]
    return (*kyverno, *ground.snapshot.documents(_SIGSTORE))
