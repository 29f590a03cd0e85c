"""Draws sentences: a language-neutral `Clause` (or a few of them), written out twice.

Words are drawn by a Zipf distribution, since a small Transformer learns that and doesn't learn
uniformly drawn words.
"""

import random
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import TypeVar

from onmt_define.workflow.demo import lexicon
from onmt_define.workflow.demo.language import (
    ALL,
    BARE,
    EVERY,
    IT,
    MANY,
    NO,
    NOT_A,
    NOT_ANY,
    POSSESSIVES,
    SEIN,
    SOME,
    THE,
    THESE,
    THIS,
    WERDEN,
    WHICH,
    WHO,
    A,
    Clause,
    Determiner,
    Pair,
    Phrase,
    _joined,
    english_be,
    english_infinitive,
    english_question,
    english_statement,
    finish,
    german_infinitive,
    german_prepositional,
    german_question,
    german_statement,
    german_subordinate,
    noun_phrase,
    pronoun,
    relative_pronoun,
    with_article,
    with_relative,
)
from onmt_define.workflow.demo.lexicon import CASES, Adjective, Noun

Item = TypeVar("Item")


# --- Drawing words -------------------------------------------------------------------------------


@cache
def zipf_sums(count: int) -> tuple[int, ...]:
    """Return the running sums of the weights of `count` ranks: rank r weighs 1 / (r + 1)².

    The exponent is above Zipf's 1, since words come from many short lists (one for each kind of
    noun) and each list has a tail. Whole numbers keep the sums the same on every machine.
    """
    return tuple(accumulate(10**9 // (rank + 1) ** 2 for rank in range(1, count + 1)))


class Draw:
    """Random draws that are the same on every machine for a seed."""

    def __init__(self, seed: int):
        """Start the sequence of draws of a seed."""
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """Return true with a probability."""
        return self._random.random() < probability

    def zipf(self, items: Sequence[Item]) -> Item:
        """Draw an item by its rank: the first is the most frequent."""
        sums = zipf_sums(len(items))
        return items[bisect(sums, self._random.random() * sums[-1], 0, len(items) - 1)]

    def weighted(self, items: Sequence[tuple[float, Item]]) -> Item:
        """Draw from (weight, item) pairs."""
        sums = list(accumulate([weight for weight, _ in items]))
        return items[bisect(sums, self._random.random() * sums[-1], 0, len(items) - 1)][1]

    def pair(self, table: str) -> Pair:
        """Draw from one of the lexicon's tables of pairs."""
        return Pair(*self.zipf(lexicon.pairs(table)))

    def number(self, low: int, high: int) -> int:
        """Draw a number from low to high; low ones are the most frequent."""
        return self.zipf(range(low, high + 1))

    def shuffle(self, items: list) -> None:
        """Shuffle in place."""
        self._random.shuffle(items)


# --- The grammar ---------------------------------------------------------------------------------

# Tenses by what a sentence leaves open, with their weights.
TENSES: dict[str, Sequence[tuple[float, str]]] = {
    "any": (
        (40, "present"),
        (30, "past"),
        (9, "perfect"),
        (7, "progressive"),
        (5, "future"),
        (7, "modal present"),
        (2, "modal past"),
    ),
    "present": ((70, "present"), (15, "perfect"), (15, "modal present")),
    "past": ((88, "past"), (12, "modal past")),
    "plain present": ((85, "present"), (15, "modal present")),
    "plain past": ((88, "past"), (12, "modal past")),
    "simple": ((1, "present"), (1, "past")),
}
DEGREES = (
    (60, Pair("", "")),
    (20, Pair("very", "sehr")),
    (8, Pair("too", "zu")),
    (7, Pair("quite", "ziemlich")),
    (5, Pair("really", "wirklich")),
)


class Grammar:
    """Draws phrases, clauses and sentences; `sentence` is the way in."""

    def __init__(self, draw: Draw):
        """Take the source of all random choices."""
        self.draw = draw

    # Noun phrases

    def determiner(self, plural: bool) -> Determiner:
        """Draw a determiner for a countable noun."""
        kinds: Sequence[tuple[float, Determiner | None]]
        if plural:
            kinds = ((45, THE), (18, BARE), (6, THESE), (2, ALL), (5, MANY), (3, SOME), (10, None))
        else:
            kinds = ((55, THE), (24, A), (5, THIS), (2, EVERY), (11, None))
        chosen = self.draw.weighted(kinds)
        if chosen is None:
            return self.numeral() if plural and self.draw.chance(0.6) else self.possessive()
        return chosen

    def numeral(self) -> Determiner:
        """Draw a number from two on as a determiner, written out or in digits."""
        if self.draw.chance(0.2):
            digits = str(self.draw.number(13, 99))
            return Determiner(digits, digits)
        number = self.draw.number(2, 12) if self.draw.chance(0.8) else self.draw.number(13, 99)
        return Determiner(lexicon.english_number(number), lexicon.german_number(number))

    def possessive(self) -> Determiner:
        """Draw a possessive: a pronoun, or a name with its genitive."""
        if self.draw.chance(0.75):
            return self.draw.zipf(POSSESSIVES)
        name = self.first_name()[0]
        # A name that ends in s takes no German -s; such names own nothing here.
        return (
            self.possessive()
            if name[-1] in "sxz"
            else Determiner(f"{name}'s", f"{name}s", possessive=True)
        )

    def definite(self) -> Determiner:
        """Draw a determiner that names something known."""
        return self.draw.weighted(((70, THE), (8, THIS), (22, self.possessive())))

    def noun(self, kinds: Sequence[str]) -> Noun:
        """Draw a noun of one of the kinds, now and then a compound of it."""
        noun = self.draw.zipf(lexicon.nouns_of(self.draw.zipf(kinds)))
        choices = lexicon.compounds().get(noun.english)
        return self.draw.zipf(choices) if choices and self.draw.chance(0.1) else noun

    def adjectives(self, kind: str, probability: float = 0.22) -> list[Adjective]:
        """Draw no, one or (before a colour) two adjectives for a kind of noun."""
        if not self.draw.chance(probability):
            return []
        first = self.draw.zipf(lexicon.adjectives_of(kind))
        colours = lexicon.words(lexicon.COLOURS)
        takes_two = kind in ("thing", "clothes", "vehicle") and first.english not in colours
        if takes_two and self.draw.chance(0.1):
            return [first, lexicon.adjectives()[self.draw.zipf(colours)]]
        return [first]

    def phrase(self, kinds: Sequence[str], negated: bool = False, definite: bool = False) -> Phrase:
        """Draw a noun phrase; `negated` ones are definite or carry "kein"."""
        noun = self.noun(kinds)
        plural = noun.countable and not definite and self.draw.chance(0.25)
        if negated and not definite and self.draw.chance(0.6):
            determiner = NOT_ANY if plural or not noun.countable else NOT_A
        elif definite or negated:
            determiner = self.definite()
            plural = plural and determiner is THE
        elif not noun.countable:
            determiner = self.draw.weighted(((55, BARE), (35, THE), (10, self.possessive())))
        else:
            determiner = self.determiner(plural)
        return noun_phrase(determiner, self.adjectives(noun.kind), noun, plural)

    def first_name(self) -> tuple[str, str]:
        """Draw a first name and its gender."""
        names, gender = self.draw.weighted(((1, (lexicon.WOMEN, "f")), (1, (lexicon.MEN, "m"))))
        return self.draw.zipf(lexicon.words(names)), gender

    def name(self) -> Phrase:
        """Draw a person's name."""
        first, gender = self.first_name()
        surname = self.draw.zipf(lexicon.words(lexicon.SURNAMES))
        form = self.draw.weighted(((68, "first"), (10, "full"), (22, "title")))
        if form == "title":
            title = ("Mr", "Herr", "Herrn") if gender == "m" else ("Mrs", "Frau", "Frau")
            english, *german = (f"{word} {surname}" for word in title)
            return Phrase(english, (german[0], german[1], german[1]), gender=gender)
        text = first if form == "first" or first == surname else f"{first} {surname}"
        return Phrase(text, (text, text, text), gender=gender)

    def two_names(self) -> Phrase:
        """Draw two first names joined by "and"."""
        first, second = self.first_name()[0], self.first_name()[0]
        if first == second:
            return self.two_names()
        return Phrase(f"{first} and {second}", (f"{first} und {second}",) * 3, plural=True)

    def person(self, pronouns: float = 0.28) -> Phrase:
        """Draw somebody: a pronoun, a name or a noun phrase."""
        if self.draw.chance(pronouns):
            return pronoun(self.draw.zipf(tuple(lexicon.PRONOUNS)))
        if self.draw.chance(0.28):
            return self.two_names() if self.draw.chance(0.12) else self.name()
        return self.phrase(("person", "job"))

    def patient(
        self, kinds: Sequence[str], subject: Phrase, negated: bool, definite=False
    ) -> Phrase:
        """Draw an object; a person may be a pronoun (not the subject's own) or a name."""
        if kinds[0] == "person" or kinds[0] == "job":
            if self.draw.chance(0.2):
                drawn = pronoun(self.draw.zipf(tuple(lexicon.PRONOUNS)))
                same = drawn.person < 3 and drawn.person == subject.person
                return self.patient(kinds, subject, negated, definite) if same else drawn
            if self.draw.chance(0.2):
                return self.name()
        return self.phrase(kinds, negated, definite)

    # Places, times and other adverbials

    def city(self) -> Pair:
        """Draw a city or a country."""
        return self.draw.pair(lexicon.CITIES if self.draw.chance(0.75) else lexicon.COUNTRIES)

    def place_phrase(self) -> tuple[lexicon.Place, Phrase]:
        """Draw a place and a noun phrase for it."""
        place = self.draw.zipf(lexicon.places())
        choices = lexicon.compounds().get(place.noun.english)
        noun = self.draw.zipf(choices) if choices and self.draw.chance(0.2) else place.noun
        determiner = self.draw.weighted(((75, THE), (13, A), (5, THIS), (7, self.possessive())))
        return place, noun_phrase(determiner, self.adjectives("place", 0.15), noun)

    def where(self, kind: str = "") -> Pair:
        """Draw an answer to "where?" (of the kind "city" or "place", or of any)."""
        if kind == "city" or (not kind and self.draw.chance(0.35)):
            city = self.city()
            return Pair(f"in {city.english}", f"in {city.german}")
        if self.draw.chance(0.06):
            return Pair("at home", "zu Hause")
        place, phrase = self.place_phrase()
        german = german_prepositional(place.german_at, phrase, "dative")
        return Pair(f"{place.english_at} {phrase.as_object}", german)

    def where_to(self, kind: str) -> Pair:
        """Draw an answer to "where to?": a "city", or a "place" or somebody's."""
        if kind == "city":
            city = self.city()
            return Pair(f"to {city.english}", f"nach {city.german}")
        if self.draw.chance(0.08):
            return Pair("home", "nach Hause")
        if self.draw.chance(0.1):
            person = self.phrase(("job", "person"), definite=True)
            return Pair(f"to {person.as_object}", german_prepositional("zu", person, "dative"))
        place, phrase = self.place_phrase()
        german = german_prepositional(place.german_to, phrase, place.case_to)
        return Pair(f"to {phrase.as_object}", german)

    def beside(self, case: str) -> Pair:
        """Draw a place on, under or beside a piece of furniture, in the case that the verb asks."""
        english, german = self.draw.pair(lexicon.TWO_WAY_PREPOSITIONS)
        noun = self.noun(("furniture",))
        phrase = noun_phrase(self.definite(), self.adjectives("furniture", 0.2), noun)
        german = german_prepositional(german, phrase, case)
        return Pair(f"{english} {phrase.as_object}", german)

    def time(self, tense: str) -> Pair:
        """Draw a time that goes with a tense."""
        special = {
            "present": ((80, None), (10, self.clock), (10, self.month)),
            "past": (
                (56, None),
                (12, self.weekday),
                (8, self.clock),
                (6, self.month),
                (8, self.year),
                (4, self.date),
                (6, self.ago),
            ),
            "future": (
                (60, None),
                (18, self.weekday),
                (6, self.clock),
                (4, self.date),
                (12, self.hence),
            ),
            "modal": ((75, None), (15, self.weekday), (10, self.clock)),
        }.get(tense, ((1, None),))
        chosen = self.draw.weighted(special)
        return chosen() if chosen else self.draw.pair(lexicon.TIMES[tense])

    def weekday(self) -> Pair:
        """Draw "on Monday"."""
        english, german = self.draw.pair(lexicon.WEEKDAYS)
        return Pair(f"on {english}", f"am {german}")

    def month(self) -> Pair:
        """Draw "in May"."""
        english, german = self.draw.pair(lexicon.MONTHS)
        return Pair(f"in {english}", f"im {german}")

    def date(self) -> Pair:
        """Draw "on May 3"; German writes the day first, with a full stop."""
        english, german = self.draw.pair(lexicon.MONTHS)
        day = self.draw.number(1, 28)
        return Pair(f"on {english} {day}", f"am {day}. {german}")

    def clock(self) -> Pair:
        """Draw a full hour."""
        hour = self.draw.number(1, 12)
        german = "ein" if hour == 1 else lexicon.german_number(hour)
        return Pair(f"at {lexicon.english_number(hour)} o'clock", f"um {german} Uhr")

    def year(self) -> Pair:
        """Draw a year; recent ones are the most frequent."""
        year = 2025 - self.draw.number(1, 175)
        return Pair(f"in {year}", f"im Jahr {year}")

    def span(self) -> Pair:
        """Draw a length of time; German in the dative."""
        one, many, german_one, german_many = self.draw.zipf(lexicon.TIME_UNITS)
        number = self.draw.number(1, 30)
        if number == 1:
            return Pair(f"one {one}", german_one)
        count = Pair(lexicon.english_number(number), lexicon.german_number(number))
        return Pair(f"{count.english} {many}", f"{count.german} {german_many}")

    def ago(self) -> Pair:
        """Draw "two days ago"."""
        english, german = self.span()
        return Pair(f"{english} ago", f"vor {german}")

    def hence(self) -> Pair:
        """Draw "in two days"."""
        english, german = self.span()
        return Pair(f"in {english}", f"in {german}")

    # Frames: a verb with what it needs

    def transitive(self, subject: Phrase, negated: bool) -> Clause:
        """A verb with an object in the accusative."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.TRANSITIVE_TABLE))
        kind = self.draw.zipf(verb.kinds)
        clause = Clause(subject, verb, negated=negated)
        if kind in ("language", "playing"):
            # "plays the piano" is "spielt Klavier": no article, and "nicht" stands before it.
            table = lexicon.LANGUAGES if kind == "language" else lexicon.GAMES
            return replace(clause, complement=self.draw.pair(table))
        return replace(clause, accusative=self.patient((kind,), subject, negated))

    def ditransitive(self, subject: Phrase, negated: bool) -> Clause:
        """A verb with a dative and an accusative object."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.DITRANSITIVE_TABLE))
        receiver = self.patient(("person", "job"), subject, negated, definite=negated)
        thing = self.phrase(verb.kinds, negated)
        return Clause(subject, verb, negated=negated, dative=receiver, accusative=thing)

    def dative(self, subject: Phrase, negated: bool) -> Clause:
        """A verb with a dative object."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.DATIVE_TABLE))
        other = self.patient(verb.kinds, subject, negated, definite=negated)
        return Clause(subject, verb, negated=negated, dative=other)

    def intransitive(self, subject: Phrase, negated: bool) -> Clause:
        """A verb alone."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.INTRANSITIVE_TABLE))
        return Clause(subject, verb, negated=negated)

    def prepositional(self, subject: Phrase, negated: bool) -> Clause:
        """A verb that governs a preposition and its case."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.PREPOSITIONAL_TABLE))
        kind = self.draw.zipf(verb.kinds)
        if kind == "language":
            phrase = noun_phrase(THE, (), lexicon.noun_named("language"))
        else:
            phrase = self.patient((kind,), subject, negated, definite=negated)
        german = german_prepositional(verb.preposition, phrase, verb.case)
        complement = Pair(_joined([verb.particle, phrase.as_object]), german)
        return Clause(subject, verb, negated=negated, complement=complement)

    def motion(self, subject: Phrase, negated: bool) -> Clause:
        """A verb of motion with where to."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.MOTION_TABLE))
        goal = self.where_to(self.draw.zipf(verb.kinds))
        return Clause(subject, verb, negated=negated, complement=goal)

    def posture(self, subject: Phrase, negated: bool) -> Clause:
        """Being, living or working somewhere."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.POSTURE_TABLE))
        place = self.where(self.draw.zipf(verb.kinds))
        return Clause(subject, verb, negated=negated, complement=place)

    def placement(self, subject: Phrase, negated: bool) -> Clause:
        """Putting something somewhere: a two-way preposition with the accusative."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.PLACEMENT_TABLE))
        case = "dative" if verb.infinitive == "verstecken" else "accusative"
        thing = self.phrase((self.draw.zipf(verb.kinds),), negated)
        place = self.beside(case)
        return Clause(subject, verb, negated=negated, accusative=thing, complement=place)

    def quality(self, subject: Phrase, negated: bool) -> Clause:
        """Being old, tall or tired."""
        adjective = self.draw.zipf(lexicon.adjectives_of(subject.kind or "person"))
        # What can't be compared ("French", "huge") isn't "very" so either.
        graded = adjective.english_comparative and not negated
        degree = self.draw.weighted(DEGREES) if graded else Pair("", "")
        english = _joined([degree.english, adjective.english])
        complement = Pair(english, _joined([degree.german, adjective.german]))
        return Clause(subject, SEIN, negated=negated, complement=complement)

    def weather(self) -> Clause:
        """Rain and snow."""
        return Clause(IT, self.draw.zipf(lexicon.verbs(lexicon.WEATHER_TABLE)))

    def animal(self) -> Clause:
        """An animal that does something."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.ANIMAL_VERB_TABLE))
        animal = self.phrase(("animal",))
        return Clause(animal, verb, negated=self.draw.chance(0.1) and not animal.quantified)

    def lying(self) -> Clause:
        """A thing that lies, stands or hangs somewhere: a two-way preposition with the dative."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.LOCATION_TABLE))
        thing = self.phrase((self.draw.zipf(verb.kinds),))
        negated = self.draw.chance(0.1) and not thing.quantified
        return Clause(thing, verb, negated=negated, complement=self.beside("dative"))

    # Whole clauses

    def frame(self, subject: Phrase | None) -> Clause:
        """Draw a verb with its parts, in no tense yet."""
        if subject is None and self.draw.chance(0.14):
            return self.draw.weighted(((3, self.weather), (6, self.animal), (5, self.lying)))()
        subject = subject or self.person()
        frames: tuple[tuple[float, Callable[[Phrase, bool], Clause]], ...] = (
            (34, self.transitive),
            (13, self.intransitive),
            (8, self.ditransitive),
            (7, self.dative),
            (9, self.prepositional),
            (9, self.motion),
            (8, self.posture),
            (4, self.placement),
            (9, self.quality),
        )
        negated = self.draw.chance(0.1) and not subject.quantified
        return self.draw.weighted(frames)(subject, negated)

    def set_tense(self, clause: Clause, group: str) -> Clause:
        """Draw a tense that the verb and subject can stand in."""
        tense = self.draw.weighted(TENSES[group])
        if tense.startswith("modal") and not clause.verb.stative and clause.subject is not IT:
            past = tense == "modal past"
            fitting = [modal for modal in lexicon.MODALS if modal.english_past or not past]
            if not (past and clause.subject.person == 2):
                return replace(clause, tense=tense.split()[1], modal=self.draw.zipf(fitting))
        tense = tense.split()[-1]
        if tense == "progressive" and (clause.verb.stative or clause.negated):
            tense = "present"
        # German says "du kamst" in books only, and English "they put" hides its tense.
        hidden = clause.verb.past_is_ambiguous and not clause.negated
        if tense == "past" and (hidden or clause.subject.person == 2):
            tense = "pluperfect" if group.endswith("past") else "perfect"
        return replace(clause, tense=tense)

    def dress(self, clause: Clause) -> Clause:
        """Add at most two of: an opening, a time, an adverb, a manner and a place."""
        tense = "modal" if clause.modal else clause.tense
        if self.draw.chance(0.28):
            time = self.time("past" if clause.modal and clause.tense == "past" else tense)
            front = self.draw.chance(0.45)
            clause = replace(clause, opening=time) if front else replace(clause, time=time)
        elif self.draw.chance(0.07):
            clause = replace(clause, opening=self.draw.pair(lexicon.OPENINGS))
        if clause.negated or clause.subject is IT or clause.verb is SEIN:
            return clause
        if tense in lexicon.ADVERBS and self.draw.chance(0.13):
            return replace(clause, adverb=self.draw.pair(lexicon.ADVERBS[tense]))
        if clause.complement is None and not clause.verb.stative:
            if self.draw.chance(0.12):
                return replace(clause, manner=self.draw.pair(lexicon.MANNERS))
            if not clause.time and self.draw.chance(0.2):
                return replace(clause, place=self.where())
        return clause

    def clause(self, group: str = "any", subject: Phrase | None = None) -> Clause:
        """Draw a short clause without further adverbials."""
        return self.set_tense(self.frame(subject), group)

    # Sentences

    def simple(self) -> Pair:
        """Draw a main clause."""
        clause = self.dress(self.clause())
        return finish(english_statement(clause), german_statement(clause))

    def question(self) -> Pair:
        """Draw a question that is answered with yes or no."""
        clause = self.clause(subject=self.person(0.45))
        if clause.negated:
            return self.question()
        return finish(english_question(clause), german_question(clause), "?")

    def word_question(self) -> Pair:
        """Draw a question with a question word."""
        kind = self.draw.weighted(((3, "where"), (3, "why"), (2, "what"), (2, "who"), (1, "which")))
        if kind == "who":
            clause = self.set_tense(self.frame(WHO), "any")
            if clause.negated:
                return self.word_question()
            return finish(english_statement(clause), german_statement(clause), "?")
        if kind == "where":
            return self.where_question()
        if kind == "why":
            clause = self.clause(subject=self.person())
            if clause.negated:
                return self.word_question()
            word = self.draw.weighted(((3, Pair("why", "warum")), (2, Pair("when", "wann"))))
            return finish(
                english_question(clause, word.english), german_question(clause, word.german), "?"
            )
        return self.object_question(kind)

    def where_question(self) -> Pair:
        """Draw "where ...?": wo for a place, wohin for a direction."""
        moves = self.draw.chance(0.4)
        frame = self.motion if moves else self.posture
        clause = self.set_tense(frame(self.person(), False), "any")
        clause = replace(clause, complement=None)
        english = english_question(clause, "where")
        return finish(english, german_question(clause, "wohin" if moves else "wo"), "?")

    def object_question(self, kind: str) -> Pair:
        """Draw "what ...?" or "which ...?" for the object."""
        clause, thing = self.with_thing(self.person())
        noun = self.noun((thing.kind,))
        asked = noun_phrase(WHICH, (), noun, noun.countable and self.draw.chance(0.3))
        if kind == "what":
            asked = Phrase("what", ("was", "was", "was"))
        clause = replace(self.set_tense(clause, "any"), accusative=None)
        return finish(
            english_question(clause, asked.english),
            german_question(clause, asked.in_case("accusative")),
            "?",
        )

    def with_thing(self, subject: Phrase) -> tuple[Clause, Phrase]:
        """Draw a transitive clause, not negated, whose object is a thing; return both."""
        clause = self.transitive(subject, False)
        thing = clause.accusative
        if thing is None or thing.kind in ("", "person", "job"):
            return self.with_thing(subject)
        return clause, thing

    def subordinate(self) -> Pair:
        """Draw a main clause with a subordinate one, after it or before it."""
        group = self.draw.weighted(((55, "present"), (45, "past")))
        english_word, german_word = self.draw.pair(lexicon.CONJUNCTIONS[group])
        if english_word not in lexicon.FREE_CONJUNCTIONS:
            group = f"plain {group}"
        main = self.clause(group)
        side = self.clause(group, self.echo(main.subject))
        if english_word == "after":
            side = replace(side, tense="pluperfect", modal=None)
        english_side = english_statement(side, english_word)
        german_side = german_subordinate(side, german_word)
        if self.draw.chance(0.4):
            main = replace(main, opening=Pair(f"{english_side},", f"{german_side},"))
            return finish(english_statement(main), german_statement(main))
        return finish(
            f"{english_statement(main)} {english_side}", f"{german_statement(main)}, {german_side}"
        )

    def echo(self, subject: Phrase) -> Phrase | None:
        """Draw whether the next clause speaks of the same person, by a pronoun."""
        if not self.draw.chance(0.5) or subject is IT:
            return None
        if subject.pronoun:
            return subject
        if subject.kind not in ("", "person", "job") or subject.gender == "n":
            return None
        return pronoun("they" if subject.plural else {"m": "he", "f": "she"}[subject.gender])

    def that_clause(self) -> Pair:
        """Draw somebody who says, knows or hopes that ..."""
        group = self.draw.weighted(((6, "present"), (4, "past")))
        subject = self.person(0.4)
        verb = self.draw.zipf(lexicon.verbs(lexicon.THAT_TABLE))
        main = self.set_tense(Clause(subject, verb), group)
        side = self.clause(group, self.echo(subject))
        english, german = english_statement(side, "that"), german_subordinate(side, "dass")
        return finish(f"{english_statement(main)} {english}", f"{german_statement(main)}, {german}")

    def indirect_question(self) -> Pair:
        """Draw somebody who doesn't know whether, where or why ..."""
        group = self.draw.weighted(((6, "present"), (4, "past")))
        verb = self.draw.zipf(lexicon.verbs(lexicon.WHETHER_TABLE))
        subject = self.person(0.5)
        negated = (verb.stative or self.draw.chance(0.2)) and not subject.quantified
        main = self.set_tense(Clause(subject, verb, negated=negated), group)
        english_word, german_word = self.draw.pair("whether=ob; where=wo; why=warum; when=wann")
        if english_word == "where":
            side = self.set_tense(self.posture(self.person(), False), group)
            side = replace(side, complement=None)
        else:
            side = self.clause(group, self.person())
        english, german = (
            english_statement(side, english_word),
            german_subordinate(side, german_word),
        )
        return finish(f"{english_statement(main)} {english}", f"{german_statement(main)}, {german}")

    def relative(self, head: Phrase, group: str) -> Pair:
        """Draw a relative clause about a person (who ...) or a thing (that ...)."""
        if head.kind in ("person", "job"):
            if self.draw.chance(0.25):
                clause = self.set_tense(self.dative(self.person(0.6), False), group)
                clause = replace(clause, dative=None)
                link = relative_pronoun(head, "dative")
                return Pair(english_statement(clause, "whom"), german_subordinate(clause, link))
            forms = tuple(relative_pronoun(head, case) for case in CASES)
            who = Phrase("who", forms, plural=head.plural, kind=head.kind)
            clause = self.clause(group, who)
            return Pair(english_statement(clause), german_subordinate(clause))
        verbs = [v for v in lexicon.verbs(lexicon.TRANSITIVE_TABLE) if head.kind in v.kinds]
        clause = Clause(self.person(0.6), self.draw.zipf(verbs))
        clause = self.set_tense(clause, group)
        link = relative_pronoun(head, "accusative")
        return Pair(english_statement(clause, "that"), german_subordinate(clause, link))

    def relative_subject(self) -> Pair:
        """Draw a sentence about "the man who ..."."""
        group = self.draw.weighted(((55, "present"), (45, "past")))
        head = noun_phrase(*self.relative_head(("person", "job")))
        main = self.clause(group, with_relative(head, self.relative(head, group)))
        return finish(english_statement(main), german_statement(main))

    def relative_object(self) -> Pair:
        """Draw a sentence that ends in "the book that ...", its clause after the closing verb."""
        group = self.draw.weighted(((55, "present"), (45, "past")))
        clause = self.transitive(self.person(0.5), False)
        # "picks the book up that" would part the noun from its clause in English.
        if clause.accusative is None or not clause.accusative.kind or clause.verb.particle_moves:
            return self.relative_object()
        head = noun_phrase(*self.relative_head((clause.accusative.kind,)))
        side = self.relative(head, group)
        main = self.set_tense(replace(clause, accusative=head), group)
        return finish(
            f"{english_statement(main)} {side.english}",
            f"{german_statement(main)}, {side.german}",
        )

    def relative_head(self, kinds: Sequence[str]) -> tuple[Determiner, list[Adjective], Noun, bool]:
        """Draw the parts of a definite phrase that a relative clause can describe."""
        noun = self.noun(kinds)
        plural = noun.countable and self.draw.chance(0.2)
        return THE, self.adjectives(noun.kind, 0.12), noun, plural

    def bare_infinitive(self, subject: Phrase) -> Clause:
        """Draw a clause that can stand in the infinitive."""
        frames = ((5, self.transitive), (2, self.intransitive), (1, self.motion), (1, self.dative))
        clause = self.draw.weighted(frames)(subject, False)
        fits = not clause.verb.stative and not (clause.accusative and clause.accusative.negative)
        return clause if fits else self.bare_infinitive(subject)

    def infinitive(self) -> Pair:
        """Draw somebody who tries or forgets to do something."""
        subject = self.person()
        verb = self.draw.zipf(lexicon.verbs(lexicon.INFINITIVE_TABLE))
        main = self.set_tense(Clause(subject, verb), "any")
        side = self.bare_infinitive(subject)
        return finish(
            f"{english_statement(main)} {english_infinitive(side)}",
            f"{german_statement(main)}, {german_infinitive(side)}",
        )

    def purpose(self) -> Pair:
        """Draw somebody who goes somewhere in order to do something."""
        subject = self.person()
        main = self.set_tense(self.motion(subject, False), "any")
        side = self.bare_infinitive(subject)
        return finish(
            f"{english_statement(main)} {english_infinitive(side)}",
            f"{german_statement(main)}, {german_infinitive(side, 'um')}",
        )

    def coordination(self) -> Pair:
        """Draw two main clauses with "and" or "but"."""
        group = self.draw.weighted(((55, "present"), (45, "past")))
        first = self.clause(group)
        second = self.clause(group, self.echo(first.subject))
        joins = ((6, Pair(" and", " und")), (4, Pair(", but", ", aber")))
        english, german = self.draw.weighted(joins)
        return finish(
            f"{english_statement(first)}{english} {english_statement(second)}",
            f"{german_statement(first)}{german} {german_statement(second)}",
        )

    def thing_quality(self) -> Pair:
        """Draw a thing, place, animal or event that is old, big or strange."""
        kinds = ("thing", "place", "animal", "clothes", "vehicle", "food", "text", "event", "idea")
        thing = self.phrase(kinds)
        negated = self.draw.chance(0.12) and not thing.quantified
        clause = self.set_tense(self.quality(thing, negated), "simple")
        return finish(english_statement(clause), german_statement(clause))

    def profession(self) -> Pair:
        """Draw somebody's job; German takes no article and a feminine form for a woman."""
        subject = self.person(0.4) if self.draw.chance(0.4) else self.name()
        noun = self.draw.zipf(lexicon.nouns()["job"])
        female = subject.gender == "f" or subject.english == "she"
        german = noun.german_plural if subject.plural else noun.feminine if female else noun.german
        english = noun.english_plural if subject.plural else with_article(f"a {noun.english}")
        becomes = self.draw.chance(0.3)
        clause = Clause(subject, WERDEN if becomes else SEIN, complement=Pair(english, german))
        clause = self.set_tense(clause, "present" if becomes else "simple")
        return finish(english_statement(clause), german_statement(clause))

    def comparison(self) -> Pair:
        """Draw a comparison of two persons or two things."""
        kind = self.draw.zipf(("person", "thing", "animal", "place", "vehicle", "clothes", "event"))
        fitting = [a for a in lexicon.adjectives_of(kind) if a.english_comparative]
        adjective = self.draw.zipf(fitting)
        is_person = kind == "person"
        subject = self.person() if is_person else self.phrase((kind,), definite=True)
        other = self.name() if is_person else self.phrase((kind,), definite=True)
        if self.draw.chance(0.3):
            english = f"as {adjective.english} as {other.as_object}"
            complement = Pair(english, f"so {adjective.german} wie {other.in_case('nominative')}")
        else:
            english = f"{adjective.english_comparative} than {other.as_object}"
            german = f"{adjective.german_comparative} als {other.in_case('nominative')}"
            complement = Pair(english, german)
        clause = self.set_tense(Clause(subject, SEIN, complement=complement), "simple")
        return finish(english_statement(clause), german_statement(clause))

    def count(self, low: int, high: int) -> Pair:
        """Draw a number above one, written out or in digits."""
        number = self.draw.number(low, high)
        if self.draw.chance(0.5):
            return Pair(str(number), str(number))
        return Pair(lexicon.english_number(number), lexicon.german_number(number))

    def age(self) -> Pair:
        """Draw somebody's age."""
        years = self.count(2, 99)
        complement = Pair(f"{years.english} years old", f"{years.german} Jahre alt")
        subject = self.name() if self.draw.chance(0.6) else self.person(1)
        clause = self.set_tense(Clause(subject, SEIN, complement=complement), "simple")
        return finish(english_statement(clause), german_statement(clause))

    def price(self) -> Pair:
        """Draw a price: whole, with cents, or in the thousands (German swaps point and comma)."""
        form = self.draw.weighted(((8, "whole"), (1, "cents"), (1, "thousands")))
        amount = self.count(2, 199)
        if form == "cents":
            euros, cents = self.draw.number(2, 60), 5 * self.draw.number(1, 19)
            amount = Pair(f"{euros}.{cents:02}", f"{euros},{cents:02}")
        elif form == "thousands":
            thousands, hundreds = self.draw.number(1, 30), 100 * self.draw.number(0, 9)
            amount = Pair(f"{thousands},{hundreds:03}", f"{thousands}.{hundreds:03}")
        thing = self.phrase(("thing", "clothes", "vehicle", "furniture", "device"), definite=True)
        verb = lexicon.verbs(lexicon.COST)[0]
        complement = Pair(f"{amount.english} euros", f"{amount.german} Euro")
        clause = self.set_tense(Clause(thing, verb, complement=complement), "simple")
        return finish(english_statement(clause), german_statement(clause))

    def distance(self) -> Pair:
        """Draw how far a place is from another."""
        amount = self.count(2, 99)
        unit = self.draw.pair("kilometres=Kilometer; metres=Meter; miles=Meilen")
        (_, first), (_, second) = self.place_phrase(), self.place_phrase()
        origin = german_prepositional("von", second, "dative")
        complement = Pair(
            f"{amount.english} {unit.english} from {second.as_object}",
            f"{amount.german} {unit.german} {origin} entfernt",
        )
        clause = self.set_tense(Clause(first, SEIN, complement=complement), "simple")
        return finish(english_statement(clause), german_statement(clause))

    def passive(self) -> Pair:
        """Draw what was built, sold or stolen."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.PASSIVE_TABLE))
        subject = self.phrase((self.draw.zipf(verb.kinds),))
        tense = self.draw.weighted(((70, "past"), (12, "perfect"), (18, "future")))
        clause = Clause(subject, verb, tense=tense, passive=True)
        if self.draw.chance(0.25):
            clause = replace(clause, tense="present", modal=self.draw.zipf(lexicon.MODALS[:2]))
        elif tense != "perfect" and self.draw.chance(0.6):
            time, front = self.time(tense), self.draw.chance(0.4)
            clause = replace(clause, opening=time) if front else replace(clause, time=time)
        if not clause.time and self.draw.chance(0.3):
            agent = self.patient(("person", "job"), subject, False)
            german = german_prepositional("von", agent, "dative")
            clause = replace(clause, complement=Pair(f"by {agent.as_object}", german))
        return finish(english_statement(clause), german_statement(clause))

    def there_is(self) -> Pair:
        """Draw what there is somewhere; German says "gibt" with the accusative."""
        noun = self.noun(("thing", "animal", "person", "furniture", "plant", "food", "device"))
        plural = noun.countable and self.draw.chance(0.5)
        if plural:
            determiner = self.draw.weighted(((3, MANY), (3, self.numeral()), (1, NO), (1, SOME)))
        else:
            determiner = self.draw.weighted(((4, A if noun.countable else BARE), (1, NO)))
        phrase = noun_phrase(determiner, self.adjectives(noun.kind), noun, plural)
        place, past = self.where(), self.draw.chance(0.35)
        english = f"there {english_be(past, phrase)} {phrase.english} {place.english}"
        german = f"{place.german} {'gab' if past else 'gibt'} es {phrase.in_case('accusative')}"
        return finish(english, german)

    def birth(self) -> Pair:
        """Draw when or where somebody was born."""
        name = self.name()
        (english, german), year = self.date(), 2010 - self.draw.number(1, 110)
        when = Pair(f"{english}, {year}", f"{german} {year}")
        where = self.draw.pair(lexicon.CITIES)
        if self.draw.chance(0.4):
            when = Pair(f"in {year} in {where.english}", f"im Jahr {year} in {where.german}")
        return finish(
            f"{name.english} was born {when.english}",
            f"{name.in_case('nominative')} wurde {when.german} geboren",
        )

    def population(self) -> Pair:
        """Draw how many people live in a city, in thousands."""
        thousands = 10 * self.draw.number(1, 90)
        city = self.draw.pair(lexicon.CITIES)
        return finish(
            f"{thousands},000 people live in {city.english}",
            f"in {city.german} leben {thousands}.000 Menschen",
        )

    def since(self) -> Pair:
        """Draw how long something has lasted: German keeps the present with "seit"."""
        clause = self.posture(self.person(), False)
        if clause.verb.infinitive == "bleiben":
            return self.since()
        span = self.span()
        if self.draw.chance(0.4):
            year = str(2025 - self.draw.number(1, 60))
            clause = replace(clause, time=Pair(f"since {year}", f"seit {year}"))
        else:
            clause = replace(clause, time=Pair(f"for {span.english}", f"seit {span.german}"))
        english = english_statement(replace(clause, tense="perfect"))
        return finish(english, german_statement(clause))

    def event(self) -> Pair:
        """Draw when an event begins or ends, or how long it lasts."""
        verb = self.draw.zipf(lexicon.verbs(lexicon.EVENT_VERB_TABLE))
        subject = self.phrase(("event",), definite=True)
        clause = self.set_tense(Clause(subject, verb), "simple")
        if verb.infinitive == "dauern":
            hours = self.count(2, 12)
            duration = Pair(f"{hours.english} hours", f"{hours.german} Stunden")
            clause = replace(clause, complement=duration)
        else:
            time = self.time("past" if clause.tense == "past" else "future")
            clause = replace(
                clause, tense="past" if clause.tense == "past" else "future", time=time
            )
        return finish(english_statement(clause), german_statement(clause))

    def belonging(self) -> Pair:
        """Draw what belongs to whom."""
        kinds = ("thing", "clothes", "vehicle", "animal", "text", "furniture", "device")
        thing, owner = self.phrase(kinds, definite=True), self.person()
        verb = lexicon.verbs(lexicon.BELONG)[0]
        negated = self.draw.chance(0.15) and not owner.quantified
        clause = self.set_tense(Clause(thing, verb, negated=negated, dative=owner), "simple")
        return finish(english_statement(clause), german_statement(clause))

    def sentence(self) -> Pair:
        """Draw a sentence of any form."""
        forms = (
            (44, self.simple),
            (7, self.question),
            (4, self.word_question),
            (10, self.subordinate),
            (5, self.that_clause),
            (2, self.indirect_question),
            (3.5, self.relative_subject),
            (4, self.relative_object),
            (3, self.infinitive),
            (2, self.purpose),
            (3, self.coordination),
            (3, self.thing_quality),
            (2, self.profession),
            (2, self.comparison),
            (1.2, self.age),
            (2, self.price),
            (0.6, self.distance),
            (3, self.passive),
            (2.5, self.there_is),
            (0.8, self.birth),
            (0.5, self.population),
            (1, self.since),
            (1, self.event),
            (0.8, self.belonging),
        )
        return self.draw.weighted(forms)()
