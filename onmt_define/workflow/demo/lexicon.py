"""The words of the demo corpus: hand-written English-German tables and how each word inflects.

Order matters in every table: the corpus draws words by rank (Zipf), so what stands first is
common and what stands last is rare. Within a table of nouns an entry reads

    English[/plural]  gender  German [plural]        gender: m, f, n, or w (weak masculine)

and an underscore stands for a space. A noun without a German plural is a mass noun; a job adds the
German feminine. An entry of a verb table reads

    English [past participle] [particle] / German [3rd-singular preterite participle] / kinds

with only the infinitive for a regular verb, `|` after a separable prefix, `sich` for a reflexive
verb, `sein` for one that forms its perfect with it, `+for` for an English preposition and `~up`
for a particle that moves behind a pronoun ("picks him up"). The kinds are those of the objects.
"""

import re
from dataclasses import dataclass, replace
from functools import cache

CASES = ("nominative", "accusative", "dative")


@dataclass(frozen=True)
class Noun:
    """One noun of both languages; `german_plural` is empty for a mass noun."""

    kind: str
    english: str
    english_plural: str
    gender: str
    german: str
    german_plural: str
    weak: bool = False
    feminine: str = ""

    @property
    def countable(self) -> bool:
        """Whether the noun has a plural."""
        return bool(self.german_plural)

    def english_form(self, plural: bool) -> str:
        """Return the English singular or plural."""
        return self.english_plural if plural else self.english

    def german_form(self, case: str, plural: bool) -> str:
        """Return the German form of a case (one of `CASES`)."""
        if plural:
            adds_n = case == "dative" and self.german_plural[-1] not in "ns"
            return self.german_plural + "n" * adds_n
        # A weak masculine noun has one form for all that isn't the nominative singular.
        return self.german_plural if self.weak and case != "nominative" else self.german


@dataclass(frozen=True)
class Place:
    """A noun with the prepositions for being there and for going there."""

    noun: Noun
    english_at: str
    german_at: str
    german_to: str
    case_to: str


@dataclass(frozen=True)
class Adjective:
    """One adjective: `stem` takes the German endings, the comparatives may be empty."""

    english: str
    german: str
    stem: str
    english_comparative: str = ""
    german_comparative: str = ""


@dataclass(frozen=True)
class Verb:
    """One verb of both languages with its principal parts."""

    english: str
    english_past: str
    english_participle: str
    infinitive: str
    third_singular: str
    preterite: str
    participle: str
    kinds: tuple[str, ...] = ()
    particle: str = ""
    particle_moves: bool = False
    prefix: str = ""
    reflexive: bool = False
    auxiliary: str = "haben"
    preposition: str = ""
    case: str = "accusative"
    stative: bool = False

    @property
    def past_is_ambiguous(self) -> bool:
        """Whether English doesn't show the past tense ("they put")."""
        return self.english == self.english_past

    def german_infinitive(self, with_zu: bool = False) -> str:
        """Return the infinitive, with "zu" inside after a separable prefix."""
        if not with_zu:
            return self.prefix + self.infinitive
        return f"{self.prefix}zu{self.infinitive}" if self.prefix else f"zu {self.infinitive}"

    def german_participle(self) -> str:
        """Return the past participle with its prefix."""
        return self.prefix + self.participle

    def german_present(self, person: int, plural: bool) -> str:
        """Return the present tense without a separable prefix; no second person plural."""
        if plural:
            return "sind" if self.infinitive == "sein" else self.infinitive
        if self.infinitive in IRREGULAR_PRESENT:
            return IRREGULAR_PRESENT[self.infinitive][person - 1]
        return (self._first_singular(), self._second_singular(), self.third_singular)[person - 1]

    def german_past(self, person: int, plural: bool) -> str:
        """Return the preterite without a separable prefix; no second person plural."""
        if not plural:
            return self.preterite + ("st" if person == 2 else "")
        return self.preterite + ("n" if self.preterite.endswith("e") else "en")

    def _first_singular(self) -> str:
        if self.infinitive.endswith("eln"):
            return self.infinitive[:-3] + "le"
        return self.infinitive[:-1] + ("e" if self.infinitive.endswith("ern") else "")

    def _second_singular(self) -> str:
        stem = self.third_singular[:-1]
        if stem[-1] in "sßzx":
            return self.third_singular
        # hält - du hältst: the t belongs to the stem, it is no ending.
        stem_in_t = self.infinitive.endswith("ten") and not self.third_singular.endswith("et")
        return (self.third_singular if stem_in_t else stem) + "st"


@dataclass(frozen=True)
class Modal:
    """A modal verb; `english` and `english_past` without "to" are auxiliaries of their own."""

    english: str
    english_past: str
    infinitive: str
    singular: tuple[str, str, str]
    preterite: str
    takes_do: bool = False


IRREGULAR_PRESENT = {
    "sein": ("bin", "bist", "ist"),
    "haben": ("habe", "hast", "hat"),
    "werden": ("werde", "wirst", "wird"),
    "wissen": ("weiß", "weißt", "weiß"),
    "mögen": ("mag", "magst", "mag"),
}

# --- English forms -------------------------------------------------------------------------------

DOUBLED_BEFORE_ING = {"begin", "cut", "forget", "get", "put", "run", "sit", "swim", "win"}


def english_s(word: str) -> str:
    """Return a noun's regular plural, or a verb's third person: both add -s by the same rule."""
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def english_third_person(verb: str) -> str:
    """Return the third person singular of the present tense."""
    return {"have": "has", "do": "does", "go": "goes"}.get(verb) or english_s(verb)


def english_ed(verb: str) -> str:
    """Return a regular verb's past tense."""
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return verb + ("d" if verb.endswith("e") else "ed")


def english_ing(verb: Verb) -> str:
    """Return the present participle."""
    base = verb.english
    if base.endswith("ie"):
        return base[:-2] + "ying"
    doubled = base + base[-1] + "ed" == verb.english_past or base in DOUBLED_BEFORE_ING
    if doubled:
        return base + base[-1] + "ing"
    return (base[:-1] if re.search(r"[^eo]e$", base) else base) + "ing"


# --- German numbers and English ones ------------------------------------------------------------

ENGLISH_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
GERMAN_SMALL = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
)
GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"


