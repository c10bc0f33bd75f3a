"""The catalogue's pages in a real Chromium: whole without JavaScript, dark and light, on a phone, by
keyboard; search and copy buttons. Skipped where Chromium is missing (packages-browser.txt)."""
import os
import shutil

import pytest

from helpers import SOAK

CHROMIUM = os.environ.get("QUERN_CHROMIUM") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed (chromium)")
HPC_OPS = "/errors/hpc-ops-backend-can-only-be-used-with-non-mla-mode"
SECTIONS = ["What it means", "Source", "How to fix it", "Example fix", "Find it before it happens",
            "Type guard", "When it happens", "How to handle it", "Catching it", "Prevention",
            "Related errors"]
# Contrast of every text with what lies behind it (WCAG 2: relative luminance), the lowest first.
CONTRAST = """() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    const a = luminance(parse(getComputedStyle(element).color)), b = luminance(behind(element));
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
                element.tagName + ": " + walker.currentNode.data.trim().slice(0, 40)]);
  }
  return found.sort((x, y) => x[0] - y[0]);
}"""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser, catalog_server):
    """visit(path, **context) -> page; what the console said is an error at the end."""
    contexts, said = [], []

    def go(path, base=None, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"pageerror: {error}"))
        page.on("requestfailed", lambda request: said.append(f"failed: {request.url}"))
        page.goto((base or str(catalog_server.base_url).rstrip("/")) + path)
        return page

    yield go
    for context in contexts:
        context.close()
    assert not said


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no_scripts"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_whole(visit, scheme, scripts):
    page = visit(HPC_OPS, color_scheme=scheme, java_script_enabled=scripts)
    assert page.locator("h2").all_inner_texts() == SECTIONS
    assert page.locator("h1").inner_text() == "hpc_ops backend can only be used with non-MLA models."
    badges = page.locator(".badges").inner_text()
    assert "error" in badges and "ValueError" in badges and "HTTP 400" in badges
    link = page.locator("#source + p a")
    assert link.get_attribute("href").endswith("attention_registry.py#L263")
    assert page.locator("a", has_text="This entry as JSON").get_attribute(
        "href") == "/api/errors/e45e9af63e91c033"
    # Buttons that could do nothing are not there.
    assert (page.locator("button.copy").count() >= 3) == scripts


@pytest.mark.parametrize("path", ["/errors", HPC_OPS, "/errors?q=hpc_ops", "/errors/invalid_api_key"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(visit, path, scheme):
    page = visit(path, color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(background.split("(")[1].split(",")[0]) < 128) == (scheme == "dark")
    lowest = page.evaluate(CONTRAST)
    assert len(lowest) > 10 and lowest[0][0] >= 4.5, lowest[:5]


def test_copy_buttons_copy_the_command(visit, catalog_server):
    page = visit(HPC_OPS, permissions=["clipboard-read", "clipboard-write"])
    record = catalog_server.get("/api/errors/e45e9af63e91c033").json()["record"]
    button = page.get_by_role("button", name="Copy: After")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("[...document.querySelectorAll('.copy')].some(b => b.textContent === 'Copied')")
    assert page.evaluate("navigator.clipboard.readText()") == record["exampleFix"].split(
        "# after\n")[1]
    page.get_by_role("button", name="Copy: Type guard").click()
    page.wait_for_function(
        "navigator.clipboard.readText().then(text => text.startsWith('def '))")
    assert page.evaluate("navigator.clipboard.readText()") == record["typeGuard"]


def test_the_list_shrinks_while_one_types(visit):
    page = visit("/errors")
    shown = page.locator("ul.entries li:visible")
    whole = shown.count()
    page.get_by_role("searchbox").type("hpc_ops cross")
    assert 0 < shown.count() < whole
    assert page.locator("#count").inner_text() == f"{shown.count()} error" + "s" * (shown.count() > 1)
    page.get_by_role("searchbox").fill("wordthatstandsnowhere")
    assert shown.count() == 0 and page.locator("#count").inner_text() == "0 errors"
    page.get_by_role("searchbox").fill("")
    assert shown.count() == whole


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no_scripts"])
def test_the_server_searches_all_texts(visit, scripts):
    page = visit("/errors", java_script_enabled=scripts)
    page.get_by_role("searchbox").fill("kv_lora_rank hpc_ops")
    page.keyboard.press("Enter")
    page.wait_for_url("**/errors?q=*")
    assert "with “kv_lora_rank hpc_ops”" in page.locator("#count").inner_text()
    page.locator("ul.entries a").first.click()
    page.wait_for_url("**/errors/*")
    page.locator(".tag").first.click()
    page.wait_for_url("**/errors?tag=*")
    assert page.locator("ul.entries li").count() > 1
    page.get_by_role("link", name="Show all").click()
    page.wait_for_url("**/errors")


def test_pages_fit_a_phone(visit, catalog_server):
    page = visit("/errors", viewport={"width": 375, "height": 800})
    root = page.url.removesuffix("/errors")
    pages = sorted(set(page.eval_on_selector_all("ul.entries a", "all => all.map(a => a.href)")))
    assert len(pages) > 100
    for url in [page.url] + pages[::1 if SOAK else 8]:
        page.goto(url)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, url
    assert page.url.startswith(root)


def test_the_keyboard_reaches_everything(visit):
    page = visit(HPC_OPS)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    focusable = page.locator("a, button, pre").count()
    reached = set()
    for _ in range(focusable + 2):
        reached.add(page.evaluate(
            "[...document.querySelectorAll('a, button, pre')].indexOf(document.activeElement)"))
        page.keyboard.press("Tab")
    assert reached >= set(range(focusable))


def test_a_missing_page_is_a_page(browser, catalog_server):
    page = browser.new_context().new_page()
    root = str(catalog_server.base_url).rstrip("/")
    reply = page.goto(root + "/errors/hpc-ops-backend-can-only-be-used-with-mla-mode")
    assert reply.status == 404
    assert page.locator("h1").inner_text() == "No such entry"
    page.locator("ul.entries a").first.click()
    assert "hpc_ops" in page.locator("h1").inner_text()


def test_the_exported_files_work_from_disk(visit, exported):
    page = visit("/index.html", base=exported.resolve().as_uri(),
                 viewport={"width": 375, "height": 800})
    page.get_by_role("searchbox").type("hpc_ops")
    page.locator("ul.entries li:visible a").first.click()
    assert "hpc_ops" in page.locator("h1").inner_text()
    assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") != "none"
    page.locator(".tag").first.click()
    page.wait_for_url("**/index.html?tag=*")
    assert 0 < page.locator("ul.entries li:visible").count() < page.locator("ul.entries li").count()
