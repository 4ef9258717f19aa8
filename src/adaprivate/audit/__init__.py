"""The audit: attack everything a policy shows, and see whether more comes out than its guarantee allows.

``audited(policy_target(name, options), trials=n)`` plays neighbouring inputs many times and guesses which was played;
``audited_in_one_run`` hides many canaries in a single run. Both give lower bounds on epsilon and mu that hold with a stated
confidence; docs/audit.md says how. ``EXHIBITS`` are broken mechanisms, which the same attack catches.
"""

from adaprivate.audit.attack import Finding, audited
from adaprivate.audit.exact import ExactTarget, policy_target
from adaprivate.audit.gallery import EXHIBITS, Exhibit, Shown
from adaprivate.audit.gallery import show as exhibited
from adaprivate.audit.gallery import show_all as exhibited_all
from adaprivate.audit.one_run import audited_in_one_run
from adaprivate.audit.targets import Claim, PolicyTarget, Target
from adaprivate.audit.trade_off import trade_off_plot

__all__ = [
    "EXHIBITS",
    "Claim",
    "ExactTarget",
    "Exhibit",
    "Finding",
    "PolicyTarget",
    "Shown",
    "Target",
    "audited",
    "audited_in_one_run",
    "exhibited",
    "exhibited_all",
    "policy_target",
    "trade_off_plot",
]
