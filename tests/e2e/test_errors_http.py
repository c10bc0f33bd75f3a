"""The catalogue on the model's server: the same entries as JSON and as pages, linked from errors."""
from html.parser import HTMLParser

from helpers import chat, error


def test_an_error_leads_to_its_entry_and_page(tiny):
    found = error(tiny.post("/v1/chat/completions", chat(top_p=3)), 400)
    entry = tiny.get(f"/api/errors/{found['id']}").json()
    assert entry["record"]["errorCode"] == found["code"]
    assert entry["record"]["errorType"] == found["type"]
    assert found["url"] == f"/errors/{entry['record']['slug']}"
    page = tiny.get(found["url"])
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert entry["record"]["id"] in page.text


def test_every_entry_by_id_and_by_slug(tiny):
    page, seen = 1, []
    while True:
        listed = tiny.get("/api/errors", params={"page": page, "per_page": 40}).json()
        if not listed["errors"]:
            break
        seen += listed["errors"]
        page += 1
    assert len(seen) == listed["total"] == len({summary["id"] for summary in seen})
    for summary in seen:
        entry = tiny.get(f"/api/errors/{summary['id']}").json()
        assert entry.keys() == {"record", "related", "raisedAt", "datasetVersion"}
        assert {key: entry["record"][key] for key in summary if key != "url"} == {
            key: value for key, value in summary.items() if key != "url"}
        assert tiny.get(summary["url"]).status_code == 200


def test_unknown_entries(tiny):
    for key in ("0000000000000000", "..%2f..%2fetc%2fpasswd", "x" * 5000, "%00", "%ff", "a%2Fb"):
        found = error(tiny.get(f"/api/errors/{key}"), 404)
        assert found["code"] == "catalog_entry_unknown"
        assert tiny.get(f"/errors/{key}").status_code == 404


def test_search_and_tags(tiny):
    found = tiny.get("/api/errors", params={"q": "hpc_ops", "tag": "mla"}).json()
    assert found["total"] >= 1
    assert any(summary["id"] == "e45e9af63e91c033" for summary in found["errors"])
    assert error(tiny.get("/api/errors", params={"page": "0"}), 400)["param"] == "page"
    assert tiny.get("/api/errors", params={"q": "ü" * 3000}).json()["total"] == 0


def test_the_api_key_guards_the_catalogue(start, tiny_model):
    server = start(tiny_model, "--api-key", "secret")
    for path in ("/errors", "/api/errors", "/errors/page.js"):
        assert server.get(path).status_code == 401
        assert server.get(path, headers={"Authorization": "Bearer secret"}).status_code == 200


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.targets, self.ids = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src"):
                self.targets.add(value)
            if name == "id":
                assert value not in self.ids, value
                self.ids.add(value)


def test_every_link_of_every_page_leads_somewhere(tiny):
    waiting, seen, others = ["/errors"], set(), set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        reply = tiny.get(path)
        assert reply.status_code == 200, path
        page = Links(reply.text)
        for target in page.targets:
            if target.startswith("#"):
                assert target[1:] in page.ids, (path, target)
            elif target.startswith(("/errors/", "/errors?")) and not target.endswith((".css", ".js")):
                waiting.append(target)
            elif target.startswith("/"):
                others.add(target)
            else:
                assert target.startswith(
                    ("https://github.com/sgl-project/sglang/blob/", "data:image/svg")), target
    total = tiny.get("/api/errors").json()["total"]
    assert sum(path.startswith("/errors/") for path in seen) == total
    assert sum(path.startswith("/api/errors/") for path in others) == total
    for path in others:
        assert tiny.get(path).status_code == 200, path
