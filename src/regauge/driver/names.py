"""Which names Kubernetes accepts for drivers, devices, resources and attributes. Each answers why not, or None."""

from __future__ import annotations

import re

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

DRIVER_LIMIT = 63
POOL_LIMIT = 253
ATTRIBUTE_DOMAIN_LIMIT = 63
ATTRIBUTE_NAME_LIMIT = 32


def device_name_problem(name: str) -> str | None:
    if len(name) <= 63 and _LABEL.fullmatch(name):
        return None
    return "a device name has at most 63 of a-z, 0-9 and '-', and starts and ends with a letter or digit"


def driver_name_problem(name: str) -> str | None:
    if len(name) <= DRIVER_LIMIT and _SUBDOMAIN.fullmatch(name):
        return None
    return f"a driver name is a DNS name in small letters of at most {DRIVER_LIMIT}, such as gpu.example.com"


def pool_name_problem(name: str) -> str | None:
    if len(name) <= POOL_LIMIT and all(_SUBDOMAIN.fullmatch(part) for part in name.split("/")):
        return None
    return f"a pool is called by DNS names with '/' between them, of at most {POOL_LIMIT} letters"


def resource_name_problem(name: str) -> str | None:
    """Extended resources: domain/name, outside Kubernetes' own domains."""
    domain, slash, short = name.partition("/")
    if not slash or not _SUBDOMAIN.fullmatch(domain) or len(short) > 63 or not _QUALIFIED.fullmatch(short):
        return "a resource name is domain/name, such as example.com/gpu"
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io"):
        return "the domain kubernetes.io is not for extended resources"
    if domain.startswith("requests."):
        return "a resource name that begins with requests. is taken for a quota"
    return None


def attribute_name_problem(name: str) -> str | None:
    """Attributes and capacities: a C identifier, with a domain before it when it is not the driver's own."""
    domain, slash, short = name.rpartition("/")
    if slash and (len(domain) > ATTRIBUTE_DOMAIN_LIMIT or not _SUBDOMAIN.fullmatch(domain)):
        return f"{domain!r} is not a DNS name of at most {ATTRIBUTE_DOMAIN_LIMIT} letters"
    if len(short) > ATTRIBUTE_NAME_LIMIT or not _IDENTIFIER.fullmatch(short):
        return f"{short!r} is not a name of at most {ATTRIBUTE_NAME_LIMIT} letters, digits and '_'"
    return None


def condition_problem(name: str) -> str | None:
    """Types of conditions: a name, with a domain before it or not."""
    domain, slash, short = name.rpartition("/")
    if (slash and (len(domain) > 253 or not _SUBDOMAIN.fullmatch(domain))) or len(short) > 63:
        return "a condition is called [domain/]Name"
    return None if _QUALIFIED.fullmatch(short) else "a condition is called [domain/]Name"
