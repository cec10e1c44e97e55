"""The words for verdicts, kinds of evidence and sizes of files, the same on all surfaces."""

from tamis_mail.verdict.judging import INTERCEPT_VIEW

VIEW_TITLES = {
    INTERCEPT_VIEW: "before evidence",
    "words": "words",
    "headers": "header fields",
    "pairs": "pairs of words",
    "relations": "relations",
    "grams": "n-grams of bytes",
    "people": "people you know",
}


def describe_verdict(label: str, probability: float) -> str:
    """Describe a verdict in words.

    >>> describe_verdict("spam", 0.9993), describe_verdict("unsure", 0.6), describe_verdict("work", 0.004)
    ('almost certainly spam', 'unsure, rather spam', 'almost certainly not spam: work')
    """
    if label == "unsure":
        tendency = (
            "rather spam"
            if probability > 0.55
            else "rather not spam"
            if probability < 0.45
            else "equally likely"
        )
        return f"unsure, {tendency}"
    is_spam = label == "spam"
    confidence = probability if is_spam else 1 - probability
    certainty = (
        "almost certainly" if confidence >= 0.99 else "very probably" if confidence >= 0.95 else "probably"
    )
    return f"{certainty} spam" if is_spam else f"{certainty} not spam: {label}"


def format_size(number: int) -> str:
    """Format a number of bytes.

    >>> format_size(999), format_size(1_500_000)
    ('999 bytes', '1.5 MB')
    """
    if number < 1000:
        return f"{number} bytes"
    step = min((len(str(number)) - 1) // 3, 4)
    return f"{number / 1000**step:.1f} {('kB', 'MB', 'GB', 'TB')[step - 1]}"
