"""counts of a message's features → spam, ham or unsure, with a probability and the evidence."""

from tamis_mail.verdict.judging import judge
from tamis_mail.verdict.rule import RULE, RULES, Rule
from tamis_mail.verdict.verdict import Evidence, Judgement, Verdict, VerdictError

__all__ = ["RULE", "RULES", "Evidence", "Judgement", "Rule", "Verdict", "VerdictError", "judge"]
