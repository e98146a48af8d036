"""Text cut by chance into the pieces of a vocabulary: BPE dropout and unigram sampling, the same for a seed in every process.

SentencePiece samples too, but the generator of its version 0.2.3 takes another course in each process, whatever its seed, so that no run
could be continued exactly.
"""

import heapq
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise

Ids = tuple[int, ...]
Arrival = tuple[tuple[tuple[int, int], ...], tuple[float, ...]]  # (start, id) of the pieces that end at a place, their summed up chances

NONE = -1  # in the place of the id of a piece
WORDS = 2**14  # that are remembered: the frequent ones, while memory stays flat
LONGEST = 24  # pieces of a word that is remembered; a line of a language without spaces is one word, and seldom comes again


class Subwords(ABC):
    """The pieces of a SentencePiece model.

    What is cut is a sequence of characters, each an id: that of the piece of this one character, or an id that stands for no text, such
    as a byte or unk, which stays as it is. It is cut word by word: a character that is inside of no piece begins a word.
    """

    def __init__(self, pieces: Sequence[str | None]) -> None:
        """Take the text of each id, None where it stands for none. Every character of a piece is a piece, too."""
        ids = {piece: i for i, piece in enumerate(pieces) if piece is not None}
        self._characters = [(i,) if piece is None else tuple(ids[char] for char in piece) for i, piece in enumerate(pieces)]
        self._pieces = {characters: i for i, characters in enumerate(self._characters)}
        inside = {char for characters in self._characters for char in characters[1:]}
        self._initial = {i for i, characters in enumerate(self._characters) if characters[0] not in inside}

    @abstractmethod
    def cut(self, ids: Sequence[int], alpha: float, rng: random.Random) -> list[int]:
        """Ids of the same text, cut anew."""

    def _words(self, ids: Sequence[int]) -> Iterator[Ids]:
        starts = [place for place, i in enumerate(ids) if i in self._initial or place == 0]
        return (tuple(ids[start:end]) for start, end in pairwise([*starts, len(ids)]))

    def _spelt(self, word: Ids) -> Ids:
        return tuple(chain.from_iterable([self._characters[i] for i in word]))


def subwords(pieces: Sequence[str | None], scores: Sequence[float]) -> Subwords:
    """The pieces of a BPE model or a unigram model, from text (None where there is none) and score of each id.

    Those of BPE are known by their scores: 0, −1, −2 and so on, in the order in which they were learnt, which is that of the ids.
    """
    learnt = [score for piece, score in zip(pieces, scores, strict=True) if piece is not None]
    return Bpe(pieces) if all(score == -rank for rank, score in enumerate(learnt)) else Unigram(pieces, scores)


class Bpe(Subwords):
    """BPE with dropout (Provilkov et al. 2020); pieces that were learnt earlier have lower ids."""

    def __init__(self, pieces: Sequence[str | None]) -> None:
        super().__init__(pieces)
        self._merges = dict(chain.from_iterable(map(self._merges_to, self._characters)))
        self._plain = lru_cache(WORDS)(self._without_chance)

    def _merges_to(self, whole: Ids) -> Iterator[tuple[tuple[int, int], int]]:
        """The pairs of pieces that become this one."""
        for middle in range(1, len(whole)):
            left, right = self._pieces.get(whole[:middle]), self._pieces.get(whole[middle:])
            if left is not None and right is not None:
                yield (left, right), self._pieces[whole]

    def _without_chance(self, word: Ids) -> tuple[Ids, list[int]]:
        """The characters, and what all merges make of them."""
        characters = self._spelt(word)
        return characters, merge(characters, self._merges, Omission(0, random.Random()))

    def cut(self, ids: Sequence[int], alpha: float, rng: random.Random) -> list[int]:
        """Ids of the same text, of whose merges each was left out with probability alpha; see `merge`."""
        omission, new = Omission(alpha, rng), list[int]()
        for word in self._words(ids):
            characters, plain = (self._plain if len(word) <= LONGEST else self._without_chance)(word)
            new += plain if omission.spares(len(characters) - len(plain)) else merge(characters, self._merges, omission)
        return new


