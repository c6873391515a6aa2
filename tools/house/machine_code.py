"""A look at compiled code: the shortest way through a function, and callgrind's records."""

import re
from collections import deque

INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
TARGET = re.compile(r"([0-9a-f]+) <")
RETURNS = {"ret", "retq"}
JUMPS = {"jmp", "jmpq", "b"}
CALLS = {"call", "callq", "bl", "blr", "br", "syscall", "svc", "ud2", "hlt"}
BRANCH = re.compile(r"j\w+|b\.\w+|cbn?z|tbn?z")


def symbol_range(tree, library, symbol):
    """(first address, address after the last) of a function in the dynamic symbol table."""
    for line in tree.run("nm", "-D", "-S", "--defined-only", library).splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[3].split("@")[0] == symbol:
            return int(fields[0], 16), int(fields[0], 16) + int(fields[1], 16)
    raise RuntimeError(f"{library} defines no {symbol}")


def disassemble(tree, library, symbol):
    """[(address, mnemonic, operands)] of one function."""
    start, stop = symbol_range(tree, library, symbol)
    text = tree.run("objdump", "-d", "--no-show-raw-insn", f"--start-address={start:#x}",
                    f"--stop-address={stop:#x}", library)
    matches = (INSTRUCTION.match(line) for line in text.splitlines())
    return [(int(match.group(1), 16), match.group(2), match.group(3)) for match in matches if match]


def shortest_path(instructions):
    """How many instructions lie on the shortest way from entry to return that calls nothing and
    does not leave the function, the return included; None when there is no such way."""
    places = {address: index for index, (address, _, _) in enumerate(instructions)}
    waiting, seen = deque([(0, 1)]), {0}
    while waiting:
        index, length = waiting.popleft()
        _, mnemonic, operands = instructions[index]
        if mnemonic in ("repz", "bnd", "notrack"):
            mnemonic = operands.split()[0] if operands else mnemonic
        if mnemonic in RETURNS:
            return length
        following = []
        target = TARGET.search(operands)
        if (mnemonic in JUMPS or BRANCH.fullmatch(mnemonic)) and target:
            following.append(places.get(int(target.group(1), 16)))
        if mnemonic not in JUMPS | CALLS and index + 1 < len(instructions):
            following.append(index + 1)
        for place in following:
            if place is not None and place not in seen:
                seen.add(place)
                waiting.append((place, length + 1))
    return None


def callgrind_calls(text, callers, library):
    """{function: instructions spent in calls into the library} for functions whose name begins
    with `callers`, from a callgrind record written without compressed names."""
    spent, function, called_object = {}, None, None
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("fn="):
            name = line[3:].split("'")[0]
            function = name if name.startswith(callers) else None
        elif line.startswith("cob="):
            called_object = line[4:]
        elif line.startswith("calls="):
            cost = int(next(lines).split()[-1])
            if function and called_object and library in called_object:
                spent[function] = spent.get(function, 0) + cost
            called_object = None
    return spent
