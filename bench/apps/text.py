"""Text work in Python: JSON written and read, regular expressions, splitting and joining."""

import json
import re

ENTRIES = 12_000


def document():
    state = 12345
    entries = []
    for i in range(ENTRIES):
        state = (state * 1103515245 + 12345) % 2**31
        entries.append({
            "id": i,
            "user": f"user{state % 5000}@example.org",
            "text": " ".join(f"word{(state >> s) % 700}" for s in range(0, 16, 2)),
            "values": [state % 10, state % 100, state / 3],
            "open": state % 2 == 0,
        })
    return entries


def main():
    entries = document()
    text = json.dumps(entries, indent=1)
    again = json.loads(text)
    assert again == entries
    addresses = re.findall(r"(\w+)@(example)\.org", text)
    words = re.split(r"[^a-z0-9]+", text)
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    shouted = re.sub(r"word(\d+)", lambda match: "W" + match.group(1), text)
    assert len(addresses) == ENTRIES
    print(len(text), len(counts), len(shouted))


main()
