// Fuzzes what the load generator reads from outside: streams of events, answers of the three APIs,
// errors, lists of models, lines of a file and addresses. The first byte says how a stream is cut.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "load/http_client.h"
#include "load/sse_reader.h"
#include "load/wire_api.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::load;
  if (size == 0) return 0;
  const std::size_t step = data[0] + std::size_t{1};
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  for (const Api api : {Api::kChat, Api::kCompletions, Api::kGenerate}) {
    Answer streamed(api), whole(api);
    SseReader reader;
    for (std::size_t at = 0; at < text.size(); at += step) {
      reader.push(text.substr(at, step), [&](std::string_view event) {
        streamed.add(event, false);
        if (streamed.added_tokens() < 0 || streamed.output_tokens() < 0) std::abort();
      });
    }
    whole.add(text, true);
  }
  error_text(text);
  first_model(text);
  parse_url(text);
  std::string reason;
  if (read_line(text, 1, &reason).turns.empty() && reason.empty()) std::abort();
  return 0;
}
