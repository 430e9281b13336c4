"""The same done many times at once."""

import concurrent.futures
import time


def at_once(count, play, workers=None):
    """What `play(number)` gives for each number; in `workers` threads, as many as there are calls by default."""
    with concurrent.futures.ThreadPoolExecutor(workers or count) as pool:
        return list(pool.map(play, range(count)))


def timed(play):
    """Seconds, and what it gave."""
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
