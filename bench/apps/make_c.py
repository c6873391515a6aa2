"""Writes a large C file for a compiler to work on: make_c.py OUTPUT [FUNCTIONS]."""

import sys

HEAD = """\
struct item { int weight; double value; struct item *next; char name[16]; };
extern int hash(const char *text, int seed);
"""

FUNCTION = """\
static int sum_{n}(const struct item *list, int limit) {{
  int total = {n};
  for (const struct item *item = list; item; item = item->next) {{
    if (item->weight > limit * {a}) total += item->weight ^ {b};
    else if (item->value < {c}.5) total -= hash(item->name, total + {a});
    switch (total & 7) {{
      case 0: total += {a}; break;
      case 1: total ^= {b}; break;
      case 2: total = total * 3 + (int)item->value; break;
      case 5: return total + limit;
      default: total--; break;
    }}
  }}
  return total;
}}

int check_{n}(struct item *items, int count) {{
  struct item *first = 0;
  double mean = 0;
  for (int i = 0; i < count; i++) {{
    items[i].next = first;
    items[i].value = items[i].weight * {c}.25 + mean;
    mean = (mean * i + items[i].value) / (i + 1);
    for (int k = 0; k < 15; k++) items[i].name[k] = (char)('a' + (i * k + {a}) % 26);
    first = &items[i];
  }}
  return sum_{n}(first, count) + (mean > {b} ? {earlier} : {n});
}}

"""


def main():
    output, *rest = sys.argv[1:]
    functions = int(rest[0]) if rest else 80
    with open(output, "w", encoding="ascii") as file:
        file.write(HEAD)
        for n in range(functions):
            earlier = f"check_{n - 1}(items, count / 2)" if n else "0"
            file.write(FUNCTION.format(
                n=n, a=n * 7 % 31 + 1, b=n * 104729 % 9973, c=n % 12, earlier=earlier))


main()
