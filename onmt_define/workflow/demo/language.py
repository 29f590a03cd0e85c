"""Writes noun phrases and clauses out in English and in German.

The German side keeps the rules that make German hard for a machine: gender, case, three adjective
declensions, verb second in main and verb last in subordinate clauses, separable prefixes, perfect
and modal brackets, "nicht" against "kein". Each English sentence has one German one: "you" is
always "du", the simple past is always the preterite, the present perfect always the perfect, the
progressive always "gerade".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from onmt_define.workflow.demo import lexicon
from onmt_define.workflow.demo.lexicon import CASES, Adjective, Modal, Noun, Verb


class Pair(NamedTuple):
    """The same words, phrase or sentence in both languages."""

    english: str
    german: str


# --- Noun phrases --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Determiner:
    """What stands before adjectives and noun, and which endings it asks of both in German.

    `inflection` is how the determiner itself changes ("der", "dieser", "ein" or "fixed"),
    `declension` which adjective endings follow ("weak", "mixed" or "strong").
    """

    english: str
    german: str
    inflection: str = "fixed"
    declension: str = "strong"
    possessive: bool = False

    @property
    def definite(self) -> bool:
        """Whether it names something known."""
        return self.possessive or self.declension == "weak"

    @property
    def negative(self) -> bool:
        """Whether the German determiner carries the negation, so that no "nicht" is due."""
        return self.german == "kein"


BARE = Determiner("", "")
THE = Determiner("the", "der", "der", "weak")
THIS, THESE = (Determiner(word, "dies", "dieser", "weak") for word in ("this", "these"))
A = Determiner("a", "ein", "ein", "mixed")
NO, NOT_A, NOT_ANY = (Determiner(word, "kein", "ein", "mixed") for word in ("no", "a", ""))
EVERY = Determiner("every", "jed", "dieser", "weak")
WHICH = Determiner("which", "welch", "dieser", "weak")
ALL = Determiner("all", "all", "dieser", "weak")
MANY = Determiner("many", "viel", "dieser", "strong")
SOME = Determiner("some", "einig", "dieser", "strong")
POSSESSIVES = tuple(
    Determiner(*pair, "ein", "mixed", possessive=True)
    for pair in lexicon.pairs(lexicon.POSSESSIVES)
)

# Endings by gender (or plural) in the order of CASES: nominative, accusative, dative.
DER = {
    "m": ("der", "den", "dem"),
    "f": ("die", "die", "der"),
    "n": ("das", "das", "dem"),
    "plural": ("die", "die", "den"),
}
STRONG = {
    "m": ("er", "en", "em"),
    "f": ("e", "e", "er"),
    "n": ("es", "es", "em"),
    "plural": ("e", "e", "en"),
}
EIN = STRONG | {"m": ("", "en", "em"), "n": ("", "", "em")}
WEAK = {
    "m": ("e", "en", "en"),
    "f": ("e", "e", "en"),
    "n": ("e", "e", "en"),
    "plural": ("en", "en", "en"),
}
MIXED = WEAK | {"m": ("er", "en", "en"), "n": ("es", "es", "en")}
ADJECTIVE_ENDINGS = {"weak": WEAK, "mixed": MIXED, "strong": STRONG}

# Words that begin with a vowel letter but not with a vowel, and the other way round.
AN_EXCEPTIONS = {"university", "uniform", "useful", "hour", "honest"}


@dataclass(frozen=True)
class Phrase:
    """A noun phrase or pronoun: its English form and its German cases in the order of CASES."""

    english: str
    german: tuple[str, ...]
    english_object: str = ""
    person: int = 3
    plural: bool = False
    gender: str = "n"
    reflexive: str = "sich"
    pronoun: bool = False
    definite: bool = True
    negative: bool = False
    kind: str = ""

    @property
    def as_object(self) -> str:
        """The English form after a verb or preposition."""
        return self.english_object or self.english

    @property
    def quantified(self) -> bool:
        """Whether "not" would leave open what is negated ("every man does not ...")."""
        return self.english.split()[0] in ("every", "all", "many", "some", "no")

    def in_case(self, case: str) -> str:
        """Return the German form in a case."""
        return self.german[CASES.index(case)]


def noun_phrase(
    determiner: Determiner, adjectives: Sequence[Adjective], noun: Noun, plural: bool = False
) -> Phrase:
    """Join determiner, adjectives and noun in both languages, with every German ending."""
    english = [determiner.english, *(a.english for a in adjectives), noun.english_form(plural)]
    return Phrase(
        english=with_article(_joined(english)),
        german=tuple(german_noun_phrase(determiner, adjectives, noun, plural, c) for c in CASES),
        plural=plural,
        gender=noun.gender,
        definite=determiner.definite,
        negative=determiner.negative,
        kind=noun.kind,
    )


def german_noun_phrase(
    determiner: Determiner, adjectives: Sequence[Adjective], noun: Noun, plural: bool, case: str
) -> str:
    """Return one case of a German noun phrase ("dem alten Mann")."""
    group, index = "plural" if plural else noun.gender, CASES.index(case)
    endings = ADJECTIVE_ENDINGS[determiner.declension][group]
    words = [adjective.stem + endings[index] for adjective in adjectives]
    return _joined(
        [german_determiner(determiner, group, case), *words, noun.german_form(case, plural)]
    )


def german_determiner(determiner: Determiner, group: str, case: str) -> str:
    """Return a determiner's form for a gender ("m", "f", "n") or "plural"."""
    index = CASES.index(case)
    match determiner.inflection:
        case "der":
            return DER[group][index]
        case "dieser":
            return determiner.german + STRONG[group][index]
        case "ein":
            return determiner.german + EIN[group][index]
        case _:
            return determiner.german


