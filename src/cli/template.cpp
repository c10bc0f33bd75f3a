// `quern template`: what a model's chat template, or a file, makes of a conversation.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/errors/engine.h"
#include "cli/commands.h"
#include "engine/chat_templates.h"
#include "server/chat_messages.h"

namespace quern::cli {
namespace {

std::string all_of(std::istream& stream) {
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::string read_input(const std::string& path) {
  if (path.empty() || path == "-") return all_of(std::cin);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(errors::kFileUnreadable, {{"file", path}});
  return all_of(file);
}

// A chat request's body, or its messages alone.
Request read_conversation(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool bare = first != std::string::npos && text[first] == '[';
  const server::Json body = server::parse_object(bare ? "{\"messages\":" + text + "}" : text);
  Request request;
  server::read_chat(server::Fields(body), &request);
  return request;
}

}  // namespace

int template_command(const Options& options) {
  const Request request = read_conversation(read_input(options.file));
  const engine::RenderedChat chat =
      engine::render_chat(options.engine.model_path, options.engine.chat_template, request,
                          options.template_tokens, options.template_repeats);
  if (options.template_repeats > 0) {
    std::fprintf(stderr, "%.3f ms of CPU a rendering\n", chat.cpu_seconds * 1e3);
  }
  if (options.json) {
    server::JsonOut out = {{"text", chat.text}};
    if (options.template_tokens) out["tokens"] = chat.ids;
    std::puts(server::dump(out).c_str());
    return 0;
  }
  std::fwrite(chat.text.data(), 1, chat.text.size(), stdout);
  if (options.template_tokens) std::puts(("\n" + server::dump(server::Json(chat.ids))).c_str());
  return 0;
}

}  // namespace quern::cli
