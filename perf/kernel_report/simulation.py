"""An event simulation of a block whose warps have roles: each role is a list of steps, and waits where its kernel waits. One
multiprocessor; of its four sub-cores, which do the same at the same time, one.

Constants that rates.py does not have, and their sources: [S] schedule.py's latencies; [N] nest.py's of the L2 cache; [H] HPMLL,
NVIDIA-Hopper-Benchmark, NewFeatures/TMA/Latency/tma_lat_random/h800_tma.txt: 369 cycles for a line in the L2 cache; [P] the profile of
our forward pass in bench/results/nvidia-h200/session.json, in cycles that a warp waits an instruction: 0.76 for the dispatcher, and 0.05 for
products, which says that a warp waits for the tensor cores as it issues products, and hardly once it has."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from .schedule import LATENCY

TMA_LATENCY = 369  # [H]
FRONT_END = 0.76 + 0.13 + 0.11  # cycles an instruction: dispatcher, instruction cache, branches [P]
TENSOR_CORES = -1  # in place of a role's number, in the queue of events
GRAIN = 32  # cycles of work, at most, that a role has done before another one's turn comes


@dataclass(frozen=True)
class Work:
    """Instructions of one warp. alone: cycles that they take where no other role uses a unit; units: cycles of each."""

    alone: float
    units: dict[str, float] = field(default_factory=dict)

    def part(self, of: float) -> Work:
        return Work(of * self.alone, {unit: of * cycles for unit, cycles in self.units.items()})


@dataclass(frozen=True)
class Multiply:
    """Products, one after another, each of some cycles of the tensor cores and of shared memory. held: the role goes on once the last one has
    begun, and may join them; else they are queued, and the role goes on. signals: barriers at which their end arrives."""

    count: int
    cycles: float
    shared: float = 0
    held: bool = True
    issue: float = 0  # cycles from one to the next
    signals: tuple[str, ...] = ()
    ends: bool = True  # a group, which Join counts; else it goes on


@dataclass(frozen=True)
class Join:
    """Waits until at most `left` of the role's groups of products have not ended."""

    left: int = 0


@dataclass(frozen=True)
class Wait:
    """For the next phase of a barrier."""

    barrier: str


@dataclass(frozen=True)
class Arrive:
    barrier: str


@dataclass(frozen=True)
class Copy:
    """Bytes from the L2 cache, or additions to it, which arrive at a barrier. shared: cycles for which additions are read from shared
    memory; waits: the role waits for their end."""

    bytes: float
    barrier: str = ""
    shared: float = 0
    latency: float = TMA_LATENCY
    waits: bool = False


@dataclass(frozen=True)
class Mark:
    """Keeps the time at which a role comes here."""

    name: str


Step = Work | Multiply | Join | Wait | Arrive | Copy | Mark


@dataclass(frozen=True)
class Barrier:
    arrivals: int = 1  # of a phase
    free: int = 0  # phases that are over at the start: stages that are empty
    latency: float = LATENCY["shared"]  # until a waiter sees it [S]: a word in shared memory


@dataclass(frozen=True)
class Role:
    name: str
    steps: list[Step]


@dataclass
class State:
    """A role on its way."""

    role: Role
    at: int = 0
    done: float = 0  # of a step that several turns are needed for
    groups: list[float] = field(default_factory=list)
    waited: dict[str, float] = field(default_factory=dict)  # cycles, by barrier
    phases: dict[str, int] = field(default_factory=dict)
    since: float = 0  # when it began to wait

    def wait(self, what: str, cycles: float) -> None:
        self.waited[what] = self.waited.get(what, 0) + cycles


@dataclass
class Result:
    cycles: float
    tensor: float  # cycles for which tensor cores were busy
    marks: dict[str, list[float]]
    waited: dict[str, dict[str, float]]  # by role and barrier

    def largest_wait(self, role: str) -> tuple[str, float]:
        its = self.waited[role]
        what = max(its, key=lambda name: its[name], default="")
        return what, its.get(what, 0)


