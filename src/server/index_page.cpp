// The page at / and the command it shows.
#include <fmt/format.h>

#include <string>

#include "server/json_body.h"
#include "server/pages.h"
#include "server/text_forms.h"

namespace quern::server {
namespace {

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", name, html_escaped(value));
}

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>quern</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; }
th { text-align: left; vertical-align: top; padding-right: 1.5rem; white-space: nowrap; }
pre { background: #f2f2f2; color: #111; padding: 1rem; overflow-x: auto; }
</style>
</head>
<body>
<h1>quern</h1>
)";

}  // namespace

std::string curl_command(const EngineInfo& info, const ServerFacts& facts) {
  JsonOut body = {{"model", info.served_model_name}};
  if (info.has_chat_template) {
    body["messages"] = JsonOut::array({{{"role", "user"}, {"content", "Why is the sky blue?"}}});
  } else {
    body["prompt"] = "The sky is blue because";
  }
  body["max_tokens"] = 128;
  body["stream"] = true;
  return fmt::format("curl -N {}/v1/{} -H 'Content-Type: application/json'{} -d {}", facts.url,
                     info.has_chat_template ? "chat/completions" : "completions",
                     facts.guarded ? " -H \"Authorization: Bearer $API_KEY\"" : "",
                     shell_quoted(dump(body)));
}

std::string index_page(const EngineInfo& info, const ServerFacts& facts) {
  std::string html(kHead);
  html += "<p>A language model is served here over the OpenAI API.</p>\n<table>\n";
  html += row("Model", info.served_model_name);
  html += row("Architecture", info.architecture);
  html += row("Attention backend", info.attention_backend);
  html += row("Why this backend", info.attention_backend_reason);
  html += row("Context", fmt::format("{} tokens", info.context_length));
  html += row("KV cache", fmt::format("{} pages of {} tokens, {}", info.pages_total, info.page_size,
                                      info.kv_cache_dtype));
  html += row("Runs on", fmt::format("{}, {} threads, {}", info.hardware, info.threads, info.isa));
  html += "</table>\n<p>Ask it something:</p>\n<pre>";
  html += html_escaped(curl_command(info, facts));
  html +=
      "</pre>\n<p>See also <a href=\"/v1/models\">/v1/models</a>, "
      "<a href=\"/server_info\">/server_info</a>, <a href=\"/health\">/health</a>, and "
      "<a href=\"/errors\">/errors</a> for what every error means.</p>\n"
      "</body>\n</html>\n";
  return html;
}

}  // namespace quern::server
