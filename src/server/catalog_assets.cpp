// Style sheet and script of the catalogue's pages. Colours keep a contrast of at least 4.5 to 1 for
// text in both schemes.
#include "server/catalog_pages.h"

namespace quern::server {

std::string_view catalog_style() {
  return R"css(:root {
  color-scheme: light dark;
  --page: #fbfaf7; --card: #ffffff; --ink: #1c1b19; --soft: #5c5850; --line: #dfdbd1;
  --link: #8f4007; --code: #f1eee6; --mark: #b4540a;
  --bad: #a11a1a; --bad-page: #fbe9e7; --warn: #7a5200; --warn-page: #fdf1d3; --good: #1d6b38;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #161513; --card: #1e1d1a; --ink: #ece8df; --soft: #aaa397; --line: #37342e;
    --link: #f0a868; --code: #26241f; --mark: #e58a3c;
    --bad: #ff9b90; --bad-page: #3c1c19; --warn: #f0c463; --warn-page: #37290c; --good: #7fd39b;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 1rem; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 1.0625rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main, header.top, footer { max-width: 48rem; margin: 0 auto; padding: 0 1.25rem; }
main { padding-bottom: 3rem; overflow-wrap: anywhere; }
header.top { padding-top: 1.5rem; }
header.top a { color: var(--ink); font-weight: 700; text-decoration: none; letter-spacing: .01em; }
header.top a span { color: var(--mark); font-weight: 400; }
header.top a:hover { text-decoration: underline; }
footer { border-top: 1px solid var(--line); color: var(--soft); font-size: .875rem; }
a { color: var(--link); text-underline-offset: .15em; text-decoration-thickness: .06em; }
a:hover { text-decoration-thickness: .12em; }
:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px; border-radius: 3px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--card); padding: .5rem 1rem; z-index: 1; }
h1 { font-size: 2rem; line-height: 1.2; margin: 1.75rem 0 .75rem; letter-spacing: -.015em; }
h1.message {
  font: 600 1.3rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  letter-spacing: 0; margin: .4rem 0 1rem; padding: 1.1rem 1.25rem; background: var(--card);
  border: 1px solid var(--line); border-left: 4px solid var(--mark); border-radius: 6px;
}
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.25rem 0 .6rem; letter-spacing: -.005em; }
h3 { font-size: .8rem; margin: 1rem 0 .35rem; text-transform: uppercase; letter-spacing: .07em; }
h3.before { color: var(--bad); }
h3.after { color: var(--good); }
p { margin: .6rem 0; }
.lead { font-size: 1.125rem; color: var(--soft); }
.kind {
  margin: 1.75rem 0 0; color: var(--soft); font-size: .8rem; text-transform: uppercase;
  letter-spacing: .07em; font-weight: 600;
}
code, pre {
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: .875em;
}
code { background: var(--code); padding: .1em .32em; border-radius: 4px; }
pre {
  background: var(--code); border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0;
  padding: .85rem 1rem; overflow-x: auto; line-height: 1.5; white-space: pre-wrap;
}
pre code { background: none; padding: 0; font-size: 1em; }
.block { position: relative; }
.copy { position: absolute; right: 0; bottom: 100%; margin-bottom: .4rem; }
button {
  font: 600 .85rem/1 system-ui, sans-serif; color: var(--ink); background: var(--card);
  border: 1px solid var(--soft); border-radius: 5px; padding: .5rem .7rem; cursor: pointer;
}
button:hover { border-color: var(--mark); color: var(--link); }
.badges { display: flex; flex-wrap: wrap; gap: .45rem; margin: 0 0 .5rem; }
.badge {
  font-size: .8rem; line-height: 1.4; padding: .15rem .55rem; border: 1px solid var(--line);
  border-radius: 4px; background: var(--card); color: var(--soft);
}
.badge.error, .badge.fatal {
  color: var(--bad); background: var(--bad-page); border-color: transparent; font-weight: 600;
}
.badge.warning {
  color: var(--warn); background: var(--warn-page); border-color: transparent; font-weight: 600;
}
ol, ul { padding-left: 1.4rem; margin: .6rem 0; }
li { margin: .4rem 0; }
li::marker { color: var(--soft); }
ul.plain, ul.entries { list-style: none; padding: 0; }
ul.entries li { border-top: 1px solid var(--line); margin: 0; padding: .65rem 0; }
ul.entries li:last-child { border-bottom: 1px solid var(--line); }
ul.entries a { font-weight: 500; text-decoration: none; }
ul.entries a:hover { text-decoration: underline; }
.meta { display: block; color: var(--soft); font-size: .85rem; margin-top: .1rem; }
.dot {
  display: inline-block; width: .55rem; height: .55rem; border-radius: 50%; margin-right: .4rem;
  background: var(--bad);
}
.dot.warning { background: var(--warn); }
form { margin: 1.5rem 0 .75rem; }
form label { display: block; font-size: .9rem; color: var(--soft); margin-bottom: .3rem; }
form div { display: flex; gap: .5rem; }
input {
  flex: 1; min-width: 0; font: inherit; color: var(--ink); background: var(--card);
  border: 1px solid var(--soft); border-radius: 5px; padding: .5rem .7rem;
}
input::placeholder { color: var(--soft); opacity: 1; }
#count { color: var(--soft); font-size: .9rem; }
.contents { display: flex; flex-wrap: wrap; gap: .3rem 1rem; font-size: .9rem; margin: 1rem 0; }
.facts {
  margin-top: 2.5rem; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .9rem;
}
.facts span { color: var(--soft); margin-right: .4rem; }
.tag { display: inline-block; margin-right: .6rem; }
[hidden] { display: none !important; }
@media (max-width: 30rem) {
  h1 { font-size: 1.6rem; }
  h1.message { font-size: 1.05rem; padding: .9rem 1rem; }
}
@media print {
  .copy, form, .contents, header.top, footer { display: none; }
}
)css";
}

