"""A profile as a large service's would be, made up: so many samples of so many different stacks, in
the form that docs/profile-format.md describes. The library adds samples up by stack, so a file has
a row for each stack however many samples there were.

  python3 synthetic.py FILE [--samples N] [--stacks N]
"""

import argparse
import gzip
import random

VALUES = ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "peak_objects",
          "peak_space", "growth_objects", "growth_space"]
THREADS = ["main"] + [f"worker-{number}" for number in range(32)]
PERIOD = 512 << 10
DEPTH = 24


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, content) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


class Strings:
    def __init__(self):
        self.numbers = {"": 0}

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def stacks(count: int, chance: random.Random):
    """Different stacks of a program that branches as programs do: each frame calls one of a few."""
    seen = set()
    functions = max(64, min(count // 4, 60_000))
    while len(seen) < count:
        frame, stack = 1, []
        for _ in range(chance.randint(DEPTH // 2, DEPTH)):
            stack.append(frame)
            frame = (frame * 7 + chance.choice((1, 1, 1, 2, 3, 5, 11)) * 31) % functions + 1
        stack.reverse()
        if (key := tuple(stack)) not in seen:
            seen.add(key)
            yield stack


def profile(samples: int, stack_count: int, seed: int = 7) -> bytes:
    chance = random.Random(seed)
    strings, parts = Strings(), []
    number = strings.number
    for name in VALUES:
        unit = "count" if name.endswith("objects") else "bytes"
        parts.append(field(1, field(1, number(name)) + field(2, number(unit))))
    labels = [field(3, field(1, number("thread")) + field(2, number(name))) for name in THREADS]
    each = max(1, samples // stack_count)
    used = 0
    small = [varint(value) for value in range(1 << 17)]
    for stack in stacks(stack_count, chance):
        used = max(used, max(stack))
        hits = chance.randint(1, 2 * each)
        size = 16 << chance.randint(0, 12)
        total = hits * PERIOD
        live = total // chance.choice((1, 3, 50, 1000))
        numbers = [total // size, total, live // size, live, 2 * live // size, 2 * live, 0, 0]
        parts.append(field(2, field(1, b"".join(small[frame] for frame in stack))
                           + field(2, b"".join(varint(value) for value in numbers))
                           + chance.choice(labels)))
    base = 0x400000
    mapping = field(1, 1) + field(2, base) + field(3, 20 * base) + field(5, number("/srv/large"))
    parts.append(field(3, mapping))
    for location in range(1, used + 1):
        place = field(1, location) + field(2, 1) + field(3, base + 61 * location)
        parts.append(field(4, place))
    parts += [field(12, PERIOD), field(11, field(1, number("space")) + field(2, number("bytes")))]
    facts = ["format primalloc-heap 1", "library 0.1.0", "program 4711 large", "event 0 exit"]
    parts += [field(13, number(fact)) for fact in facts]
    parts += [field(14, number("inuse_space"))]
    parts += [field(6, text.encode()) for text in strings.numbers]
    return b"".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--stacks", type=int, default=20_000)
    arguments = parser.parse_args()
    content = gzip.compress(profile(arguments.samples, arguments.stacks), compresslevel=6)
    with open(arguments.file, "wb") as target:
        target.write(content)
    print(f"{arguments.file}: {len(content)} bytes")


if __name__ == "__main__":
    main()
