"""A long read shows its progress on a terminal, and nowhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import textwrap

import pytest

_READ = textwrap.dedent(
    """
    import sys
    import lightstream_core as core
    import polars as pl
    import lightstream_polars._progress as progress
    from lightstream_polars import read_lightstream

    progress._SILENT_SECONDS = 0.0
    if "without tqdm" in sys.argv:
        sys.modules["tqdm"] = None
    with core.serve({"flights": pl.DataFrame({"id": pl.int_range(500_000, eager=True)})}) as server:
        assert read_lightstream(f"{server.url}/flights").height == 500_000
    """
)


def shown(*arguments: str, on_terminal: bool = True, **environment: str) -> str:
    """What a read writes to standard error."""
    command = [sys.executable, "-c", _READ, *arguments]
    variables = {**os.environ, **environment}
    if not on_terminal:
        return subprocess.run(command, env=variables, stderr=subprocess.PIPE, text=True, check=True, timeout=60).stderr
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with subprocess.Popen(command, env=variables, stderr=far) as process:
        os.close(far)
        text = b""
        while True:
            try:
                part = os.read(near, 4096)
            except OSError:  # The end of a terminal.
                break
            if not part:
                break
            text += part
        assert process.wait(60) == 0
    os.close(near)
    return text.decode()


def test_a_terminal_shows_progress() -> None:
    text = shown()
    assert "reading flights" in text
    assert "500k" in text


def test_no_terminal_no_progress() -> None:
    assert shown(on_terminal=False) == ""


def test_it_can_be_turned_off() -> None:
    assert shown(LIGHTSTREAM_PROGRESS="0") == ""


def test_it_needs_tqdm_but_reading_does_not() -> None:
    assert shown("without tqdm") == ""


@pytest.mark.parametrize("value", ["1", ""])
def test_other_values_leave_it_on(value: str) -> None:
    assert "reading flights" in shown(LIGHTSTREAM_PROGRESS=value)
