#include "engine/check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "attention/select.h"
#include "base/errors/attention.h"
#include "base/errors/model.h"
#include "checkpoint/checkpoint.h"

namespace quern::engine {
namespace {

const std::string kModels = QUERN_TEST_DATA "/models/";

std::vector<std::string> model_configs() {
  std::vector<std::string> paths;
  for (const auto& folder : std::filesystem::directory_iterator(kModels)) {
    const auto path = folder.path() / "config.json";
    if (std::filesystem::exists(path)) paths.push_back(path.string());
  }
  return paths;
}

std::string config_text(const std::string& model) {
  std::ifstream file(kModels + model + "/config.json");
  return {std::istreambuf_iterator<char>(file), {}};
}

CheckOptions options_for(const std::string& model, const std::string& backend = "") {
  CheckOptions options;
  options.engine.model_path = kModels + model + "/config.json";
  options.hardware = "x86-avx2";
  options.engine.attention_backend = backend;
  return options;
}

void expect_refused(const CheckOptions& options, ErrorId id, const std::string& message) {
  try {
    require_backend(options);
    ADD_FAILURE() << options.engine.attention_backend << " is not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), id);
    EXPECT_EQ(error.message(), message);
  }
}

TEST(Check, RefusesMlaModelsOnTrtllmMha) {
  expect_refused(options_for("deepseek_v3", "trtllm_mha"), errors::kTrtllmMhaMlaModel,
                 "trtllm_mha backend can only be used with non-MLA models.");
}

TEST(Check, RefusesLlamaOnMlaBackends) {
  const std::pair<std::string, ErrorId> rows[] = {
      {"trtllm_mla", errors::kTrtllmMlaNonMlaModel},
      {"cutedsl_mla", errors::kCutedslMlaNonMlaModel},
      {"tokenspeed_mla", errors::kTokenspeedMlaNonMlaModel},
      {"flashmla", errors::kFlashmlaNonMlaModel},
      {"cutlass_mla", errors::kCutlassMlaNonMlaModel}};
  for (const auto& [name, id] : rows) {
    expect_refused(options_for("llama", name), id,
                   name + " backend can only be used with MLA models.");
  }
}

TEST(Check, RefusesWhatHpcOpsCannotDo) {
  expect_refused(options_for("deepseek_v2", "hpc_ops"), errors::kHpcOpsMlaModel,
                 "hpc_ops backend can only be used with non-MLA models.");
  expect_refused(options_for("bart", "hpc_ops"), errors::kHpcOpsCrossAttention,
                 "Cross attention is not supported in the hpc_ops attention backend.");
  CheckOptions speculative = options_for("llama", "hpc_ops");
  speculative.engine.speculative_algorithm = "NGRAM";
  expect_refused(speculative, errors::kHpcOpsSpeculative,
                 "hpc_ops backend does not support speculative decoding for now.");
}

TEST(Check, ChoosesCpuFlashForLlama) {
  const CheckReport report = check(options_for("llama"));
  EXPECT_EQ(report.choice, "cpu_flash");
  EXPECT_EQ(report.architecture, "LlamaForCausalLM");
  EXPECT_FALSE(report.mla);
  EXPECT_EQ(require_backend(options_for("llama")), "cpu_flash");
  EXPECT_EQ(require_backend(options_for("llama", "torch_native")), "torch_native");
}

TEST(Check, TakesAFolderOrAConfigFile) {
  CheckOptions folder = options_for("deepseek_v3");
  folder.engine.model_path = kModels + "deepseek_v3";
  EXPECT_TRUE(check(folder).mla);
  EXPECT_TRUE(check(options_for("deepseek_v3")).mla);
}

// A backend that fits does not make the model run: its family has a say too.
TEST(Check, RefusesWhatTheFamilyDoesNotServe) {
  std::string text = config_text("qwen2");
  const std::string plain = "\"silu\"";
  text.replace(text.find(plain), plain.size(), "\"gelu\"");
  const std::string path = testing::TempDir() + "gelu-config.json";
  std::ofstream(path) << text;
  CheckOptions options;
  options.engine.model_path = path;
  options.hardware = "x86-avx2";
  const CheckReport report = check(options);
  EXPECT_EQ(report.choice, "cpu_flash");
  ASSERT_TRUE(report.refused.has_value());
  EXPECT_EQ(report.refused->id(), errors::kModelFeatureNotServed);
  EXPECT_EQ(report.decode, "");
  EXPECT_THROW(require_backend(options), Error);
  std::filesystem::remove(path);
}

TEST(Check, RefusesUnknownWords) {
  CheckOptions options = options_for("llama");
  options.hardware = "z80";
  EXPECT_THROW(check(options), Error);
  options = options_for("llama");
  options.engine.kv_cache_dtype = "nosuch";
  EXPECT_THROW(check(options), Error);
  expect_refused(options_for("llama", "nosuch"), errors::kInvalidAttentionBackend,
                 "Invalid attention backend: nosuch");
}

// The words of two reports; equal texts are equal reports.
std::string text_of(const CheckReport& report) {
  std::string text = report.choice + "\n" + report.reason + "\n" + report.mla_evidence + "\n";
  for (const CheckVerdict& verdict : report.verdicts) {
    text += verdict.backend;
    for (const CheckRefusal& refusal : verdict.refusals) {
      text += " | " + refusal.id + " " + refusal.message;
    }
    text += "\n";
  }
  return text;
}

TEST(Check, AnswersForEveryModelOnEveryMachine) {
  const std::vector<std::string> configs = model_configs();
  EXPECT_GE(configs.size(), 15u);
  std::set<std::string> read;
  for (const std::string& path : configs) {
    for (const std::string_view machine : attention::hardware_names()) {
      for (const std::string algorithm : {"", "NGRAM"}) {
        CheckOptions options;
        options.engine.model_path = path;
        options.hardware = machine;
        options.engine.speculative_algorithm = algorithm;
        try {
          const CheckReport report = check(options);
          read.insert(path);
          EXPECT_EQ(report.verdicts.size(), attention::backends().size());
          EXPECT_EQ(text_of(report), text_of(check(options)));
          for (const CheckVerdict& verdict : report.verdicts) {
            EXPECT_FALSE(verdict.refusals.empty() && report.choice.empty()) << verdict.backend;
          }
        } catch (const Error& error) {
          // A model of a kind that the config reader refuses: the refusal must name the file.
          EXPECT_NE(error.message().find("config.json"), std::string::npos) << error.message();
        }
      }
    }
  }
  EXPECT_GE(read.size(), 10u);
}

// Each refused choice suggests only what would be accepted.
TEST(Check, AcceptsWhatItSuggests) {
  for (const std::string& path : model_configs()) {
    CheckOptions options;
    options.engine.model_path = path;
    options.hardware = "epyc-avx512";
    try {
      const CheckReport report = check(options);
      for (const CheckVerdict& verdict : report.verdicts) {
        options.engine.attention_backend = verdict.backend;
        if (verdict.refusals.empty()) {
          EXPECT_EQ(require_backend(options), verdict.backend);
        } else {
          EXPECT_THROW(require_backend(options), Error) << verdict.backend;
        }
      }
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("config.json"), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace quern::engine
