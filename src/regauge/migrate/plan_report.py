"""A plan for its reviewers: what is asked of people, what every step writes and checks, and the way back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from regauge.base import canonical_json
from regauge.base.drawing import Bar, Bars
from regauge.base.pages import Block, Grid, Heading, Lines, Paragraph, Word
from regauge.migrate.plans import Action, Amend, Approve, Ensure, Gate, Move, Phase, Plan, PlanStep, Switch

MAX_STEPS = 400
MAX_NAMED = 6
FORWARD, BACK = "minutes forward", "minutes back"


def plan_blocks(plan: Plan) -> tuple[Block, ...]:
    """The whole plan as the blocks of one page; the file itself says more, word for word."""
    spec = plan.spec
    blocks: list[Block] = [
        Paragraph(
            f"Plan {plan.name}, digest {plan.digest}, for Kubernetes {spec.kube_version}: {len(spec.nodes)} nodes and"
            f" {sum(isinstance(action, Move) for step in spec.steps for action in step.actions)} workloads move in"
            f" {len(spec.steps)} steps, {_minutes(sum(step.takes_s for step in spec.steps))}."
            f" A gate that fails undoes {'its step' if spec.on_failure.value == 'step' else 'the whole plan'}."
        ),
        *_asked(plan),
        *_pins(plan),
        _times(plan),
    ]
    for phase in Phase:
        steps = [step for step in spec.steps if step.phase is phase]
        if steps:
            blocks.append(Heading(f"Phase {phase.value}", anchor=phase.value))
        for step in steps[:MAX_STEPS]:
            blocks += _step(step)
        if len(steps) > MAX_STEPS:
            blocks.append(Paragraph(f"{len(steps) - MAX_STEPS} more steps are not shown here: the file has them."))
    if spec.left:
        blocks += [Heading("Left as it is"), Grid(("what", "why"), tuple((item.what, item.why) for item in spec.left))]
    return tuple(blocks)


def _asked(plan: Plan) -> Iterator[Block]:
    asked = [
        (step.id, action.question) for step in plan.spec.steps for action in step.actions if isinstance(action, Approve)
    ]
    if asked:
        yield Heading("A person has to say yes")
        yield Grid(("step", "question"), tuple(asked))


def _pins(plan: Plan) -> Iterator[Block]:
    pins = plan.spec.pins
    rows = [("Kubernetes", pins.kubernetes or "-"), ("kubelets", ", ".join(pins.kubelets) or "-")]
    rows += [("runtimes", ", ".join(pins.runtimes) or "-"), *sorted(pins.images.items())]
    yield Heading("Pinned versions")
    yield Grid(("what", "version"), tuple(rows))
    yield Heading("Nodes", 3)
    yield Grid(
        ("node", "counted", "published"),
        tuple((name, _counts(basis.counted), _counts(basis.published)) for name, basis in plan.spec.nodes.items()),
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "-"


def _times(plan: Plan) -> Bars:
    bars = []
    for phase in Phase:
        steps = [step for step in plan.spec.steps if step.phase is phase]
        forward, back = (sum(getattr(step, name) for step in steps) for name in ("takes_s", "rollback_s"))
        bars.append(Bar(phase.value, {FORWARD: round(forward / 60), BACK: round(back / 60)}))
    return Bars("About how long each phase takes", (FORWARD, BACK), tuple(bars))


def _step(step: PlanStep) -> Iterator[Block]:
    yield Heading(f"{step.id}: {step.title}", 3)
    if step.why:
        yield Paragraph(f"Why: {step.why}")
    if step.override:
        yield Paragraph((Word("More than one axis at once: ", "bad"), step.override))
    rows = [("before", Lines(tuple(map(gate_text, step.needs))))] if step.needs else []
    rows += [(type(action).__name__.lower(), Lines(tuple(_action(action)))) for action in step.actions]
    rows += [("gates", Lines(tuple(map(gate_text, step.gates))))] if step.gates else []
    back = (step.rollback, _minutes(step.rollback_s)) if step.rollback else ("nothing to undo",)
    rows.append(("rollback", Lines(back)))
    yield Grid(("takes", _minutes(step.takes_s)), tuple(rows))


def _action(action: Action) -> Iterator[str]:
    match action:
        case Approve():
            yield action.question
        case Ensure():
            yield from (_title(object_) for object_ in action.objects)
        case Amend():
            yield f"{action.object}:"
            yield from _fields(action.patch)
        case Switch():
            served = ", ".join(f"{item.devices} {item.driver} for {item.resource_name}" for item in action.served)
            yield f"node {action.node} to {action.to.value}: {served}"
            yield from (f"label {key}={value}" for key, value in sorted(action.labels.items()))
        case Move():
            how = "deleted and made anew" if action.recreate else "changed in place"
            yield f"{action.reference}, {action.pods} pods, {how}"
            yield from (f"with {_title(object_)}" for object_ in action.objects)


def _fields(value: object, path: str = "") -> Iterator[str]:
    """The fields that a merge patch sets, one a line."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            name = f"[{key}]" if "." in key or "/" in key else f".{key}"
            yield from _fields(item, path + name)
    else:
        yield f"{path.removeprefix('.')}: {canonical_json(value).decode()}"


def _title(object_: dict[str, Any]) -> str:
    metadata = object_.get("metadata") or {}
    place = f"{metadata.get('namespace')}/" if metadata.get("namespace") else ""
    return f"{object_.get('kind')} {place}{metadata.get('name')}"


def gate_text(gate: Gate) -> str:
    """A gate in one line: its name and what it is about."""
    said = msgspec.to_builtins(gate)
    name = said.pop("check")
    within = said.pop("withinS", None)
    parts = [f"{key} {_value(value)}" for key, value in said.items()]
    parts += [f"within {within} s"] if within else []
    return f"{name}: {'; '.join(parts)}" if parts else str(name)


def _value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        more = f" and {len(value) - MAX_NAMED} more" if len(value) > MAX_NAMED else ""
        return f"{', '.join(map(str, value[:MAX_NAMED]))}{more}"
    if isinstance(value, dict) and "name" in value:
        return _title({"kind": value.get("kind"), "metadata": value})
    return str(value)


def _minutes(seconds: int) -> str:
    return "about a moment" if not seconds else f"about {max(1, round(seconds / 60))} min"
