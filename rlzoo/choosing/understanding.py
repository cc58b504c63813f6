"""Which trouble is meant: what was typed beside what users say of each trouble."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import FeatureUnion

from objectives import TROUBLES, Name, Trouble

UNDERSTOOD = 0.28
"""The likeness from which a trouble counts as meant: below it lie questions about other things."""
ALSO = 0.6
"""The share of the first one's likeness from which another trouble may have been meant as well."""
WORDS_AS_WELL = frozenset(
    {"arm", "clip", "delight", "drift", "epochs", "kl", "lopti", "par", "real", "rec", "reinforce", "taper", "up"}
)
"""Names that are words or parts of settings too: written in small letters they are no names."""


def likeness(text: str) -> list[tuple[Trouble, float]]:
    """Every trouble with how like the text is to what users say of it, from 0 to 1; the likest first.

    Cosines of tf-idf weights: of letters, which forgives other endings, and of words, which holds what is meant.
    """
    phrases, weigher, weights = _phrases()
    alike = (weights @ weigher.transform([_plain(text)]).T).toarray()[:, 0] / 2
    best: dict[str, float] = {}
    for tag, value in zip(phrases, alike, strict=True):
        best[tag] = max(best.get(tag, 0.0), float(value))
    return sorted(((TROUBLES[tag], value) for tag, value in best.items()), key=lambda pair: -pair[1])


@cache
def _phrases() -> tuple[list[str], FeatureUnion, Any]:
    """The trouble that each phrase of users is about, what weighs a text, and the phrases' weights [P, F], sparse."""
    phrases = [(tag, words) for tag, trouble in TROUBLES.items() for words in (tag, *trouble.words)]
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True)
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, stop_words="english")
    weigher = FeatureUnion([("letters", letters), ("words", words)])
    return [tag for tag, _ in phrases], weigher, weigher.fit_transform([_plain(words) for _, words in phrases])


def named_in(text: str, names: Sequence[Name]) -> tuple[list[Name], str]:
    """The recipes that a text names, in its order, and the text without what named them."""
    spelt = {spelling: name for name in names if name.kind == "recipe" for spelling in (name.name, *name.aliases)}
    starts: dict[str, int] = {}
    for spelling in sorted(spelt, key=len, reverse=True):
        letters = "[-_. ]*".join(re.escape(piece) for piece in spelling.split("_"))
        for match in re.finditer(rf"(?<![A-Za-z0-9_]){letters}(?![A-Za-z0-9_])", text, re.IGNORECASE):
            if spelling in WORDS_AS_WELL and not match.group().isupper():
                continue
            starts.setdefault(spelt[spelling].name, match.start())
            text = text[: match.start()] + " " * len(match.group()) + text[match.end() :]
    by_name = {name.name: name for name in names}
    return [by_name[name] for name in sorted(starts, key=starts.__getitem__)], text


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^a-z0-9@.]+", " ", text.lower()).split())
