"""Reads profiles as docs/profile-format.md describes them: by the table of names, with a reader of
protocol buffers of a few lines. What is not in the table is an error."""

import collections
import gzip
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = (ROOT / "src" / "watch" / "profile_format.def").read_text().split("*/", 1)[1]
VIEWS = re.findall(r'^VIEW\((\w+), "(\w+)"\)', TABLE, re.MULTILINE)
LEAK_VIEWS = re.findall(r'^LEAK_VIEW\((\w+), "(\w+)"\)', TABLE, re.MULTILINE)
FACTS = re.findall(r"^FACT\((\w+)\)", TABLE, re.MULTILINE)
FIELDS = collections.defaultdict(dict)
for message, name, number in re.findall(r"^FIELD\((\w+), (\w+), (\d+)\)", TABLE, re.MULTILINE):
    FIELDS[message][int(number)] = name

Mapping = collections.namedtuple("Mapping", "start limit offset path build_id")
Sample = collections.namedtuple("Sample", "values frames labels")
Frame = collections.namedtuple("Frame", "address mapping")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def packed(data):
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


def fields(kind, data):
    """The fields of a message: name -> list of numbers and bytes."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        name = FIELDS[kind][key >> 3]
        value, at = varint(data, at)
        assert key & 7 in (0, 2)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
            assert len(value) <= len(data)
        found[name].append(value)
    return found


def one(found, name):
    assert len(found[name]) <= 1, name
    return found[name][0] if found[name] else 0


class Profile:
    def __init__(self, path):
        top = fields("profile", gzip.decompress(pathlib.Path(path).read_bytes()))
        self.strings = [text.decode() for text in top["string_table"]]
        assert self.strings[0] == ""
        self.types = [(self.strings[one(kind, "type")], self.strings[one(kind, "unit")])
                      for kind in (fields("value_type", data) for data in top["sample_type"])]
        self.shown = self.strings[one(top, "default_sample_type")]
        self.period = one(top, "period")
        self.time_ns, self.duration_ns = one(top, "time_nanos"), one(top, "duration_nanos")
        lines = [self.strings[number] for number in top["comment"]]
        lines += [text.decode() for text in top["fact"]]
        self.facts = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in lines}
        assert set(self.facts) <= set(FACTS)
        self.mappings = dict(map(self._mapping, top["mapping"]))
        self._locations = dict(map(self._location, top["location"]))
        assert len(self._locations) == len(top["location"]) and 0 not in self._locations
        self.samples = [self._sample(data) for data in top["sample"]]

    def _mapping(self, data):
        found = fields("mapping", data)
        start, limit = one(found, "memory_start"), one(found, "memory_limit")
        assert start < limit
        return one(found, "id"), Mapping(start, limit, one(found, "file_offset"),
                                         self.strings[one(found, "filename")],
                                         self.strings[one(found, "build_id")])

    def _location(self, data):
        found = fields("location", data)
        mapping = self.mappings.get(one(found, "mapping_id"))
        return one(found, "id"), Frame(one(found, "address"), mapping)

    def _sample(self, data):
        found = fields("sample", data)
        values = list(map(signed, packed(one(found, "value"))))
        assert len(values) == len(self.types)
        labels = {}
        for label in found["label"]:
            parts = fields("label", label)
            labels[self.strings[one(parts, "key")]] = self.strings[one(parts, "str")]
        frames = [self._locations[number] for number in packed(one(found, "location_id") or b"")]
        return Sample(dict(zip((name for name, _ in self.types), values)), frames, labels)

    def total(self, view):
        return sum(sample.values[view] for sample in self.samples)

    def triples(self, fact):
        return [tuple(map(int, triple.split(":"))) for triple in self.facts[fact].split()]


class Symbols:
    """The functions of one file, from nm."""

    def __init__(self, path, run):
        self.path = str(path)
        self.functions = []
        for line in run(["nm", "-n", "--defined-only", str(path)]).splitlines():
            parts = line.split()
            if len(parts) == 3 and parts[1] in "tTwW":
                self.functions.append((int(parts[0], 16), parts[2]))

    def name(self, frame):
        """The function of a frame, if it lies in this file; segments have equal offsets there."""
        if frame.mapping is None or frame.mapping.path != self.path:
            return None
        offset = frame.address - frame.mapping.start + frame.mapping.offset
        below = [name for start, name in self.functions if start <= offset]
        return below[-1] if below else None
