"""What no belief can learn from, what has no shape, and what is not a number: each refused in one line."""

from collections.abc import Callable

import numpy as np
import pytest

from tamis.conjugate import Beta, BetaBinomial, Dirichlet, DirichletMultinomial, Gamma, Lomax
from tamis.families.categorical import Categorical
from tamis.stats import Keys, Moments, Tally

RNG = np.random.default_rng(0)
SUN = Dirichlet([1, 1]).update(Tally.count(["sun", "rain"]))
AB = Beta(1, 1).update(Tally.observe([1, 0], by=["a", "b"]))
TWO = Tally.of([1.0, 1.0, 1.0], [[0.0], [1.0], [1.0]])
MINIMAL = Categorical([0.2, 0.3, 0.5], minimal=True).observe([0, 1, 2, 2])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            lambda: SUN.update(Tally.count(["snow", "sun"])),
            "got a Tally of Keys('snow', 'sun') for a prior about Keys('rain', 'sun'), expected the same:",
        ),
        (
            lambda: AB.update(Tally.observe([1, 0], by=["b", "c"])),
            "add the statistics first, then update once",
        ),
        (lambda: AB.log_evidence(Tally.observe([1, 0], by=["b", "c"])), "expected the same labels"),
        (
            lambda: Beta(np.ones((3, 2)), 1).update(Tally.observe([1, 0], by=["a", "b"])),
            "the first axis of (2,)",
        ),
        (lambda: Beta(1, 1, keys=Keys(("a",))), "got 1 keys for a prior without a batch axis, expected None"),
        (
            lambda: Dirichlet([1, 1], terms=Keys(("a",))),
            "got 1 terms for an axis of length 2, expected one for each of its slices",
        ),
        (
            lambda: SUN.as_statistic(["sun", "snow"]),
            "expected the terms of this prior, or None: Keys('rain', 'sun')",
        ),
        (
            lambda: Beta(10, 10).update(Tally.observe([3, 5])),
            "got a total of 8.0 for a weight of 2.0, expected at most the weight: observe zeros and ones",
        ),
        (
            lambda: Beta(1, 1).log_evidence(Tally.observe([-1, 1, -1])),
            "got a total of -1.0 for a weight of 3.0",
        ),
        (lambda: Beta(1, 1, "geometric").update(Tally.observe([-1])), "expected none below zero"),
        (lambda: Gamma(10, 10).update(Tally.observe([-3, -5])), "got a total of -8.0 for a weight of 2.0"),
        (lambda: Gamma(1, 1).update(Tally.of(0.0, [3.0])), "expected no events without exposure"),
        (
            lambda: Beta(9, 9).update(-1.0 * Tally.observe([1, 0])),
            "got a Tally of weight -2.0, expected none below zero: forget by subtracting statistics",
        ),
        (
            lambda: Dirichlet([1, 1]).update(Tally.of(1.0, [2.0, -1.0])),
            "got a total of -1.0 for a weight of 1.0",
        ),
        (lambda: Dirichlet([1, 1]).update(MINIMAL), "a category is missing; use Tally.count or one-hot rows"),
        (lambda: Beta([1, 2], 1).update(TWO), "got a statistic of shape (3,) for a prior of shape (2,)"),
        (
            lambda: Beta([1, 2], [1, 2, 3]),
            "got parameters of shapes a (2,), b (3,), expected shapes that broad",
        ),
        (lambda: Dirichlet.from_mean([[0.5, 0.5]] * 2, [1, 2, 3]), "got parameters of shapes mean (2, 2)"),
        (lambda: Beta(-1, 1), "got a pseudo-count a of -1.0, expected a finite number above zero"),
        (lambda: DirichletMultinomial(1, [1, 1, 1]).density([1]), "got counts of shape (1,), expected 3"),
        (lambda: Dirichlet([1, 1, 1]).log_density([1.0]), "got probabilities of shape (1,), expected 3"),
        (
            lambda: DirichletMultinomial(1, 1.0),
            "got a concentration of shape (), expected one number per category",
        ),
        (lambda: Beta(1, 1).interval([0.5, 0.9]), "got coverages of shape (2,), expected one number"),  # type: ignore[arg-type]
        (lambda: Beta(1, 1).interval(1.5), "got a coverage of 1.5, expected between 0 and 1"),
        (lambda: Beta(1, 1).sample(RNG, -1), "got size=-1, expected no number below zero"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(given: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=r"got .*, expected .*") as caught:
        given()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: Beta(1, 1).update(Moments.observe([1.0])), "got a Moments, expected a Tally for a Beta"),  # type: ignore[arg-type]
        (lambda: Gamma(1, 1).log_evidence([1, 2]), "got a list, expected a Tally for a Gamma"),
        (lambda: Dirichlet([1, 1]).update([1, 2]), "got a list, expected a Tally for a Dirichlet"),  # type: ignore[arg-type]
        (lambda: Dirichlet.fit(Moments.observe([1.0])), "got a Moments, expected a Tally"),  # type: ignore[arg-type]
        (lambda: Beta(1, 1).sample(RNG, 2.5), "got size=2.5, expected a whole number"),  # type: ignore[arg-type]
        *(
            (lambda drawn=drawn: drawn.sample(5), "got rng=5, expected a generator first, then the size")
            for drawn in (
                Beta(1, 1),
                Gamma(1, 1),
                Dirichlet([1, 1]),
                BetaBinomial(3, 1, 1),
                DirichletMultinomial(3, [1, 1]),
                Lomax(1, 1),
                Gamma(1, 1).predictive(),
                Beta(1, 1, "geometric").predictive(),
            )
        ),
    ],
)
def test_what_is_of_another_type_is_refused_in_one_line(given: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=r"got .*, expected .*") as caught:
        given()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_stay_with_the_belief() -> None:
    seen = Tally.count(["sun", "rain", "sun"], by=["mon", "mon", "tue"])
    after = Dirichlet([1, 1]).update(seen)
    assert after.keys == seen.keys == after.as_statistic().keys
    assert after.terms == seen.terms == after.as_statistic().terms
    assert Dirichlet.from_statistic(after.as_statistic()).terms == seen.terms
    groups = Tally.count(list("aaaababbbb"), by=[1] * 5 + [2] * 5)
    assert Dirichlet.fit(groups).terms == groups.terms
    again = after.update(seen)
    assert (again.keys, again.concentration.tolist()) == (seen.keys, [[3.0, 3.0], [1.0, 3.0]])
    counted = Tally.observe([3, 5], by=["a", "b"])
    calls = Gamma(1, 1).update(counted)
    assert calls.keys == counted.keys == calls.as_statistic().keys == calls.update(counted).keys
    assert calls.update(Tally.of(1.0, [2.0])).keys == counted.keys
    assert AB.keys == Keys(("a", "b"))


