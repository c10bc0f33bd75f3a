// Over backends × models × machines × options: whatever a refusal suggests is accepted when it is
// asked for, and the automatic choice passes the checks of an explicit one.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/errors/attention.h"
#include "base/errors/base.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/known_models.h"
#include "engine/question.h"

namespace quern::engine {
namespace {

constexpr const char* kMachines[] = {"arm64", "xeon-amx", "a100", "h100", "b200", "mi300x"};

std::vector<EngineOptions> option_sets() {
  std::vector<EngineOptions> sets(8);
  sets[1].page_size = 64;
  sets[2].kv_cache_dtype = "fp8_e4m3";
  sets[3].speculative_algorithm = "NGRAM";
  sets[4].speculative_algorithm = "EAGLE";
  sets[4].speculative_draft_model_path = "Llama-3.2-1B";
  sets[5].enable_deterministic_inference = true;
  sets[5].page_size = 1;
  sets[6].simulate_hardware = "b200";
  sets[7].simulate_hardware = "h100";
  sets[7].page_size = 64;
  return sets;
}

// The flags of a suggested command line, which are the few that hint.cpp writes.
EngineOptions parsed(const std::string& line) {
  EngineOptions options;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word == "quern" || word == "serve") continue;
    if (word == "--enable-deterministic-inference") {
      options.enable_deterministic_inference = true;
      continue;
    }
    std::string value;
    words >> value;
    if (word == "--model") {
      options.model_path = value;
    } else if (word == "--attention-backend") {
      options.attention_backend = value;
    } else if (word == "--page-size") {
      options.page_size = std::stoll(value);
    } else if (word == "--kv-cache-dtype") {
      options.kv_cache_dtype = value;
    } else if (word == "--speculative-algorithm") {
      options.speculative_algorithm = value;
    } else if (word == "--speculative-eagle-topk") {
      options.speculative_eagle_topk = std::stoll(value);
    } else if (word == "--speculative-draft-model-path") {
      options.speculative_draft_model_path = value;
    } else if (word == "--simulate-hardware") {
      options.simulate_hardware = value;
    } else {
      ADD_FAILURE() << "an unknown flag is suggested: " << word;
    }
  }
  return options;
}

class Suggestions : public testing::Test {
 protected:
  const ModelConfig& config_of(const std::string& model) {
    const auto found = configs_.find(model);
    if (found != configs_.end()) return found->second;
    return configs_[model] = checkpoint::read_metadata(model).config;
  }

  attention::Plan plan(const EngineOptions& options, attention::Hardware hardware) {
    hardware.simulated = !options.simulate_hardware.empty();
    return attention::choose(question_of(options, config_of(options.model_path), hardware),
                             asked_backends(options));
  }

  void expect_accepted(const std::string& line, const attention::Hardware& hardware) {
    if (!accepted_.insert(hardware.name + line).second) return;
    try {
      plan(parsed(line), hardware);
    } catch (const Error& error) {
      ADD_FAILURE() << "suggested and refused: " << line << "\n" << error.message();
    }
  }

  void judge(EngineOptions options, const attention::Hardware& hardware) {
    const bool automatic = options.attention_backend.empty();
    try {
      const attention::Plan made = plan(options, hardware);
      EXPECT_TRUE(made.fits());
      EXPECT_TRUE(attention::has_kernels(made.decode.row->info, [&] {
        attention::Hardware machine = hardware;
        machine.simulated = !options.simulate_hardware.empty();
        return machine;
      }()));
      if (!automatic) return;
      options.attention_backend = made.decode.row->info.name;
      EXPECT_EQ(plan(options, hardware).decode.row, made.decode.row);
    } catch (const Error& error) {
      ++refused_;
      const std::string hint(error.field("hint"));
      EXPECT_TRUE(error.id() == errors::kDraftModelMissing || !hint.empty()) << error.message();
      std::istringstream lines(hint);
      for (std::string line; std::getline(lines, line);) {
        const size_t command = line.find("quern serve");
        if (command != line.npos) expect_accepted(line.substr(command), hardware);
      }
    }
  }

  std::map<std::string, ModelConfig> configs_;
  std::set<std::string> accepted_;
  int refused_ = 0;
};

TEST_F(Suggestions, AreAcceptedWhenAskedFor) {
  for (const std::string& model : checkpoint::known_model_names()) {
    for (EngineOptions options : option_sets()) {
      options.model_path = model;
      for (const char* machine : kMachines) {
        const std::string& simulated = options.simulate_hardware;
        const attention::Hardware hardware =
            attention::hardware_named(simulated.empty() ? machine : simulated);
        options.attention_backend.clear();
        judge(options, hardware);
        for (const attention::BackendRow* row : attention::backends()) {
          options.attention_backend = row->info.name;
          judge(options, hardware);
        }
        if (!simulated.empty()) break;  // the machine is the simulated one
      }
    }
  }
  EXPECT_GT(refused_, 10000);
  EXPECT_GT(accepted_.size(), 100u);
}

}  // namespace
}  // namespace quern::engine
