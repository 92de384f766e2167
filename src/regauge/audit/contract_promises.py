"""What became of a contract's promises: each kept, broken, not known, or not made because a field is empty. Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from regauge.audit.contract import ReadContract
from regauge.audit.contract_drafting import ContractFacts
from regauge.audit.ground import Ground
from regauge.base import Where


class Kept(StrEnum):
    """What became of a promise."""

    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "not known"
    BLANK = "to be said"


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise: the field that makes it, what it is in words, what became of it, and what that stands on."""

    path: str
    where: Where
    what: str
    answer: Kept
    seen: str

    @property
    def section(self) -> str:
        """The part of the contract that it belongs to."""
        return self.path.partition(".")[0].partition("[")[0]

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: {self.answer.value}: {self.seen}"


@dataclass(frozen=True, slots=True)
class ContractCheck:
    """All promises of a contract against one estate."""

    source: str
    read: ReadContract
    promises: tuple[Promise, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is broken or still to be said."""
        return not self.of(Kept.BROKEN, Kept.BLANK)

    def of(self, *answers: Kept, sections: Iterable[str] = ()) -> tuple[Promise, ...]:
        """The promises with one of these answers, of all sections or some."""
        wanted = frozenset(sections)
        return tuple(one for one in self.promises if one.answer in answers and (not wanted or one.section in wanted))

    def within(self, *sections: str) -> tuple[Promise, ...]:
        """All promises of some sections."""
        return tuple(one for one in self.promises if one.section in sections)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many promises have which answer."""
        return {answer.value: len(self.of(answer)) for answer in Kept}


@dataclass(frozen=True, slots=True)
class Bench:
    """What a check works with: the contract, the estate, what stands beside it."""

    read: ReadContract
    ground: Ground
    facts: ContractFacts

    def tell(self, path: str, what: str, answer: Kept, seen: str) -> Promise:
        return Promise(path, self.read.where(path), what, answer, seen)

    def judge(self, path: str, what: str, wrong: Iterable[str], fine: str) -> Promise:
        """Broken by what is wrong, else kept."""
        told = "; ".join(wrong)
        return self.tell(path, what, Kept.BROKEN if told else Kept.KEPT, told or fine)


Promises = Iterator[Promise]


def contract_check_document(check: ContractCheck) -> dict[str, Any]:
    """The check as JSON."""
    return {
        "schema": "regauge.contract-check/v1",
        "source": check.source,
        "contract": check.read.file,
        "cluster": check.read.contract.cluster,
        "holds": check.holds,
        "counts": dict(check.counts),
        "promises": [
            {
                "field": one.path,
                "file": one.where.file,
                "line": one.where.line,
                "what": one.what,
                "answer": one.answer.value,
                "seen": one.seen,
            }
            for one in check.promises
        ],
    }
