"""What the tests of the service share: a small index with two models, and a client without a network."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from pathlib import Path

import httpx
import numpy as np

from rankwright import LambdaMART, LinearModel, save_model
from rankwright.serving.app import make_app
from rankwright.serving.requests import Limits
from rankwright.serving.service import Service
from rankwright.text.index import build_index

__all__ = ["NAMES", "Client", "linear", "make_files", "refused", "trees"]

NAMES = ("bm25[porter+stop]", "bm25[porter,title]", "log-tf[plain]")
WORDS = ["wing", "lift", "heat", "plate", "flow", "shock", "drag", "pressure", "thin", "<b>bold</b>"]


def make_files(folder: Path) -> Path:
    """Write an index of 60 documents and the models linear.rkw and trees.rkw."""
    rng = np.random.default_rng(3)
    documents = []
    for number in range(60):
        words = rng.choice(WORDS, rng.integers(4, 30))
        title = " ".join(rng.choice(WORDS, 2))
        documents.append({"id": f"d{number:02d}", "title": title, "body": " ".join(words)})
    documents.append(
        {"id": "ünïcode/№1&<x>", "title": "<script>alert(1)</script> wing", "body": "naïve wing 翼 <img src=x>"}
    )
    build_index(documents, folder / "docs.index")
    linear(folder / "linear.rkw", [1.0, 0.5, 0.1])
    trees(folder / "trees.rkw")
    return folder


def linear(path: Path, coef: list[float], names=NAMES) -> None:
    """Write a linear model under a name, in one step."""
    save_model(LinearModel(coef, feature_names=names), path, method="svm-map", parameters={})


def trees(path: Path) -> None:
    """Write a model of trees, trained on made-up data."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, [1.0, 1.0, 4.0], size=(400, 3))
    labels = np.digitize(X @ [2.0, 1.0, 0.2] + 0.2 * rng.normal(size=400), [1.0, 2.0])
    model = LambdaMART(n_trees=8, max_leaves=4).fit(X, labels, group=[20] * 20).model_
    save_model(dataclasses.replace(model, feature_names=NAMES), path, method="lambdamart", parameters={})


class Client:
    """Requests to an application in this process; ``log`` holds what it tells."""

    def __init__(
        self, folder: Path, *, models=("linear", "trees"), index=True, limits=None, hosts=None, functions=("bm25",)
    ) -> None:
        self.log: list[dict] = []
        files = [folder / f"{name}.rkw" for name in models]
        where = folder / "docs.index" if index else None
        self.service = Service(where, files, functions if index else (), notify=self.log.append)
        self.app = make_app(self.service, limits or Limits(), notify=self.log.append, hosts=hosts)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self.service.close()
        self._runner.close()

    def run(self, work):
        """The result of a coroutine function that is given an httpx client."""

        async def within():
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await work(client)

        return self._runner.run(within())

    def get(self, path, headers=None, **params):
        return self.run(lambda client: client.get(path, params=params or None, headers=headers))

    def post(self, body, kind="application/json", path="/rank"):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.run(lambda client: client.post(path, content=content, headers={"content-type": kind}))

    def rank(self, **body):
        found = self.post(body)
        assert found.status_code == 200, found.text
        return found.json()

    def search(self, q, **params):
        found = self.get("/search", q=q, **params)
        assert found.status_code == 200, found.text
        return found.json()


def refused(response, status: int, *words: str) -> str:
    """Assert that a request was refused with one line of JSON, and return what it says."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.text.count("\n") == 1
    told = response.json()
    assert list(told) == ["error"]
    assert "Traceback" not in told["error"]
    assert os.sep + "tmp" not in told["error"]
    for word in words:
        assert word in told["error"], told["error"]
    return told["error"]
