#include "engine/active_request.h"

#include <algorithm>

#include "base/errors/engine.h"

namespace quern::engine {

FinishReason Active::add(std::int32_t token, const std::vector<std::int32_t>& eos,
                         TokenEvent* event) {
  ++completion_tokens;
  event->token_ids.push_back(token);
  edits.note(token);
  const auto holds = [token](const std::vector<std::int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  bool ends = holds(sampling.stop_token_ids) || (!sampling.ignore_eos && holds(eos));
  std::string text;
  if (!ends || sampling.no_stop_trim) text = detokenizer.push(token);
  if (thinking) thinking->take(text);
  if (grammar) {
    if (!grammar->take(token, text)) return FinishReason::kError;
    ends = ends || grammar->ended();
  }
  event->text += output.push(text);
  if (ends || output.stopped()) return FinishReason::kStop;
  const bool full = completion_tokens >= max_tokens || !output.too_costly().empty();
  return full ? FinishReason::kLength : FinishReason::kNone;
}

Error Active::dead_end() const {
  return Error(errors::kGrammarDeadEnd,
               {{"kind", grammar->kind()}, {"step", completion_tokens + 1}});
}

void Unready::add(Command command) {
  const RequestId id = command.id;
  commands_.emplace(id, std::move(command));
}

void Unready::make_ready(RequestId id, grammar::Outcome outcome, std::vector<Command>* ready) {
  auto found = commands_.extract(id);
  if (found.empty()) return;
  found.mapped().grammar = std::move(outcome.grammar);
  found.mapped().error = std::move(outcome.error);
  ready->push_back(std::move(found.mapped()));
}

std::vector<Command> Unready::take_all() {
  std::vector<Command> all;
  for (auto& [id, command] : commands_) all.push_back(std::move(command));
  commands_.clear();
  return all;
}

std::int64_t next_position(const scheduler::Plan& plan, size_t row) {
  return plan.batch.positions[static_cast<size_t>(plan.batch.logit_rows[row])] + 1;
}

std::vector<AnswerGrammar*> grammars_of(const scheduler::Plan& plan,
                                        const std::unordered_map<RequestId, Active>& active) {
  std::vector<AnswerGrammar*> grammars;
  for (size_t row = 0; row < plan.row_requests.size(); ++row) {
    const auto found = active.find(plan.row_requests[row]);
    if (found == active.end() || !found->second.grammar) continue;
    if (next_position(plan, row) < found->second.prompt_tokens) continue;
    grammars.push_back(found->second.grammar.get());
  }
  return grammars;
}

Active make_active(const LoadedModel& loaded, Command* command, std::uint64_t seed) {
  const auto length = static_cast<std::int64_t>(command->tokens.size());
  const std::int64_t room = loaded.info.context_length - length;
  const std::int64_t asked = command->sampling.max_tokens;
  const std::uint64_t own_seed = command->sampling.seed.value_or(seed + command->id);
  const auto writes = [&](std::int32_t token) { return !loaded.tokenizer->bytes(token).empty(); };
  LogitEdits edits(command->sampling, command->tokens, loaded.config.eos_token_ids);
  text::DecodeOptions decoding;
  decoding.skip_special_tokens = command->sampling.skip_special_tokens;
  decoding.spaces_between_special_tokens = command->sampling.spaces_between_special_tokens;
  decoding.shown = command->shown;
  decoding.begins = std::none_of(command->tokens.rbegin(), command->tokens.rend(), writes);
  const ReasoningStart start = loaded.formats->start(command->tokens);
  std::optional<ThinkingBudget> thinking;
  const std::int64_t thinks = command->sampling.max_thinking_tokens;
  if (thinks >= 0 && !loaded.formats->closing().empty()) {
    thinking.emplace(*loaded.formats, start, thinks);
  }
  std::unique_ptr<AnswerGrammar> grammar;
  if (command->grammar) {
    grammar = std::make_unique<AnswerGrammar>(std::move(command->grammar), command->grammar_kind,
                                              *loaded.formats, start, loaded.config.eos_token_ids);
  }
  return Active{.sampling = std::move(command->sampling),
                .sink = std::move(command->sink),
                .detokenizer = text::Detokenizer(*loaded.tokenizer, decoding),
                .output = std::move(command->output.value()),
                .edits = std::move(edits),
                .logprobs = std::move(command->logprobs),
                .reasoning_start = start,
                .thinking = std::move(thinking),
                .grammar = std::move(grammar),
                .seed = own_seed,
                .prompt_tokens = length,
                .max_tokens = asked < 0 ? room : std::min(asked, room)};
}

}  // namespace quern::engine
