"""Real programs that the traps name, each from its Debian package: those with much to install, or
long runs. What they print is compared with their run on libc's malloc."""

import os
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

pytestmark = pytest.mark.prove


@pytest.fixture
def same(harness, need, library, preload):
    """Runs a command on libc's malloc and on ours; what it prints and its status are equal."""
    def run(*command, timeout=120, **changes):
        need(command[0])
        expected = harness.run(command, environment=harness.environment(**changes), timeout=timeout)
        got = preload(library, *command, timeout=timeout, **changes)
        assert (got.stdout, got.returncode) == (expected.stdout, 0)
        return got.stdout
    return run


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def wait_for(port, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"nothing listens at {port}")


def test_t01_nvim(same, fixtures, library):
    """Beside a library that wraps mmap, open and getenv."""
    edit = ["-c", "call append(0, map(range(9999), 'v:val .. repeat(\"x\", v:val % 60)'))",
            "-c", "%s/x\\+/<&>/g", "-c", "sort!", "-c", "echo strlen(join(getline(1, '$')))"]
    command = ["nvim", "--headless", "-u", "NONE", "-i", "NONE", *edit, "-c", "qa!"]
    same(*command)
    wrapper = fixtures("wrap_system_calls.c", "-shared")
    same("env", f"LD_PRELOAD={wrapper}:{library}", *command)


def test_t08_php_mysqli(same):
    """Extensions that PHP opens with RTLD_DEEPBIND: a server that is not there."""
    script = ("mysqli_report(0); for ($i = 0; $i < 100; $i++) "
              "@mysqli_connect('p:127.0.0.1', 'u', 'p', 'd', 1); echo mysqli_connect_errno();"
              "$m = mysqli_init(); $m->options(MYSQLI_INIT_COMMAND, 'x'); unset($m);")
    for setting in ("0", "1"):
        assert same("php", "-r", script, USE_ZEND_ALLOC=setting) == b"2002"


def test_t09_chromium(same, harness):
    """An allocator of its own under malloc's names."""
    page = harness.directory / "page.html"
    page.write_text("<script>document.title = [...Array(99999).keys()].join().length</script>")
    profile = harness.directory / "profile"
    said = same("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                f"--user-data-dir={profile}", page.as_uri())
    assert b"<title>588883</title>" in said


@pytest.mark.parametrize("command", [["ping", "-c", "1", "127.0.0.1"], ["sudo", "-n", "-l"]])
def test_t13_programs_with_privileges(harness, preload, need, library, command):
    """Of a user who is nobody: the loader ignores the preload, they do as ever."""
    need(command[0], "setpriv")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    expected = harness.run(user, check=False)
    got = preload(library, *user, check=False)
    assert got.returncode == expected.returncode
    assert got.stdout[:20] == expected.stdout[:20]


def test_t14_go(same, harness, need):
    """Go's own tool, and a program that it links without libc."""
    need("go")
    same("go", "env", "GOOS")
    source = harness.directory / "main.go"
    source.write_text('package main\n\nimport "fmt"\n\nfunc main() {\n\tm := map[int]string{}\n'
                      '\tfor i := 0; i < 99999; i++ {\n\t\tm[i] = fmt.Sprint(i)\n\t}\n'
                      '\tfmt.Println(len(m))\n}\n')
    program = harness.directory / "main"
    subprocess.run(["go", "build", "-o", program, source], check=True, timeout=300,
                   env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod",
                                     "GOCACHE": str(harness.directory / "cache")})
    assert same(str(program)) == b"99999\n"


def test_t15_heaptrack(harness, need, fixtures, library):
    """Its own interposer before ours."""
    need("heaptrack")
    environment = harness.environment(LD_PRELOAD=str(library))
    output = harness.directory / "tracked"
    said = harness.run(["heaptrack", "-o", output, fixtures("exercise.c")], environment=environment,
                       timeout=300).stdout
    assert b"exercised\n" in said
    assert list(harness.directory.glob("tracked*"))


