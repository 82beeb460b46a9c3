"""What is refused when parts are made or read, and how little memory that takes."""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from tests.data.partitioned import files_of, made, shuffled, write_partitioned, write_text

from rankwright import InputError, RankingData, load_folder, save_folder
from rankwright.cli.main import main
from rankwright.io import partitions_write
from rankwright.io.partitions import MANIFEST, join_partitions, read_manifest


@pytest.fixture
def rows():
    return shuffled()


class TestRefused:
    def test_other_features(self, tmp_path):
        save_folder(made(), tmp_path / "a.rank")
        save_folder(made(feature_names=["a", "b", "x", "d"]), tmp_path / "b.rank")
        with pytest.raises(InputError, match=r"b.rank: has other features than .*a.rank"):
            write_partitioned([tmp_path / "a.rank", tmp_path / "b.rank"], 2, tmp_path / "x.partitions")

    def test_ids_of_other_kinds(self, tmp_path):
        save_folder(made(), tmp_path / "a.rank")
        save_folder(made(qid=np.arange(400) % 9), tmp_path / "b.rank")
        with pytest.raises(InputError, match=r"b.rank: query ids are whole numbers, but text in .*a.rank"):
            write_partitioned([tmp_path / "a.rank", tmp_path / "b.rank"], 2, tmp_path / "x.partitions")

    def test_two_queries_with_one_hash(self, tmp_path, monkeypatch):
        save_folder(made(), tmp_path / "a.rank")
        monkeypatch.setattr(partitions_write, "query_hash", lambda query: 5)
        with pytest.raises(InputError, match=r"the queries query é\d+ and query é\d+ have the same 64-bit hash"):
            write_partitioned([tmp_path / "a.rank"], 2, tmp_path / "x.partitions")

    def test_a_failure_leaves_nothing_and_spares_what_was_there(self, rows, tmp_path):
        write_text(tmp_path / "x.txt", rows)
        write_partitioned([tmp_path / "x.txt"], 3, tmp_path / "x.partitions")
        before = files_of(tmp_path / "x.partitions")
        with open(tmp_path / "x.txt", "a") as file:
            file.write("1 qid:7 1:oops\n")
        for target in ("x.partitions", "y.partitions"):
            with pytest.raises(InputError, match=r"x.txt:402: "):
                write_partitioned([tmp_path / "x.txt"], 3, tmp_path / target)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["x.partitions", "x.txt"]
        assert files_of(tmp_path / "x.partitions") == before

    def test_only_parts_are_replaced(self, rows, tmp_path):
        save_folder(RankingData.from_arrays(**rows), tmp_path / "x.rank")
        write_partitioned([tmp_path / "x.rank"], 3, tmp_path / "x.partitions")
        write_partitioned([tmp_path / "x.rank"], 2, tmp_path / "x.partitions")
        assert len(read_manifest(tmp_path / "x.partitions").partitions) == 2
        (tmp_path / "x.partitions" / "notes.txt").write_text("mine")
        (tmp_path / "app.partitions").mkdir()
        (tmp_path / "app.partitions" / MANIFEST).write_text('{"name": "a web application"}')
        for target, message in (("x.partitions", "notes.txt"), ("app.partitions", "not a folder of partitions")):
            with pytest.raises(InputError, match=message):
                write_partitioned([tmp_path / "x.rank"], 2, tmp_path / target)
        assert (tmp_path / "app.partitions" / MANIFEST).read_text() == '{"name": "a web application"}'


class TestDamage:
    @pytest.fixture
    def parts(self, rows, tmp_path):
        save_folder(RankingData.from_arrays(**rows), tmp_path / "x.rank")
        write_partitioned([tmp_path / "x.rank"], 3, tmp_path / "x.partitions")
        return tmp_path / "x.partitions"

    def test_a_changed_value_is_found_on_request(self, parts, monkeypatch):
        monkeypatch.setattr("rankwright.io.container._CHEAP_BYTES", 0)
        path = parts / "partition-0001.rank" / "X.npy"
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
        manifest = read_manifest(parts)
        assert manifest.sources[1].load().n_docs
        with pytest.raises(InputError, match=r"the checksum of X.npy"):
            manifest.verify()

    def test_a_part_of_another_conversion_is_found_at_once(self, parts, tmp_path):
        save_folder(made(seed=9), tmp_path / "y.rank")
        other = write_partitioned([tmp_path / "y.rank"], 3, tmp_path / "y.partitions")
        for file in (other.path / "partition-0001.rank").iterdir():
            (parts / "partition-0001.rank" / file.name).write_bytes(file.read_bytes())
        with pytest.raises(InputError, match=r"the checksum of partition-0001.rank/rankwright.json is"):
            read_manifest(parts).sources[1].load()

    @pytest.mark.parametrize("name", ["partition-0002.rank/rankwright.json", "partition-0002.rank/X.npy", "sums.npy"])
    def test_what_is_missing(self, parts, name):
        (parts / name).unlink()
        with pytest.raises(InputError, match=r"damaged"):
            read_manifest(parts).verify()

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"name": "partition-0000.rank"', '"name": "../x.rank"'),
            ('"name": "partition-0000.rank"', '"name": "partition-0001.rank"'),
            ('"documents": 400', '"documents": 401'),
            ('"documents": 400', '"documents": "many"'),
            ('"version": 2', '"version": 3'),
            ('"partitions": [', '"partitions": [3, '),
            ('"crc32": ', '"crc": '),
        ],
    )
    def test_a_changed_manifest(self, parts, old, new):
        text = (parts / MANIFEST).read_text()
        assert old in text
        (parts / MANIFEST).write_text(text.replace(old, new))
        with pytest.raises(InputError, match=r"x.partitions: "):
            read_manifest(parts)


