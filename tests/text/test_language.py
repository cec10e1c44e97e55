"""What language a text is in."""

import importlib.util
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tamis.text import identifier as module
from tamis.text.identifier import LANGUAGES, language, languages

ROOT = Path(__file__).parents[2]

# None of these is in what was learned from.
SENTENCES = {
    "af": "Niemand het geweet of die brug sou hou nie, maar hulle het nogtans daaroor geloop.",
    "ar": "لم يكن أحد يعرف هل سيصمد الجسر، ولكنهم عبروه على أي حال.",
    "bg": "Никой не знаеше дали мостът ще издържи, но те все пак минаха по него.",
    "bn": "সেতুটি টিকবে কি না কেউ জানত না, তবু তারা পার হয়ে গেল।",
    "ca": "Ningú no sabia si el pont aguantaria, però el van travessar igualment.",
    "cs": "Nikdo nevěděl, jestli most vydrží, ale stejně po něm přešli.",
    "cy": "Doedd neb yn gwybod a fyddai'r bont yn dal, ond cerddon nhw drosti beth bynnag.",
    "da": "Ingen vidste, om broen ville holde, men de gik over den alligevel.",
    "de": "Niemand wusste, ob die Brücke halten würde, aber sie gingen trotzdem hinüber.",
    "el": "Κανείς δεν ήξερε αν η γέφυρα θα άντεχε, αλλά την πέρασαν έτσι κι αλλιώς.",
    "en": "Nobody knew whether the bridge would hold, but they walked across it anyway.",
    "eo": "Neniu sciis, ĉu la ponto eltenos, sed ili tamen transiris ĝin.",
    "es": "Nadie sabía si el puente iba a aguantar, pero de todas formas lo cruzaron.",
    "et": "Keegi ei teadnud, kas sild vastu peab, aga nad läksid ikkagi üle.",
    "eu": "Inork ez zekien zubiak eutsiko ote zion, baina hala ere zeharkatu zuten.",
    "fa": "هیچ‌کس نمی‌دانست پل دوام می‌آورد یا نه، اما آنها از روی آن گذشتند.",
    "fi": "Kukaan ei tiennyt, kestäisikö silta, mutta he kävelivät silti sen yli.",
    "fr": "Personne ne savait si le pont allait tenir, mais ils l'ont traversé quand même.",
    "ga": "Ní raibh a fhios ag aon duine an seasfadh an droichead, ach shiúil siad trasna air mar sin féin.",
    "gl": "Ninguén sabía se a ponte ía aguantar, pero cruzárona de todos os xeitos.",
    "he": "איש לא ידע אם הגשר יחזיק מעמד, אבל הם עברו עליו בכל זאת.",
    "hi": "किसी को पता नहीं था कि पुल टिकेगा या नहीं, फिर भी वे उस पर चल पड़े।",
    "hr": "Nitko nije znao hoće li most izdržati, ali su ipak prešli preko njega.",
    "hu": "Senki sem tudta, kibírja-e a híd, de ők mégis átmentek rajta.",
    "hy": "Ոչ ոք չգիտեր՝ կամուրջը կդիմանա, թե ոչ, բայց նրանք այնուամենայնիվ անցան։",
    "id": "Tidak seorang pun tahu apakah jembatan itu akan kuat, tetapi mereka tetap menyeberang.",
    "is": "Enginn vissi hvort brúin myndi halda, en þau gengu samt yfir hana.",
    "it": "Nessuno sapeva se il ponte avrebbe retto, ma lo attraversarono lo stesso.",
    "ja": "橋が持ちこたえるかどうか誰も知らなかったが、それでも彼らは渡った。",
    "ka": "არავინ იცოდა, გაუძლებდა თუ არა ხიდი, მაგრამ მაინც გადავიდნენ.",
    "ko": "다리가 버틸지 아무도 몰랐지만 그들은 그래도 건너갔다.",
    "lt": "Niekas nežinojo, ar tiltas atlaikys, bet jie vis tiek juo perėjo.",
    "lv": "Neviens nezināja, vai tilts izturēs, bet viņi tomēr tam pārgāja pāri.",
    "mk": "Никој не знаеше дали мостот ќе издржи, но тие сепак поминаа преку него.",
    "nb": "Ingen visste om brua ville holde, men de gikk over den likevel.",
    "nl": "Niemand wist of de brug het zou houden, maar ze liepen er toch overheen.",
    "pl": "Nikt nie wiedział, czy most wytrzyma, ale i tak po nim przeszli.",
    "pt": "Ninguém sabia se a ponte ia aguentar, mas mesmo assim eles atravessaram.",
    "ro": "Nimeni nu știa dacă podul va rezista, dar ei l-au trecut oricum.",
    "ru": "Никто не знал, выдержит ли мост, но они всё равно пошли по нему.",
    "sk": "Nikto nevedel, či most vydrží, ale aj tak po ňom prešli.",
    "sl": "Nihče ni vedel, ali bo most zdržal, vendar so vseeno šli čezenj.",
    "sq": "Askush nuk e dinte nëse ura do të mbante, por ata e kaluan gjithsesi.",
    "sr": "Нико није знао да ли ће мост издржати, али су ипак прешли преко њега.",
    "sv": "Ingen visste om bron skulle hålla, men de gick över den ändå.",
    "ta": "பாலம் தாங்குமா என்று யாருக்கும் தெரியவில்லை, ஆனாலும் அவர்கள் அதைக் கடந்தார்கள்.",
    "th": "ไม่มีใครรู้ว่าสะพานจะทนได้หรือไม่ แต่พวกเขาก็เดินข้ามไป",
    "tr": "Köprünün dayanıp dayanmayacağını kimse bilmiyordu, ama yine de üzerinden geçtiler.",
    "uk": "Ніхто не знав, чи витримає міст, але вони все одно пішли по ньому.",
    "ur": "کسی کو معلوم نہیں تھا کہ پل ٹکے گا یا نہیں، پھر بھی وہ اس پر سے گزر گئے۔",
    "vi": "Không ai biết cây cầu có chịu nổi hay không, nhưng họ vẫn đi qua.",
    "zh": "谁也不知道那座桥能不能撑住，可是他们还是走了过去。",
}


