"""Every error that Foretide raises on purpose.

ForetideError
 |- TopologyError            a topology that cannot run; lists all its problems
 |- RouteError               a route that was refused; the old one stays in force
 |- WorkloadError            a generator, trace or replay that was described wrongly
 |- ControlFolderError       no control folder, or one that cannot be used
 |   '- DamagedFileError         a file in it that nobody can read as it is; it is left alone
 |- PipelineNotFoundError    no running pipeline, or too many to choose from
 |- RegistryError            the list of running pipelines cannot be read or written
 |- PipelineFailedError      a query that died and was not started again
 |- BatchTimeoutError        a batch that hung in every one of its tries
 |- RestartFailedError       a query that could not be started again after a hung batch
 |- FeedbackGrowthError      a feedback loop that returns more than it takes in
 |- PlanningError            a question about load and capacity that has no answer; carries the figures
 |   |- ModelError               a network or model file that is invalid; lists all its problems
 |   |- IdleNetworkError         nothing enters the network, so there is no tuple to speak of
 |   |- UnstableNetworkError     queues that grow for ever; names the operators at fault
 |   |   |- LoopGainError            a loop that sends back at least as much as it takes in
 |   |   |- OverloadError            too few processors, or too little pool, for what arrives
 |   |   '- BatchOverloadError       more rows a second than micro-batches can carry
 |   |- BudgetTooSmallError      fewer processors than stability needs
 |   |- LatencyOutOfReachError   a latency target that no allocation meets
 |   '- CapacityError            a question about a running pipeline that what was measured cannot answer
 |- MonitoringError          metrics that cannot be kept, read or served
 |   |- StoreError               a store that cannot be opened, read or written; the pipeline runs on
 |   |   '- EmptyStoreError          a store that exists and holds nothing yet
 |   '- AlarmRuleError           an alarm rule that is invalid; says which part
 |- ForecastError            a series or model that a forecast cannot be made from
 |   |- BadSeriesError           values that are no load: NaN, infinite, negative
 |   |- NotEnoughHistoryError    nothing was learnt yet
 |   '- ModelFolderError         a saved model that is missing, damaged, or of another kind
 |- ControlError             a control loop that was set up or spoken to wrongly
 |   |- ActionError              an action that is impossible, such as 0 replicas, or that failed
 |   |- DecisionNotFoundError    no decision was kept, or none of that number
 |   '- ReplayError              a history that lacks what a replay needs
 |- SettingsError            a setting that is unknown, of the wrong type or out of bounds; names where it was given
 |- DurationError            a number or text that is not a duration
 |- FileError                a file given by the user that cannot be read or written; names the file
 |- CodecError               JSON that does not fit the type it is read as; names the field
 |- JoinError                a join of two streams that cannot run; lists all its problems
 |- JoinPlanError            a plan of a skewed join that would not be exact, so it was refused
 |   |- PlanFormatError          a plan file that is damaged, or of another release
 |   '- PastHardEndError         a tuple past the announced end of its key's plan: the batch has to fail
 |- KafkaError               a Kafka broker that does not start, does not answer, or refuses a topic
 '- EnvironmentNotReadyError something outside Foretide is missing: Java, an extra package
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretide.formatting import format_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ForetideError(Exception):
    """The root: `except ForetideError` catches whatever Foretide raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a topology: where, what, and what to do about it."""

    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.remedy}"


class TopologyError(ForetideError):
    """A topology that cannot run. `problems` holds all of them, not only the first."""

    def __init__(self, topology: str, problems: Sequence[Problem]) -> None:
        self.topology = topology
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(f"topology '{topology}' has {count}:{lines}")


class JoinError(ForetideError):
    """A join of two streams that cannot run. `problems` holds all of them, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(f"the streams cannot be joined like that:{lines}")


class RouteError(ForetideError):
    """A route that was refused. The route that was in force stays in force."""

    def __init__(self, edge: str, reason: str) -> None:
        self.edge = edge
        self.reason = reason
        super().__init__(f"route of edge '{edge}' refused: {reason}")


class WorkloadError(ForetideError):
    """A generator, trace, curve or replay that was described wrongly."""


class ControlFolderError(ForetideError):
    """There is no control folder, or what lies in it cannot be used."""


class DamagedFileError(ControlFolderError):
    """A file of a control folder that is there and cannot be read: damaged, or written by another version.

    Waiting does not help, unlike with a store that does not answer. Nothing was changed.
    """


class PipelineNotFoundError(ForetideError):
    """No running pipeline of that name, or several when one was meant."""


