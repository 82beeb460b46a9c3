"""Dask: the same results as in one process, after kill -9 of a worker, too; a scheduler that is not there, or dies."""

import os
import signal
import sys
import threading

import numpy as np
import pytest
from at_work_dask import scheduler_running
from toy_crew import SIZES, Sums, sources, story

from rankwright.engines.choice import engine_of
from rankwright.engines.dask import DaskWorkers
from rankwright.engines.fleet import Fleet
from rankwright.engines.local import Local
from rankwright.errors import InputError

pytest.importorskip("distributed")


def here():
    return story(Fleet(Local(), sources(), SIZES))


def test_dask_gives_the_same(client):
    fleet = Fleet(engine_of(client), sources(), SIZES)
    assert story(fleet) == here()
    assert fleet.loads() == dict.fromkeys(range(5), 1)
    crew = fleet.make(Sums, 1, threads=7)
    assert len(set(crew.ask("process")) - {os.getpid()}) == 2
    fleet.close()
    assert client.status == "running"


def test_by_way_of_the_scheduler_it_is_the_same(client):
    workers = DaskWorkers(client)
    workers._direct = False  # as where workers cannot be reached from here
    fleet = Fleet(workers, sources(), SIZES)
    assert story(fleet) == here()
    fleet.close()


def test_errors_and_arrays_come_back(client):
    fleet = Fleet(DaskWorkers(client), sources(), SIZES)
    crew = fleet.make(Sums, 1)
    with pytest.raises(InputError, match=r"some\.file:7: no such thing"):
        crew.ask("fail")
    for n in (3, 300_000):
        assert all(
            writable and own.flags.writeable and len(own) == n for writable, own in crew.ask("write", np.ones(n))
        )
    fleet.close()


def test_a_killed_worker_costs_nothing_but_time(client):
    fleet = Fleet(DaskWorkers(client), sources(), SIZES)
    crew = fleet.make(Sums, 1)
    crew.tell("add", 4)
    expected = crew.ask("slow", 0.0)
    for _ in range(2):
        killed = crew.ask("process")[0]
        timer = threading.Timer(0.1, os.kill, (killed, signal.SIGKILL))
        timer.start()
        assert crew.ask("slow", 0.3) == expected
        timer.join()
    assert fleet.moves > 0
    assert story(fleet) == here()
    fleet.close()


def test_a_worker_that_was_killed_between_two_calls(client):
    fleet = Fleet(DaskWorkers(client), sources(), SIZES)
    crew = fleet.make(Sums, 1)
    expected = crew.tell("add", 4), crew.ask("mean")
    os.kill(crew.ask("process")[-1], signal.SIGKILL)
    assert crew.ask("mean") == expected[1]
    assert story(fleet) == here()
    fleet.close()


def test_another_version_on_the_workers_is_refused(client, monkeypatch):
    monkeypatch.setattr("rankwright.__version__", "0.0.7")
    with pytest.raises(InputError, match=r"have Rankwright .*, this machine has 0\.0\.7"):
        Fleet(DaskWorkers(client), sources(), SIZES)


def test_no_scheduler_there():
    with pytest.raises(InputError, match=r"no Dask scheduler answers at 127\.0\.0\.1:9; expected host:port"):
        engine_of("dask://127.0.0.1:9")


def test_dask_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'rankwright\[dask\]'"):
        engine_of("dask://127.0.0.1:9")


def test_the_death_of_the_scheduler_is_one_line():
    with scheduler_running() as (process, address):
        fleet = Fleet(engine_of(f"dask://{address}"), sources(), SIZES)
        crew = fleet.make(Sums, 1)
        assert crew.ask("slow", 0.0) == Fleet(Local(), sources(), SIZES).make(Sums, 1).ask("slow", 0.0)
        timer = threading.Timer(0.3, process.kill)
        timer.start()
        with pytest.raises(InputError, match=f"the Dask scheduler at {address} is gone"):
            crew.ask("slow", 60.0)
        timer.join()
        fleet.close()


def test_dask_on_this_machine_starts_and_ends():
    workers = engine_of("dask://local:1")
    fleet = Fleet(workers, sources(), SIZES)
    assert fleet.make(Sums, 1).ask("mean") == Fleet(Local(), sources(), SIZES).make(Sums, 1).ask("mean")
    fleet.close()
    assert workers.client.status == "closed"
