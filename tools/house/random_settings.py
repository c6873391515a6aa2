"""Settings drawn from the table of options, for the proofs that run under all kinds of them."""

import math

from house import tables

# What a proof would trip over: texts are files, the rest prints or is about children.
LEFT_OUT = {"show_stats", "show_errors", "verbose", "only_exe", "stats_output"}
# Values below these leave no room for the proof's own blocks.
LEAST = {"hard_limit": 512 << 20, "top_pad": 0, "soft_limit": 1 << 20}
MOST = {"top_pad": 16 << 20, "hard_limit": 8 << 30}


def value_of(option, random):
    kind = option["type"]
    if kind == "BOOL":
        return str(random.randrange(2))
    if kind == "CHOICE":
        return random.choice(option["unit"].split("|"))
    if kind == "AUTO_SIZE" and random.randrange(3) == 0:
        return "auto"
    name = option["name"]
    least = max(int(option["minimum"]), LEAST.get(name, 0))
    most = min(int(option["maximum"]), MOST.get(name, 1 << 47))
    if random.randrange(4) == 0:
        return str(random.choice([least, most]))
    value = round(math.exp(random.uniform(math.log(least + 1), math.log(most + 1)))) - 1
    if name == "min_align":
        value = random.choice([8, 16])
    return str(min(max(value, least), most))


def choose(tree, random, most=4, left_out=()):
    """Up to so many settings as environment variables; every third time none."""
    if random.randrange(3) == 0:
        return {}
    options = [option for option in tables.options(tree)
               if option["type"] != "TEXT" and option["name"] not in LEFT_OUT | set(left_out)]
    chosen = random.sample(options, random.randint(1, most))
    return {f"PRIMALLOC_{option['name'].upper()}": value_of(option, random) for option in chosen}
