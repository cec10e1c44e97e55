"""Judge messages by the counts of their features: spam, ham or unsure, a probability and the evidence."""

from tamis_mail.verdict.judging import judge
from tamis_mail.verdict.rule import RULE, RULES, Rule, list_layer_keys
from tamis_mail.verdict.sender import Standing, judge_sender, with_sender, with_standing
from tamis_mail.verdict.verdict import Evidence, Identity, Judgement, Verdict, VerdictError, sort_evidence

__all__ = [
    "RULE",
    "RULES",
    "Evidence",
    "Identity",
    "Judgement",
    "Rule",
    "Standing",
    "Verdict",
    "VerdictError",
    "judge",
    "judge_sender",
    "list_layer_keys",
    "sort_evidence",
    "with_sender",
    "with_standing",
]