def test_what_was_learned_and_taken_back_was_never_seen() -> None:
    learned, wrong = Tally.observe([1, 0, 1, 0.1]), Tally.observe([0, 0.1])
    assert Beta(1, 1).update(learned - wrong).a == 3
    assert Beta(1, 1).update(learned - learned).b == 1


def test_rows_of_counts_update_a_dirichlet() -> None:
    documents = Tally.observe([[3.0, 0.0, 1.0], [0.0, 2.0, 2.0]])
    assert documents.weight.value == 2
    assert Dirichlet([1, 1, 1]).update(documents).concentration.tolist() == [4.0, 3.0, 4.0]
    shares = np.random.default_rng(0).dirichlet([1, 1, 1], 50).astype(np.float32)
    assert Dirichlet([1, 1, 1]).update(Tally.observe(shares)).strength == pytest.approx(53)


def test_a_belief_keeps_its_own_numbers() -> None:
    mine = np.array([1.0, 2.0])
    beliefs = (Beta(mine, mine), Gamma(mine, mine), Dirichlet(mine))
    others = [one.predictive() for one in beliefs] + [
        Beta(mine, mine, "geometric").predictive(),
        Lomax(mine, mine),
    ]
    mine[0] = -5.0
    for one in (*beliefs, *others):
        for name in type(one).__dataclass_fields__:
            value = getattr(one, name)
            if isinstance(value, np.ndarray):
                assert (value > 0).all()
                assert not value.flags.writeable


def test_a_size_may_be_any_whole_number() -> None:
    assert Beta(1, 1).sample(RNG, np.int64(5)).shape == (5,)  # type: ignore[arg-type]
    assert Beta([1, 2], 1).sample(RNG, (np.int32(3), 4)).shape == (3, 4, 2)  # type: ignore[arg-type]