def script(path: Path) -> ModuleType:
    loader = SourceFileLoader(path.stem, str(path))
    spec = importlib.util.spec_from_loader(path.stem, loader)
    assert spec is not None
    found = importlib.util.module_from_spec(spec)
    loader.exec_module(found)
    return found


def test_there_is_a_sentence_of_each_language() -> None:
    assert set(SENTENCES) == set(LANGUAGES) == set(module.load_model().languages)


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_sentence_is_in_its_language(code: str) -> None:
    assert language(SENTENCES[code]) == code
    assert language(SENTENCES[code].upper()) == code
    assert language(SENTENCES[code].encode()) == code


def test_what_ships_is_what_the_texts_say() -> None:
    made = script(ROOT / "tools" / "languages").made()
    with np.load(ROOT / "src" / "tamis" / "text" / "languages.npz", allow_pickle=False) as found:
        assert found["codes"].tolist() == made["codes"].tolist()
        np.testing.assert_array_equal(found["counts"], made["counts"])


def test_the_sentences_are_not_in_the_texts() -> None:
    tool = script(ROOT / "tools" / "languages")
    for code, sentence in SENTENCES.items():
        assert not any(sentence in line for line in tool.sentences(code))


def test_short_texts_of_others_are_mostly_found() -> None:
    experiment = script(ROOT / "experiments" / "0003-language-identifier" / "run.py")
    texts = experiment.strings()
    if not texts:
        pytest.skip("Sphinx, whose translations are asked about, is not installed")
    some = {code: each[::7] for code, each in texts.items()}
    taken = experiment.identified(some)
    right = sum(found[code] for code, found in taken.items()) / sum(map(len, some.values()))
    assert right > 0.88  # 90.4 % of all; experiments/0003-language-identifier/result.md


def test_probabilities_are_of_all_languages_together() -> None:
    found = languages(SENTENCES["nb"], top=100)
    assert len(found) == len(LANGUAGES)
    assert sum(found.values()) == pytest.approx(1.0)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_a_word_is_not_believed_as_a_sentence_is() -> None:
    assert languages("person", top=1).popitem()[1] < 0.8
    assert languages(SENTENCES["en"], top=1)["en"] > 0.99


def test_names_in_latin_letters_do_not_hide_a_script() -> None:
    assert language("Pygments に lexer というものがありません") == "ja"
    assert language("The word 東京 is a name of a city in Japan") == "en"


def test_addresses_are_in_no_language() -> None:
    assert language("www.wahrscheinlich-schoene-kleider.example") is None
    assert language("Please look at https://einkaufen.example/wahrscheinlich/nicht/schlecht") == "en"


@pytest.mark.parametrize("text", ["", " ", "1234 567.89", "?!… —", "☃🎉", b"", b"42", "\ue000\ue001", "ᏣᎳᎩ"])
def test_nothing_to_go_by_is_no_language(text: str | bytes) -> None:
    assert language(text) is None
    assert languages(text) == {}


@pytest.mark.parametrize(
    "text", ["\ud800 lone", "a" * 10_000_000, b"\xff" * 1_000_000, b"\x00\xff\xfe" * 999]
)
def test_any_text_has_an_answer(text: str | bytes) -> None:
    assert language(text) is None or language(text) in LANGUAGES


def test_bytes_of_another_encoding_are_read() -> None:
    assert language(SENTENCES["ru"].encode("koi8-r")) == "ru"


def test_top_is_one_at_least() -> None:
    with pytest.raises(ValueError, match="got top=0, expected at least 1"):
        languages("text", top=0)


def test_it_loads_nothing_heavy() -> None:
    asked = (
        "import sys; from tamis.text.identifier import language; from tamis.text.charset import decode\n"
        "assert language('Wo sind die Blumen geblieben?' * 2000) == 'de'\n"
        "assert decode('Где мои ключи?'.encode('cp1251') * 2000)\n"
        "print(*({'scipy', 'sklearn'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == ""