def with_article(english: str) -> str:
    """Turn a leading "a" into "an" where the next word begins with a vowel."""
    first, _, rest = english.partition(" ")
    word = rest.partition(" ")[0]
    vowel = word[:1].lower() in "aeiou"
    return f"an {rest}" if first == "a" and vowel != (word in AN_EXCEPTIONS) else english


def pronoun(english: str) -> Phrase:
    """Return the personal pronoun with that English subject form."""
    subject, as_object, german, person, plural, reflexive = lexicon.PRONOUNS[english]
    return Phrase(subject, german, as_object, person, plural, reflexive=reflexive, pronoun=True)


IT = Phrase("it", ("es", "es", "ihm"), pronoun=True)
WHO = Phrase("who", ("wer", "wen", "wem"))

CONTRACTIONS = {
    "in dem": "im",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
    "bei dem": "beim",
    "in das": "ins",
    "an das": "ans",
}


def german_prepositional(preposition: str, phrase: Phrase, case: str) -> str:
    """Return preposition and phrase, contracted where German contracts ("im Garten")."""
    first, _, rest = phrase.in_case(case).partition(" ")
    both = f"{preposition} {first}"
    return _joined([CONTRACTIONS.get(both, both) if rest else both, rest])


def relative_pronoun(head: Phrase, case: str) -> str:
    """Return the German relative pronoun that agrees with its head and stands in `case`."""
    if head.plural and case == "dative":
        return "denen"
    return DER["plural" if head.plural else head.gender][CASES.index(case)]


def with_relative(head: Phrase, clause: Pair) -> Phrase:
    """Return a phrase followed by its relative clause, which German sets between commas."""
    return replace(
        head,
        english=f"{head.english} {clause.english}",
        english_object=f"{head.as_object} {clause.english}",
        german=tuple(f"{form}, {clause.german}," for form in head.german),
    )


# --- Clauses -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clause:
    """What a clause says: verb, tense and parts; the functions below say it in each language.

    `tense` is "present", "past", "perfect", "pluperfect", "progressive" or "future". A modal goes
    with the present or past. `opening` stands first in both languages; `complement` is what
    belongs closest to the verb (a governed preposition, a direction, a predicate).
    """

    subject: Phrase
    verb: Verb
    tense: str = "present"
    modal: Modal | None = None
    passive: bool = False
    negated: bool = False
    dative: Phrase | None = None
    accusative: Phrase | None = None
    complement: Pair | None = None
    opening: Pair | None = None
    time: Pair | None = None
    adverb: Pair | None = None
    manner: Pair | None = None
    place: Pair | None = None


