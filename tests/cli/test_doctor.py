"""`doctor`: what works is said, what does not work is a problem with what to do, and exit code 1."""

import json
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import rankwright
from rankwright.cli import doctor
from rankwright.cli.main import main
from rankwright.gpu import device

ROOT = Path(__file__).parent.parent.parent
NOT_FOR_USERS = {"test", "dev", "docs", "verify"}


def rows(capsys, code):
    """The checks by name, after a run with this exit code."""
    assert main(["doctor", "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == sum(row["state"] == "problem" for row in found["checks"])
    return {row["name"]: row for row in found["checks"]}


def test_this_installation_works_and_fits_on_a_screen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("everything works\n")
    assert rankwright.__version__ in out
    assert len(out.splitlines()) <= 24
    assert not list(tmp_path.iterdir())


def test_a_gpu_is_named_and_none_is_no_problem(monkeypatch):
    monkeypatch.setattr(device, "_problem", lambda: "no NVIDIA GPU was found; expected a GPU, or device='cpu'")
    assert doctor._gpu() == doctor.Finding("ok", "not used: no NVIDIA GPU was found")
    monkeypatch.setattr(device, "_problem", lambda: "")
    monkeypatch.setattr(device, "name", lambda: "NVIDIA H200")
    monkeypatch.setattr(device, "free_bytes", lambda: 139e9)
    assert doctor._gpu().found == "NVIDIA H200, 139.0 GB free, for --device cuda"


def test_old_and_missing_libraries_are_problems(monkeypatch, capsys):
    versions = {"numpy": "1.26.4", "numba": "0.100.0rc1"}

    def version(name):
        if name == "scipy":
            raise PackageNotFoundError(name)
        return versions.get(name, "99")

    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    row = rows(capsys, 1)["libraries"]
    assert row["state"] == "problem"
    assert row["found"] == "numpy 1.26.4 is older than 2.0, scipy is missing"
    assert "pip install" in row["todo"]


def test_sources_that_are_not_installed_are_a_note(monkeypatch):
    monkeypatch.setattr(doctor, "_is_installed", lambda package: package != "rankwright")
    row = doctor._libraries()
    assert (row.state, row.todo) == ("note", "pip install . in its folder")


def test_extras_that_are_missing_have_their_line(monkeypatch):
    monkeypatch.setattr(doctor, "_is_installed", lambda package: package not in ("onnx", "uvicorn"))
    row = doctor._extras()
    assert row.state == "ok"
    assert "not: export (models as ONNX), serve (serve and judge)" in row.found
    assert row.todo.endswith("pip install 'rankwright[export,serve]'")


def test_the_extras_are_those_of_the_package():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own = {
        name: {one.partition(">")[0].partition("[")[0] for one in declared[name]}
        for name in declared.keys() - NOT_FOR_USERS
    }
    assert {name: set(packages) for name, (_, packages) in doctor.EXTRAS.items()} == own


def test_a_folder_that_cannot_be_written_is_a_problem_with_a_way_out(tmp_path):
    row = doctor._folder(tmp_path / "nowhere", "set TMPDIR")
    assert (row.state, row.todo) == ("problem", "set TMPDIR")
    assert "nowhere cannot be written: No such file or directory" in row.found


def test_a_full_disk_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_LITTLE_SPACE", 1e9)
    assert doctor._folder(tmp_path, "go").state == "problem"


def test_little_memory_is_a_note(monkeypatch):
    monkeypatch.setattr(doctor, "_free_memory", lambda: (5e8, 2e9))
    assert doctor._memory().state == "note"
    monkeypatch.setattr(doctor, "_free_memory", lambda: (0.0, None))
    assert doctor._memory().state == "ok"


def test_no_folder_for_temporary_files_is_a_note(monkeypatch):
    def missing():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(doctor.tempfile, "gettempdir", missing)
    assert doctor._temporary().state == "note"
    assert "TMPDIR" in doctor._temporary().todo
    monkeypatch.setattr(doctor.tempfile, "TemporaryDirectory", missing)
    assert doctor._training().found.startswith("trained and evaluated a ranker")


def test_a_cache_that_cannot_be_written_is_a_note(monkeypatch):
    monkeypatch.setattr(doctor, "cache_refused", lambda: "/sys/none")
    row = doctor._cache()
    assert row.state == "note"
    assert "because NUMBA_CACHE_DIR (/sys/none) cannot be written" in row.found
    monkeypatch.setattr(doctor, "keeps_code", lambda: False)
    assert "every run compiles" in doctor._cache().found


def test_switched_off_compiling_is_a_problem(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    row = doctor._cache()
    assert (row.state, row.todo) == ("problem", "unset NUMBA_DISABLE_JIT")


def test_whatever_breaks_is_a_row(monkeypatch, capsys):
    def broken():
        raise ImportError("Numba needs\nNumPy 2.0 or less")

    monkeypatch.setitem(doctor._CHECKS, "training", broken)
    row = rows(capsys, 1)["training"]
    assert row["found"] == "ImportError: Numba needs NumPy 2.0 or less"
    assert row["todo"]
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "PROBLEM  training" in out
    assert out.endswith("1 problem, marked above\n")


@pytest.mark.parametrize(("version", "numbers"), [("1.26rc1", (1, 26)), ("2.0", (2, 0)), ("x", ())])
def test_versions_are_compared_by_number(version, numbers):
    assert doctor._numbers(version) == numbers
