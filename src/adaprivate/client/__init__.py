"""The decision service's client: ask what to show, report what it earned.

    with Client("http://127.0.0.1:8000") as service:
        decision = service.decide("front-page", user="anna")  # show decision.item
        service.reward(decision, True)  # when it was clicked

:class:`AsyncClient` has the same methods, to be awaited. A call takes `timeout` seconds at most, retries included. It is
repeated when the service cannot be reached, is slow, restarts or has too much to do; a repeated decision carries the same
key, so that it is made once, and rewards are idempotent by themselves. Where the service cannot answer in time `decide`
says what to show instead (`Decision.fallback`); a reward of that is not sent.

Rewards are in the body of the requests that report them and nowhere else: not in errors, logs or anything kept here. Of
`local` bandits (`Decision.keep` is a number) not even there: a bit flipped by adaprivate's exact randomised response is
sent in their place, one for each decision, whatever is reported of it and however often. Report every decision of these
bandits, clicked or not (`Client.settle`): that nothing is reported would tell what the flip hides.
"""

from adaprivate.client.answers import (
    Decision,
    DifferentRewardError,
    InvalidError,
    NoAccessError,
    ServiceError,
    UnavailableError,
    UnknownError,
)
from adaprivate.client.connections import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Client",
    "Decision",
    "DifferentRewardError",
    "InvalidError",
    "NoAccessError",
    "ServiceError",
    "UnavailableError",
    "UnknownError",
]
