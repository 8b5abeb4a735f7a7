"""Words of a text by a recipe, hashed into counters. The model and examples/train_sentiment.py both read this file."""

import json
import re
import zlib

import numpy as np


class Recipe:
    """What a word is, which words turn the meaning of the next ones, and how many counters there are."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            recipe = json.load(file)
        self.buckets = recipe["buckets"]
        self.word = re.compile(recipe["word"])
        self.negations = frozenset(recipe["negations"])
        self.reach = recipe["reach"]
        self.ignored = frozenset(recipe["ignored"])

    def words(self, text):
        """The words that count: "not at all good." gives not, all!, good!."""
        found = []
        for clause in re.split(r"[.,;:!?]", text.lower()):
            turned = 0  # how many more words a negation reaches; it ends with its clause
            for word in self.word.findall(clause):
                if word in self.negations:
                    found.append(word)
                    turned = self.reach
                elif word not in self.ignored:
                    found.append(word + "!" if turned else word)
                turned = max(turned - 1, 0) if word not in self.negations else turned
        return found

    def features(self, text):
        """Counters of one text; equal on every machine and in every run, unlike Python's own hash()."""
        counts = np.zeros(self.buckets, np.float32)
        for word in self.words(text):
            counts[zlib.crc32(word.encode()) % self.buckets] += 1
        return counts