WERDEN = lexicon.verbs(lexicon.BECOME)[0]
SEIN = lexicon.verbs(lexicon.BE)[0]
HABEN = lexicon.verbs(lexicon.HAVE)[0]


def _joined(words: Sequence[str]) -> str:
    return " ".join([word for word in words if word])


def _side(pair: Pair | None, side: int) -> str:
    return pair[side] if pair else ""


def finish(english: str, german: str, mark: str = ".") -> Pair:
    """Return both sentences with a capital at the start, a mark at the end and tidy commas."""
    sides = (text.replace(",,", ",").rstrip(",") for text in (english, german))
    return Pair(*(text[0].upper() + text[1:] + mark for text in sides))


# --- German clauses ------------------------------------------------------------------------------


def german_finite(verb: Verb, past: bool, subject: Phrase) -> str:
    """Return the finite form that agrees with the subject."""
    if past:
        return verb.german_past(subject.person, subject.plural)
    return verb.german_present(subject.person, subject.plural)


def german_modal(modal: Modal, past: bool, subject: Phrase) -> str:
    """Return a modal's finite form."""
    if past:
        return modal.preterite + "n" * subject.plural
    return modal.infinitive if subject.plural else modal.singular[subject.person - 1]


def german_verbs(clause: Clause) -> tuple[str, list[str]]:
    """Return the finite verb and what closes the sentence bracket, in verb-last order."""
    verb, subject = clause.verb, clause.subject
    participle = verb.german_participle()
    infinitive = [participle, "werden"] if clause.passive else [verb.german_infinitive()]
    if clause.modal:
        return german_modal(clause.modal, clause.tense == "past", subject), infinitive
    match clause.tense:
        case "future":
            return german_finite(WERDEN, False, subject), infinitive
        case "perfect" | "pluperfect":
            auxiliary = SEIN if clause.passive or verb.auxiliary == "sein" else HABEN
            past = clause.tense == "pluperfect"
            ending = [participle, "worden"] if clause.passive else [participle]
            return german_finite(auxiliary, past, subject), ending
    past = clause.tense == "past"
    if clause.passive:
        return german_finite(WERDEN, past, subject), [participle]
    return german_finite(verb, past, subject), [verb.prefix]


def german_middle(clause: Clause) -> list[str]:
    """Return what stands between the two verb positions, the subject aside."""
    receiver = clause.dative.in_case("dative") if clause.dative else ""
    thing = clause.accusative.in_case("accusative") if clause.accusative else ""
    # "hilft ihm heute oft", "hilft heute dem Mann oft", "hilft heute oft einem Mann"
    receiver_stands, thing_stands = _position(clause.dative), _position(clause.accusative)
    needs_nicht = clause.negated and not (clause.accusative and clause.accusative.negative)
    gerade = clause.tense == "progressive" and clause.subject is not IT
    return [
        clause.subject.reflexive if clause.verb.reflexive else "",
        thing if thing_stands == "first" else "",
        receiver if receiver_stands == "first" else "",
        _side(clause.time, 1),
        receiver if receiver_stands == "early" else "",
        _side(clause.adverb, 1),
        "gerade" if gerade else "",
        receiver if receiver_stands == "late" else "",
        thing if thing_stands != "first" else "",
        "nicht" if needs_nicht else "",
        _side(clause.manner, 1),
        _side(clause.place, 1),
        _side(clause.complement, 1),
    ]


def _position(phrase: Phrase | None) -> str:
    if phrase is None or not phrase.definite:
        return "late"
    return "first" if phrase.pronoun else "early"


def german_statement(clause: Clause) -> str:
    """Return a main clause: the finite verb is the second part, whatever the first is."""
    finite, closing = german_verbs(clause)
    subject = clause.subject.in_case("nominative")
    if clause.opening:
        return _joined([clause.opening.german, finite, subject, *german_middle(clause), *closing])
    return _joined([subject, finite, *german_middle(clause), *closing])


def german_question(clause: Clause, word: str = "") -> str:
    """Return a question: verb first, or second after a question word."""
    finite, closing = german_verbs(clause)
    subject = clause.subject.in_case("nominative")
    return _joined([word, finite, subject, *german_middle(clause), *closing])