std::string_view catalog_script() {
  return R"js("use strict";

// A copy button beside each block that asks for one.
function copied(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.style.position = "fixed";
  area.style.opacity = "0";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done ? Promise.resolve() : Promise.reject(new Error("copying is not allowed"));
}

for (const block of document.querySelectorAll("pre[data-copy]")) {
  const frame = document.createElement("div");
  frame.className = "block";
  block.before(frame);
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy: " + block.getAttribute("aria-label"));
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", () => {
    copied(block.innerText.replace(/\n$/, "")).then(
      () => { button.textContent = "Copied"; },
      () => { button.textContent = "Not allowed"; });
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  frame.append(block, button);
}

// The list shrinks while one types. Where the page holds only what a search found, the server
// searches.
const all = document.getElementById("all");
const input = document.getElementById("q");
if (all && input) {
  const count = document.getElementById("count");
  const items = [...all.querySelectorAll("li")].map((item) => ({
    item, words: item.dataset.words.toLowerCase(), tags: item.dataset.tags.toLowerCase() }));
  const given = new URLSearchParams(location.search);
  const tag = (given.get("tag") || "").toLowerCase();
  const filter = () => {
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { item, words, tags } of items) {
      item.hidden = !(wanted.every((word) => words.includes(word)) &&
                      (!tag || tags.includes('"' + tag + '"') || tags.endsWith(" " + tag)));
      if (!item.hidden) ++shown;
    }
    for (const group of all.querySelectorAll("section")) {
      group.hidden = !group.querySelector("li:not([hidden])");
    }
    all.querySelector("nav").hidden = shown < items.length;
    count.textContent = shown + (shown === 1 ? " error" : " errors") +
      (tag ? " tagged " + tag : "");
  };
  if (given.get("q")) input.value = given.get("q");
  if (tag || given.get("q")) filter();
  input.addEventListener("input", filter);
}
)js";
}

}  // namespace quern::server