class RegistryError(ForetideError, OSError):
    """Foretide's own folder, with the list of running pipelines, cannot be read or written."""


class PipelineFailedError(ForetideError):
    """The query of a pipeline died and was not started again."""

    def __init__(self, pipeline: str, batch: int | None, cause: str) -> None:
        self.pipeline = pipeline
        self.batch = batch
        self.cause = cause
        after = "" if batch is None else " before its first batch" if batch < 0 else f" after batch {batch}"
        super().__init__(
            f"'{pipeline}' failed{after}: {cause.rstrip('.')}. What was committed stays in its checkpoint."
        )


class BatchTimeoutError(ForetideError):
    """A batch ran past its time-out in every one of its tries."""

    def __init__(self, pipeline: str, batch: int, timeout: float, tries: int) -> None:
        self.pipeline = pipeline
        self.batch = batch
        self.timeout = timeout
        self.tries = tries
        super().__init__(
            f"batch {batch} of '{pipeline}' ran past {timeout:g} s in each of {tries} tries and was cancelled; "
            "nothing of it was committed. Look for a bolt or source that waits for ever, or raise batch_timeout."
        )


class RestartFailedError(ForetideError):
    """A query that was stopped or had failed could not be started again."""

    def __init__(self, pipeline: str, reason: str) -> None:
        self.pipeline = pipeline
        self.reason = reason
        super().__init__(
            f"'{pipeline}' was stopped or had failed, and did not start again: {reason}. What was committed "
            "stays; start it again from the same checkpoint."
        )


class FeedbackGrowthError(ForetideError):
    """A feedback loop returned at least as many tuples as entered it, batch after batch."""

    def __init__(self, pipeline: str, feedback: str, gain: float, batches: int, rows: int) -> None:
        self.pipeline = pipeline
        self.feedback = feedback
        self.gain = gain
        self.batches = batches
        self.rows = rows
        super().__init__(
            f"feedback '{feedback}' of '{pipeline}' keeps growing: over {batches} batches it returned {gain:.2f} "
            f"tuples for each one that entered the loop ({rows} in the last batch). The query was stopped; what was "
            "committed stays. Make the loop end (a hop count, a filter) so that it returns less than it takes in."
        )


class PlanningError(ForetideError):
    """A question about load and capacity that has no answer. Its kinds carry the figures."""


class ModelError(PlanningError):
    """A network or model file that is invalid. `problems` holds all of them, not only the first."""

    def __init__(self, problems: Sequence[Problem], file: object = None) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        name = "the model" if file is None else f"the model '{file}'"
        super().__init__(f"{name} has {count}:" + "".join(f"\n  - {problem}" for problem in self.problems))


class IdleNetworkError(PlanningError):
    """Nothing enters the network, so an average over its tuples does not exist."""

    def __init__(self) -> None:
        super().__init__("no tuples enter the network (the external arrival rates add up to 0)")


class UnstableNetworkError(PlanningError):
    """Queues that grow for ever. `operators` names those at fault."""

    def __init__(self, message: str, operators: Sequence[str]) -> None:
        self.operators = tuple(operators)
        super().__init__(message)


class LoopGainError(UnstableNetworkError):
    """A loop that sends back at least as many tuples as it takes in.

    `gain` is 1 or more: the spectral radius of the loop's gains, its growth at each step.
    """

    def __init__(self, operators: Sequence[str], gain: float) -> None:
        self.gain = gain
        super().__init__(
            f"the loop through {', '.join(operators)} multiplies its tuples by {format_number(gain)} at each step; "
            "no number of processors keeps up unless that is below 1",
            operators,
        )


class OverloadError(UnstableNetworkError):
    """More arrives than can be processed. `utilization` and `needed` (processors) are by operator."""

    def __init__(self, utilization: Mapping[str, float], needed: Mapping[str, int]) -> None:
        self.utilization = dict(utilization)
        self.needed = dict(needed)
        parts = (f"{name} is at {used:.2%} and needs {needed[name]}" for name, used in utilization.items())
        super().__init__("too few processors: " + "; ".join(parts), tuple(utilization))


class BatchOverloadError(UnstableNetworkError):
    """More rows a second arrive than micro-batches can carry: each takes longer than the last."""

    def __init__(self, rate: float, limit: float, operators: Sequence[str]) -> None:
        self.rate = rate
        self.limit = limit
        super().__init__(
            f"{format_number(rate, 6)} rows a second arrive and micro-batches carry less than "
            f"{format_number(limit, 6)}; "
            f"most of the work is in {', '.join(operators)}",
            operators,
        )


