// `quern tokenize`: the token ids of a text, piece by piece, and the text of token ids.
#include <charconv>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/errors/engine.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "engine/open_tokenizer.h"
#include "server/json_body.h"
#include "text/detokenizer.h"
#include "text/utf8.h"

namespace quern::cli {
namespace {

using server::JsonOut;

std::string given_or_input(const std::optional<std::string>& given) {
  if (given && *given != "-") return *given;
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// Numbers with commas, blanks or brackets around them.
std::vector<std::int32_t> read_ids(std::string_view text, const engine::OpenedTokenizer& opened) {
  constexpr std::string_view kBetween = ",[] \t\r\n";
  std::vector<std::int32_t> ids;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
    if (text.empty()) return ids;
    const std::string word(text.substr(0, text.find_first_of(kBetween)));
    const auto id = parse_number<std::int64_t>(word);
    if (!id) refuse_value("--decode", word.substr(0, 60), "token ids such as 1,2,3");
    if (*id < 0 || *id >= opened.ids) {
      throw Error(errors::kTokenIdOutOfRange,
                  {{"id", *id}, {"position", ids.size()}, {"last", opened.ids - 1}});
    }
    ids.push_back(static_cast<std::int32_t>(*id));
    text.remove_prefix(word.size());
  }
}

// The bytes that each token writes.
std::vector<std::string> pieces_of(const text::Tokenizer& tokenizer,
                                   const std::vector<std::int32_t>& ids) {
  std::vector<std::string> pieces;
  bool first = true;
  for (const std::int32_t id : ids) {
    const text::TokenText text = tokenizer.text(id);
    pieces.emplace_back(first ? text.first : text.inside);
    first = first && tokenizer.is_control(id);
  }
  return pieces;
}

// Where in the text each token stands, in bytes; null where the tokens do not write the very text.
JsonOut offsets_of(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                   const std::vector<std::string>& pieces, std::string_view text) {
  JsonOut offsets = JsonOut::array();
  size_t at = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t length = pieces[i].size();
    if (text.substr(at, length) != pieces[i]) {
      if (!tokenizer.is_control(ids[i])) return nullptr;
      length = 0;  // it was put around the text
    }
    offsets.push_back({at, at + length});
    at += length;
  }
  return at == text.size() ? offsets : JsonOut(nullptr);
}

// In quotes, with bytes that are no character of their own as <0xAB>.
std::string shown(std::string_view piece) {
  std::string text;
  while (!piece.empty()) {
    const text::Utf8Step step = text::utf8_step(piece);
    for (const char c : piece.substr(0, step.length)) {
      if (step.kind == text::Utf8Kind::kValid) {
        text += c;
      } else {
        text += fmt::format("<0x{:02X}>", static_cast<unsigned char>(c));
      }
    }
    piece.remove_prefix(step.length);
  }
  return text;
}

int decode(const Options& options, const engine::OpenedTokenizer& opened) {
  const std::vector<std::int32_t> ids = read_ids(given_or_input(options.decode_ids), opened);
  text::DecodeOptions decoding;
  decoding.skip_special_tokens = options.no_special_tokens;
  const std::string text = text::decode(*opened.tokenizer, ids, decoding);
  if (options.json) {
    std::puts(server::dump(JsonOut{{"text", text}}).c_str());
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  return 0;
}

}  // namespace

int tokenize_command(const Options& options) {
  const engine::OpenedTokenizer opened = engine::open_tokenizer(options.engine.model_path);
  const text::Tokenizer& tokenizer = *opened.tokenizer;
  if (options.decode_ids) return decode(options, opened);
  const PromptPiece prompt{given_or_input(options.text),
                           options.engine.allow_special_tokens_in_prompt};
  const std::vector<std::int32_t> ids =
      tokenizer.encode(std::span(&prompt, 1), {.add_special_tokens = !options.no_special_tokens});
  const std::vector<std::string> pieces = pieces_of(tokenizer, ids);
  if (options.json) {
    JsonOut texts = JsonOut::array();
    for (const std::string& piece : pieces) texts.push_back(shown(piece));
    JsonOut answer = {{"tokens", ids}, {"count", ids.size()}, {"pieces", std::move(texts)}};
    answer["offsets"] = offsets_of(tokenizer, ids, pieces, prompt.text);
    std::puts(server::dump(answer).c_str());
    return 0;
  }
  std::string lines;
  for (size_t i = 0; i < ids.size(); ++i) {
    lines += fmt::format("{}\t{}\n", ids[i], server::dump(JsonOut(shown(pieces[i]))));
  }
  std::fwrite(lines.data(), 1, lines.size(), stdout);
  return 0;
}

}  // namespace quern::cli
