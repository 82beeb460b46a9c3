"""A Dask scheduler with one worker, in a process of its own that can be killed."""

import subprocess
import sys
from contextlib import contextmanager

_CODE = """
import asyncio, distributed
async def main():
    async with distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        async with distributed.Worker(scheduler.address, nthreads=3):
            print(scheduler.address, flush=True)
            await scheduler.finished()
asyncio.run(main())
"""


@contextmanager
def scheduler_running():
    """The process, and the address of the scheduler."""
    code = f"import sys; sys.path[:] = {sys.path!r}\n{_CODE}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip().removeprefix("tcp://")
        finally:
            process.kill()
