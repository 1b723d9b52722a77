"""Processes that are measured: each answers one line of JSON with another.

A process serves or runs one system only, so that its CPU time and its greatest memory are that system's.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

TICKS = os.sysconf("SC_CLK_TCK")


class Peer:
    """A process of this folder, started with a script and its arguments."""

    def __init__(self, script: str, *arguments: str) -> None:
        path = Path(__file__).parent / script
        self.process = subprocess.Popen(
            [sys.executable, str(path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = self._answer()

    def _answer(self) -> Any:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise RuntimeError(f"{self.process.args} ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.process.args}: {answer['error']}")
        return answer

    def ask(self, **question: Any) -> Any:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait(timeout=60)


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def answer_questions(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answers until the other side closes."""
    for line in sys.stdin:
        try:
            say(answer(json.loads(line)))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_rss_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


def timed(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the work says of its result, with seconds, CPU seconds and greatest memory of this process."""
    forget_peak()
    cpu, start = time.process_time(), time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    return result | {
        "seconds": seconds,
        "cpu_s": time.process_time() - cpu,
        "peak_rss_bytes": peak_rss_bytes(),
    }
