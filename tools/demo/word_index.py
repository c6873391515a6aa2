"""Builds an index of the words of generated documents, asks it questions and drops it again.

The work of many real Python programs in small: millions of short-lived strings and tuples, some
hundred thousand that stay, lists that grow, and a large result at the end. Nothing is read or
written, and every run does exactly the same."""

import random
from collections import defaultdict

DOCUMENTS = 4000
WORDS_IN_DOCUMENT = 120
VOCABULARY = 12000
QUESTIONS = 3000


def make_vocabulary(chance):
    syllables = ["al", "bre", "co", "dun", "es", "fra", "gi", "hol", "in", "ju", "kar", "lo", "mi"]
    return ["".join(chance.choices(syllables, k=chance.randint(1, 5))) + str(number % 97)
            for number in range(VOCABULARY)]


def write_documents(chance, vocabulary):
    for _ in range(DOCUMENTS):
        yield " ".join(chance.choices(vocabulary, k=WORDS_IN_DOCUMENT))


def build_index(documents):
    """For each word the list of (document, place) where it stands."""
    index = defaultdict(list)
    for number, text in enumerate(documents):
        for place, word in enumerate(text.split()):
            index[word].append((number, place))
    return index


def ask(index, chance, vocabulary):
    """The documents that hold both words, for many pairs of words."""
    found = 0
    for _ in range(QUESTIONS):
        first, second = chance.sample(vocabulary, 2)
        found += len({document for document, _ in index.get(first, ())}
                     & {document for document, _ in index.get(second, ())})
    return found


def main():
    chance = random.Random(24)
    vocabulary = make_vocabulary(chance)
    index = build_index(write_documents(chance, vocabulary))
    places = sum(map(len, index.values()))
    print(f"{len(index)} words, {places} places, {ask(index, chance, vocabulary)} documents found")


if __name__ == "__main__":
    main()
