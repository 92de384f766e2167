"""Device selectors compiled as the API server does when they are written."""

from __future__ import annotations

from regauge.cel import MAX_COST, CompileError, Environment, compile_selector
from regauge.cluster.admission.claims import ExpressionFaults
from regauge.cluster.refusals import FieldError, forbidden_field, invalid
from regauge.model import Rules


def expression_checker(rules: Rules) -> ExpressionFaults:
    """What is wrong with a new expression under these rules: it does not compile, or may cost too much."""
    environment = Environment(
        minor=int(rules.minor.partition(".")[2]),
        stored=False,
        list_attributes=rules.on("DRAListTypeAttributes"),
        consumable_capacity=rules.on("DRAConsumableCapacity"),
    )

    def faults(path: str, expression: str) -> list[FieldError]:
        program = compile_selector(expression, environment)
        if isinstance(program, CompileError):
            return [invalid(path, expression, program.text)]
        if program.max_cost > MAX_COST:
            return [forbidden_field(path, "too complex, exceeds cost limit")]
        return []

    return faults
