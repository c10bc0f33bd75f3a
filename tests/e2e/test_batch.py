"""A request's text does not depend on who else is in the batch."""
import random

from helpers import ask, at_once, chat, complete

REQUESTS = 64


def test_tiny_requests_at_once_equal_those_alone(tiny):
    random.seed(3)
    bodies = []
    for i in range(REQUESTS):
        prompt = "".join(random.choice("abcdefgh ") for _ in range(random.randint(1, 150)))
        more = {"temperature": 0} if i % 2 == 0 else {"temperature": 1, "seed": i, "top_p": 0.9}
        bodies.append(complete(prompt=prompt, max_tokens=random.randint(5, 60), **more))
    alone = [ask(tiny, body, False) for body in bodies]
    together = at_once([lambda b=body, s=bool(i % 3): ask(tiny, b, s)
                        for i, body in enumerate(bodies)], workers=REQUESTS)
    assert together == alone


def test_real_requests_at_once_equal_those_alone(smol):
    words = ["sea", "moon", "bread", "iron", "rain", "glass", "salt", "wind"]
    bodies = [chat(max_tokens=6, temperature=i % 2, seed=i,
                   messages=[{"role": "user", "content": f"Say {i} words about {words[i % 8]}."}])
              for i in range(REQUESTS)]
    alone = [ask(smol, body, False) for body in bodies]
    together = at_once([lambda b=body: ask(smol, b, False) for body in bodies], workers=REQUESTS)
    assert together == alone
