// Generates text with quern inside a program: open a model, submit a request, print what comes.
// Usage: embed MODEL "prompt"
#include <cstdio>
#include <exception>

#include "quern/engine.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s MODEL \"prompt\"\n", argv[0]);
    return 1;
  }
  try {
    quern::EngineOptions options;
    options.model_path = argv[1];
    const auto engine = quern::Engine::open(options);

    quern::Request request;
    request.messages = {{{"user", argv[2]}}};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 100;

    quern::TokenStream answer = engine->submit(request);
    while (const auto event = answer.next()) {
      std::printf("%s", event->text.c_str());
      std::fflush(stdout);
      if (!event->error_message.empty()) std::fprintf(stderr, "%s\n", event->error_message.c_str());
    }
    std::printf("\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