def leaves(value, path=()):
    """The paths of everything in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*path, key))


@pytest.mark.parametrize("odd", [None, "x", -1, 1.5, [], {}, True, 10**30, [["x", 1]]], ids=repr)
def test_anything_in_a_manifest_is_refused_or_understood(tmp_path, capsys, odd):
    save_folder(made(n_docs=30), tmp_path / "x.rank")
    path = write_partitioned([tmp_path / "x.rank"], 2, tmp_path / "x.partitions").path / MANIFEST
    text = path.read_text()
    for at, where in enumerate(leaves(json.loads(text))):
        found = json.loads(text)
        inside = found
        for key in where[:-1]:
            inside = inside[key]
        if where:
            inside[where[-1]] = odd
        path.write_text(json.dumps(found if where else odd))
        for words in ([], [("--json",), ("--verify",)][at % 2]):
            assert main(["info", str(path.parent), *words]) in (0, 2), where
    assert "Traceback" not in capsys.readouterr().err


class TestMemory:
    """Nothing grows with the input but a few bytes a row of one part."""

    N_DOCS, WIDTH = 30_000, 100
    MOST = 8_000_000  # a third of X

    @pytest.fixture
    def big(self, tmp_path):
        rng = np.random.default_rng(0)
        qid = rng.integers(0, 300, self.N_DOCS)
        X = rng.normal(size=(self.N_DOCS, self.WIDTH))
        save_folder(RankingData.from_arrays(X, qid % 3, qid), tmp_path / "x.rank")
        return tmp_path / "x.rank"

    def peak(self, work):
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def test_of_a_partition_and_of_joining(self, big, tmp_path, monkeypatch):
        monkeypatch.setattr(partitions_write, "_HELD_BYTES", 1 << 20)
        monkeypatch.setattr(partitions_write, "_BATCH_VALUES", 1 << 16)
        assert self.peak(lambda: np.array(load_folder(big).X)) > 24_000_000 > 2 * self.MOST
        assert self.peak(lambda: write_partitioned([big], 4, tmp_path / "x.partitions")) < self.MOST
        manifest = read_manifest(tmp_path / "x.partitions")
        assert self.peak(lambda: join_partitions(manifest, tmp_path / "y.rank")) < self.MOST
        assert self.peak(lambda: [source.load() for source in manifest.sources]) < self.MOST
        assert self.peak(manifest.verify) < self.MOST

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits private memory as Linux does")
    def test_under_a_limit_that_a_copy_of_the_features_breaks(self, big, tmp_path):
        code = f"""
import resource, sys
import numpy as np
import scipy.sparse
from pathlib import Path
from rankwright.io import partitions_write
from rankwright.io.partitions_write import InputSettings, inputs_of
from rankwright.io.folder import load_folder
from rankwright.data.statistics import Statistics
partitions_write._HELD_BYTES = 1 << 20
Statistics.of(np.ones((2, 2)))  # loads compiled code
np.dot(np.ones((64, 64)), np.ones((64, 64)))  # starts the threads of BLAS
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
limit = used + 16_000_000
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
big = Path({str(big)!r})
try:
    np.array(load_folder(big).X)
    sys.exit("a copy of the features fits")
except MemoryError:
    pass
target = Path({str(tmp_path / "y.partitions")!r})
partitions_write.write_partitions(inputs_of(big), 4, target, InputSettings(np.dtype(float)))
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert read_manifest(tmp_path / "y.partitions").n_docs == self.N_DOCS
