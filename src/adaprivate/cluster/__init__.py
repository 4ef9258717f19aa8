"""Where work is done: on threads of this process, or on dask workers, here or on many machines; and where it is kept.

One door for everything that runs for long: :func:`using` says which workers and which file of results, for all that is
called inside; whoever has work makes tasks, and takes what ``current().completed(tasks)`` yields, each once.
What is computed depends on the tasks alone, never on who carries them out (docs/cluster.md).
"""

from adaprivate.cluster.results import Results
from adaprivate.cluster.workers import Task, Threads, Workers, current, results, using

__all__ = ["Results", "Task", "Threads", "Workers", "current", "results", "using"]