def english_number(number: int) -> str:
    """Write out a number from 0 to 999 in English ("two hundred and twenty-one")."""
    if number < 20:
        return ENGLISH_SMALL.split()[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return ENGLISH_TENS.split()[tens - 2] + (f"-{ENGLISH_SMALL.split()[ones]}" if ones else "")
    hundreds, rest = divmod(number, 100)
    tail = f" and {english_number(rest)}" if rest else ""
    return f"{ENGLISH_SMALL.split()[hundreds]} hundred{tail}"


def german_number(number: int) -> str:
    """Write out a number from 0 to 999 in German ("zweihunderteinundzwanzig")."""
    if number < 20:
        return GERMAN_SMALL.split()[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        head = {0: "", 1: "einund"}.get(ones, f"{GERMAN_SMALL.split()[ones]}und")
        return head + GERMAN_TENS.split()[tens - 2]
    hundreds, rest = divmod(number, 100)
    head = "ein" if hundreds == 1 else GERMAN_SMALL.split()[hundreds]
    return f"{head}hundert" + (german_number(rest) if rest else "")


# --- Reading the tables --------------------------------------------------------------------------


def _entries(table: str) -> list[str]:
    return [entry.strip() for entry in re.split(r"[;\n]", table) if entry.strip()]


def _spaced(text: str) -> str:
    return text.replace("_", " ")


def _read_noun(kind: str, entry: str) -> Noun:
    english, gender, german, *more = (_spaced(field) for field in entry.split())
    singular, _, plural = english.partition("/")
    german_plural = more[0] if more else ""
    return Noun(
        kind=kind,
        english=singular,
        english_plural=(plural or english_s(singular)) if more else "",
        gender="m" if gender == "w" else gender,
        german=german,
        german_plural=german_plural,
        weak=gender == "w",
        feminine=more[1] if len(more) > 1 else "",
    )


def _read_place(entry: str) -> Place:
    *noun, english_at, german_at, to = entry.split()
    preposition, case = to.split(":")
    full_case = {"a": "accusative", "d": "dative"}[case]
    return Place(_read_noun("place", " ".join(noun)), english_at, german_at, preposition, full_case)


def _read_adjective(entry: str) -> Adjective:
    english, german, *more = (_spaced(field) for field in entry.split())
    stem = IRREGULAR_STEMS.get(german, german.removesuffix("e"))
    return Adjective(english, german, stem, *more)


UNSTRESSED_PREFIX = r"^(be|emp|ent|er|ge|über|unter|ver|wider|wieder|zer)"


def _regular_forms(infinitive: str) -> list[str]:
    stem = infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]
    link = "e" if re.search(r"([td]|[bdfgkt]n|chn|tm)$", stem) else ""
    bare = infinitive.endswith("ieren") or re.search(UNSTRESSED_PREFIX, infinitive)
    participle = ("" if bare else "ge") + f"{stem}{link}t"
    return [f"{stem}{link}t", f"{stem}{link}te", participle]


def _read_verb(entry: str) -> Verb:
    english, german, kinds, *flags = (part.strip() for part in entry.split("/"))
    words = english.split()
    particle = words.pop() if words[-1][0] in "+~" else ""
    base, past, participle = words if len(words) == 3 else [words[0], *[english_ed(words[0])] * 2]
    tokens = german.split()
    plain = [word for word in tokens[1:] if word not in ("sich", "sein") and ":" not in word]
    first, *parts = plain if tokens[0] == "sich" else [tokens[0], *plain]
    prefix, _, infinitive = first.rpartition("|")
    third_singular, preterite, german_participle = parts or _regular_forms(infinitive)
    governed = next((word for word in tokens if ":" in word), ":a")
    preposition, case = governed.split(":")
    return Verb(
        english=base,
        english_past=past,
        english_participle=participle,
        infinitive=infinitive,
        third_singular=third_singular,
        preterite=preterite,
        participle=german_participle,
        kinds=tuple(kinds.split()),
        particle=_spaced(particle[1:]),
        particle_moves=particle.startswith("~"),
        prefix=prefix,
        reflexive="sich" in tokens,
        auxiliary="sein" if tokens[-1] == "sein" else "haben",
        preposition=preposition,
        case={"a": "accusative", "d": "dative"}[case],
        stative="stative" in flags,
    )


def _read_pairs(table: str) -> tuple[tuple[str, str], ...]:
    sides = (entry.partition("=") for entry in _entries(table))
    return tuple((english.strip(), german.strip()) for english, _, german in sides)


# --- Nouns ---------------------------------------------------------------------------------------

NOUN_TABLES = {
    "person": """
man/men m Mann Männer; woman/women f Frau Frauen; child/children n Kind Kinder
friend m Freund Freunde; girl n Mädchen Mädchen; boy w Junge Jungen; mother f Mutter Mütter
father m Vater Väter; brother m Bruder Brüder; sister f Schwester Schwestern; son m Sohn Söhne
daughter f Tochter Töchter; guest m Gast Gäste; uncle m Onkel Onkel; aunt f Tante Tanten
grandmother f Großmutter Großmütter; grandfather m Großvater Großväter; boss m Chef Chefs
baby n Baby Babys; wife/wives f Ehefrau Ehefrauen; husband m Ehemann Ehemänner
visitor m Besucher Besucher; king m König Könige; queen f Königin Königinnen
nephew w Neffe Neffen; niece f Nichte Nichten; thief/thieves m Dieb Diebe
witness w Zeuge Zeugen; winner m Gewinner Gewinner; passenger m Passagier Passagiere
owner m Besitzer Besitzer; grandson m Enkel Enkel; granddaughter f Enkelin Enkelinnen
prince w Prinz Prinzen; princess f Prinzessin Prinzessinnen; hero/heroes w Held Helden
opponent m Gegner Gegner; robber m Räuber Räuber; pirate w Pirat Piraten; clown m Clown Clowns
knight m Ritter Ritter; monk m Mönch Mönche; witch f Hexe Hexen; wizard m Zauberer Zauberer
giant w Riese Riesen; dwarf/dwarves m Zwerg Zwerge; ghost m Geist Geister
twin m Zwilling Zwillinge; nun f Nonne Nonnen; emperor m Kaiser Kaiser; angel m Engel Engel
""",
    "job": """
teacher m Lehrer Lehrer Lehrerin; doctor m Arzt Ärzte Ärztin; student w Student Studenten Studentin
neighbour w Nachbar Nachbarn Nachbarin; colleague w Kollege Kollegen Kollegin
pupil m Schüler Schüler Schülerin; cook m Koch Köche Köchin; customer w Kunde Kunden Kundin
singer m Sänger Sänger Sängerin; engineer m Ingenieur Ingenieure Ingenieurin
baker m Bäcker Bäcker Bäckerin; farmer w Bauer Bauern Bäuerin; driver m Fahrer Fahrer Fahrerin
police_officer w Polizist Polizisten Polizistin; lawyer m Anwalt Anwälte Anwältin
actor m Schauspieler Schauspieler Schauspielerin; waiter m Kellner Kellner Kellnerin
writer m Schriftsteller Schriftsteller Schriftstellerin; artist m Künstler Künstler Künstlerin
painter m Maler Maler Malerin; player m Spieler Spieler Spielerin
journalist w Journalist Journalisten Journalistin; pilot w Pilot Piloten Pilotin
musician m Musiker Musiker Musikerin; trainer m Trainer Trainer Trainerin
tourist w Tourist Touristen Touristin; judge m Richter Richter Richterin
soldier w Soldat Soldaten Soldatin; nurse m Pfleger Pfleger Pflegerin
dentist m Zahnarzt Zahnärzte Zahnärztin; professor m Professor Professoren Professorin
director m Direktor Direktoren Direktorin; gardener m Gärtner Gärtner Gärtnerin
scientist m Wissenschaftler Wissenschaftler Wissenschaftlerin
mayor m Bürgermeister Bürgermeister Bürgermeisterin; secretary m Sekretär Sekretäre Sekretärin
dancer m Tänzer Tänzer Tänzerin; hairdresser m Friseur Friseure Friseurin
butcher m Metzger Metzger Metzgerin; carpenter m Tischler Tischler Tischlerin
mechanic m Mechaniker Mechaniker Mechanikerin; architect w Architekt Architekten Architektin
photographer w Fotograf Fotografen Fotografin; fisherman/fishermen m Fischer Fischer Fischerin
programmer m Programmierer Programmierer Programmiererin; poet m Dichter Dichter Dichterin
detective m Detektiv Detektive Detektivin; postman/postmen m Briefträger Briefträger Briefträgerin
physicist m Physiker Physiker Physikerin; chemist m Chemiker Chemiker Chemikerin
translator m Übersetzer Übersetzer Übersetzerin; author m Autor Autoren Autorin
electrician m Elektriker Elektriker Elektrikerin; tailor m Schneider Schneider Schneiderin
historian m Historiker Historiker Historikerin; manager m Manager Manager Managerin
inventor m Erfinder Erfinder Erfinderin; sailor w Matrose Matrosen Matrosin
cyclist m Radfahrer Radfahrer Radfahrerin; biologist w Biologe Biologen Biologin
psychologist w Psychologe Psychologen Psychologin; politician m Politiker Politiker Politikerin
magician m Magier Magier Magierin; astronaut w Astronaut Astronauten Astronautin
""",
    "animal": """
dog m Hund Hunde; cat f Katze Katzen; horse n Pferd Pferde; bird m Vogel Vögel; cow f Kuh Kühe
mouse/mice f Maus Mäuse; pig n Schwein Schweine; bear w Bär Bären; lion w Löwe Löwen
rabbit n Kaninchen Kaninchen; duck f Ente Enten; wolf/wolves m Wolf Wölfe; fox m Fuchs Füchse
elephant w Elefant Elefanten; monkey w Affe Affen; snake f Schlange Schlangen
frog m Frosch Frösche; goat f Ziege Ziegen; donkey m Esel Esel; goose/geese f Gans Gänse
tiger m Tiger Tiger; hen f Henne Hennen; bee f Biene Bienen; spider f Spinne Spinnen
butterfly m Schmetterling Schmetterlinge; owl f Eule Eulen; eagle m Adler Adler
hare w Hase Hasen; camel n Kamel Kamele; parrot m Papagei Papageien; swan m Schwan Schwäne
puppy w Welpe Welpen; hedgehog m Igel Igel; turtle f Schildkröte Schildkröten
crocodile n Krokodil Krokodile; penguin m Pinguin Pinguine; whale m Wal Wale
dolphin m Delfin Delfine; giraffe f Giraffe Giraffen; hamster m Hamster Hamster
zebra n Zebra Zebras; squirrel n Eichhörnchen Eichhörnchen; beetle m Käfer Käfer
crow f Krähe Krähen; rat f Ratte Ratten; kangaroo n Känguru Kängurus; ant f Ameise Ameisen
pigeon f Taube Tauben; dragon w Drache Drachen; snail f Schnecke Schnecken
""",
    "food": """
apple m Apfel Äpfel; bread n Brot; cake m Kuchen Kuchen; egg n Ei Eier; cheese m Käse
soup f Suppe Suppen; potato/potatoes f Kartoffel Kartoffeln; meat n Fleisch
tomato/tomatoes f Tomate Tomaten; salad m Salat Salate; sausage f Wurst Würste
chocolate f Schokolade; banana f Banane Bananen; rice m Reis; roll n Brötchen Brötchen
ice_cream n Eis; pizza f Pizza Pizzas; cherry f Kirsche Kirschen; butter f Butter
orange f Orange Orangen; pear f Birne Birnen; biscuit m Keks Kekse; honey m Honig
jam f Marmelade; strawberry f Erdbeere Erdbeeren; ham m Schinken; onion f Zwiebel Zwiebeln
carrot f Karotte Karotten; mushroom m Pilz Pilze; lemon f Zitrone Zitronen; nut f Nuss Nüsse
yoghurt m Joghurt; plum f Pflaume Pflaumen; peach m Pfirsich Pfirsiche
pancake m Pfannkuchen Pfannkuchen; grape f Traube Trauben; cucumber f Gurke Gurken
spinach m Spinat; pumpkin m Kürbis Kürbisse; cabbage m Kohl; omelette n Omelett Omeletts
cream f Sahne; bean f Bohne Bohnen; pea f Erbse Erbsen; noodle f Nudel Nudeln
""",
    "drink": """
water n Wasser; coffee m Kaffee; milk f Milch; tea m Tee; beer n Bier; wine m Wein; juice m Saft
lemonade f Limonade; cocoa m Kakao; champagne m Champagner
""",
    "text": """
book n Buch Bücher; letter m Brief Briefe; newspaper f Zeitung Zeitungen
story f Geschichte Geschichten; novel m Roman Romane; poem n Gedicht Gedichte
report m Bericht Berichte; article m Artikel Artikel; message f Nachricht Nachrichten
text m Text Texte; magazine f Zeitschrift Zeitschriften; list f Liste Listen
recipe n Rezept Rezepte; fairy_tale n Märchen Märchen; postcard f Postkarte Postkarten
contract m Vertrag Verträge; diary n Tagebuch Tagebücher; dictionary n Wörterbuch Wörterbücher
comic m Comic Comics; invoice f Rechnung Rechnungen; brochure f Broschüre Broschüren
""",
    "clothes": """
coat m Mantel Mäntel; hat m Hut Hüte; dress n Kleid Kleider; jacket f Jacke Jacken
shirt n Hemd Hemden; shoe m Schuh Schuhe; skirt m Rock Röcke; sweater m Pullover Pullover
cap f Mütze Mützen; boot m Stiefel Stiefel; scarf/scarves m Schal Schals
suit m Anzug Anzüge; glove m Handschuh Handschuhe; blouse f Bluse Blusen
ring m Ring Ringe; tie f Krawatte Krawatten; belt m Gürtel Gürtel; sock f Socke Socken
uniform f Uniform Uniformen; costume n Kostüm Kostüme; necklace f Halskette Halsketten
apron f Schürze Schürzen; bracelet n Armband Armbänder; helmet m Helm Helme
""",
    "furniture": """
table m Tisch Tische; chair m Stuhl Stühle; bed n Bett Betten; cupboard m Schrank Schränke
sofa n Sofa Sofas; shelf/shelves n Regal Regale; desk m Schreibtisch Schreibtische
bench f Bank Bänke; armchair m Sessel Sessel; carpet m Teppich Teppiche
stove m Herd Herde; fridge m Kühlschrank Kühlschränke; stool m Hocker Hocker
chest f Truhe Truhen; cradle f Wiege Wiegen
""",
    "thing": """
bag f Tasche Taschen; key m Schlüssel Schlüssel; picture n Bild Bilder; cup f Tasse Tassen
glass n Glas Gläser; present n Geschenk Geschenke; ball m Ball Bälle; bottle f Flasche Flaschen
photo n Foto Fotos; plate m Teller Teller; ticket f Fahrkarte Fahrkarten
umbrella m Regenschirm Regenschirme; suitcase m Koffer Koffer; knife/knives n Messer Messer
spoon m Löffel Löffel; toy n Spielzeug Spielzeuge; doll f Puppe Puppen; box f Kiste Kisten
basket m Korb Körbe; pencil m Bleistift Bleistifte; mirror m Spiegel Spiegel
candle f Kerze Kerzen; blanket f Decke Decken; fork f Gabel Gabeln; pot m Topf Töpfe
vase f Vase Vasen; pillow n Kissen Kissen; map f Landkarte Landkarten; coin f Münze Münzen
backpack m Rucksack Rucksäcke; stone m Stein Steine; stamp f Briefmarke Briefmarken
wallet f Brieftasche Brieftaschen; pan f Pfanne Pfannen; towel n Handtuch Handtücher
bowl f Schüssel Schüsseln; bell f Glocke Glocken; ladder f Leiter Leitern; tent n Zelt Zelte
hammer m Hammer Hämmer; rope n Seil Seile; bucket m Eimer Eimer; flag f Fahne Fahnen
tool n Werkzeug Werkzeuge; brush f Bürste Bürsten; treasure m Schatz Schätze
needle f Nadel Nadeln; broom m Besen Besen; crown f Krone Kronen; sword n Schwert Schwerter
button m Knopf Knöpfe; shovel f Schaufel Schaufeln; nail m Nagel Nägel; comb m Kamm Kämme
kettle m Kessel Kessel; statue f Statue Statuen; puzzle n Puzzle Puzzles
""",
    "device": """
computer m Computer Computer; lamp f Lampe Lampen; phone n Telefon Telefone; clock f Uhr Uhren
radio n Radio Radios; camera f Kamera Kameras; television m Fernseher Fernseher
machine f Maschine Maschinen; printer m Drucker Drucker
washing_machine f Waschmaschine Waschmaschinen
engine m Motor Motoren; fan m Ventilator Ventilatoren; robot m Roboter Roboter
heater f Heizung Heizungen; calculator m Taschenrechner Taschenrechner
""",
    "instrument": """
piano n Klavier Klaviere; guitar f Gitarre Gitarren; violin f Geige Geigen; flute f Flöte Flöten
trumpet f Trompete Trompeten; drum f Trommel Trommeln; harp f Harfe Harfen; cello n Cello Cellos
""",
    "opening": """
door f Tür Türen; window n Fenster Fenster; gate n Tor Tore; drawer f Schublade Schubladen
curtain m Vorhang Vorhänge; shutter m Fensterladen Fensterläden
""",
    "vehicle": """
car n Auto Autos; bicycle n Fahrrad Fahrräder; train m Zug Züge; bus m Bus Busse
ship n Schiff Schiffe; boat n Boot Boote; plane n Flugzeug Flugzeuge; taxi n Taxi Taxis
truck m Lastwagen Lastwagen; tram f Straßenbahn Straßenbahnen; motorcycle n Motorrad Motorräder
ferry f Fähre Fähren; helicopter m Hubschrauber Hubschrauber; tractor m Traktor Traktoren
ambulance m Krankenwagen Krankenwagen; carriage f Kutsche Kutschen; sledge m Schlitten Schlitten
canoe n Kanu Kanus; rocket f Rakete Raketen; scooter m Roller Roller
""",
    "event": """
film m Film Filme; party f Party Partys; concert n Konzert Konzerte; game n Spiel Spiele
meeting f Sitzung Sitzungen; wedding f Hochzeit Hochzeiten; exam f Prüfung Prüfungen
journey f Reise Reisen; course m Kurs Kurse; festival n Fest Feste; trip m Ausflug Ausflüge
race n Rennen Rennen; exhibition f Ausstellung Ausstellungen; birthday m Geburtstag Geburtstage
conference f Konferenz Konferenzen; lecture f Vorlesung Vorlesungen
performance f Aufführung Aufführungen; interview n Interview Interviews
celebration f Feier Feiern; tournament n Turnier Turniere; opera f Oper Opern
""",
    "idea": """
question f Frage Fragen; problem n Problem Probleme; idea f Idee Ideen; answer f Antwort Antworten
plan m Plan Pläne; word n Wort Wörter; mistake m Fehler Fehler; rule f Regel Regeln
task f Aufgabe Aufgaben; dream m Traum Träume; secret n Geheimnis Geheimnisse
language f Sprache Sprachen; joke m Witz Witze; name w Name Namen; sentence m Satz Sätze
decision f Entscheidung Entscheidungen; solution f Lösung Lösungen; law n Gesetz Gesetze
reason m Grund Gründe; theory f Theorie Theorien; method f Methode Methoden
project n Projekt Projekte; riddle n Rätsel Rätsel; proposal m Vorschlag Vorschläge
promise n Versprechen Versprechen; adventure n Abenteuer Abenteuer
""",
    "song": "song n Lied Lieder; melody f Melodie Melodien; hymn f Hymne Hymnen",
    "plant": """
flower f Blume Blumen; tree m Baum Bäume; rose f Rose Rosen; bush m Busch Büsche
tulip f Tulpe Tulpen; hedge f Hecke Hecken; oak f Eiche Eichen; cactus/cacti m Kaktus Kakteen
palm f Palme Palmen; herb n Kraut Kräuter; sunflower f Sonnenblume Sonnenblumen
fir f Tanne Tannen; orchid f Orchidee Orchideen
""",
}

# After the noun: "at" in English and German, and the German "to" with its case.
PLACE_TABLE = """
house n Haus Häuser in in zu:d; garden m Garten Gärten in in in:a; city f Stadt Städte in in in:a
school f Schule Schulen in in in:a; kitchen f Küche Küchen in in in:a; park m Park Parks in in in:a
station m Bahnhof Bahnhöfe at an zu:d; hotel n Hotel Hotels in in in:a
restaurant n Restaurant Restaurants in in in:a; forest m Wald Wälder in in in:a
office n Büro Büros in in in:a; shop m Laden Läden in in in:a; cinema n Kino Kinos in in in:a
hospital n Krankenhaus Krankenhäuser in in in:a; market m Markt Märkte at auf auf:a
village n Dorf Dörfer in in in:a; museum n Museum Museen in in in:a; lake m See Seen at an an:a
theatre n Theater Theater in in in:a; flat f Wohnung Wohnungen in in in:a
church f Kirche Kirchen in in in:a; street f Straße Straßen in auf auf:a
beach m Strand Strände on an an:a; airport m Flughafen Flughäfen at an zu:d
library f Bibliothek Bibliotheken in in in:a; supermarket m Supermarkt Supermärkte in in in:a
mountain m Berg Berge on auf auf:a; bridge f Brücke Brücken on auf auf:a
island f Insel Inseln on auf auf:a; castle n Schloss Schlösser in in in:a
river m Fluss Flüsse at an an:a; café n Café Cafés in in in:a; factory f Fabrik Fabriken in in in:a
bakery f Bäckerei Bäckereien in in in:a; bathroom n Badezimmer Badezimmer in in in:a
bedroom n Schlafzimmer Schlafzimmer in in in:a; living_room n Wohnzimmer Wohnzimmer in in in:a
farm m Bauernhof Bauernhöfe on auf auf:a; university f Universität Universitäten at an an:a
zoo m Zoo Zoos in in in:a; meadow f Wiese Wiesen in auf auf:a; cellar m Keller Keller in in in:a
tower m Turm Türme in in in:a; stadium n Stadion Stadien in in in:a
balcony m Balkon Balkone on auf auf:a
pharmacy f Apotheke Apotheken in in in:a; field n Feld Felder in auf auf:a
swimming_pool n Schwimmbad Schwimmbäder in in in:a
classroom n Klassenzimmer Klassenzimmer in in in:a
playground m Spielplatz Spielplätze on auf auf:a; harbour m Hafen Häfen in in in:a
roof n Dach Dächer on auf auf:a; garage f Garage Garagen in in in:a
town_hall n Rathaus Rathäuser in in in:a; terrace f Terrasse Terrassen on auf auf:a
bus_stop f Bushaltestelle Bushaltestellen at an zu:d; workshop f Werkstatt Werkstätten in in in:a
prison n Gefängnis Gefängnisse in in in:a; cave f Höhle Höhlen in in in:a
stable m Stall Ställe in in in:a
valley n Tal Täler in in in:a; clinic f Klinik Kliniken in in in:a
palace m Palast Paläste in in in:a
laboratory n Labor Labore in in in:a; desert f Wüste Wüsten in in in:a
cemetery m Friedhof Friedhöfe in auf auf:a; canteen f Kantine Kantinen in in in:a
"""

# Each row: the modifiers (English = first part of the German compound), then the heads.
COMPOUND_TABLES = (
    (
        "kitchen=Küchen; garden=Garten; office=Büro; school=Schul; hotel=Hotel; cellar=Keller; "
        "bedroom=Schlafzimmer; bathroom=Badezimmer; museum=Museums; church=Kirchen; "
        "hospital=Krankenhaus; castle=Schloss; theatre=Theater; library=Bibliotheks",
        "table; chair; door; window; lamp; key; clock; cupboard; mirror; carpet; shelf; bench",
    ),
    (
        "winter=Winter; summer=Sommer; leather=Leder; wool=Woll; sports=Sport; silk=Seiden; "
        "cotton=Baumwoll; fur=Pelz; velvet=Samt; linen=Leinen",
        "coat; jacket; shoe; dress; cap; scarf; glove; hat; boot; blouse",
    ),
    (
        "apple=Apfel; cherry=Kirsch; plum=Pflaumen; strawberry=Erdbeer; lemon=Zitronen; "
        "orange=Orangen; banana=Bananen; peach=Pfirsich; raspberry=Himbeer; apricot=Aprikosen; "
        "blueberry=Heidelbeer; pear=Birnen",
        "cake; juice; jam; ice cream; yoghurt; lemonade",
    ),
    (
        "tomato=Tomaten; potato=Kartoffel; onion=Zwiebel; pumpkin=Kürbis; vegetable=Gemüse; "
        "fish=Fisch; mushroom=Pilz; bean=Bohnen; carrot=Karotten; noodle=Nudel; lentil=Linsen; "
        "cucumber=Gurken; pea=Erbsen; chicken=Hühner",
        "soup; salad",
    ),
    (
        "wooden=Holz; glass=Glas; plastic=Plastik; metal=Metall; silver=Silber; gold=Gold; "
        "paper=Papier; iron=Eisen; porcelain=Porzellan; bronze=Bronze",
        "box; bowl; plate; spoon; ring; toy; ball; door; table; vase; cup; statue",
    ),
    (
        "love=Liebes; adventure=Abenteuer; crime=Kriminal; horror=Horror; ghost=Geister; "
        "family=Familien; travel=Reise; animal=Tier",
        "story; film; novel; book",
    ),
    (
        "history=Geschichts; mathematics=Mathematik; music=Musik; art=Kunst; physics=Physik; "
        "chemistry=Chemie; biology=Biologie; geography=Geografie; dance=Tanz; ski=Ski",
        "teacher; course; exam; student; lecture",
    ),
    (
        "football=Fußball; tennis=Tennis; chess=Schach; handball=Handball; hockey=Hockey; "
        "volleyball=Volleyball; basketball=Basketball; golf=Golf",
        "game; player; trainer; tournament",
    ),
    (
        "city=Stadt; village=Dorf; forest=Wald; mountain=Berg; island=Insel; beach=Strand; "
        "lake=See; harbour=Hafen",
        "hotel; street; restaurant; school; church; library; theatre; café; park",
    ),
    (
        "birthday=Geburtstags; Christmas=Weihnachts; wedding=Hochzeits; farewell=Abschieds; "
        "Easter=Oster; anniversary=Jubiläums",
        "party; present; cake; celebration; card; song; letter",
    ),
    (
        "police=Polizei; school=Schul; company=Firmen; rental=Miet; family=Familien; "
        "racing=Renn; government=Regierungs",
        "car; boat; bus",
    ),
)

# Nouns that only occur as the head of a compound.
HEADS_ONLY = "card f Karte Karten"

# --- Adjectives ----------------------------------------------------------------------------------

IRREGULAR_STEMS = {"teuer": "teur", "dunkel": "dunkl", "sauer": "saur", "hoch": "hoh"}

# English, German and, for what can be compared, both comparatives.
ADJECTIVE_TABLE = """
old alt older älter; young jung younger jünger; new neu newer neuer; big groß bigger größer
tall groß taller größer; small klein smaller kleiner; good gut better besser
bad schlecht worse schlechter
beautiful schön more_beautiful schöner; friendly freundlich friendlier freundlicher
tired müde more_tired müder; happy glücklich happier glücklicher; sad traurig sadder trauriger
clever klug cleverer klüger; strong stark stronger stärker; weak schwach weaker schwächer
rich reich richer reicher; poor arm poorer ärmer; famous berühmt more_famous berühmter
ill krank; healthy gesund healthier gesünder; hungry hungrig hungrier hungriger
thirsty durstig; nice nett nicer netter; polite höflich more_polite höflicher
lazy faul lazier fauler; brave mutig braver mutiger; angry wütend angrier wütender
funny lustig funnier lustiger; curious neugierig more_curious neugieriger
shy schüchtern shyer schüchterner; diligent fleißig more_diligent fleißiger
patient geduldig more_patient geduldiger; proud stolz prouder stolzer; jealous eifersüchtig
honest ehrlich more_honest ehrlicher; lonely einsam lonelier einsamer; experienced erfahren
talented begabt; modest bescheiden more_modest bescheidener; strict streng stricter strenger
nervous nervös more_nervous nervöser; stubborn stur more_stubborn sturer; generous großzügig
reliable zuverlässig more_reliable zuverlässiger
intelligent intelligent more_intelligent intelligenter
wild wild wilder wilder; dangerous gefährlich more_dangerous gefährlicher; fat dick fatter dicker
thin dünn thinner dünner; slow langsam slower langsamer; fast schnell faster schneller; tame zahm
expensive teuer more_expensive teurer; cheap billig cheaper billiger
ugly hässlich uglier hässlicher
heavy schwer heavier schwerer; light leicht lighter leichter; round rund; broken kaputt
clean sauber cleaner sauberer; dirty schmutzig dirtier schmutziger
modern modern more_modern moderner; empty leer; full voll
practical praktisch more_practical praktischer
useful nützlich more_useful nützlicher; strange seltsam stranger seltsamer
valuable wertvoll more_valuable wertvoller; long lang longer länger; short kurz shorter kürzer
wide breit wider breiter; narrow schmal narrower schmaler; soft weich softer weicher
hard hart harder härter; warm warm warmer wärmer; cold kalt colder kälter; hot heiß hotter heißer
wet nass wetter nasser; dry trocken drier trockener; dark dunkel darker dunkler
bright hell brighter heller
colourful bunt; simple einfach simpler einfacher; comfortable bequem more_comfortable bequemer
fresh frisch fresher frischer; sweet süß sweeter süßer; sour sauer; delicious lecker
salty salzig; ripe reif riper reifer; raw roh; bitter bitter; frozen gefroren
interesting interessant more_interesting interessanter; boring langweilig more_boring langweiliger
exciting spannend more_exciting spannender; important wichtig more_important wichtiger
difficult schwierig more_difficult schwieriger; quiet ruhig quieter ruhiger; loud laut louder lauter
huge riesig; tiny winzig; high hoch higher höher; low niedrig lower niedriger
successful erfolgreich more_successful erfolgreicher; terrible schrecklich; wonderful wunderbar
perfect perfekt; popular beliebt more_popular beliebter; secret geheim
mysterious geheimnisvoll more_mysterious geheimnisvoller; electric elektrisch; digital digital
typical typisch; romantic romantisch more_romantic romantischer; historical historisch
private privat
public öffentlich; correct richtig; wrong falsch
complicated kompliziert more_complicated komplizierter
logical logisch more_logical logischer; realistic realistisch more_realistic realistischer
political politisch; scientific wissenschaftlich; elegant elegant more_elegant eleganter
crazy verrückt crazier verrückter; rare selten rarer seltener; magic magisch; unusual ungewöhnlich
annual jährlich
red rot; blue blau; green grün; black schwarz; white weiß; yellow gelb; brown braun; grey grau
purple violett; German deutsch; French französisch; English englisch; Italian italienisch
American amerikanisch; Spanish spanisch; Russian russisch; Chinese chinesisch
Japanese japanisch; Turkish türkisch; Polish polnisch; Swedish schwedisch; Greek griechisch
Austrian österreichisch; Indian indisch; Dutch niederländisch; Danish dänisch; Irish irisch
Portuguese portugiesisch; Norwegian norwegisch; Hungarian ungarisch; Mexican mexikanisch
"""

NATIONALITIES = (
    "German French English Italian American Spanish Russian Chinese Japanese Turkish Polish "
    "Swedish Greek Austrian Indian Dutch Danish Irish Portuguese Norwegian Hungarian Mexican"
)
COLOURS = "red blue green black white yellow brown grey purple"

PERSON_ADJECTIVES = (
    "old young friendly tired happy tall sad clever small strong rich poor famous ill nice hungry "
    "brave polite lazy funny angry curious healthy shy proud honest patient nervous diligent "
    "thirsty weak strict lonely generous jealous talented modest stubborn intelligent experienced "
    f"reliable crazy strange elegant {NATIONALITIES}"
)
ADJECTIVES_OF_KIND = {
    "person": PERSON_ADJECTIVES,
    "job": PERSON_ADJECTIVES,
    "animal": (
        "small big old young hungry dangerous wild tired beautiful fast black white fat strange "
        "slow brown clever ill lazy thirsty quiet loud curious grey strong tame healthy thin "
        "lonely huge tiny ugly brave intelligent colourful shy nervous"
    ),
    "food": (
        "fresh good sweet cold delicious warm hot cheap sour red green expensive ripe bad salty "
        "yellow raw bitter frozen French Italian Dutch Greek Spanish"
    ),
    "drink": (
        "cold hot fresh good warm sweet delicious cheap bitter expensive sour German Italian "
        "Indian Chinese French Spanish"
    ),
    "text": (
        "new long interesting short old boring exciting important good funny sad strange "
        "difficult bad famous secret beautiful romantic mysterious useful historical political "
        f"scientific complicated {NATIONALITIES}"
    ),
    "clothes": (
        "new red warm black old blue beautiful expensive white long green short dirty elegant "
        "clean grey cheap wet brown yellow modern ugly colourful practical dry thin light heavy "
        "comfortable wide narrow purple Italian French Irish"
    ),
    "furniture": (
        "old new big small heavy white brown expensive beautiful comfortable modern cheap round "
        "clean practical long hard soft ugly dark wide narrow low high Swedish Italian"
    ),
    "thing": (
        "new old small big red heavy beautiful expensive blue broken black light empty green "
        "dirty white cheap full clean round practical useful strange valuable yellow colourful "
        "ugly soft hard simple tiny modern grey magic unusual purple Chinese Turkish Japanese "
        "Mexican"
    ),
    "device": (
        "new old expensive modern broken big small cheap useful practical loud black electric "
        "digital heavy simple complicated Japanese American Chinese"
    ),
    "instrument": (
        "old new expensive beautiful small valuable loud heavy cheap broken big Italian"
    ),
    "opening": "old big white heavy small new green dirty high narrow wide wet blue",
    "vehicle": (
        "new fast old red big expensive slow blue small white black modern green comfortable "
        "cheap dirty yellow heavy electric loud broken German Italian Swedish American Japanese"
    ),
    "place": (
        "old big new small beautiful quiet famous modern dark huge strange white clean expensive "
        "empty ugly dirty dangerous loud public private cold historical popular mysterious "
        "romantic bright French Austrian Polish Norwegian Hungarian Danish Portuguese"
    ),
    "event": (
        "long good interesting big important boring short new bad exciting beautiful successful "
        "wonderful terrible difficult funny strange dangerous romantic expensive popular unusual "
        "annual political scientific French Indian Russian"
    ),
    "idea": (
        "new good difficult important interesting old strange bad simple long clever dangerous "
        "secret correct wrong complicated logical realistic boring terrible wonderful perfect "
        "crazy typical practical scientific"
    ),
    "song": (
        "old beautiful new sad long funny loud romantic short famous French Irish Russian Swedish"
    ),
    "plant": "small beautiful red old big white yellow green tall strange fresh blue dry rare",
}

# --- Verbs ---------------------------------------------------------------------------------------

BE = "be was been / sein ist war gewesen sein / / stative"
BECOME = "become became become / werden wird wurde geworden sein /"
COST = "cost cost cost / kosten / / stative"
BELONG = "belong +to / gehören / / stative"
WEATHER_TABLE = (
    "rain / regnen /; snow / schneien /; storm / stürmen /; hail / hageln /; thunder / donnern /"
)
EVENT_VERB_TABLE = """
begin began begun / an|fangen fängt fing gefangen /
last / dauern / / stative
take took taken +place / statt|finden findet fand gefunden /
end / enden /
"""

HAVE = "have had had / haben hat hatte gehabt / thing animal idea vehicle device / stative"
TRANSITIVE_TABLE = f"""
see saw seen / sehen sieht sah gesehen / person animal job vehicle / stative
buy bought bought / kaufen / thing clothes food vehicle text drink device furniture
{HAVE}
read read read / lesen liest las gelesen / text
know knew known / kennen kennt kannte gekannt / person job place song / stative
find found found / finden findet fand gefunden / thing animal idea clothes
eat ate eaten / essen isst aß gegessen / food
drink drank drunk / trinken trinkt trank getrunken / drink
love loved loved / lieben / person animal job / stative
need / brauchen / thing clothes device furniture / stative
write wrote written / schreiben schreibt schrieb geschrieben / text
look +for / suchen / thing animal person
visit / besuchen / person job place
wear wore worn / tragen trägt trug getragen / clothes
sell sold sold / verkaufen / vehicle thing clothes food device
like / mögen mag mochte gemocht / food animal person drink song / stative
open / auf|machen / opening box bottle letter suitcase present umbrella
close / zu|machen / opening suitcase box book umbrella
call / an|rufen ruft rief gerufen / person job
hear heard heard / hören / song person animal / stative
meet met met / treffen trifft traf getroffen / person job
take took taken / nehmen nimmt nahm genommen / thing vehicle food
play / spielen / playing
speak spoke spoken / sprechen spricht sprach gesprochen / language
lose lost lost / verlieren verliert verlor verloren / thing clothes game race
forget forgot forgotten / vergessen vergisst vergaß vergessen / thing idea birthday
pick ~up / ab|holen / person thing job
invite / ein|laden lädt lud geladen / person job
wash / waschen wäscht wusch gewaschen / clothes vehicle dog
understand understood understood / verstehen versteht verstand verstanden / idea text / stative
repair / reparieren / vehicle device chair bed roof bridge
look +at / an|schauen / thing picture animal text
cook / kochen / soup potato egg rice meat noodle bean carrot cabbage spinach pea
use / benutzen / device thing vehicle
ask / fragen / person job
learn / lernen / language
clean / putzen / opening shoe vehicle bathroom kitchen
bring brought brought ~along / mit|bringen bringt brachte gebracht / food thing dog text
order / bestellen / food drink
watch / beobachten / animal person job
teach taught taught / unterrichten / pupil student language
draw drew drawn / zeichnen / animal plant house person
sing sang sung / singen singt sang gesungen / song
steal stole stolen / stehlen stiehlt stahl gestohlen / thing vehicle clothes
throw threw thrown ~away / weg|werfen wirft warf geworfen / thing text clothes
build built built / bauen / house boat bridge table tower school church hotel bed ship stable
feed fed fed / füttern / animal
hide hid hidden / verstecken / thing text chocolate
paint / malen / animal house plant mountain lake
explain / erklären / idea device
win won won / gewinnen gewinnt gewann gewonnen / game race tournament
switch ~on / ein|schalten / device
switch ~off / aus|schalten / device
solve / lösen / problem riddle task
greet / grüßen / person job
leave left left / verlassen verlässt verließ verlassen / place person
plant / pflanzen / plant
water / gießen gießt goss gegossen / plant
put put put ~on / an|ziehen zieht zog gezogen / clothes
take took taken ~off / aus|ziehen zieht zog gezogen / coat jacket shoe boot glove sock sweater
tidy ~up / auf|räumen / kitchen house bedroom office flat cellar garage classroom desk
marry / heiraten / person job
describe / beschreiben beschreibt beschrieb beschrieben / person thing picture
translate / übersetzen / text
prepare / vor|bereiten bereitet bereitete bereitet / event salad
wake woke woken / wecken / person dog
kiss / küssen / person animal
hug hugged hugged / umarmen umarmt umarmte umarmt / person job
carry / tragen trägt trug getragen / thing furniture suitcase
count / zählen / animal thing plant
collect / sammeln / stamp coin mushroom stone button doll
try tried tried ~on / an|probieren / clothes
catch caught caught / fangen fängt fing gefangen / animal thief ball
hate / hassen / person animal exam spinach / stative
save / retten / person animal
chase / verfolgen / animal thief person
bake / backen backt backte gebacken / cake bread roll biscuit pizza
photograph / fotografieren / animal place person
enter / betreten betritt betrat betreten / place
cross / überqueren / street bridge river field meadow
organise / organisieren / party concert trip festival race
answer / beantworten / question letter message
discuss / besprechen bespricht besprach besprochen / idea contract journey
hold held held / halten hält hielt gehalten / thing dog baby
cut cut cut / schneiden schneidet schnitt geschnitten / bread cheese meat cake tomato
peel / schälen / apple potato orange carrot onion pear
taste / probieren / food drink
recognise / erkennen erkennt erkannte erkannt / person vehicle song
accompany / begleiten / person job
support / unterstützen / person plan proposal
praise / loben / person job
criticise / kritisieren / text plan job
comfort / trösten / person
warn / warnen / person job
rent / mieten / flat boat house car bicycle
examine / untersuchen / animal thing person
invent / erfinden erfindet erfand erfunden / device story word
admire / bewundern / person statue plant
push / schieben schiebt schob geschoben / vehicle furniture
pull / ziehen zieht zog gezogen / sledge boat carriage suitcase
hang hung hung ~up / auf|hängen hängt hängte gehängt / picture coat mirror jacket
give gave given ~back / zurück|geben gibt gab gegeben / thing text
celebrate / feiern / birthday wedding festival
interrupt / unterbrechen unterbricht unterbrach unterbrochen / meeting person concert
destroy / zerstören / thing vehicle castle
protect / schützen / animal person plant
borrow / aus|leihen leiht lieh geliehen / text vehicle
decorate / schmücken / house church tree table
lock / ab|schließen schließt schloss geschlossen / door gate house drawer
print / drucken / text
measure / messen misst maß gemessen / window table carpet
polish / polieren / shoe instrument table
shout +at / an|schreien schreit schrie geschrien / person job
"""

DITRANSITIVE_TABLE = """
give gave given / geben gibt gab gegeben / thing food text
show showed shown / zeigen / picture thing place text photo
bring brought brought / bringen bringt brachte gebracht / food thing drink text
send sent sent / schicken / text present photo flower
tell told told / erzählen / story joke dream fairy_tale secret
sell sold sold / verkaufen / vehicle thing
lend lent lent / leihen leiht lieh geliehen / thing vehicle text
explain +to / erklären / idea device
read read read / vor|lesen liest las gelesen / story fairy_tale poem letter book
write wrote written / schreiben schreibt schrieb geschrieben / letter poem message postcard
offer / an|bieten bietet bot geboten / drink food
promise / versprechen verspricht versprach versprochen / present journey dog
describe +to / beschreiben beschreibt beschrieb beschrieben / plan picture dream
recommend +to / empfehlen empfiehlt empfahl empfohlen / text restaurant hotel film
"""

DATIVE_TABLE = """
help / helfen hilft half geholfen / person job
thank / danken / person job
follow / folgen sein / person job animal
believe / glauben / person job / stative
listen +to / zu|hören / person job
trust / vertrauen / person job / stative
answer / antworten / person job
congratulate / gratulieren / person job
serve / dienen / person
obey / gehorchen / person job
forgive forgave forgiven / verzeihen verzeiht verzieh verziehen / person
contradict / widersprechen widerspricht widersprach widersprochen / person job
resemble / ähneln / person job / stative
wave +to / zu|winken / person job
"""

INTRANSITIVE_TABLE = """
sleep slept slept / schlafen schläft schlief geschlafen /
work / arbeiten /
laugh / lachen /
dance / tanzen /
sing sang sung / singen singt sang gesungen /
wait / warten /
cry / weinen /
get got got ~up / auf|stehen steht stand gestanden sein /
swim swam swum / schwimmen schwimmt schwamm geschwommen sein /
arrive / an|kommen kommt kam gekommen sein /
smile / lächeln /
cook / kochen /
come came come ~back / zurück|kommen kommt kam gekommen sein /
fall fell fallen ~asleep / ein|schlafen schläft schlief geschlafen sein /
wake woke woken ~up / auf|wachen sein /
dream / träumen /
study / studieren /
shop shopped shopped / ein|kaufen /
shout / schreien schreit schrie geschrien /
run ran run / rennen rennt rannte gerannt sein /
go went gone ~away / weg|gehen geht ging gegangen sein /
rest / sich aus|ruhen /
hurry / sich beeilen /
smoke / rauchen /
whisper / flüstern /
pray / beten betet betete gebetet /
travel travelled travelled / reisen sein /
hike / wandern sein /
train / trainieren /
jump / springen springt sprang gesprungen sein /
disappear / verschwinden verschwindet verschwand verschwunden sein /
depart / ab|fahren fährt fuhr gefahren sein /
snore / schnarchen /
whistle / pfeifen pfeift pfiff gepfiffen /
cough / husten /
sneeze / niesen /
stumble / stolpern sein /
relax / sich entspannen /
move / um|ziehen zieht zog gezogen sein /
freeze froze frozen / frieren friert fror gefroren /
joke / scherzen /
yawn / gähnen /
sigh / seufzen /
run ran run ~away / weg|laufen läuft lief gelaufen sein /
lose lost lost / verlieren verliert verlor verloren /
give gave given ~up / auf|geben gibt gab gegeben /
tremble / zittern /
nod nodded nodded / nicken /
sweat / schwitzen /
"""

ANIMAL_VERB_TABLE = """
sleep slept slept / schlafen schläft schlief geschlafen /
run ran run / rennen rennt rannte gerannt sein /
jump / springen springt sprang gesprungen sein /
disappear / verschwinden verschwindet verschwand verschwunden sein /
eat ate eaten / fressen frisst fraß gefressen /
drink drank drunk / trinken trinkt trank getrunken /
run ran run ~away / weg|laufen läuft lief gelaufen sein /
come came come ~back / zurück|kommen kommt kam gekommen sein /
wake woke woken ~up / auf|wachen sein /
die / sterben stirbt starb gestorben sein /
"""

PREPOSITIONAL_TABLE = """
wait +for / warten auf:a / person job train bus letter answer
think thought thought +of / denken denkt dachte gedacht an:a / person journey job birthday
talk +to / sprechen spricht sprach gesprochen mit:d / person job
dream +of / träumen von:d / journey place person vehicle
talk +about / sprechen spricht sprach gesprochen über:a / idea film person event text
remember / sich erinnern an:a / person event idea / stative
look +forward_to / sich freuen auf:a / event person food
laugh +at / lachen über:a / joke mistake person animal
play +with / spielen mit:d / animal person toy doll ball
dance +with / tanzen mit:d / person job
write wrote written +about / schreiben schreibt schrieb geschrieben über:a / idea place event animal
work +on / arbeiten an:d / project text solution
take took taken +part_in / teil|nehmen nimmt nahm genommen an:d / event
believe +in / glauben an:a / solution ghost project / stative
look +after / sich kümmern um:a / person animal plant
complain +about / sich beschweren über:a / food event neighbour job
fight fought fought +against / kämpfen gegen:a / law opponent dragon robber
fall fell fallen +in_love_with / sich verlieben in:a / person job
begin began begun +with / an|fangen fängt fing gefangen mit:d / task project exam
stop stopped stopped +at / an|halten hält hielt gehalten an:d / bridge church station
apologise +to / sich entschuldigen bei:d / person job
prepare +for / sich vor|bereiten bereitet bereitete bereitet auf:a / event
say said said +goodbye_to / sich verabschieden von:d / person job
report +on / berichten über:a / event place
flee fled fled +from / fliehen flieht floh geflohen vor:d sein / animal robber giant
quarrel quarrelled quarrelled +with / sich streiten streitet stritt gestritten mit:d / person job
get got got +used_to / sich gewöhnen an:a / person food language
"""

# The kind says where to: to a place, a city, or both.
MOTION_TABLE = """
go went gone / gehen geht ging gegangen sein / place
drive drove driven / fahren fährt fuhr gefahren sein / city place
come came come / kommen kommt kam gekommen sein / place city
travel travelled travelled / reisen sein / city
run ran run / rennen rennt rannte gerannt sein / place
walk / laufen läuft lief gelaufen sein / place
fly flew flown / fliegen fliegt flog geflogen sein / city
return / zurück|kehren sein / place city
hurry / eilen sein / place
cycle / radeln sein / place city
hike / wandern sein / place
sail / segeln sein / city
"""

POSTURE_TABLE = """
live / wohnen / city place / stative
work / arbeiten / place city
sit sat sat / sitzen sitzt saß gesessen / place
wait / warten / place
stay / bleiben bleibt blieb geblieben sein / place city
stand stood stood / stehen steht stand gestanden / place
study / studieren / city
lie lay lain / liegen liegt lag gelegen / place
"""

# Where things are and where they are put; the kinds are those of the thing.
LOCATION_TABLE = """
lie lay lain / liegen liegt lag gelegen / thing text clothes / stative
stand stood stood / stehen steht stand gestanden / lamp vase bottle device cup plate / stative
hang hung hung / hängen hängt hing gehangen / picture coat mirror jacket / stative
"""
PLACEMENT_TABLE = """
put put put / legen / thing text clothes
place / stellen / lamp vase bottle box device cup plate
hang hung hung / hängen hängt hängte gehängt / picture mirror coat jacket
hide hid hidden / verstecken / thing text treasure
"""
TWO_WAY_PREPOSITIONS = "on=auf; under=unter; next to=neben; behind=hinter; in front of=vor"

PASSIVE_TABLE = """
build built built / bauen / house church bridge castle tower school theatre palace hotel stadium
sell sold sold / verkaufen / vehicle thing house picture device
find found found / finden findet fand gefunden / thing treasure animal
destroy / zerstören / castle bridge church village
repair / reparieren / vehicle device roof
write wrote written / schreiben schreibt schrieb geschrieben / text
steal stole stolen / stehlen stiehlt stahl gestohlen / thing vehicle
open / eröffnen / museum shop theatre zoo hospital
paint / malen / picture
invite / ein|laden lädt lud geladen / person job
print / drucken / text
translate / übersetzen / text
discover / entdecken / island cave treasure
close / schließen schließt schloss geschlossen / factory cinema shop
invent / erfinden erfindet erfand erfunden / device
save / retten / person animal
plant / pflanzen / plant
sign / unterschreiben unterschreibt unterschrieb unterschrieben / contract letter
renovate / renovieren / church flat town_hall castle
"""

THAT_TABLE = """
say said said / sagen /
think thought thought / denken denkt dachte gedacht / / stative
know knew known / wissen weiß wusste gewusst / / stative
hope / hoffen / / stative
believe / glauben / / stative
see saw seen / sehen sieht sah gesehen / / stative
hear heard heard / hören / / stative
write wrote written / schreiben schreibt schrieb geschrieben /
notice / merken /
forget forgot forgotten / vergessen vergisst vergaß vergessen /
explain / erklären /
fear / befürchten / / stative
claim / behaupten /
promise / versprechen verspricht versprach versprochen /
read read read / lesen liest las gelesen /
suspect / vermuten / / stative
doubt / bezweifeln / / stative
mention / erwähnen /
"""
WHETHER_TABLE = """
ask / fragen /
know knew known / wissen weiß wusste gewusst / / stative
wonder / sich fragen /
reveal / verraten verrät verriet verraten /
"""
INFINITIVE_TABLE = """
try tried tried / versuchen /
begin began begun / an|fangen fängt fing gefangen /
hope / hoffen / / stative
forget forgot forgotten / vergessen vergisst vergaß vergessen /
promise / versprechen verspricht versprach versprochen /
decide / beschließen beschließt beschloss beschlossen /
plan planned planned / planen /
refuse / sich weigern /
offer / an|bieten bietet bot geboten /
"""

MODALS = (
    Modal("can", "could", "können", ("kann", "kannst", "kann"), "konnte"),
    Modal("have to", "had to", "müssen", ("muss", "musst", "muss"), "musste", takes_do=True),
    Modal("want to", "wanted to", "wollen", ("will", "willst", "will"), "wollte", takes_do=True),
    Modal("should", "", "sollen", ("soll", "sollst", "soll"), ""),
    Modal("may", "", "dürfen", ("darf", "darfst", "darf"), ""),
    Modal("would like to", "", "möchten", ("möchte", "möchtest", "möchte"), ""),
)

# --- Pronouns, determiners ------------------------------------------------------------------------

# English subject and object, German cases, person, plural, reflexive (accusative).
PRONOUNS = {
    "he": ("he", "him", ("er", "ihn", "ihm"), 3, False, "sich"),
    "I": ("I", "me", ("ich", "mich", "mir"), 1, False, "mich"),
    "she": ("she", "her", ("sie", "sie", "ihr"), 3, False, "sich"),
    "we": ("we", "us", ("wir", "uns", "uns"), 1, True, "uns"),
    "they": ("they", "them", ("sie", "sie", "ihnen"), 3, True, "sich"),
    "you": ("you", "you", ("du", "dich", "dir"), 2, False, "dich"),
}
POSSESSIVES = "my=mein; his=sein; her=ihr; our=unser; their=ihr; your=dein"

# --- Adverbials ----------------------------------------------------------------------------------

# By tense; a time stands either in front or at the end in English.
TIMES = {
    "present": "every day=jeden Tag; in the morning=am Morgen; in the evening=am Abend; "
    "today=heute; in summer=im Sommer; in winter=im Winter; every week=jede Woche; "
    "at night=nachts; every evening=jeden Abend; every year=jedes Jahr; at noon=am Mittag; "
    "at the weekend=am Wochenende; every morning=jeden Morgen; in spring=im Frühling; "
    "in autumn=im Herbst; in the afternoon=am Nachmittag; every month=jeden Monat; "
    "after school=nach der Schule; before breakfast=vor dem Frühstück",
    "past": "yesterday=gestern; last week=letzte Woche; last year=letztes Jahr; "
    "in the evening=am Abend; last month=letzten Monat; recently=neulich; "
    "last summer=letzten Sommer; last winter=letzten Winter; back then=damals; "
    "the day before yesterday=vorgestern; at midnight=um Mitternacht; "
    "yesterday evening=gestern Abend; after the war=nach dem Krieg; "
    "after lunch=nach dem Mittagessen; during the holidays=in den Ferien",
    "future": "tomorrow=morgen; next week=nächste Woche; soon=bald; next year=nächstes Jahr; "
    "later=später; next month=nächsten Monat; the day after tomorrow=übermorgen; "
    "next summer=nächsten Sommer; tomorrow evening=morgen Abend; one day=eines Tages",
    "progressive": "now=jetzt; at the moment=im Moment",
    "perfect": "today=heute; this week=diese Woche; this year=dieses Jahr; this month=diesen Monat",
    "modal": "today=heute; now=jetzt; tomorrow=morgen; next week=nächste Woche; soon=bald; "
    "in the evening=am Abend; this evening=heute Abend",
}
WEEKDAYS = (
    "Monday=Montag; Sunday=Sonntag; Friday=Freitag; Saturday=Samstag; Wednesday=Mittwoch; "
    "Tuesday=Dienstag; Thursday=Donnerstag"
)
MONTHS = (
    "May=Mai; June=Juni; July=Juli; March=März; April=April; August=August; September=September; "
    "October=Oktober; December=Dezember; January=Januar; November=November; February=Februar"
)
# Singular and plural; German in the dative, as "in" and "vor" want it.
TIME_UNITS = (
    ("year", "years", "einem Jahr", "Jahren"),
    ("day", "days", "einem Tag", "Tagen"),
    ("week", "weeks", "einer Woche", "Wochen"),
    ("month", "months", "einem Monat", "Monaten"),
    ("hour", "hours", "einer Stunde", "Stunden"),
)
ADVERBS = {
    "present": "often=oft; always=immer; never=nie; sometimes=manchmal; usually=meistens; "
    "rarely=selten; still=noch; also=auch; regularly=regelmäßig",
    "past": "often=oft; never=nie; always=immer; also=auch; sometimes=manchmal; finally=endlich; "
    "suddenly=plötzlich; rarely=selten",
    "perfect": "already=schon; never=nie; often=oft; also=auch; always=immer; finally=endlich",
    "future": "probably=wahrscheinlich; also=auch; certainly=sicher; never=nie; perhaps=vielleicht",
    "modal": "also=auch; always=immer; never=nie; finally=endlich",
}
OPENINGS = (
    "perhaps=vielleicht; unfortunately=leider; luckily=zum Glück; of course=natürlich; then=dann; "
    "strangely enough=seltsamerweise; nevertheless=trotzdem; apparently=anscheinend; "
    "therefore=deshalb; otherwise=sonst"
)
MANNERS = (
    "quickly=schnell; slowly=langsam; alone=allein; quietly=leise; loudly=laut; "
    "carefully=vorsichtig; happily=fröhlich; secretly=heimlich; patiently=geduldig; "
    "without a word=wortlos; angrily=wütend; bravely=mutig; nervously=nervös; elegantly=elegant; "
    "with pleasure=mit Vergnügen; by accident=aus Versehen; for free=kostenlos"
)

# By the tense of both clauses.
CONJUNCTIONS = {
    "present": "because=weil; if=wenn; although=obwohl; when=wenn; before=bevor; while=während; "
    "as soon as=sobald; as long as=solange",
    "past": "because=weil; when=als; although=obwohl; before=bevor; while=während; "
    "as soon as=sobald; after=nachdem; until=bis",
}
# These leave the tenses of both clauses free; the others want them simple.
FREE_CONJUNCTIONS = ("because", "although")

# --- Names ---------------------------------------------------------------------------------------

WOMEN = (
    "Anna Maria Laura Julia Sarah Lisa Emma Lena Sophie Eva Clara Nina Marie Hannah Paula Ida "
    "Johanna Katharina Martha Charlotte Greta Elena Frieda Helena Nora Olivia Teresa Barbara "
    "Sandra Monika Susanne Petra Andrea Claudia Sabine Birgit Heike Ursula Ingrid Renate Karin "
    "Gisela Erika Helga Elisabeth Margarete Christina Stefanie Nicole Melanie Daniela Tanja Anja "
    "Silke Kerstin Vera Judith Miriam Rebecca Carla Alma Luise Mathilda Rosa Antonia Victoria "
    "Amelie Elsa Romy Pia Linda Doris Edith Gudrun Irene Jana Karla Magdalena Natalie Olga Ruth "
    "Selma Thea Ulrike Valerie Wanda Yvonne Zoe"
)
MEN = (
    "Peter Paul Martin David Daniel Michael Jan Felix Leon Max Ben Tim Simon Robert Walter Karl "
    "Otto Emil Anton Oskar Jakob Julian Philipp Sebastian Stefan Christian Florian Matthias "
    "Oliver Patrick Alexander Benjamin Dominik Erik Fabian Frank Georg Gustav Heinrich Hermann "
    "Johann Konrad Kurt Leonard Lorenz Ludwig Manfred Norbert Ralf Richard Roland Rudolf Theodor "
    "Thorsten Ulrich Valentin Werner Wilhelm Wolfgang Albert Arthur Bernd Bruno Dieter Egon Ernst "
    "Ferdinand Friedrich Gerhard Günter Harald Helmut Herbert Holger Jochen Joachim Jürgen Kilian "
    "Linus Moritz Noah Olaf Reinhard Rainer Samuel Siegfried Sven Tobias Uwe Viktor Volker Adam"
)
SURNAMES = (
    "Müller Schmidt Weber Wagner Becker Hoffmann Koch Klein Wolf Neumann Schwarz Braun Hofmann "
    "Zimmermann Krüger Hartmann Lange Werner Krause Lehmann Maier Köhler Herrmann König Walter "
    "Mayer Huber Kaiser Fuchs Peters Lang Scholz Möller Jung Hahn Keller Vogel Schubert Roth "
    "Frank Friedrich Beck Günther Berger Winkler Lorenz Baumann Schuster Böhm Winter Kraus Simon "
    "Albrecht Schumacher Vogt Stein Jäger Sommer Haas Graf Seidel Brandt Schreiber Ziegler "
    "Dietrich Engel Kuhn Kühn Pohl Horn Busch Bergmann Voigt Sauer Arnold Wolff Pfeiffer Nowak "
    "Ritter Lindner Ott Bauer Richter Schneider Fischer"
)
CITIES = (
    "Berlin=Berlin; Hamburg=Hamburg; Munich=München; Vienna=Wien; Cologne=Köln; Paris=Paris; "
    "London=London; Frankfurt=Frankfurt; Leipzig=Leipzig; Dresden=Dresden; Zurich=Zürich; "
    "Rome=Rom; Stuttgart=Stuttgart; Bremen=Bremen; Madrid=Madrid; Nuremberg=Nürnberg; "
    "Hanover=Hannover; Bonn=Bonn; New York=New York; Moscow=Moskau; Prague=Prag; Warsaw=Warschau; "
    "Budapest=Budapest; Brussels=Brüssel; Amsterdam=Amsterdam; Geneva=Genf; Milan=Mailand; "
    "Venice=Venedig; Naples=Neapel; Florence=Florenz; Athens=Athen; Lisbon=Lissabon; "
    "Copenhagen=Kopenhagen; Stockholm=Stockholm; Oslo=Oslo; Helsinki=Helsinki; Dublin=Dublin; "
    "Istanbul=Istanbul; Tokyo=Tokio; Beijing=Peking; Cairo=Kairo; Basel=Basel; Bern=Bern; "
    "Salzburg=Salzburg; Graz=Graz; Innsbruck=Innsbruck; Linz=Linz; Kiel=Kiel; Rostock=Rostock; "
    "Lübeck=Lübeck; Potsdam=Potsdam; Weimar=Weimar; Erfurt=Erfurt; Jena=Jena; Kassel=Kassel; "
    "Mainz=Mainz; Heidelberg=Heidelberg; Freiburg=Freiburg; Ulm=Ulm; Augsburg=Augsburg; "
    "Bamberg=Bamberg; Münster=Münster; Aachen=Aachen; Brunswick=Braunschweig; Dortmund=Dortmund; "
    "Essen=Essen; Barcelona=Barcelona; Seville=Sevilla; Marseille=Marseille; Lyon=Lyon; "
    "Nice=Nizza; Strasbourg=Straßburg; Antwerp=Antwerpen; Bruges=Brügge; Luxembourg=Luxemburg; "
    "Turin=Turin; Genoa=Genua; Bologna=Bologna; Edinburgh=Edinburgh; Oxford=Oxford; "
    "Cambridge=Cambridge; Boston=Boston; Chicago=Chicago; Toronto=Toronto; Sydney=Sydney; "
    "Jerusalem=Jerusalem; Damascus=Damaskus; Singapore=Singapur; Seoul=Seoul; Bucharest=Bukarest; "
    "Belgrade=Belgrad; Zagreb=Zagreb; Sofia=Sofia; Kyiv=Kiew; Riga=Riga; Vilnius=Vilnius; "
    "Tallinn=Tallinn; Reykjavik=Reykjavik"
)
COUNTRIES = (
    "Germany=Deutschland; France=Frankreich; Italy=Italien; England=England; Austria=Österreich; "
    "Spain=Spanien; America=Amerika; Poland=Polen; Russia=Russland; China=China; Japan=Japan; "
    "Sweden=Schweden; Norway=Norwegen; Denmark=Dänemark; Greece=Griechenland; India=Indien; "
    "Portugal=Portugal; Hungary=Ungarn; Ireland=Irland; Finland=Finnland; Scotland=Schottland; "
    "Egypt=Ägypten; Mexico=Mexiko; Brazil=Brasilien; Canada=Kanada; Australia=Australien; "
    "Africa=Afrika; Belgium=Belgien; Croatia=Kroatien; Romania=Rumänien; Argentina=Argentinien; "
    "Iceland=Island; Chile=Chile; Peru=Peru; Kenya=Kenia; Morocco=Marokko; Vietnam=Vietnam"
)
LANGUAGES = (
    "German=Deutsch; English=Englisch; French=Französisch; Spanish=Spanisch; Italian=Italienisch; "
    "Russian=Russisch; Japanese=Japanisch; Chinese=Chinesisch; Latin=Latein; Turkish=Türkisch; "
    "Arabic=Arabisch; Swedish=Schwedisch; Polish=Polnisch; Dutch=Niederländisch; Greek=Griechisch; "
    "Danish=Dänisch; Norwegian=Norwegisch; Hebrew=Hebräisch; Finnish=Finnisch"
)
GAMES = (
    "football=Fußball; the piano=Klavier; tennis=Tennis; the guitar=Gitarre; cards=Karten; "
    "chess=Schach; the violin=Geige; the flute=Flöte; basketball=Basketball; the "
    "trumpet=Trompete; hockey=Hockey; volleyball=Volleyball; handball=Handball; the harp=Harfe; "
    "golf=Golf; the cello=Cello"
)

# --- The tables, read ----------------------------------------------------------------------------


@cache
def nouns() -> dict[str, tuple[Noun, ...]]:
    """Return the nouns of each kind in the order of their rank."""
    tables = {
        kind: tuple(_read_noun(kind, entry) for entry in _entries(table))
        for kind, table in NOUN_TABLES.items()
    }
    return {**tables, "place": tuple(place.noun for place in places())}


@cache
def noun_named(english: str) -> Noun:
    """Return the noun of that English singular."""
    every = [noun for table in nouns().values() for noun in table] + [
        _read_noun("text", entry) for entry in _entries(HEADS_ONLY)
    ]
    return next(noun for noun in every if noun.english == _spaced(english))


@cache
def nouns_of(kind: str) -> tuple[Noun, ...]:
    """Return the nouns of a kind; an English noun stands for itself."""
    return nouns().get(kind) or (noun_named(kind),)


@cache
def places() -> tuple[Place, ...]:
    """Return the places in the order of their rank."""
    return tuple(_read_place(entry) for entry in _entries(PLACE_TABLE))


@cache
def compounds() -> dict[str, tuple[Noun, ...]]:
    """Return the compounds by the English word of their head, each group in order of rank."""
    groups: dict[str, dict[str, Noun]] = {}
    for modifiers, heads in COMPOUND_TABLES:
        for english, german in _read_pairs(modifiers):
            for name in _entries(heads):
                noun = compound(english, german, noun_named(name))
                groups.setdefault(name, {}).setdefault(noun.english, noun)
    return {name: tuple(group.values()) for name, group in groups.items()}


def compound(english: str, german: str, head: Noun) -> Noun:
    """Return the compound of a modifier and a head: two words in English, one in German."""
    return replace(
        head,
        english=f"{english} {head.english}",
        english_plural=head.english_plural and f"{english} {head.english_plural}",
        german=german + head.german.lower(),
        german_plural=head.german_plural and german + head.german_plural.lower(),
        feminine=head.feminine and german + head.feminine.lower(),
    )


@cache
def adjectives() -> dict[str, Adjective]:
    """Return the adjectives by their English form."""
    found = [_read_adjective(entry) for entry in _entries(ADJECTIVE_TABLE)]
    return {adjective.english: adjective for adjective in found}


@cache
def adjectives_of(kind: str) -> tuple[Adjective, ...]:
    """Return the adjectives that go with a kind of noun in the order of their rank."""
    return tuple(adjectives()[english] for english in ADJECTIVES_OF_KIND[kind].split())


@cache
def verbs(table: str) -> tuple[Verb, ...]:
    """Return the verbs of one of the verb tables in the order of their rank."""
    return tuple(_read_verb(entry) for entry in _entries(table))


@cache
def words(table: str) -> tuple[str, ...]:
    """Return the entries of a table of single words."""
    return tuple(table.split())


@cache
def pairs(table: str) -> tuple[tuple[str, str], ...]:
    """Return the (English, German) entries of a table of pairs."""
    return _read_pairs(table)
