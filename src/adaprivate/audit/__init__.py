"""The audit: attack everything a policy shows, and see whether more comes out than its guarantee allows."""

from adaprivate.audit.attack import Finding, audited
from adaprivate.audit.targets import ExactTarget, PolicyTarget, Target, policy_target

__all__ = ["ExactTarget", "Finding", "PolicyTarget", "Target", "audited", "policy_target"]
