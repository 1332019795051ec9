"""Heavy work of a page: only the newest counts, and it can be cancelled."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from hardmax.studio.work import CancelledWork, LatestWork


def run(coroutine):
    """Run a coroutine in a thread of its own: playwright has a running event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def test_the_newest_of_a_hundred_calls_is_the_only_one_that_is_computed_to_its_end():
    started, finished = [], []

    def compute(check, number):
        started.append(number)
        for _ in range(10):
            check()
            time.sleep(0.002)
        finished.append(number)
        return number

    async def move_slider():
        work = LatestWork()
        calls = []
        for number in range(100):
            calls.append(asyncio.create_task(work.run(compute, number)))
            await asyncio.sleep(0)
        return await asyncio.gather(*calls)

    results = run(move_slider())
    assert results == [None] * 99 + [99]
    assert finished == [99]
    assert len(started) <= 3


def test_pages_do_not_wait_for_each_other():
    """The first page's work ends only after that of the second has run."""
    event = threading.Event()

    async def run_both():
        first = asyncio.create_task(LatestWork().run(lambda check: event.wait(30)))
        await LatestWork().run(lambda check: event.set())
        return await first

    assert run(run_both()) is True


def test_a_page_that_is_closed_cancels_its_work():
    began, cancelled = threading.Event(), []

    def compute(check):
        began.set()
        try:
            while True:
                check()
                time.sleep(0.001)
        except CancelledWork:
            cancelled.append(True)
            raise

    async def leave():
        work = LatestWork()
        task = asyncio.create_task(work.run(compute))
        await asyncio.to_thread(began.wait)
        work.cancel()
        return await task

    assert run(leave()) is None
    assert cancelled == [True]


def test_errors_reach_the_caller():
    def fail(check):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(LatestWork().run(fail))


def test_each_thread_uses_one_core():
    assert run(LatestWork().run(lambda check: torch.get_num_threads())) == 1
