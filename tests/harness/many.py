"""Repeats a call, many at once."""

import concurrent.futures
import time


def at_once(count, play, workers=None):
    """The results of `play(number)` for each number. `workers`: number of threads, by default one per call."""
    with concurrent.futures.ThreadPoolExecutor(workers or count) as pool:
        return list(pool.map(play, range(count)))


def timed(play):
    """Seconds, and the result."""
    begun = time.monotonic()
    result = play()
    return time.monotonic() - begun, result


def until(seconds, holds, pause=0.05):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(pause)
    return bool(holds())