def test_t20_sshd(harness, need, library, port):
    """The server confines the child that a client first meets."""
    need("ssh", "sshd", "ssh-keygen")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.makedirs("/run/sshd", exist_ok=True)
    folder = harness.directory
    for name in ("host", "user"):
        harness.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name],
                    environment=harness.preloaded())
    os.chmod(folder, 0o755)
    server = subprocess.Popen(
        [shutil.which("sshd"), "-D", "-e", "-f", "/dev/null", "-p", str(port), "-h",
         folder / "host", "-o", f"AuthorizedKeysFile={folder}/user.pub", "-o", "StrictModes=no",
         "-o", "PermitRootLogin=yes", "-o", "UsePAM=no"],
        env=harness.preloaded(), stderr=subprocess.PIPE)
    try:
        wait_for(port)
        said = harness.run(["ssh", "-F", "/dev/null", "-p", port, "-i", folder / "user", "-o",
                            "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o",
                            "BatchMode=yes", "root@127.0.0.1", "echo from the other side"],
                           environment=harness.preloaded(), check=False)
    finally:
        server.terminate()
        log = server.communicate(timeout=30)[1]
    assert said.stdout == b"from the other side\n", (said.stderr, log)


def test_t22_numpy(same):
    """Threads of OpenBLAS, one processor and all."""
    script = ("import numpy; a = numpy.arange(250000.).reshape(500, 500) % 7; "
              "print(int((a @ a).sum()), int(numpy.sort(a.ravel())[::999].sum()), "
              "numpy.linalg.matrix_rank(a))")
    if subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True).returncode:
        pytest.skip("python3-numpy is not installed")
    same("/usr/bin/python3", "-c", script)
    same("taskset", "-c", "0", "/usr/bin/python3", "-c", script)


def test_t36_ffmpeg(same):
    """Blocks at large alignments, many threads."""
    same("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=duration=2:size=320x240:rate=25",
         "-vf", "scale=640:480,hflip", "-threads", "4", "-f", "md5", "-")


def test_t40_cargo(same, harness, need):
    """It starts its compiler by posix_spawn or vfork."""
    need("cargo")
    folder = harness.directory / "crate"
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text('[package]\nname = "crate"\nversion = "1.0.0"\n')
    (folder / "src" / "main.rs").write_text(
        'fn main() { let v: Vec<String> = (0..99).map(|i| i.to_string()).collect(); '
        'println!("{}", v.join(",").len()); }\n')
    for round_of in ("libc", "ours"):
        shutil.rmtree(folder / "target", ignore_errors=True)
        environment = harness.preloaded() if round_of == "ours" else harness.environment()
        said = harness.run(["cargo", "run", "--quiet", "--offline", "--manifest-path",
                            folder / "Cargo.toml"], environment=environment, timeout=300)
        assert said.stdout == b"286\n"


def test_t42_nginx(harness, need, library, port):
    """A daemon that forks twice and serves from its workers."""
    need("nginx")
    folder = harness.directory
    os.chmod(folder, 0o755)
    (folder / "page").write_text("a line of the page\n" * 20000)
    (folder / "nginx.conf").write_text(
        f"user root; worker_processes 2; pid {folder}/pid; error_log {folder}/error.log;\n"
        "events {}\n"
        "http { access_log off; gzip on;\n"
        f"server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n")
    command = ["nginx", "-p", folder, "-c", folder / "nginx.conf"]
    harness.run(command, environment=harness.preloaded())
    try:
        wait_for(port)
        for _ in range(200):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/page", timeout=30) as answer:
                assert len(answer.read()) == 380000
    finally:
        harness.run([*command, "-s", "quit"], environment=harness.preloaded())


def test_t56_imagemagick(same):
    same("convert", "-size", "300x300", "plasma:red-blue", "-seed", "1", "-blur", "0x3", "-resize",
         "50%", "-format", "%wx%h", "info:-")
