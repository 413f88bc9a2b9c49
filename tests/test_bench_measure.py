"""torch_smem_gemm.bench.measure: rounds, statistics, Ctrl-C."""

import contextlib
import itertools
import time
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from helpers import Clock

from torch_smem_gemm._kernels import build_info, chip
from torch_smem_gemm.bench import measure
from torch_smem_gemm.bench.measure import (
    Ceilings,
    Samples,
    graphed,
    host_seconds,
    interleaved,
    measure_ceilings,
    spread,
)

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measure, "time", clock)
    return clock


class Candidate:
    """Takes the same time in every call, or one of ``seconds`` after the other."""

    def __init__(self, name: str, clock: Clock, log: list[str], *seconds: float) -> None:
        self.name, self.clock, self.log = name, clock, log
        self.seconds = itertools.cycle(seconds)

    def __call__(self) -> None:
        self.log.append(self.name)
        self.clock.now += next(self.seconds)


# --- statistics


def test_spread() -> None:
    assert spread([5.0, 1.0, 4.0, 2.0, 3.0, 6.0]) == measure.Spread(3.5, 2.0, 5.0, 6)
    assert spread([7.0]) == measure.Spread(7.0, 7.0, 7.0, 1)


def test_samples() -> None:
    samples = Samples({0: 3.0, 1: 1.0, 4: 2.0, 5: 6.0, 6: 5.0, 9: 4.0})
    assert (samples.median, samples.p20, samples.p80, samples.rounds) == (3.5, 2.0, 5.0, 6)


def test_ratio_is_taken_round_by_round() -> None:
    """Rounds slowed by the machine slow both, and leave the ratio alone."""
    ours = Samples({0: 1.0, 1: 10.0, 2: 100.0, 3: 7.0})
    theirs = Samples({0: 2.0, 1: 20.0, 2: 200.0, 8: 1.0})
    assert ours.ratio(theirs) == measure.Spread(2.0, 2.0, 2.0, 3)
    assert theirs.ratio(ours) == measure.Spread(0.5, 0.5, 0.5, 3)
    assert ours.ratio(Samples({9: 1.0})) is None


def test_fma_rate_is_the_measured_one_where_there_is_one() -> None:
    assert Ceilings(None, 1, 1).fma_gflops is None
    assert Ceilings(10.0, 1, 1).fma_gflops == 10
    assert Ceilings(10.0, 1, 1, measured_ffma_gflops=9.0).fma_gflops == 9


# --- rounds


def test_every_round_runs_every_candidate_in_a_new_order(clock: Clock) -> None:
    log: list[str] = []
    names = "abcd"
    calls = {name: Candidate(name, clock, log, 1e-3) for name in names}
    samples = interleaved(calls, CPU)
    assert list(samples) == list(names)
    rounds = ["".join(log[start : start + 4]) for start in range(8, len(log), 4)]
    assert len(rounds) == measure.MAX_ROUNDS
    assert {"".join(sorted(one)) for one in rounds} == {names}
    assert len(set(rounds)) > 10
    for timed in samples.values():
        assert list(timed.seconds) == list(range(measure.MAX_ROUNDS))
        assert timed.median == pytest.approx(1e-3)


def test_the_seed_makes_the_orders(clock: Clock) -> None:
    logs: list[list[str]] = []
    for seed in (1, 1, 2):
        logs.append([])
        interleaved({n: Candidate(n, clock, logs[-1], 1e-3) for n in "abc"}, CPU, seed=seed)
    assert logs[0] == logs[1] != logs[2]


def test_samples_belong_to_their_rounds(clock: Clock) -> None:
    """Both take part in every round; the second sees twice the first's time in each."""
    times = (1e-3, 3e-3, 2e-3)  # the two untimed rounds take the first two
    first = Candidate("first", clock, [], *times)
    second = Candidate("second", clock, [], *(2 * seconds for seconds in times))
    samples = interleaved({"first": first, "second": second}, CPU)
    ratio = samples["first"].ratio(samples["second"])
    assert ratio is not None
    assert ratio.p20 == pytest.approx(2)
    assert ratio.p80 == pytest.approx(2)
    assert ratio.rounds == measure.MAX_ROUNDS


