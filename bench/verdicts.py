"""Rows of the table of goals: a measured figure against a number, or against the peer's of the same run."""

from dataclasses import dataclass

MET, MISSED, UNKNOWN = "met", "NOT MET", "not measured"


@dataclass
class Row:
    goal: str
    measured: str
    verdict: str


def median_of(side, field):
    return side["median"].get(field) if side and not side.get("failure") else None


def judge(goal, value, limit, text, at_most=True, failure=""):
    """failure is Neso's own: what it could not do it has not met."""
    if failure:
        return Row(goal, failure, MISSED)
    if value is None:
        return Row(goal, "", UNKNOWN)
    good = value <= limit if at_most else value >= limit
    return Row(goal, text.format(value), MET if good else MISSED)


def failure_of(side):
    return side.get("failure", "") if side else ""


def sides_of(results, name):
    entry = results.get("scenarios", {}).get(name, {})
    return entry.get("neso"), entry.get("peer")


def absolute(results, name, field, limit, text, goal, scale=1.0, at_most=True):
    """Neso's own figure against a number."""
    neso, _ = sides_of(results, name)
    value = median_of(neso, field)
    value = value / scale if value is not None else None
    return judge(f"{name}: {goal}", value, limit, text, at_most, failure_of(neso))


def relative(results, name, field, limit, goal, at_most=False):
    """Neso's figure divided by the peer's."""
    sides = sides_of(results, name)
    neso, peer = (median_of(side, field) for side in sides)
    value = neso / peer if neso is not None and peer else None
    text = "{:.2f} times (" + f"{neso:,.5g} against {peer:,.5g})" if value is not None else ""
    return judge(f"{name}: {goal}", value, limit, text, at_most, failure_of(sides[0]))


def no_errors(results, name):
    neso, _ = sides_of(results, name)
    return clean(name, neso)


def clean(name, side):
    goal = f"{name}: no failed request"
    if not side:
        return Row(goal, "", UNKNOWN)
    if side["failure"]:
        return Row(goal, side["failure"], MISSED)
    return Row(
        goal,
        f"{side['errors']} of {side['requests'] + side['errors']:,}",
        MISSED if side["errors"] else MET,
    )