def german_subordinate(clause: Clause, link: str = "") -> str:
    """Return a subordinate clause: the finite verb comes last, joined with its prefix.

    Without a link the subject is the relative or question word itself.
    """
    finite, closing = german_verbs(clause)
    end = [closing[0] + finite] if closing == [clause.verb.prefix] else [*closing, finite]
    return _joined([link, clause.subject.in_case("nominative"), *german_middle(clause), *end])


def german_infinitive(clause: Clause, link: str = "") -> str:
    """Return an infinitive clause with "zu"; the subject is understood."""
    return _joined([link, *german_middle(clause), clause.verb.german_infinitive(with_zu=True)])


# --- English clauses -----------------------------------------------------------------------------


def english_be(past: bool, subject: Phrase) -> str:
    """Return the form of "be" that agrees with the subject."""
    if subject.plural or subject.person == 2:
        return "were" if past else "are"
    return "was" if past else {1: "am", 3: "is"}[subject.person]


def english_agree(verb: str, subject: Phrase) -> str:
    """Return the present tense of a verb (other than "be") that agrees with the subject."""
    third = subject.person == 3 and not subject.plural
    return lexicon.english_third_person(verb) if third else verb


def english_verbs(clause: Clause, needs_auxiliary: bool) -> tuple[list[str], int]:
    """Return the verbs in order and how many of them stand before an adverb.

    With `needs_auxiliary` (negation, question) a form of "do" comes in where there is no other.
    """
    verb, subject, past = clause.verb, clause.subject, clause.tense == "past"
    participle = verb.english_participle
    base = ["be", participle] if clause.passive else [verb.english]
    if clause.modal and not clause.modal.takes_do:
        return [*(clause.modal.english_past if past else clause.modal.english).split(), *base], 1
    match clause.tense:
        case "future":
            return ["will", *base], 1
        case "progressive":
            return [english_be(False, subject), lexicon.english_ing(verb)], 1
        case "perfect" | "pluperfect":
            have = "had" if clause.tense == "pluperfect" else english_agree("have", subject)
            return [have, *(["been"] if clause.passive else []), participle], 1
    if clause.modal:
        base = [*clause.modal.english.split(), *base]
        finite = clause.modal.english_past.split()[0]
    elif clause.passive or verb.english == "be":
        return [english_be(past, subject), *base[1:]], 1
    else:
        finite = verb.english_past
    if needs_auxiliary:
        return ["did" if past else english_agree("do", subject), *base], 1
    return [finite if past else english_agree(base[0], subject), *base[1:]], 0


def english_objects(clause: Clause) -> list[str]:
    """Return particle, objects and all that follows, in English order."""
    dative, accusative, particle = clause.dative, clause.accusative, clause.verb.particle
    objects = [phrase.as_object for phrase in (dative, accusative) if phrase]
    if dative and accusative and particle == "to":
        objects = [objects[1], "to", objects[0]]
    elif clause.verb.particle_moves and accusative and accusative.pronoun:
        objects = [*objects, particle]
    elif not clause.verb.preposition:
        objects = [particle, *objects]
    rest = (clause.complement, clause.manner, clause.place, clause.time)
    return objects + [_side(part, 0) for part in rest]


def english_statement(clause: Clause, link: str = "") -> str:
    """Return a main or subordinate clause: English keeps one order for both."""
    verbs, before_adverb = english_verbs(clause, needs_auxiliary=clause.negated)
    adverb = ["not" if clause.negated else "", _side(clause.adverb, 0)]
    words = [*verbs[:before_adverb], *adverb, *verbs[before_adverb:], *english_objects(clause)]
    opening = _side(clause.opening, 0)
    return _joined([link, opening, clause.subject.english, *words]).replace("can not", "cannot")


def english_question(clause: Clause, word: str = "") -> str:
    """Return a question with the auxiliary before the subject."""
    (auxiliary, *verbs), _ = english_verbs(clause, needs_auxiliary=True)
    return _joined([word, auxiliary, clause.subject.english, *verbs, *english_objects(clause)])


def english_infinitive(clause: Clause) -> str:
    """Return an infinitive clause with "to"."""
    return _joined(["to", clause.verb.english, *english_objects(clause)])