class Omission:
    """Whether the next merge is left out: each with probability alpha, by a draw of how many are kept before the next that is not."""

    def __init__(self, alpha: float, rng: random.Random) -> None:
        self._log_keep = -math.inf if alpha >= 1 else math.log1p(-alpha)
        self._rng = rng
        self._kept = self._drawn()

    def _drawn(self) -> float:
        """Geometric: at least n with probability (1 − alpha) ** n."""
        return math.log(1 - self._rng.random()) // self._log_keep if self._log_keep else math.inf

    def spares(self, merges: int) -> bool:
        """Whether none of the next merges is left out; if so, they are past."""
        spared = self._kept >= merges
        self._kept -= merges * spared
        return spared

    def strikes(self) -> bool:
        """Whether the next merge is left out; it is past then."""
        if self.spares(1):
            return False
        self._kept = self._drawn()
        return True


def merge(characters: Ids, merges: Mapping[tuple[int, int], int], omission: Omission) -> list[int]:
    """Merge neighbours, the earliest learnt merge first, from the left, until there are none to merge.

    As in SentencePiece a merge that has been left out once is not tried again at its place.

    Args:
        characters: ids.
        merges: of the ids of two neighbours, the id that they become; an id that was learnt earlier is lower.
        omission: which merges are left out.
    """
    symbols, end = list(characters), len(characters)
    before, after = list(range(-1, end - 1)), list(range(1, end + 1))
    pairs = ((merges.get(pair, NONE), place) for place, pair in enumerate(pairwise(characters)))
    possible = [pair for pair in pairs if pair[0] != NONE]  # (what the symbols at a place and after it become, the place)
    heapq.heapify(possible)
    while possible:
        merged, place = heapq.heappop(possible)
        gone = after[place]
        if gone == end or merges.get((symbols[place], symbols[gone])) != merged or omission.strikes():
            continue  # left out, or one of the two has become part of another piece
        symbols[place], symbols[gone] = merged, NONE
        after[place] = after[gone]
        if after[place] < end:
            before[after[place]] = place
        for left in (before[place], place):
            if left >= 0 and after[left] < end and (pair := (symbols[left], symbols[after[left]])) in merges:
                heapq.heappush(possible, (merges[pair], left))
    return [symbol for symbol in symbols if symbol != NONE]


class Unigram(Subwords):
    """Segmentations by the product of their pieces' probabilities (Kudo 2018): forward filtering, backward sampling."""

    def __init__(self, pieces: Sequence[str | None], scores: Sequence[float]) -> None:
        super().__init__(pieces)
        for characters in self._characters:
            for end in range(1, len(characters)):
                self._pieces.setdefault(characters[:end], NONE)  # these begin a piece, but are none
        self._scores = scores
        self._lattice = lru_cache(WORDS)(self._arrivals)

    def cut(self, ids: Sequence[int], alpha: float, rng: random.Random) -> list[int]:
        """Ids of the same text in a segmentation drawn by probability ** alpha."""
        new = list[int]()
        for word in self._words(ids):
            arrivals = (self._lattice if len(word) <= LONGEST else self._arrivals)(word, alpha)
            place, drawn = len(arrivals), list[int]()
            while place > 0:
                pieces, chances = arrivals[place - 1]
                [(place, piece)] = rng.choices(pieces, cum_weights=chances)
                drawn.append(piece)
            new += drawn[::-1]
        return new

    def _arrivals(self, word: Ids, alpha: float) -> list[Arrival]:
        """For each place after the first, what can be the last piece before it, and the chances of that over all ways to get there."""
        characters = self._spelt(word)
        totals = [0.0]  # log of the summed weights of all ways to a place
        pieces: list[list[tuple[int, int]]] = [[] for _ in characters]
        logs: list[list[float]] = [[] for _ in characters]
        for start in range(len(characters)):
            for end in range(start + 1, len(characters) + 1):
                piece = self._pieces.get(characters[start:end])
                if piece is None:
                    break
                if piece != NONE:
                    pieces[end - 1].append((start, piece))
                    logs[end - 1].append(totals[start] + alpha * self._scores[piece])
            highest = max(logs[start])
            totals.append(highest + math.log(sum([math.exp(log - highest) for log in logs[start]])))
        chances = [tuple(accumulate([math.exp(log - total) for log in logs])) for logs, total in zip(logs, totals[1:], strict=True)]
        return list(zip(map(tuple, pieces), chances, strict=True))
