"""Whether a running event loop has heard Ctrl-C while a call blocks it."""

from __future__ import annotations

import sys


def cancellations() -> int:
    """How often the tasks of this thread's running loop have been asked to end; 0 without such a loop.

    The handler that asyncio.run sets for the first Ctrl-C raises nothing: it cancels the main task, which hears of that
    when the loop goes on. While a call blocks the loop, nothing else cancels tasks of it.
    """
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return 0
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return 0
    return sum(task.cancelling() for task in tasks)
