"""A look at source text: without comments and strings, and function by function."""

import ast
import re

C_TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
RUST_TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\'\\\n])\'',
    re.DOTALL)
# What opens a brace that functions may stand in.
SCOPE = re.compile(r"\s*(extern\s*\"|namespace\b|(class|struct|union)\b[^()]*$)")


def blank(text):
    """The same text with every character but line ends turned into a space."""
    return re.sub(r"[^\n]", " ", text)


def _without(pattern, text):
    def replace(match):
        token = match.group(0)
        if token.startswith(("/*", "//")) or len(token) < 2:
            return blank(token)
        return token[0] + blank(token[1:-1]) + token[-1]
    return pattern.sub(replace, text)


def strip_c(text):
    """C or C++ without comments and without what strings hold; every line stays in its place."""
    return _without(C_TOKEN, text)


def strip_rust(text):
    return _without(RUST_TOKEN, text)


def without_c_comments(text):
    """C or C++ without comments; what strings hold stays."""
    return C_TOKEN.sub(lambda match: blank(match.group(0)) if match.group(0)[0] == "/"
                       else match.group(0), text)


def c_comments(text):
    """(line number, comment) for each comment of a C file."""
    for match in C_TOKEN.finditer(text):
        if match.group(0).startswith(("/*", "//")):
            yield text.count("\n", 0, match.start()) + 1, match.group(0)


def strip_directives(text):
    """C text without preprocessor lines, continuation lines included."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: blank(match.group(0)), text,
                  flags=re.MULTILINE)


def matching_brace(text, start):
    """The index of the brace that closes the one at start, or the end of the text."""
    depth = 0
    for index in range(start, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return index
    return len(text) - 1


def _c_function_name(header):
    """The name that a definition's header gives, or None when it is no function's header."""
    header = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", header, flags=re.DOTALL)
    if "=" in re.sub(r"\(.*", "", header, flags=re.DOTALL):
        return None
    match = re.search(r"(operator\s*[^\s(]+|~?[A-Za-z_]\w*)\s*\(", header)
    return match.group(1) if match else None


def _lines(text, start, end):
    first = text.count("\n", 0, start) + 1
    return first, text.count("\n", start, end) + 1


def c_functions(text):
    """(name, first line, number of lines) of every function that a C or C++ file defines."""
    code = strip_directives(strip_c(text))
    found, index, start = [], 0, 0
    while index < len(code):
        if code[index] in ";}":
            start = index + 1
        elif code[index] == "{":
            header = code[start:index]
            if not SCOPE.match(header):
                end = matching_brace(code, index)
                name = _c_function_name(header)
                if name:
                    begin = start + len(header) - len(header.lstrip())
                    found.append((name, *_lines(code, begin, end)))
                index = end
            start = index + 1
        index += 1
    return found


def rust_functions(text):
    code = strip_rust(text)
    found = []
    for match in re.finditer(r"\bfn\s+(\w+)", code):
        opening = re.compile(r"[{;]").search(code, match.end())
        if opening and opening.group(0) == "{":
            end = matching_brace(code, opening.start())
            found.append((match.group(1), *_lines(code, match.start(), end)))
    return found


def python_functions(text):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node.name, node.lineno, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


def shell_functions(text):
    return [(match.group(1), *_lines(text, match.start(), match.end()))
            for match in re.finditer(r"^(\w+)\(\) \{\n.*?^\}", text, re.MULTILINE | re.DOTALL)]


FUNCTIONS = {"c": c_functions, "rust": rust_functions, "python": python_functions,
             "shell": shell_functions}
