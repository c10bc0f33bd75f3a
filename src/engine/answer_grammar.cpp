#include "engine/answer_grammar.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace quern::engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr float kNever = -std::numeric_limits<float>::infinity();

bool blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

}  // namespace

AnswerGrammar::AnswerGrammar(std::shared_ptr<const grammar::Compiled> compiled, std::string kind,
                             const AnswerFormats& formats, ReasoningStart start,
                             std::span<const std::int32_t> ends)
    : matcher_(std::move(compiled)), kind_(std::move(kind)), ends_(ends) {
  if (formats.reasoning().empty() || start == ReasoningStart::kClosed) return;
  parser_ = make_reasoning_parser(formats.reasoning(), start);
  reasons_ = parser_->in_reasoning();
  if (!reasons_) opening_ = formats.opening();
  if (!reasons_ && opening_ < 0) parser_.reset();
}

void AnswerGrammar::prepare() {
  if (reasons_) return;
  const auto begin = Clock::now();
  matcher_.fill(&mask_);
  seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
}

std::span<const float> AnswerGrammar::apply(std::span<const float> row,
                                            std::vector<float>* scratch) const {
  if (row.data() != scratch->data()) scratch->assign(row.begin(), row.end());
  float* logits = scratch->data();
  const auto size = static_cast<std::int32_t>(row.size());
  const auto forbid = [&](std::int32_t id) {
    // What is no number stays none, so that it is found.
    if (id < size && !(logits[id] != logits[id])) logits[id] = kNever;
  };
  if (reasons_) {
    for (const std::int32_t id : ends_) forbid(id);
    return *scratch;
  }
  for (std::int32_t word = 0; word * 32 < size; ++word) {
    auto missing = ~static_cast<std::uint32_t>(mask_[static_cast<size_t>(word)]);
    for (; missing != 0; missing &= missing - 1) {
      const std::int32_t id = word * 32 + __builtin_ctz(missing);
      if (id != opening_) forbid(id);
    }
  }
  return *scratch;
}

bool AnswerGrammar::take(std::int32_t token, const std::string& text) {
  if (!reasons_ && !(parser_ && token == opening_)) {
    parser_.reset();
    opening_ = -1;
    return matcher_.accept(token);
  }
  opening_ = -1;
  std::string reasoning, content;
  parser_->push(text, &reasoning, &content);
  reasons_ = parser_->in_reasoning();
  if (reasons_) return true;
  parser_.reset();
  // What the closing token wrote behind the mark belongs to the answer.
  return blank(content) || matcher_.accept_text(content);
}

std::vector<std::int32_t> AnswerGrammar::forced() {
  if (reasons_ || opening_ >= 0) return {};
  return matcher_.forced();
}

MaskThread::MaskThread() : thread_([this] { work(); }) {}

MaskThread::~MaskThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void MaskThread::start(std::vector<AnswerGrammar*> grammars) {
  if (grammars.empty()) return;
  const std::lock_guard lock(mutex_);
  jobs_ = std::move(grammars);
  next_ = 0;
  busy_ = true;
  wake_.notify_one();
}

void MaskThread::take_jobs() {
  for (size_t job = next_++; job < jobs_.size(); job = next_++) jobs_[job]->prepare();
}

void MaskThread::finish() {
  if (jobs_.empty()) return;
  take_jobs();
  std::unique_lock lock(mutex_);
  if (!begun_) busy_ = false;  // all is done before the thread was awake
  idle_.wait(lock, [this] { return !busy_; });
  jobs_.clear();
}

void MaskThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return busy_ || stopping_; });
    if (stopping_) return;
    begun_ = true;
    lock.unlock();
    take_jobs();
    lock.lock();
    busy_ = begun_ = false;
    idle_.notify_one();
  }
}

}  // namespace quern::engine
