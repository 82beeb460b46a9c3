"""Where numba can write nothing, compiled code goes to a temporary folder; elsewhere nothing is touched."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import rankwright
from rankwright import caching

# Then even root obeys permissions: the right to pass them over is given up before the program starts.
OBEYING = "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); os.execv(sys.executable, sys.argv[1:])"
UNSET = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR")
DECORATES = "import rankwright.io.kernels"
ASKS = "from rankwright.cli.main import main; raise SystemExit(main(['--version']))"


@pytest.fixture(scope="module")
def locked():
    """A folder with a copy of the package and a home, none of which can be written."""
    if os.name != "posix":
        pytest.skip("permissions of another kind")
    folder = Path(tempfile.mkdtemp())
    shutil.copytree(
        Path(rankwright.__file__).parent, folder / "rankwright", ignore=shutil.ignore_patterns("*.pyc", "*.nb?")
    )
    (folder / "home").mkdir()
    inside = [path for path in folder.rglob("*") if path.is_dir()]
    for path in inside:
        path.chmod(0o555)
    yield folder
    for path in inside:
        path.chmod(0o755)
    shutil.rmtree(folder)


def started(locked, temporary, code):
    keep = {name: value for name, value in os.environ.items() if name not in UNSET}
    own = {"PYTHONPATH": str(locked), "HOME": str(locked / "home"), "TMPDIR": str(temporary)}
    command = [sys.executable, "-B", "-c", code]
    command = [sys.executable, "-c", OBEYING, *command] if os.geteuid() == 0 else command
    return subprocess.run(command, env=keep | own, capture_output=True, text=True, check=False)


def test_a_read_only_package_and_home_are_enough(locked, tmp_path):
    done = started(locked, tmp_path, f"{DECORATES}; {ASKS}")
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert done.stderr.count("\n") == 1
    assert f"note: compiled code is in {folder}" in done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr


def test_plots_are_drawn_without_a_word_about_folders(locked, tmp_path):
    code = "import rankwright; from rankwright.data.display import new_figure; import io; "
    done = started(locked, tmp_path, code + "new_figure(1.0).savefig(io.BytesIO())")
    said = [line for line in done.stderr.splitlines() if "building the font cache" not in line]  # if it takes long
    assert (done.returncode, said) == (0, [])
    (folder,) = tmp_path.iterdir()
    assert (folder / "matplotlib").is_dir()


def test_no_place_at_all_is_enough(locked):
    # and then one line says so, if anything that is compiled was used
    nowhere = f"import tempfile; tempfile.tempdir = {str(locked / 'home')!r}; "
    works = (
        "from rankwright.maxmargin.smoothed import dot; import numpy as np; assert dot(np.ones(3), np.ones(3)) == 3; "
    )
    done = started(locked, locked / "home", nowhere + works + ASKS)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert "note: compiled code is not kept (no folder for it can be written)" in done.stderr
    assert "NUMBA_CACHE_DIR" in done.stderr
    done = started(locked, locked / "home", nowhere + ASKS)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_place_at_all_starts_no_workers(locked):
    code = f"import tempfile; tempfile.tempdir = {str(locked / 'home')!r}; from rankwright.cli import precompile; "
    code += "precompile._cores = lambda: 4; inside = precompile.precompiling('svm-map', lambda: print('told')); "
    done = started(locked, locked / "home", code + "print(inside.__enter__().announced)")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_nothing_is_touched_where_numba_finds_a_place(monkeypatch, tmp_path):
    monkeypatch.delenv(caching.VARIABLE, raising=False)
    for places in ([str(tmp_path / "new" / "deep")], ["/proc/none", str(tmp_path)]):
        monkeypatch.setattr(caching, "_places", lambda places=places: places)
        caching.provide_cache()
        assert caching.VARIABLE not in os.environ
    assert caching.temporary_cache() is None


def test_a_folder_that_only_seems_writable_is_not(monkeypatch, tmp_path):
    # a security module may deny what permissions allow
    def denied(dir):
        raise PermissionError(13, "Permission denied", dir)

    assert caching._is_writable(str(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(tempfile, "TemporaryFile", denied)
    assert not caching._is_writable(str(tmp_path / "new"))
    monkeypatch.setenv(caching.VARIABLE, str(tmp_path))
    assert caching.cache_refused() == str(tmp_path)


def test_a_folder_of_somebody_else_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = Path(caching._own_folder())
    assert caching._own_folder() == str(first)
    first.chmod(0o777)
    assert caching._own_folder() != str(first)
    first.chmod(0o700)
    first.rename(tmp_path / "real")
    first.symlink_to(tmp_path / "real")
    assert caching._own_folder() != str(first)
