"""The wheels in an environment that holds nothing else: what the READMEs say works there as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT = Path(os.environ["CARGO_TARGET_DIR"]) / "python-dev"
SECONDS = 600

SCRIPT = """
import threading

import lightstream_core
import polars as pl
from lightstream_polars import scan_lightstream

made = []

def rows():
    made.append(threading.current_thread().name)
    return pl.DataFrame({"n": range(100_000), "text": [str(n % 7) for n in range(100_000)]})

server = lightstream_core.serve({"made anew": rows, "kept": rows()})
sums = []

def read(name):
    frame = scan_lightstream(f"{server.url}/{name}").filter(pl.col("text") == "3")
    sums.append(frame.select(pl.col("n").sum()).collect().item())

threads = [threading.Thread(target=read, args=(name,)) for name in ("made%20anew", "kept") * 4]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sums == [sum(range(3, 100_000, 7))] * 8, sums
assert len(made) > 4

import daft
import pyarrow as pa
from lightstream_daft import read_lightstream

frame = read_lightstream(f"{server.url}/kept").where(daft.col("text") == "3").sum("n")
assert frame.to_pydict() == {"n": [sums[0]]}
scan = lightstream_core.connect(server.url).scan("kept", where="text = '3'")
assert sum(pa.table(scan)["n"].to_pylist()) == sums[0]
# A reader half-way and a server that runs: neither keeps the interpreter from ending.
reader = iter(lightstream_core.connect(server.url).scan("kept"))
next(reader)
print("done")
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheels, and what they ask for themselves."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    wheels = sorted(BUILT.glob("*/*.whl"))
    assert len(wheels) == 3, wheels
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wheels]
    subprocess.run(install, check=True, timeout=SECONDS)
    return python


def run(python: Path, code: str, folder: Path) -> str:
    # The environment of whoever runs the tests must not help.
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "DAFT_ANALYTICS_ENABLED": "0"}
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, cwd=folder, env=environment, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def snippets(readme: str) -> list[str]:
    text = (ROOT / readme).read_text()
    return [textwrap.dedent(code) for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


def test_the_readme_of_the_polars_package_works_as_it_stands(python: Path, tmp_path: Path) -> None:
    [code] = snippets("polars-plugin/README.md")
    printed = run(python, code, tmp_path)
    assert "delay > 10" in printed and "AA" in printed


def test_the_readme_of_the_daft_package_works_as_it_stands(python: Path, tmp_path: Path) -> None:
    [code] = snippets("daft-source/README.md")
    assert run(python, code, tmp_path) == "{'carrier': ['AA'], 'delay': [52]}\n{'most': [40]}\n"


@pytest.mark.parametrize("engine", ["scan_lightstream", "read_lightstream"])
def test_the_readme_of_the_repository_works_as_it_stands(python: Path, tmp_path: Path, engine: str) -> None:
    [code] = [code for code in snippets("README.md") if engine in code]
    assert "JFK" in run(python, code, tmp_path)


def test_a_process_that_serves_and_scans_ends(python: Path, tmp_path: Path) -> None:
    assert run(python, SCRIPT, tmp_path) == "done\n"
