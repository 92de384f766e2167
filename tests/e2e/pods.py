"""Pods that say what they see, and what is read from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.e2e.site import Doc, Site, until

# The kubelet may ask for a claim before the API server's own caches know that its pod is on this node. It tries again after
# more than a minute.
TOO_EARLY = "no relationship found between node"

# Tells the environment, the device nodes, how those of the suite can be opened, the mounts and files about devices; then it
# waits.
SCRIPT = r"""
env | while read -r line; do echo "env|$line"; done
for d in /dev/* /dev/*/*; do
  if test -b "$d" || test -c "$d"; then echo "node|$d|$(stat -c '%t:%T|%a' "$d")"; fi
done
for d in /dev/e2e*; do
  test -e "$d" || continue
  (exec 3<"$d") 2>/dev/null && echo "opens|$d|r"
  (exec 3>"$d") 2>/dev/null && echo "opens|$d|w"
done
while read -r id parent device root point options rest; do echo "mount|$point|$options"; done < /proc/self/mountinfo
for f in /opt/e2e*/mark; do test -e "$f" && echo "file|$f|$(cat "$f")"; done
for f in /var/run/kubernetes.io/dra-device-attributes/*/*/*/*; do
  test -f "$f" && echo "told|$f|$(set -f; echo $(cat "$f"))"
done
echo "end|"
exec sleep 3600
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a container sees, each as comparable texts."""

    env: frozenset[str]
    nodes: frozenset[str]
    opens: frozenset[str]
    mounts: frozenset[str]
    files: frozenset[str]

    def beyond(self, other: Seen) -> dict[str, list[str]]:
        """What is here and not there, by kind, sorted."""
        return {name: sorted(getattr(self, name) - getattr(other, name)) for name in self.__slots__}


def _mount(text: str) -> str:
    """A mount without the options that the host's file system decides."""
    point, _, options = text.partition("|")
    return f"{point}|{','.join(one for one in options.split(',') if not one.endswith('atime'))}"


def container(name: str, image: str, **resources: Any) -> Doc:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", SCRIPT],
        "resources": resources,
    }


@dataclass
class Pods:
    """Makes pods in the suite's namespace, on its node."""

    site: Site
    made: list[str] = field(default_factory=list)
    early: set[str] = field(default_factory=set)

    def limits(self, name: str, resource: str, **amounts: int) -> None:
        """A pod of containers that ask for so many of the resource; zero asks for nothing."""
        parts = [
            container(one, self.site.image, **({"limits": {resource: str(n)}} if n else {}))
            for one, n in amounts.items()
        ]
        self.create(name, parts)

    def claims(self, name: str, claims: dict[str, str], **wanted: list[str]) -> None:
        """A pod with claims (`claims`: name in the pod to claim, or to template when it begins with `template:`)."""
        entries = []
        for inside, source in claims.items():
            kind, _, other = source.rpartition(":")
            entries.append(
                {"name": inside, "resourceClaimTemplateName" if kind == "template" else "resourceClaimName": other}
            )
        parts = [
            container(one, self.site.image, **({"claims": [{"name": inside} for inside in names]} if names else {}))
            for one, names in wanted.items()
        ]
        self.create(name, parts, resourceClaims=entries)

    def create(self, name: str, containers: list[Doc], **spec: Any) -> None:
        metadata = {"name": name, "namespace": self.site.tag}
        base = {
            "nodeSelector": {"kubernetes.io/hostname": self.hostname()},
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": containers,
        }
        self.site.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**base, **spec}})
        self.made.append(name)

    def hostname(self) -> str:
        return str(self.site.get("node", self.site.node)["metadata"]["labels"]["kubernetes.io/hostname"])

    def get(self, name: str) -> Doc:
        return self.site.get("pod", name, "-n", self.site.tag)

    def running(self, name: str, timeout_s: float = 60.0) -> Doc:
        """The pod, once all its containers run."""

        def look() -> Doc | None:
            pod = self.get(name)
            states = pod.get("status", {}).get("containerStatuses", [])
            assert pod.get("status", {}).get("phase") != "Failed", pod["status"]
            if states and all("running" in one["state"] for one in states):
                return pod
            if name not in self.early and any(TOO_EARLY in text for text in self.site.events(name)):
                self.early.add(name)
                self.poke(name)
            return None

        try:
            return until(look, f"pod {name} runs", timeout_s)
        except BaseException:
            print(name, self.get(name).get("status"), self.site.events(name))
            raise

    def poke(self, name: str) -> None:
        """Change the pod object: the kubelet tries at once what failed, instead of after more than a minute."""
        self.site.run("annotate", "pod", name, "-n", self.site.tag, "poked=yes", "--overwrite")
        self.site.run("annotate", "pod", name, "-n", self.site.tag, "poked-")

    def seen(self, name: str, part: str) -> Seen:
        """What a container sees, as it told."""
        rows = self._rows(name, part)

        def of(kind: str) -> frozenset[str]:
            return frozenset(rest for what, rest in rows if what == kind)

        return Seen(of("env"), of("node"), of("opens"), frozenset(map(_mount, of("mount"))), of("file"))

    def metadata(self, name: str, part: str) -> dict[str, str]:
        """The files in a container that tell what its devices are, by path, each on one line."""
        files = (rest.partition("|") for what, rest in self._rows(name, part) if what == "told")
        return {path: text for path, _, text in files}

    def _rows(self, name: str, part: str) -> list[tuple[str, str]]:
        def look() -> str:
            done = self.site.run("logs", name, "-c", part, "-n", self.site.tag)
            return done.stdout if "end|" in done.stdout else ""

        lines = until(look, f"{name}/{part} told what it sees").splitlines()
        return [(what, rest) for what, _, rest in (line.partition("|") for line in lines)]

    def ids(self, name: str) -> list[str]:
        """The containers' ids and how often they were started: the same as long as nobody touched them."""
        return sorted(
            f"{one['containerID']} {one['restartCount']}" for one in self.get(name)["status"]["containerStatuses"]
        )

    def delete(self, *names: str, force: bool = False, wait: bool = True) -> None:
        for name in names:
            how = ("--force", "--grace-period=0", "--wait=false") if force else ("--wait=false",)
            self.site.run("delete", "pod", name, "-n", self.site.tag, "--ignore-not-found", *how)
        if wait:
            for name in names:
                until(lambda name=name: not self.get(name), f"pod {name} is gone", 60)  # type: ignore[misc]
