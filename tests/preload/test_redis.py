"""A Redis server under the preload: writes, scripts, a dump by a forked child (BGSAVE), a reload of
everything (DEBUG RELOAD), compared with the same work on its usual allocator."""

import contextlib
import os
import socket
import subprocess
import time

import pytest

from harness import PATIENCE, parse_statistics, require

COMMANDS = r"""
flushall
eval "for i = 1, 20000 do redis.call('set', 'key:' .. i, string.rep('v', i % 300)) end" 0
eval "for i = 1, 5000 do redis.call('hset', 'hash:' .. i % 50, 'f' .. i, i * 7) end" 0
eval "for i = 1, 5000 do redis.call('zadd', 'board', i * 7919 % 5003, 'member' .. i) end" 0
eval "for i = 1, 5000 do redis.call('rpush', 'list:' .. i % 9, string.rep('x', i % 99)) end" 0
eval "for i = 1, 20000, 3 do redis.call('del', 'key:' .. i) end" 0
debug reload
dbsize
hget hash:7 f7
zrange board 100 105
llen list:4
lrange list:4 3 5
append key:20000 tail
setrange key:2 100000 far
strlen key:2
memory purge
bgsave
"""

REQUESTS = str(1000 * int(os.environ.get("PRIM_TEST_SCALE", "1")))


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


class Redis:
    def __init__(self, harness, environment, directory):
        self.port = free_port()
        self.harness = harness
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                   "--dir", str(directory), "--enable-debug-command", "yes", "--appendonly", "no"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)

    def ask(self, *words: str, text: str | None = None) -> str:
        command = ["redis-cli", "-p", str(self.port), *words]
        options = {} if text is None else {"input": text.encode(), "stdin": None}
        return self.harness.run(command, check=False, **options).stdout.decode()

    def wait_until(self, is_done, what: str) -> None:
        deadline = time.monotonic() + 30 * PATIENCE
        while not is_done():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                log = self.process.stdout.read().decode()
                pytest.fail(f"redis-server: no {what}: {log[-3000:]}")
            time.sleep(0.05)


@contextlib.contextmanager
def running(harness, environment, directory):
    directory.mkdir()
    redis = Redis(harness, environment, directory)
    try:
        redis.wait_until(lambda: redis.ask("ping") == "PONG\n", "answer")
        yield redis
    finally:
        redis.ask("shutdown", "nosave")
        redis.process.wait(timeout=30 * PATIENCE)
        redis.log = redis.process.stdout.read().decode()
        redis.process.stdout.close()


def work(harness, environment, directory) -> list[str]:
    with running(harness, environment, directory) as redis:
        answer = redis.ask(text=COMMANDS)
        redis.wait_until(
            lambda: "rdb_bgsave_in_progress:0" in redis.ask("info", "persistence"), "end of BGSAVE")
        assert "rdb_last_bgsave_status:ok" in redis.ask("info", "persistence")
        digest = redis.ask("debug", "digest")
    assert (directory / "dump.rdb").stat().st_size > 100_000
    # A second server reads what the child of the first one wrote.
    with running(harness, environment, directory / "again") as redis:
        (directory / "again" / "dump.rdb").write_bytes((directory / "dump.rdb").read_bytes())
        redis.ask("debug", "reload", "nosave")
        assert redis.ask("debug", "digest") == digest
    return [answer, digest]


def test_redis(harness):
    require("redis-server", "redis-cli")
    expected = work(harness, harness.environment(), harness.directory / "libc")
    got = work(harness, harness.preloaded(), harness.directory / "default")
    assert got == expected
    output = harness.directory / "statistics"
    counting = harness.preloaded(PRIMALLOC_STATS="full", PRIMALLOC_STATS_OUTPUT=str(output))
    got = work(harness, counting, harness.directory / "counted")
    assert got == expected
    processes = parse_statistics(output)
    assert max(process.calls for process in processes) >= 10_000, processes


def test_redis_under_checks(harness):
    """The same load, and redis-benchmark's: nothing is reported, and nothing is aborted."""
    require("redis-server", "redis-cli", "redis-benchmark")
    checked = harness.preloaded(MALLOC_CHECK_="3")
    with running(harness, checked, harness.directory / "checked") as redis:
        redis.ask(text=COMMANDS)
        harness.run(["redis-benchmark", "-p", str(redis.port), "-q", "-n", REQUESTS, "-r", "5000",
                     "-d", "100", "-t", "set,get,lpush,lpop,sadd,hset,zadd,mset"])
        assert redis.ask("ping") == "PONG\n"
    assert redis.process.returncode == 0
    assert "primalloc" not in redis.log
