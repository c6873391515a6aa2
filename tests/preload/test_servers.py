"""Servers that fork a process for each client, under the preload and on their usual allocator:
PostgreSQL, with parallel workers, a backend that is killed, and a restart; sshd, which gives up its
privileges and confines itself. Each is left out where it is not installed."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from harness import PATIENCE, parse_statistics, require

NOBODY = 65534  # PostgreSQL refuses to run as root

SQL = """
set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0;
set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0;
create table item as select i, md5(i::text) m, i * 7919 % 1000 k, repeat('x', i % 100) t
    from generate_series(1, 50000) i;
analyze item; create index on item(m); create index on item using gin(to_tsvector('simple', m));
select k % 10, count(*), sum(length(t)), max(m) from item group by 1 order by 1;
select count(*) from item a join item b on a.m = b.m; select count(distinct m) from item;
select md5(string_agg(r, '')) from (select jsonb_agg(jsonb_build_object('i', i, 'm', m) order by i)
    ::text r from item where i < 9000 group by k order by k) q;
with recursive r(n, s) as (select 1, 'a' union all select n + 1, s || chr(97 + n % 26) from r
    where n < 1000) select md5(string_agg(s, '' order by n)) from r;
select length(repeat('x', 2000000000));
do $$ begin raise exception 'gone'; end $$; drop table item;
"""


@dataclasses.dataclass
class Place:
    """A directory that the server's user may write to, with a library that he may read."""

    path: pathlib.Path
    library: pathlib.Path
    user: dict


@pytest.fixture
def place(library):
    with tempfile.TemporaryDirectory(prefix="primalloc-", ignore_cleanup_errors=True) as name:
        path = pathlib.Path(name)
        copied = shutil.copy(library, path / "libprimalloc.so")
        user = {}
        if os.geteuid() == 0:
            path.chmod(0o755)
            os.chown(path, NOBODY, NOBODY)
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        yield Place(path, pathlib.Path(copied), user)


def wait_until(is_true, process, what: str) -> None:
    deadline = time.monotonic() + 30 * PATIENCE
    while not is_true():
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"{process.args[0]}: no {what}")
        time.sleep(0.05)


@contextlib.contextmanager
def served(command, environment, log, end, **options):
    """Runs a server, which the signal `end` ends. (SIGINT is ignored by whom a shell started in the
    background, and who does not ask for it.)"""
    with open(log, "ab") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(end)
        process.wait(timeout=60 * PATIENCE)


class PostgreSQL:
    def __init__(self, harness, place, name, environment):
        binaries = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not binaries:
            pytest.skip("PostgreSQL is not installed")
        self.harness, self.place, self.environment = harness, place, environment
        self.programs = binaries[-1].parent
        self.data, self.log = place.path / name, place.path / f"{name}.log"

    def ask(self, text: str) -> str:
        command = [self.programs / "psql", "-XqAt", "-h", self.place.path, "-U", "test", "postgres"]
        result = self.harness.run(command, check=False, input=text.encode(), stdin=None,
                                  directory=self.place.path, **self.place.user)
        return (result.stdout + result.stderr).decode()

    def answers(self) -> bool:
        return self.ask("select 'here';") == "here\n"

    def work(self) -> str:
        options = {"directory": self.place.path, **self.place.user}
        self.harness.run([self.programs / "initdb", "-D", self.data, "-U", "test", "-A", "trust",
                          "--no-sync"], environment=self.environment, **options)
        command = [self.programs / "postgres", "-D", self.data, "-k", self.place.path, "-h", "",
                   "-c", "fsync=off"]
        with served(command, self.environment, self.log, signal.SIGINT, cwd=self.place.path,
                    **self.place.user) as server:
            wait_until(self.answers, server, "answer")
            before = self.ask(SQL)
            lost = self.ask("select pg_backend_pid() \\gset\n"
                            "\\setenv PID :pg_backend_pid\n\\! kill -9 $PID\nselect 'still here';")
            assert "still here" not in lost
            wait_until(lambda: "reinitializing" in self.log.read_text(), server, "restart")
            wait_until(self.answers, server, "answer after it")
            after = self.ask(SQL)
        assert server.returncode == 0 and after == before
        assert "primalloc" not in self.log.read_text().replace(str(self.place.path), "")
        return before


def test_postgresql(harness, place):
    expected = PostgreSQL(harness, place, "libc", harness.environment()).work()
    assert "gone" in expected and "|" in expected
    preloaded = harness.preloaded(LD_PRELOAD=str(place.library))
    assert PostgreSQL(harness, place, "default", preloaded).work() == expected
    output = place.path / "statistics"
    counting = {**preloaded, "PRIMALLOC_STATS": "full", "PRIMALLOC_STATS_OUTPUT": str(output)}
    assert PostgreSQL(harness, place, "counted", counting).work() == expected
    assert max(process.calls for process in parse_statistics(output)) >= 10_000


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


def test_sshd(harness):
    """The child is confined by a filter of system calls until the client has proved itself."""
    require("ssh", "ssh-keygen")
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None or os.geteuid() == 0 and not os.path.isdir("/run/sshd"):
        pytest.skip("sshd is not installed, or lacks its directory /run/sshd")
    for name in "host", "key":
        harness.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name])
    answers = []
    for environment in harness.environment(), harness.preloaded():
        port = free_port()
        settings = [f"ListenAddress=127.0.0.1:{port}", f"HostKey={harness.directory}/host",
                    f"AuthorizedKeysFile={harness.directory}/key.pub", "StrictModes=no",
                    "PidFile=none", "UsePAM=no", "PermitRootLogin=yes"]
        log = harness.directory / "log"
        log.write_text("")
        command = [sshd, "-D", "-e", "-f", "/dev/null", *(f"-o{line}" for line in settings)]
        with served(command, environment, log, signal.SIGTERM) as server:
            wait_until(lambda port=port: accepts(port), server, "answer")
            result = harness.run(["ssh", "-C", "-i", "key", "-p", port, "-oBatchMode=yes",
                                  "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null",
                                  "127.0.0.1", "seq 50000"], environment=environment, check=False)
        if not answers and result.returncode != 0:
            pytest.skip(f"no login by key here: {log.read_text()[-300:]}")
        answers.append((result.returncode, result.stdout))
        assert "primalloc" not in log.read_text().replace(str(harness.directory), "")
    assert answers[0] == answers[1]
