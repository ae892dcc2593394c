"""Bodies as they are sent: a key twice, colons where none is a key."""

import pytest

from tests.serving.conftest import Service


@pytest.mark.parametrize(("body", "words"), [
    ('{"time_s": 1, "time_s": 2}', "time_s: the key is given twice; send it once"),
    ('{"time_s": 1, "queue": [{"id": "a", "gpus": 1, "gpus": 2, "submitted_s": 0}]}',
     "gpus (job a): the key is given twice; send it once"),
    # Colons and escapes in strings are no keys.
    ('{"time_s": 1, "queue": [{"id": "a:\\u003ab", "user": "x", "user": ":"}]}',
     "user (job a::b): the key is given twice; send it once"),
    ('{"time_s": NaN, "time_s": 2}', "time_s: the key is given twice; send it once"),
])  # fmt: skip
def test_a_key_that_is_given_twice_is_refused(service: Service, body: str, words: str):
    for method, path in (("POST", "/decide"), ("PUT", "/state")):
        assert service.refusal(path, body, method=method) == words


def test_colons_in_names_are_no_second_keys(service: Service):
    waits = {"id": "a:b::", "user": "c:", "gpus": 1, "submitted_s": 0, "estimate_s": 60}
    runs = {"id": ":", "servers": {"0": 1}, "started_s": 0, "estimate_s": 60}
    answer = service.ask("POST", "/decide", {"time_s": 1, "queue": [waits], "running": [runs]})
    assert [order["job"] for order in answer["decisions"]] == ["a:b::"]
