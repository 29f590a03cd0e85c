"""The demo corpus: what is promised of its files, and hand-checked German from its grammar."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onmt_define.errors import UserError
from onmt_define.workflow.demo import language, lexicon
from onmt_define.workflow.demo.corpus import generate_corpus
from onmt_define.workflow.demo.language import Clause, Pair

REPOSITORY = Path(__file__).parents[1]
SCRIPT = REPOSITORY / "scripts" / "generate_demo_corpus.py"
SPLITS = ("train", "valid", "test")


@pytest.fixture(scope="module")
def corpus():
    return generate_corpus()


def run_script(*arguments, hash_seed="0"):
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


# --- The corpus ----------------------------------------------------------------------------------


def test_sizes_and_alignment(corpus):
    assert {split: len(pairs) for split, pairs in corpus.items()} == {
        "train": 20000,
        "valid": 500,
        "test": 500,
    }
    for pairs in corpus.values():
        for pair in pairs:
            assert all(re.fullmatch(r"\S.*\S[.?]", text) for text in pair), pair
            assert not any("  " in text or ",," in text for text in pair), pair
            assert pair.english.endswith("?") == pair.german.endswith("?"), pair


def test_no_sentence_occurs_twice_on_either_side(corpus):
    for side in (0, 1):
        every = [pair[side] for split in SPLITS for pair in corpus[split]]
        assert len(every) == len(set(every))


def test_most_sentences_have_5_to_15_words(corpus):
    lengths = [len(pair.english.split()) for pair in corpus["train"]]
    assert sum(5 <= length <= 15 for length in lengths) > 0.8 * len(lengths)
    assert max(lengths) <= 40


@pytest.mark.parametrize("side", [0, 1], ids=["English", "German"])
def test_at_least_2000_word_types_and_few_unseen_ones(corpus, side):
    def words(split):
        return [word for pair in corpus[split] for word in re.findall(r"\w+", pair[side])]

    train = set(words("train"))
    assert len(train) >= 2000
    assert sum(word.isalpha() for word in train) >= 2000
    unseen = [word for word in words("test") if word not in train]
    assert len(unseen) < 0.02 * len(words("test"))


def test_same_seed_same_bytes_whatever_the_hash_seed(tmp_path):
    sizes = ("--pairs", 300, "--valid", 20, "--test", 30, "--seed", 7)
    for hash_seed in ("1", "2"):
        result = run_script("--output", tmp_path / hash_seed, *sizes, hash_seed=hash_seed)
        assert result.returncode == 0, result.stderr
    corpus = generate_corpus(300, 20, 30, seed=7)
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert names == sorted(f"{split}.{language}" for split in SPLITS for language in ("en", "de"))
    for name in names:
        split, language = name.split(".")
        lines = [pair[("en", "de").index(language)] for pair in corpus[split]]
        data = (tmp_path / "1" / name).read_bytes()
        assert data == (tmp_path / "2" / name).read_bytes()
        assert data.decode("utf-8") == "".join(line + "\n" for line in lines)


def test_another_seed_gives_another_text():
    first, second = (generate_corpus(200, 1, 1, seed=seed)["train"] for seed in (1, 2))
    assert len(set(first) & set(second)) < 20


def test_a_size_below_one_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(UserError, match="the valid split is to have 0 sentence pairs"):
        generate_corpus(10, 0, 10)
    result = run_script("--output", tmp_path / "out", "--pairs", -3)
    assert result.returncode == 2
    assert result.stderr.startswith("error: the train split is to have -3 sentence pairs")
    assert not (tmp_path / "out").exists()


# --- The lexicon ---------------------------------------------------------------------------------


def test_every_name_in_the_tables_is_an_entry():
    tables = [value for name, value in vars(lexicon).items() if name.endswith("_TABLE")]
    tables.remove(lexicon.PLACE_TABLE)
    tables.remove(lexicon.ADJECTIVE_TABLE)
    for table in tables:
        for verb in lexicon.verbs(table):
            for kind in verb.kinds:
                if kind not in ("language", "playing", "city"):
                    assert lexicon.nouns_of(kind)
    for kind in lexicon.nouns():
        if kind not in ("furniture", "opening", "instrument"):
            assert lexicon.adjectives_of(kind)


def test_an_english_noun_has_one_translation():
    names = [noun.english for group in lexicon.nouns().values() for noun in group]
    assert len(names) == len(set(names)) > 500


# --- Noun phrases --------------------------------------------------------------------------------

# Nominative, accusative, dative of: der / ein / no determiner, by gender and in the plural.
DECLENSION = """
man        the   der alte Mann       | den alten Mann       | dem alten Mann
man        a     ein alter Mann      | einen alten Mann     | einem alten Mann
wine       -     alter Wein          | alten Wein           | altem Wein
boy        the   der alte Junge      | den alten Jungen     | dem alten Jungen
woman      the   die alte Frau       | die alte Frau        | der alten Frau
woman      a     eine alte Frau      | eine alte Frau       | einer alten Frau
milk       -     alte Milch          | alte Milch           | alter Milch
child      the   das alte Kind       | das alte Kind        | dem alten Kind
child      a     ein altes Kind      | ein altes Kind       | einem alten Kind
bread      -     altes Brot          | altes Brot           | altem Brot
man        this  dieser alte Mann    | diesen alten Mann    | diesem alten Mann
woman      every jede alte Frau      | jede alte Frau       | jeder alten Frau
child      every jedes alte Kind     | jedes alte Kind      | jedem alten Kind
woman      my    meine alte Frau     | meine alte Frau      | meiner alten Frau
child      our   unser altes Kind    | unser altes Kind     | unserem alten Kind
children   the   die alten Kinder    | die alten Kinder     | den alten Kindern
children   -     alte Kinder         | alte Kinder          | alten Kindern
children   my    meine alten Kinder  | meine alten Kinder   | meinen alten Kindern
children   many  viele alte Kinder   | viele alte Kinder    | vielen alten Kindern
children   all   alle alten Kinder   | alle alten Kinder    | allen alten Kindern
"""
DETERMINERS = {
    "-": language.BARE,
    "the": language.THE,
    "a": language.A,
    "this": language.THIS,
    "every": language.EVERY,
    "many": language.MANY,
    "all": language.ALL,
    **{possessive.english: possessive for possessive in language.POSSESSIVES},
}


@pytest.mark.parametrize("row", DECLENSION.strip().split("\n"), ids=lambda row: row[:16])
def test_declension(row):
    english, determiner, german = row.split(maxsplit=2)
    plural = english == "children"
    noun = lexicon.noun_named("child" if plural else english)
    old = lexicon.adjectives()["old"]
    phrase = language.noun_phrase(DETERMINERS[determiner], [old], noun, plural)
    assert phrase.german == tuple(form.strip() for form in german.split("|"))


def phrase(english, plural=False, determiner=language.THE, adjective=""):
    adjectives = [lexicon.adjectives()[adjective]] if adjective else []
    return language.noun_phrase(determiner, adjectives, lexicon.noun_named(english), plural)


def test_stems_that_change_before_an_ending():
    assert phrase("car", adjective="expensive").in_case("nominative") == "das teure Auto"
    assert phrase("tower", adjective="high").in_case("dative") == "dem hohen Turm"
    assert phrase("soup", determiner=language.A, adjective="sour").english == "a sour soup"


def test_english_article():
    assert phrase("apple", determiner=language.A).english == "an apple"
    assert phrase("uniform", determiner=language.A).english == "a uniform"
    assert phrase("man", determiner=language.A, adjective="honest").english == "an honest man"
    assert phrase("bag", determiner=language.A, adjective="useful").english == "a useful bag"


@pytest.mark.parametrize(
    ("preposition", "noun", "case", "expected"),
    [
        ("in", "garden", "dative", "im Garten"),
        ("in", "garden", "accusative", "in den Garten"),
        ("in", "house", "accusative", "ins Haus"),
        ("zu", "school", "dative", "zur Schule"),
        ("von", "lake", "dative", "vom See"),
        ("auf", "chair", "dative", "auf dem Stuhl"),
    ],
)
def test_prepositions_contract_with_the_article(preposition, noun, case, expected):
    assert language.german_prepositional(preposition, phrase(noun), case) == expected


def test_compounds_are_two_words_in_english_and_one_in_german():
    compounds = {noun.english: noun for group in lexicon.compounds().values() for noun in group}
    assert compounds["kitchen table"].german == "Küchentisch"
    assert compounds["kitchen table"].german_plural == "Küchentische"
    assert compounds["apple cake"].german_form("accusative", False) == "Apfelkuchen"
    assert compounds["history teacher"].english_form(True) == "history teachers"


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (1, "one", "eins"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (76, "seventy-six", "sechsundsiebzig"),
        (100, "one hundred", "einhundert"),
        (102, "one hundred and two", "einhundertzwei"),
        (235, "two hundred and thirty-five", "zweihundertfünfunddreißig"),
    ],
)
def test_number_words(number, english, german):
    assert lexicon.english_number(number) == english
    assert lexicon.german_number(number) == german


# --- Clauses -------------------------------------------------------------------------------------


def verb(infinitive):
    tables = [value for name, value in vars(lexicon).items() if name.endswith("_TABLE")]
    tables = [t for t in tables if t not in (lexicon.PLACE_TABLE, lexicon.ADJECTIVE_TABLE)]
    found = (verb for table in tables for verb in lexicon.verbs(table))
    return next(verb for verb in found if verb.german_infinitive() == infinitive)


MAN = phrase("man")
CAN = lexicon.MODALS[0]
YESTERDAY = Pair("yesterday", "gestern")


@pytest.mark.parametrize(
    ("clause", "english", "main", "subordinate"),
    [
        (
            Clause(MAN, verb("anrufen"), accusative=phrase("woman")),
            "the man calls the woman",
            "der Mann ruft die Frau an",
            "weil der Mann die Frau anruft",
        ),
        (
            Clause(
                MAN, verb("kaufen"), tense="past", accusative=phrase("house"), opening=YESTERDAY
            ),
            "yesterday the man bought the house",
            "gestern kaufte der Mann das Haus",
            "weil der Mann das Haus kaufte",
        ),
        (
            Clause(MAN, verb("abholen"), tense="perfect", accusative=language.pronoun("he")),
            "the man has picked him up",
            "der Mann hat ihn abgeholt",
            "weil der Mann ihn abgeholt hat",
        ),
        (
            Clause(phrase("child", True), verb("aufstehen"), tense="perfect", time=YESTERDAY),
            "the children have got up yesterday",
            "die Kinder sind gestern aufgestanden",
            "weil die Kinder gestern aufgestanden sind",
        ),
        (
            Clause(
                language.pronoun("you"),
                verb("lesen"),
                modal=CAN,
                negated=True,
                accusative=phrase("book", determiner=language.NOT_A),
            ),
            "you cannot read a book",
            "du kannst kein Buch lesen",
            "weil du kein Buch lesen kannst",
        ),
        (
            Clause(language.pronoun("we"), verb("helfen"), negated=True, dative=phrase("boy")),
            "we do not help the boy",
            "wir helfen dem Jungen nicht",
            "weil wir dem Jungen nicht helfen",
        ),
        (
            Clause(
                MAN,
                verb("geben"),
                tense="future",
                dative=phrase("child"),
                accusative=phrase("apple"),
            ),
            "the man will give the child the apple",
            "der Mann wird dem Kind den Apfel geben",
            "weil der Mann dem Kind den Apfel geben wird",
        ),
        (
            Clause(language.pronoun("he"), verb("schlafen"), tense="progressive"),
            "he is sleeping",
            "er schläft gerade",
            "weil er gerade schläft",
        ),
        (
            Clause(
                language.pronoun("I"),
                verb("freuen"),
                complement=Pair("forward to it", "auf das Fest"),
            ),
            "I look forward to it",
            "ich freue mich auf das Fest",
            "weil ich mich auf das Fest freue",
        ),
        (
            Clause(phrase("house"), verb("bauen"), tense="past", passive=True),
            "the house was built",
            "das Haus wurde gebaut",
            "weil das Haus gebaut wurde",
        ),
        (
            Clause(phrase("house"), verb("bauen"), modal=CAN, passive=True),
            "the house can be built",
            "das Haus kann gebaut werden",
            "weil das Haus gebaut werden kann",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value[:4] != "weil" else "",
)
def test_word_order(clause, english, main, subordinate):
    assert language.english_statement(clause) == english
    assert language.german_statement(clause) == main
    assert language.german_subordinate(clause, "weil") == subordinate


def test_questions():
    clause = Clause(MAN, verb("aufmachen"), tense="past", accusative=phrase("door"))
    assert language.english_question(clause) == "did the man open the door"
    assert language.german_question(clause) == "machte der Mann die Tür auf"
    assert language.german_question(clause, "warum") == "warum machte der Mann die Tür auf"


def test_infinitives_with_zu():
    clause = Clause(MAN, verb("aufmachen"), accusative=phrase("window"))
    assert language.german_infinitive(clause) == "das Fenster aufzumachen"
    bought = Clause(MAN, verb("kaufen"), accusative=phrase("car", determiner=language.A))
    assert language.german_infinitive(bought, "um") == "um ein Auto zu kaufen"
    assert language.english_infinitive(bought) == "to buy a car"


@pytest.mark.parametrize(
    ("head", "case", "expected"),
    [
        (phrase("man"), "accusative", "den"),
        (phrase("woman"), "dative", "der"),
        (phrase("child"), "nominative", "das"),
        (phrase("child", True), "dative", "denen"),
    ],
)
def test_relative_pronouns(head, case, expected):
    assert language.relative_pronoun(head, case) == expected


def test_a_relative_clause_stands_between_commas():
    forms = tuple(language.relative_pronoun(MAN, case) for case in lexicon.CASES)
    inner = Clause(language.Phrase("who", forms), verb("lesen"), accusative=phrase("book"))
    relative = Pair(language.english_statement(inner), language.german_subordinate(inner))
    clause = Clause(language.with_relative(MAN, relative), verb("schlafen"))
    assert language.finish(
        language.english_statement(clause), language.german_statement(clause)
    ) == (
        "The man who reads the book sleeps.",
        "Der Mann, der das Buch liest, schläft.",
    )


@pytest.mark.parametrize(
    ("infinitive", "forms"),
    [
        ("halten", "halte hältst hält halten"),
        ("lesen", "lese liest liest lesen"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten"),
        ("sammeln", "sammle sammelst sammelt sammeln"),
        ("betreten", "betrete betrittst betritt betreten"),
        ("wissen", "weiß weißt weiß wissen"),
    ],
)
def test_present_tense(infinitive, forms):
    singular = [verb(infinitive).german_present(person, False) for person in (1, 2, 3)]
    assert [*singular, verb(infinitive).german_present(3, True)] == forms.split()