class Simulation:
    def __init__(self, roles: list[Role], barriers: dict[str, Barrier], l2_bytes: float) -> None:
        self.barriers, self.l2_bytes = barriers, l2_bytes
        self.free: dict[str, float] = {}  # when each unit is
        self.ends: dict[str, list[float]] = {name: [0.0] * of.free for name, of in barriers.items()}  # of phases
        self.arrived: dict[str, list[float]] = {name: [] for name in barriers}
        self.parked: dict[str, list[State]] = {name: [] for name in barriers}
        self.states = [State(role) for role in roles]
        self.marks: dict[str, list[float]] = {}
        self.tensor = 0.0
        self.queued: list[tuple[Multiply, bool]] = []  # products that have not begun, and whether a step's last
        self.queue: list[tuple[float, int]] = [(0.0, n) for n in range(len(roles))]

    def run(self) -> Result:
        end = 0.0
        while self.queue:
            now, n = heapq.heappop(self.queue)
            if n == TENSOR_CORES:
                self.begin_queued(now)
                continue
            state = self.states[n]
            if state.at == len(state.role.steps):
                end = max(end, now)
                continue
            after = self.step(state, now)
            if after is not None:
                heapq.heappush(self.queue, (after, n))
        if stuck := [s for s in self.states if s.at < len(s.role.steps)]:
            raise ValueError("; ".join(f"{s.role.name} waits without end at step {s.at}: {s.role.steps[s.at]}" for s in stuck))
        return Result(end, self.tensor, self.marks, {s.role.name: s.waited for s in self.states})

    def take(self, unit: str, now: float, cycles: float) -> float:
        """Occupies a unit from when it is free; to when."""
        self.free[unit] = max(self.free.get(unit, 0), now) + cycles
        return self.free[unit]

    def arrive(self, name: str, now: float) -> None:
        of, arrived = self.barriers[name], self.arrived[name]
        arrived.append(now)
        if len(arrived) < of.arrivals:
            return
        self.ends[name].append(max(arrived) + of.latency)
        arrived.clear()
        parked, self.parked[name] = self.parked[name], []
        for state in parked:
            heapq.heappush(self.queue, (max(self.ends[name][-1], state.since), self.states.index(state)))

    def step(self, state: State, now: float) -> float | None:
        """Executes a step or a part of it. When the role goes on, None where it waits for an arrival."""
        step = state.role.steps[state.at]
        if isinstance(step, Wait):
            return self.wait(state, step.barrier, now)
        if isinstance(step, Work):
            return self.work(state, step, now)
        if isinstance(step, Multiply):
            return self.multiply(state, step, now)
        state.at += 1
        if isinstance(step, Arrive):
            self.arrive(step.barrier, now)
        elif isinstance(step, Join):
            until = state.groups[-1 - step.left] if len(state.groups) > step.left else 0
            state.wait("products", max(until - now, 0))
            return max(now, until)
        elif isinstance(step, Copy):
            end = max(self.take("L2", now, step.bytes / self.l2_bytes), self.take("shared", now, step.shared)) + step.latency
            if step.barrier:
                self.arrive(step.barrier, end)
            if step.waits:
                state.wait("memory", end - now)
                return end
        else:
            self.marks.setdefault(step.name, []).append(now)
        return now

    def wait(self, state: State, name: str, now: float) -> float | None:
        phase = state.phases.get(name, 0)
        if state.done == 0:
            state.since, state.done = now, 1
        if len(self.ends[name]) <= phase:
            self.parked[name].append(state)
            return None
        state.phases[name], state.done = phase + 1, 0
        state.at += 1
        end = max(now, self.ends[name][phase])
        state.wait(name, end - state.since)
        return end

    def work(self, state: State, step: Work, now: float) -> float:
        """A unit is taken for whole cycles, those of an instruction: a single one waits for it once."""
        before, state.done = state.done, min(state.done + GRAIN, step.alone)
        over = state.done >= step.alone

        def taken(cycles: float, done: float) -> float:
            return cycles if done >= step.alone else int(cycles * done / step.alone)

        due = {unit: taken(cycles, state.done) - (taken(cycles, before) if before else 0) for unit, cycles in step.units.items()}
        end = max([now + state.done - before] + [self.take(unit, now, cycles) for unit, cycles in due.items() if cycles])
        if over:
            state.at, state.done = state.at + 1, 0
        return end

    def multiply(self, state: State, step: Multiply, now: float) -> float:
        state.done += 1
        last = state.done == step.count
        if last:
            state.at, state.done = state.at + 1, 0
        if not step.held:
            self.queued.append((step, last))
            if len(self.queued) == 1:
                heapq.heappush(self.queue, (max(now, self.free.get("tensor", 0)), TENSOR_CORES))
            return now + step.issue
        begin = max(now, self.free.get("tensor", 0))
        end = self.begin(step, begin, last)
        if last and step.ends:
            state.groups.append(end)
        state.wait("tensor cores", begin - now)
        return begin + step.issue

    def begin(self, step: Multiply, now: float, last: bool) -> float:
        """Begins a product. When its sums are there."""
        self.free["tensor"] = max(now + step.cycles, self.take("shared", now, step.shared))
        self.tensor += step.cycles
        end = self.free["tensor"] + LATENCY["tensor"]
        for barrier in step.signals if last else ():
            self.arrive(barrier, end)
        return end

    def begin_queued(self, now: float) -> None:
        step, last = self.queued.pop(0)
        self.begin(step, now, last)
        if self.queued:
            heapq.heappush(self.queue, (self.free["tensor"], TENSOR_CORES))