class BudgetTooSmallError(PlanningError):
    """A budget of processors below what stability needs. `needed` is the least that would do."""

    def __init__(self, budget: int, needed: int) -> None:
        self.budget = budget
        self.needed = needed
        super().__init__(f"{budget} processors cannot keep up with what arrives; the least that would do is {needed}")


class LatencyOutOfReachError(PlanningError):
    """A latency target (seconds) that no allocation meets. `best` is what can be approached."""

    def __init__(self, target: float, best: float) -> None:
        self.target = target
        self.best = best
        reached, wanted = format_number(best, 6), format_number(target, 6)
        super().__init__(f"no allocation gets below {reached} s, so a target of {wanted} s is out of reach")


class CapacityError(PlanningError):
    """What was measured of a pipeline does not say what another load or target would need; the message says why."""


class EnvironmentNotReadyError(ForetideError):
    """Something outside Foretide is missing; the message says what to install."""


class KafkaError(ForetideError):
    """A Kafka broker that does not start, stop or answer, or a topic that it refuses."""


class ForecastError(ForetideError):
    """A series or a model that a forecast cannot be made from."""


class BadSeriesError(ForecastError):
    """Values that are no load: NaN, infinite or negative ones. A gap is None."""


class NotEnoughHistoryError(ForecastError):
    """Nothing was learnt yet, so there is no forecast. Not a failure: ask again once there is history."""


class ModelFolderError(ForecastError):
    """A saved model that is missing, damaged, or of another kind than what is asked of it."""


class ControlError(ForetideError):
    """A control loop that was set up or spoken to wrongly. The query runs on without it."""


class ActionError(ControlError):
    """An action that is impossible, such as 0 replicas, or that Spark did not carry out."""


class FileError(ForetideError):
    """A file given by the user that cannot be read or written. `path` is that file."""

    def __init__(self, path: object, problem: str) -> None:
        self.path = path
        super().__init__(f"'{path}' {problem}")


class CodecError(ForetideError):
    """JSON that does not fit the type it is read as. `path` names the field, such as `setup.operators[0].pool`."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}" if path else problem)


class SettingsError(ForetideError):
    """A setting that is unknown, of the wrong type or out of bounds.

    `source` is the file, variable or flag that gave it; None for one that was made in Python.
    """

    def __init__(self, problem: str, source: str | None = None) -> None:
        self.problem = problem
        self.source = source
        super().__init__(problem if source is None else f"{problem} ({source})")


class DurationError(ForetideError, ValueError):
    """A number or text that is not a duration; the message says what would be one."""


class DecisionNotFoundError(ControlError):
    """No decision of a pipeline was kept, or none of that number (`decision`)."""

    def __init__(self, pipeline: str, decision: int | None = None, newest: int = 0) -> None:
        self.pipeline = pipeline
        self.decision = decision
        what = f"no decision of '{pipeline}' was kept yet; they are while its control loop runs"
        if newest:
            what = f"there is no decision {decision} of '{pipeline}'; `foretide decisions` lists them up to {newest}"
        super().__init__(what)


class ReplayError(ControlError):
    """A history that lacks what a replay needs; the message says what, and where it comes from."""


class MonitoringError(ForetideError):
    """Metrics that cannot be kept, read or served."""


class StoreError(MonitoringError):
    """A store that cannot be opened, read or written. The pipeline runs on without it."""


class EmptyStoreError(StoreError):
    """A store that exists and holds nothing yet."""


class AlarmRuleError(MonitoringError):
    """An alarm rule that is invalid; the message says which part of it, and what to give instead."""


class JoinPlanError(ForetideError):
    """A plan of a skewed join that would not be exact. The plan that was in force stays in force."""


class PlanFormatError(JoinPlanError):
    """A plan file that cannot be read: damaged, or written by another release."""


class PastHardEndError(JoinPlanError):
    """A tuple at or past the announced end of its key's plan, where nothing says yet where it belongs.

    The batch fails rather than put it in the wrong place, and runs again under the next plan.
    """

    def __init__(self, key_hash: int, reached: int, hard_end: int) -> None:
        self.key_hash = key_hash
        self.reached = reached
        self.hard_end = hard_end
        super().__init__(
            f"a tuple of key hash {key_hash} reaches {reached}, and its plan is announced to end at {hard_end} "
            "(microseconds): the batch fails instead of misplacing it. Run it again once the end was moved."
        )
