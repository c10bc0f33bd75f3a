// `quern chat`: a conversation in the terminal. Ctrl-C stops the running answer, or clears the line
// being typed; Ctrl-D and /exit leave, /clear forgets. From a pipe each line is a message, and only
// the answers are printed.
#include <histedit.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cwchar>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/cli.h"
#include "cli/commands.h"
#include "cli/print_error.h"
#include "quern/engine.h"

namespace quern::cli {
namespace {

// Set by Ctrl-C; the one thing a signal handler may touch.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

// Keeps SIGINT from the threads that are started while it lives, so that the main thread gets it.
class WithoutInterrupts {
 public:
  WithoutInterrupts() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~WithoutInterrupts() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };  // no SA_RESTART: a read must end
  sigaction(SIGINT, &action, nullptr);
}

// Reads one character for libedit, whose own reader goes on after Ctrl-C.
int read_character(EditLine*, wchar_t* character) {
  std::mbstate_t state = {};
  for (;;) {
    char byte = 0;
    const ssize_t count = read(STDIN_FILENO, &byte, 1);
    if (count == 0) return 0;
    if (count < 0) {
      if (errno == EINTR && !interrupted) continue;  // the window's size changed
      return -1;
    }
    const size_t length = std::mbrtowc(character, &byte, 1, &state);
    if (length == static_cast<size_t>(-1)) {
      state = {};
    } else if (length != static_cast<size_t>(-2)) {
      return 1;
    }
  }
}

// Lines typed at the terminal, with editing and history.
class Terminal {
 public:
  Terminal()
      : edit_(el_init("quern", stdin, stdout, stderr), el_end),
        history_(history_init(), history_end) {
    if (!edit_ || !history_) {
      throw Error(errors::kOutOfMemory, {{"what", "editing"}, {"bytes", "the needed"}});
    }
    HistEvent event;
    history(history_.get(), &event, H_SETSIZE, 1000);
    el_set(
        edit_.get(), EL_PROMPT, +[](EditLine*) {
          static char prompt[] = "> ";
          return prompt;
        });
    el_set(edit_.get(), EL_HIST, history, history_.get());
    el_set(edit_.get(), EL_EDITOR, "emacs");
    el_set(edit_.get(), EL_GETCFN, read_character);
    el_set(edit_.get(), EL_SIGNAL, 0);
  }

  // The next line, "" after Ctrl-C, nullopt after Ctrl-D.
  std::optional<std::string> next() {
    interrupted = false;
    int length = 0;
    const char* text = el_gets(edit_.get(), &length);
    if (interrupted) {
      el_reset(edit_.get());
      std::puts("");
      return "";
    }
    if (!text || length <= 0) {
      std::puts("");
      return std::nullopt;
    }
    std::string line(text, static_cast<size_t>(length));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_.get(), &event, H_ENTER, line.c_str());
    return line;
  }

 private:
  std::unique_ptr<EditLine, decltype(&el_end)> edit_;
  std::unique_ptr<History, decltype(&history_end)> history_;
};

// libedit and mbrtowc need a UTF-8 locale to take more than ASCII.
void choose_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// Cancels a request soon after Ctrl-C; the main thread waits for tokens meanwhile.
class InterruptWatch {
 public:
  InterruptWatch(Engine& engine, RequestId id)
      : thread_([&engine, id](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            if (interrupted) {
              engine.cancel(id);
              return;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}

 private:
  std::jthread thread_;
};

class Conversation {
 public:
  Conversation(Engine& engine, const Options& options) : engine_(engine), options_(options) {
    clear();
  }

  void clear() {
    messages_.clear();
    if (!options_.system_prompt.empty()) messages_.push_back({"system", options_.system_prompt});
  }

  // Prints the answer as it comes. A refused or failed message is told of and forgotten.
  // Returns whether there is an answer.
  bool say(const std::string& line, bool interruptible) {
    messages_.push_back({"user", valid_utf8(line)});
    try {
      std::string answer = ask(interruptible);
      messages_.push_back({"assistant", std::move(answer)});
      return true;
    } catch (const Error& error) {
      messages_.pop_back();
      print_error(error);
      return false;
    }
  }

 private:
  std::string ask(bool interruptible) {
    Request request;
    request.messages = messages_;
    request.sampling = sampling_of(options_, engine_.info().default_sampling);
    interrupted = false;
    TokenStream stream = engine_.submit(request);
    std::optional<InterruptWatch> watch;
    if (interruptible) watch.emplace(engine_, stream.id());
    std::string answer;
    while (const std::optional<TokenEvent> event = stream.next()) {
      answer += event->text;
      std::fwrite(event->text.data(), 1, event->text.size(), stdout);
      std::fflush(stdout);
      if (event->finish_reason == FinishReason::kNone) continue;
      std::puts(event->finish_reason == FinishReason::kCancelled ? " [stopped]" : "");
      if (event->finish_reason == FinishReason::kError) {
        throw Error(errors::kAnswerFailed,
                    {{"id", event->error_id}, {"reason", event->error_message}});
      }
    }
    std::fflush(stdout);
    return answer;
  }

  Engine& engine_;
  const Options& options_;
  std::vector<ChatMessage> messages_;
};

int chat_in_terminal(Engine& engine, const Options& options) {
  catch_interrupts();
  choose_utf8();
  std::printf("%s on %s. Ctrl-C stops an answer, Ctrl-D leaves, /clear starts anew.\n",
              engine.info().served_model_name.c_str(), engine.info().attention_backend.c_str());
  Terminal terminal;
  Conversation conversation(engine, options);
  while (const std::optional<std::string> line = terminal.next()) {
    if (*line == "/exit") break;
    if (*line == "/clear") {
      conversation.clear();
    } else if (!line->empty()) {
      conversation.say(*line, true);
    }
  }
  return 0;
}

int chat_from_pipe(Engine& engine, const Options& options) {
  Conversation conversation(engine, options);
  bool all_answered = true;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "/exit") break;
    if (line == "/clear") {
      conversation.clear();
    } else if (!line.empty()) {
      all_answered = conversation.say(line, false) && all_answered;
    }
  }
  return all_answered ? 0 : 1;
}

}  // namespace

int chat_command(const Options& options) {
  std::unique_ptr<Engine> engine;
  {
    const WithoutInterrupts others;
    engine = Engine::open(options.engine);
  }
  const bool terminal = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  return terminal ? chat_in_terminal(*engine, options) : chat_from_pipe(*engine, options);
}

}  // namespace quern::cli
