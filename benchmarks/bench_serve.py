"""Claims: `rankwright serve` answers all of 40 requests a second; at any load it drops no connection and leaks nothing.

The service runs in a process of its own on the demo index (`rankwright demo` makes it) with its two threads. Requests
are sent at fixed rates, whether or not earlier ones were answered, and times count from the moment at which a request
was due: searches with a model (70 %) and BM25 (20 %), explanations (5 %) and documents to rank (5 %), for the queries
of the demo. Meanwhile the model file is replaced every three seconds, LambdaMART and SVMmap in turn. Above what two
threads can do, requests are turned away with 503, which is counted and is no drop; a connection that ends without an
answer, or any other status, is one. Memory is that of the service after every query was asked and all rates were tried
for a third of a minute, which fills caches and the allocator's free lists, and after each round of all rates.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import numpy as np

from rankwright.cli.main import main as rankwright

RATES = (10, 20, 40, 80, 160, 320)
SURE = 40  # up to this rate nothing is turned away
ROUND, WARM_UP = 60.0, 20.0  # seconds that all rates take together
RELOAD = 3.0
CONNECTIONS = 400
GROWTH = 16 << 20
PROGRAM = "import sys; from rankwright.cli.main import program; sys.exit(program())"


@dataclass
class Load:
    """What became of the requests of one rate."""

    times: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    dropped: int = 0

    def add(self, other: Load) -> None:
        """Add the requests of another round."""
        self.times += other.times
        self.statuses += other.statuses
        self.dropped += other.dropped


class Client:
    """Connections that are kept open and used again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._places = asyncio.Semaphore(CONNECTIONS)

    async def ask(self, request: bytes, due: float, load: Load) -> bytes:
        """Send a request, and note what became of it."""
        async with self._places:
            try:
                reader, writer, head = await self._sent(request)
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                body = await reader.readexactly(int(length.split(b":")[1]))
            except (OSError, EOFError, StopIteration, asyncio.IncompleteReadError):
                load.dropped += 1
                return b""
            load.times.append(time.monotonic() - due)
            load.statuses[int(head.split()[1])] += 1
            if b"connection: close" in head.lower():
                writer.close()
            else:
                self._free.append((reader, writer))
            return body

    async def _sent(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """Send a request; a kept connection may have been closed as idle, and then a new one is used."""
        while self._free:
            reader, writer = self._free.pop()
            try:
                writer.write(request)
                return reader, writer, await reader.readuntil(b"\r\n\r\n")
            except (OSError, asyncio.IncompleteReadError) as error:
                if getattr(error, "partial", b""):
                    raise
        reader, writer = await self._connect()
        writer.write(request)
        return reader, writer, await reader.readuntil(b"\r\n\r\n")

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)

    def close(self) -> None:
        """Close what is open; the service closes idle connections after some seconds itself."""
        for _, writer in self._free:
            writer.close()
        self._free.clear()


def get(path: str, **parameters: str) -> bytes:
    """A GET request."""
    return f"GET {path}?{urlencode(parameters)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def post(path: str, value: object) -> bytes:
    """A POST request."""
    body = json.dumps(value).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def requests_of(query: str, ids: list[str]) -> dict[str, bytes]:
    """The requests of a query by their kind, given the documents it finds."""
    made = {"model": get("/search", q=query, ranker="model"), "bm25": get("/search", q=query, ranker="bm25")}
    if len(ids) > 1:
        made["explain"] = get("/explain", q=query, doc=ids[0], against=ids[1], ranker="model")
        made["rank"] = post("/rank", {"query": query, "documents": ids})
    return made


async def every_query(client: Client, queries: list[str]) -> list[dict[str, bytes]]:
    """Ask every query once, one after the other, so that everything is computed that is kept."""
    made = []
    for query in queries:
        load = Load()
        for name in ("bm25", "model"):
            body = await client.ask(get("/search", q=query, ranker=name), time.monotonic(), load)
        ids = [one["id"] for one in json.loads(body)["results"]] if body else []
        made.append(requests_of(query, ids))
    return made


async def at_rate(client: Client, rate: int, seconds: float, requests: list[dict[str, bytes]], seed: int) -> Load:
    """Requests at a fixed rate."""
    rng, load, tasks = random.Random(seed), Load(), []
    began = time.monotonic()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(max(due - time.monotonic(), 0))
        kind = rng.choices(("model", "bm25", "explain", "rank"), (70, 20, 5, 5))[0]
        some = rng.choice(requests)
        tasks.append(asyncio.create_task(client.ask(some.get(kind, some["model"]), due, load)))
    await asyncio.gather(*tasks)
    return load