@pytest.mark.parametrize(
    ("seconds", "budget", "rounds"),
    [
        (1e-4, None, 80),
        (0.5 / 81, None, 80),
        (0.01, None, 40),
        (0.03, None, 10),
        (10.0, None, 5),
        (0.01, 0.1, 10),
        (0.01, 1e-9, 5),
        (0.03, 10.0, 80),
    ],
)
def test_slow_candidates_take_part_in_fewer_rounds(
    seconds: float, budget: float | None, rounds: int, clock: Clock
) -> None:
    log: list[str] = []
    calls = {
        "it": Candidate("it", clock, log, seconds),
        "fast": Candidate("fast", clock, log, 1e-6),
    }
    samples = interleaved(calls, CPU, budget=budget)
    assert samples["it"].rounds == rounds
    assert Counter(log)["it"] == rounds + 2
    assert samples["fast"].rounds == (5 if budget == 1e-9 else measure.MAX_ROUNDS)
    # However rare its rounds are, they are the other's too.
    assert samples["it"].seconds.keys() <= samples["fast"].seconds.keys()


def test_other_errors_pass() -> None:
    def fails() -> None:
        raise RuntimeError("an illegal memory access")

    with pytest.raises(RuntimeError, match="illegal"):
        interleaved({"fails": fails}, CPU)


def test_on_the_cpu() -> None:
    samples = interleaved({"sleep": lambda: time.sleep(2e-3)}, CPU, budget=0.01)
    assert samples["sleep"].median >= 2e-3
    ceilings = measure_ceilings(CPU, budget=0.01)
    assert ceilings.copy_gbs > 0
    assert ceilings.read_gbs > 0
    assert ceilings.fma_gflops is ceilings.cublas_bf16_gflops is None
    assert host_seconds(lambda: None, CPU) is None
    assert graphed(lambda: None, 1, CPU) is None


def test_calls_that_the_host_was_late_with_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a wait twice as long, which the calls after it get too."""
    waits: list[int] = []
    late = iter([True, True, False, False])

    class Event(SimpleNamespace):
        def record(self) -> None: ...
        def query(self) -> bool:
            return next(late)

        def elapsed_time(self, other: "Event") -> float:
            return 3.0

    properties = SimpleNamespace(L2_cache_size=64)
    fakes = {
        "_sleep": waits.append,
        "Event": Event,
        "device": contextlib.nullcontext,
        "synchronize": lambda: None,
        "get_device_properties": lambda _: properties,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    called: list[str] = []
    timed_round = measure._cuda_round(CPU)
    assert timed_round([lambda: called.append("a"), lambda: called.append("b")]) == [3e-3, 3e-3]
    assert called == ["a", "a", "a", "b"]
    assert [wait / measure.HEAD_START_CYCLES for wait in waits] == [1, 2, 4, 4]


def test_host_time_is_not_the_gpus(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call keeps the host for a millisecond; waiting for the GPU, after it, takes a second."""
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "synchronize", Candidate("wait", clock, [], 1.0))
    call = Candidate("call", clock, [], 1e-3)
    assert host_seconds(call, torch.device("cuda")) == pytest.approx(1e-3)


# --- on a GPU


@pytest.mark.gpu
def test_a_call_that_the_gpu_waited_for_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call lets the GPU come to its end, as a slow host would."""
    waits: list[int] = []
    sleep = torch.cuda._sleep
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: (waits.append(cycles), sleep(cycles)))
    calls = itertools.count()

    def late() -> None:
        if next(calls) == 0:
            torch.cuda.synchronize()

    (seconds,) = measure._cuda_round(torch.device("cuda"))([late])
    assert seconds > 0
    # A busy host may be late more often than that.
    assert len(waits) >= 2
    assert waits == [measure.HEAD_START_CYCLES * 2**i for i in range(len(waits))]


@pytest.mark.gpu
def test_ceilings_on_a_gpu() -> None:
    ceilings = measure_ceilings(torch.device("cuda"), budget=0.05)
    properties = torch.cuda.get_device_properties(0)
    if build_info()["cuda"]:
        assert ceilings.measured_ffma_gflops
        has_mma = chip("cuda").code_capability >= 80
        assert bool(ceilings.mma_sync_bf16_gflops) == bool(ceilings.mma_sync_tf32_gflops) == has_mma
    assert (ceilings.cublas_bf16_gflops is not None) == (properties.major >= 8)


@pytest.mark.gpu
@pytest.mark.parametrize("calls", [1, 4])
def test_a_graph_replays_the_calls(calls: int) -> None:
    x = torch.zeros(8, device="cuda")
    replay = graphed(lambda: x.add_(1), calls, torch.device("cuda"))
    assert replay is not None
    x.zero_()
    for _ in range(3):
        replay()
    assert x.tolist() == [3.0 * calls] * 8
