"""The provider changes its keys, and strangers make keys up: the one is noticed at once, the other costs little."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payrec.errors import IdentityProviderUnavailableError, InvalidCredentialsError
from payrec.services.claims import Claims
from payrec.services.verification import JwksVerifier
from support.idp import (
    Clock,
    FakeProvider,
    Reply,
    claims,
    encode,
    fake_provider,
    outcome,
    public_jwk,
    rsa_key,
    sign,
    with_verifier,
)
from support.wire import until

FIRST, SECOND, THIRD = rsa_key("first"), rsa_key("second"), rsa_key("third")


def made_up(number: int, clock: Clock, **changes: Any) -> str:
    """Return a token of a key that nobody has."""
    header = encode({"alg": "RS256", "kid": f"unknown-{number}"})
    return f"{header}.{encode(claims(clock.now, **changes))}.{encode(b's' * 256)}"


def key_set(*keys: Any) -> bytes:
    return json.dumps({"keys": [public_jwk(key) for key in keys]}).encode()


async def is_good(verifier: JwksVerifier, token: str) -> bool:
    return isinstance(await outcome(verifier, token), Claims)


async def asked(provider: FakeProvider, times: int) -> None:
    """Wait until the provider was asked for its keys so often."""

    async def probe() -> bool | None:
        return provider.requests["/jwks"] == times or None

    await until(probe, seconds=5)


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("at_once", [False, True], ids=["one after another", "at once"])
def test_500_unknown_kids_cost_one_request(provider: FakeProvider, *, warm: bool, at_once: bool) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        if warm:
            assert await is_good(verifier, sign(FIRST))
        before = provider.requests["/jwks"]

        async def fire() -> None:
            tokens = [made_up(number, clock) for number in range(500)]
            if at_once:
                found = await asyncio.gather(*(outcome(verifier, token) for token in tokens))
            else:
                found = [await outcome(verifier, token) for token in tokens]
            assert set(found) == {InvalidCredentialsError}

        await fire()
        assert provider.requests["/jwks"] == before + 1
        clock.move(seconds=29)
        await fire()
        assert provider.requests["/jwks"] == before + 1
        clock.move(seconds=2)
        await fire()
        assert provider.requests["/jwks"] == before + 2
        assert await is_good(verifier, sign(FIRST, claims(clock.now)))

    with_verifier(provider, use)


def test_unknown_kids_that_are_given_up_cost_one_request_too(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        for number in range(50):
            waiting = asyncio.create_task(outcome(verifier, made_up(number, clock)))
            await asked(provider, 2)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            flight = verifier._keys._flight
            assert flight is not None
            await flight
        assert provider.requests["/jwks"] == 2

    with_verifier(provider, use)


@pytest.mark.parametrize("changes", [{"iss": "http://other.test"}, {"exp": 1}, {"aud": "x"}, {"typ": "ID"}], ids=str)
def test_a_token_that_no_key_would_make_good_costs_nothing(provider: FakeProvider, changes: dict[str, Any]) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        for number in range(10):
            assert await outcome(verifier, made_up(number, clock, **changes)) is InvalidCredentialsError
        assert provider.requests["/jwks"] == 1
        provider.publish(FIRST, SECOND)
        assert await is_good(verifier, sign(SECOND))

    with_verifier(provider, use)


def test_a_bad_signature_of_a_known_key_costs_nothing(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, _: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        for _attempt in range(10):
            assert await outcome(verifier, sign(SECOND, kid="first")) is InvalidCredentialsError
        assert provider.requests["/jwks"] == 1

    with_verifier(provider, use)


@pytest.mark.parametrize("minutes", [0, 5, 10, 11, 60 * 23])
def test_a_new_key_is_taken_at_once_whenever_it_comes(provider: FakeProvider, minutes: int) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        clock.move(minutes=minutes)
        assert await is_good(verifier, sign(FIRST, claims(clock.now)))
        # Right after a routine refresh.
        provider.publish(FIRST, SECOND)
        assert await is_good(verifier, sign(SECOND, claims(clock.now)))
        # Two in quick succession.
        provider.publish(SECOND, THIRD)
        assert await is_good(verifier, sign(THIRD, claims(clock.now)))
        assert await is_good(verifier, sign(SECOND, claims(clock.now)))

    with_verifier(provider, use)


def test_a_withdrawn_key_is_forgotten(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        provider.publish(SECOND)
        clock.move(minutes=10)
        assert await outcome(verifier, sign(FIRST, claims(clock.now))) is InvalidCredentialsError
        assert await is_good(verifier, sign(SECOND, claims(clock.now)))
        assert provider.requests["/jwks"] == 2

    with_verifier(provider, use)


def test_a_provider_without_kids_changes_its_key_at_once(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        for key in (FIRST, SECOND, THIRD, FIRST):
            provider.publish(public_jwk(key, kid=None))
            assert await is_good(verifier, sign(key, kid=None))
        assert provider.requests["/jwks"] == 4
        for _ in range(20):
            assert await outcome(verifier, sign(SECOND, kid=None)) is InvalidCredentialsError
        assert provider.requests["/jwks"] == 5
        clock.move(seconds=31)
        provider.publish(public_jwk(SECOND, kid=None))
        assert await is_good(verifier, sign(SECOND, claims(clock.now), kid=None))

    with_verifier(provider, use)


def test_a_read_that_brought_a_key_leaves_the_next_one_free_and_one_that_did_not_does_not(
    provider: FakeProvider,
) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        assert await outcome(verifier, made_up(1, clock)) is InvalidCredentialsError
        provider.publish(FIRST, SECOND)
        # The price of the limit: for half a minute after a made-up kid, a new key is not looked for.
        assert await outcome(verifier, sign(SECOND)) is InvalidCredentialsError
        clock.move(seconds=30)
        assert await is_good(verifier, sign(SECOND))
        # A kid that was published is not enough: the token must be good as well.
        provider.publish(FIRST, SECOND, THIRD)
        assert await outcome(verifier, sign(FIRST, kid="third")) is InvalidCredentialsError
        assert provider.requests["/jwks"] == 4
        assert await outcome(verifier, made_up(2, clock)) is InvalidCredentialsError
        assert provider.requests["/jwks"] == 4

    with_verifier(provider, use)


def test_a_token_whose_key_is_newer_than_the_read_under_way_has_one_more(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        clock.move(minutes=11)
        held = threading.Event()
        provider.in_turn["/jwks"] = [Reply(key_set(FIRST), held=held)]
        routine = asyncio.create_task(outcome(verifier, sign(FIRST, claims(clock.now))))
        await asked(provider, 2)
        provider.publish(FIRST, SECOND)
        joined = [asyncio.create_task(outcome(verifier, sign(SECOND, claims(clock.now)))) for _ in range(20)]
        joined += [asyncio.create_task(outcome(verifier, made_up(n, clock))) for n in range(20)]
        await asyncio.sleep(0)
        held.set()
        found = await asyncio.gather(routine, *joined)
        assert [isinstance(one, Claims) for one in found] == [True] * 21 + [False] * 20
        assert provider.requests["/jwks"] == 3

    with_verifier(provider, use)


def test_two_rotations_during_one_read_are_both_noticed(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, _: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        held = threading.Event()
        provider.in_turn["/jwks"] = [Reply(key_set(FIRST, SECOND), held=held)]
        second = asyncio.create_task(is_good(verifier, sign(SECOND)))
        await asked(provider, 2)
        provider.publish(FIRST, SECOND, THIRD)
        third = asyncio.create_task(is_good(verifier, sign(THIRD)))
        await asyncio.sleep(0)
        held.set()
        assert await asyncio.gather(second, third) == [True, True]
        assert provider.requests["/jwks"] == 3

    with_verifier(provider, use)


def test_no_request_is_lost_while_the_provider_changes_its_keys(provider: FakeProvider) -> None:
    """Fire tokens of the old and the new key from many tasks through six rotations."""
    names = [f"rotation-{number}" for number in range(7)]
    signed = {name: sign(rsa_key(name)) for name in names}

    async def use(verifier: JwksVerifier, _: Clock) -> None:
        refused: list[object] = []
        sent = 0
        in_use = [names[0]]

        async def fire() -> None:
            nonlocal sent
            while in_use:
                for name in tuple(in_use):
                    found = await outcome(verifier, signed[name])
                    sent += 1
                    if not isinstance(found, Claims):
                        refused.append((name, found))
                await asyncio.sleep(0)

        async def sent_more() -> None:
            goal = sent + 200

            async def probe() -> bool | None:
                return sent >= goal or None

            await until(probe)

        provider.publish(rsa_key(names[0]))
        tasks = [asyncio.create_task(fire()) for _ in range(8)]
        for old, new in itertools.pairwise(names):
            await sent_more()
            # As providers do: the new key is published beside the old one, and signs from the next moment on.
            provider.publish(rsa_key(old), rsa_key(new))
            in_use[:] = [old, new]
        await sent_more()
        in_use.clear()
        await asyncio.gather(*tasks)
        assert refused == []
        assert provider.requests["/jwks"] == len(names)

    with_verifier(provider, use)


def test_an_unknown_kid_waits_for_a_hanging_provider_once_in_half_a_minute(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        provider.hang()
        for number in range(100):
            assert await outcome(verifier, made_up(number, clock)) is InvalidCredentialsError
            assert await is_good(verifier, sign(FIRST))
            assert not verifier._keys._in_flight
        assert provider.requests["/jwks"] == 2

    with_verifier(provider, use, timeout_seconds=0.3)


def test_an_outage_lets_known_keys_go_on_for_a_day_and_ends_at_once(provider: FakeProvider) -> None:
    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        assert await is_good(verifier, sign(FIRST))
        provider.fail()
        clock.move(hours=23, minutes=59)
        for number in range(50):
            assert await is_good(verifier, sign(FIRST, claims(clock.now)))
            assert await outcome(verifier, made_up(number, clock)) is InvalidCredentialsError
        assert provider.requests["/jwks"] <= 3
        clock.move(minutes=2)
        for token in (sign(FIRST, claims(clock.now)), made_up(1, clock)):
            assert await outcome(verifier, token) is IdentityProviderUnavailableError
        provider.publish(SECOND)
        clock.move(seconds=1)
        assert await is_good(verifier, sign(SECOND, claims(clock.now)))

    with_verifier(provider, use)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("rotate"), st.integers(1, 3)),
        st.tuples(st.just("made up"), st.integers(1, 5)),
        st.tuples(st.just("wait"), st.sampled_from([1, 15, 29, 30, 31, 601])),
    ),
    max_size=12,
)


@settings(max_examples=30)
@given(script=steps)
def test_reads_are_bounded_and_good_tokens_pass_unless_somebody_makes_kids_up(script: list[tuple[str, int]]) -> None:
    names = ("first", "second", "third")

    async def use(verifier: JwksVerifier, clock: Clock) -> None:
        current, rotations, refreshes, made_up_at = 0, 0, 1, -1000.0
        seconds, windows = 0.0, 0
        assert await is_good(verifier, sign(FIRST))
        for what, number in script:
            if what == "wait":
                clock.move(seconds=number)
                seconds += number
                refreshes += number > 600
            elif what == "made up":
                for n in range(number):
                    assert await outcome(verifier, made_up(n, clock)) is InvalidCredentialsError
                if seconds - made_up_at >= 30:
                    made_up_at, windows = seconds, windows + 1
            else:
                current = (current + 1) % 3
                provider.publish(rsa_key(names[current]))
                rotations += 1
                good = await is_good(verifier, sign(rsa_key(names[current]), claims(clock.now)))
                assert good or seconds - made_up_at < 30
        assert provider.requests["/jwks"] <= refreshes + rotations + 2 * windows + 1

    with fake_provider() as provider:
        with_verifier(provider, use)