async def replace(model: Path, others: list[Path]) -> None:
    """Put another model in place every few seconds."""
    number = 0
    while True:
        await asyncio.sleep(RELOAD)
        number += 1
        aside = model.with_suffix(".new")
        shutil.copyfile(others[number % len(others)], aside)
        os.replace(aside, model)


async def one_round(client: Client, seconds: float, requests: list[dict[str, bytes]], seed: int) -> dict[int, Load]:
    """All rates, one after the other; each begins with new connections."""
    loads = {}
    for rate in RATES:
        loads[rate] = await at_rate(client, rate, seconds / len(RATES), requests, 1000 * seed + rate)
        client.close()
    return loads


async def measure(
    port: int, pid: int, queries: list[str], model: Path, others: list[Path], minutes: float
) -> tuple[dict[int, Load], list[int]]:
    """What became of the requests of every rate, and the memory before the first round and after each."""
    client = Client(port)
    requests = await every_query(client, queries)
    replacing = asyncio.create_task(replace(model, others))
    await one_round(client, WARM_UP, requests, 0)
    memory, loads = [resident(pid)], {rate: Load() for rate in RATES}
    rounds = max(1, round(minutes * 60 / ROUND))
    for number in range(1, rounds + 1):
        for rate, load in (await one_round(client, minutes * 60 / rounds, requests, number)).items():
            loads[rate].add(load)
        memory.append(resident(pid))
    replacing.cancel()
    return loads, memory


def resident(pid: int) -> int:
    """The resident memory of a process in bytes."""
    line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def report(loads: dict[int, Load], memory: list[int], events: Counter[str]) -> bool:
    """Print the table; whether the claim holds."""
    print(f"{'rate/s':>7}{'sent':>8}{'200':>8}{'503':>7}{'other':>7}{'dropped':>9}   p50    p95    p99    max  (ms)")
    holds = True
    for rate, load in loads.items():
        good, away = load.statuses[200], load.statuses[503]
        other = sum(load.statuses.values()) - good - away
        times = 1e3 * np.percentile(load.times, [50, 95, 99, 100])
        sent = len(load.times) + load.dropped
        counts = f"{rate:>7}{sent:>8,}{good:>8,}{away:>7,}{other:>7}{load.dropped:>9}"
        print(counts + "".join(f"{value:7.1f}" for value in times))
        holds &= not other and not load.dropped and (rate > SURE or not away)
    steps = ", ".join(f"{size / (1 << 20):.1f}" for size in memory)
    growth = max(memory[1:]) - memory[0]
    print(f"memory in MiB, before and after each round: {steps} (growth {growth / (1 << 20):.1f})")
    print(f"models loaded meanwhile: {events['loaded']}, not loaded: {events['not loaded']}")
    holds &= growth <= GROWTH and not events["not loaded"] and events["loaded"] > 0
    print(f"claim: {'holds' if holds else 'DOES NOT HOLD'}")
    return holds


def main() -> None:
    """Start the service, load it, and end it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--demo", type=Path, default=None, help="folder of `rankwright demo`, made if it is not there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        demo = given.demo or Path(temporary) / "demo"
        if not demo.exists() and rankwright(["demo", "-o", str(demo)]):
            sys.exit("the demo failed")
        lines = (demo / "collection" / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        queries = [json.loads(line)["text"] for line in lines]
        model, others = Path(temporary) / "model.rkw", [demo / "lambdamart.rkw", demo / "svm-map.rkw"]
        shutil.copyfile(others[0], model)
        words = ["serve", str(demo / "docs.index"), "--model", str(model), "--port", "0", "--reload", "1"]
        log = Path(temporary) / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().rstrip("/\n").rpartition(":")[2])
            loads, memory = asyncio.run(measure(port, process.pid, queries, model, others, given.minutes))
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        told = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        events = Counter(one["event"] for one in told if "event" in one)
        holds = report(loads, memory, events)
        print(f"exit code {code}; lines of log with an error other than 503: {errors_in(told)}")
    sys.exit(0 if holds and code == 0 else 1)


def errors_in(told: list[dict[str, object]]) -> int:
    """Requests that failed otherwise than by being turned away."""
    return sum(1 for one in told if "error" in one and one.get("status") != 503)


if __name__ == "__main__":
    main()
