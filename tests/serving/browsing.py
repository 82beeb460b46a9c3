"""A service in this process."""

import threading
from contextlib import contextmanager

from rankwright.serving.app import make_app
from rankwright.serving.http import bind, serve


@contextmanager
def running(service, limits=None):
    """Serve in a thread; the value is the address."""
    at, ready = [], threading.Event()

    def say(address):
        at.append(address)
        ready.set()

    with bind("127.0.0.1", 0) as bound:
        stop = threading.Event()
        settings = {"ready": say, "seconds": 5.0, "stop": stop}
        thread = threading.Thread(
            target=serve, args=(make_app(service, limits), service, bound, lambda event: None), kwargs=settings
        )
        thread.start()
        assert ready.wait(60)
        yield at[0]
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
