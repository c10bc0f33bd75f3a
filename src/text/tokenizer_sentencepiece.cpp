// SentencePiece's tokenizer.model to TokenizerSpec: BPE and Unigram, with its own normalizer and
// decoder. Field numbers are those of sentencepiece_model.proto.
#include <cmath>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/protobuf.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

namespace quern::text {
namespace {

using checkpoint::TokenizerSource;

struct Piece {
  std::string_view text;
  float score = 0;
  std::int64_t type = 1;
};

struct Model {
  std::vector<Piece> pieces;
  std::int64_t model_type = 1;  // 1 unigram, 2 BPE, 3 word, 4 char
  bool byte_fallback = false, blank_behind = false;
  std::int64_t bos_id = 1, eos_id = 2;
  std::string_view unknown_text = " \xE2\x81\x87 ";
  std::string_view charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

class Reader {
 public:
  Reader(const TokenizerSource& source, std::int64_t rows) : source_(source), spec_(source, rows) {}

  TokenizerSpec run() {
    read_model();
    if (model_.pieces.empty()) fail("it holds no tokens");
    read_pieces();
    spec_.normalizer.emplace_back(SentencePieceStep{
        Charsmap(model_.charsmap, source_.origin), model_.add_dummy_prefix,
        model_.remove_extra_whitespaces, model_.escape_whitespaces, model_.blank_behind});
    spec_.decoder.emplace_back(
        SentencePieceDecode{model_.add_dummy_prefix, model_.remove_extra_whitespaces});
    spec_.unknown_text = model_.unknown_text;
    make_model();
    add_tokens(source_, spec_);
    TokenizerSource around = source_;
    around.model_file.clear();
    const auto known = [&](std::int32_t asked, std::int64_t own) {
      return asked >= 0 ? asked : static_cast<std::int32_t>(own);
    };
    around.bos_token_id = known(source_.bos_token_id, model_.bos_id);
    around.eos_token_id = known(source_.eos_token_id, model_.eos_id);
    put_around(around, spec_);
    return std::move(spec_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    spec_.vocabulary.fail(fmt::format("the SentencePiece model cannot be read: {}", what));
  }

  template <typename Each>
  void each_field(std::string_view message, Each&& each) const {
    ProtobufReader reader(message);
    while (reader.next()) each(reader);
    if (reader.failed()) fail("a field is cut or of no known type");
  }

  void read_model() {
    each_field(source_.model_file, [&](const ProtobufReader& field) {
      if (!field.is_bytes()) return;
      switch (field.field()) {
        case 1: read_piece(field.bytes()); break;
        case 2: read_trainer(field.bytes()); break;
        case 3: read_normalizer(field.bytes()); break;
        default: break;
      }
    });
  }

  void read_piece(std::string_view message) {
    constexpr std::size_t kMaxPieces = std::size_t{1} << 21;
    if (model_.pieces.size() >= kMaxPieces) fail("it holds too many tokens");
    Piece piece;
    each_field(message, [&](const ProtobufReader& field) {
      switch (field.field()) {
        case 1: piece.text = field.bytes(); break;
        case 2: piece.score = field.real(); break;
        case 3: piece.type = field.number(); break;
        default: break;
      }
    });
    model_.pieces.push_back(piece);
  }

  void read_trainer(std::string_view message) {
    each_field(message, [&](const ProtobufReader& field) {
      switch (field.field()) {
        case 3: model_.model_type = field.number(); break;
        case 24: model_.blank_behind = field.number() != 0; break;
        case 35: model_.byte_fallback = field.number() != 0; break;
        // Negative ids say that there is none.
        case 41: model_.bos_id = static_cast<std::int32_t>(field.number()); break;
        case 42: model_.eos_id = static_cast<std::int32_t>(field.number()); break;
        case 44: model_.unknown_text = field.bytes(); break;
        default: break;
      }
    });
  }

  void read_normalizer(std::string_view message) {
    each_field(message, [&](const ProtobufReader& field) {
      switch (field.field()) {
        case 2: model_.charsmap = field.bytes(); break;
        case 3: model_.add_dummy_prefix = field.number() != 0; break;
        case 4: model_.remove_extra_whitespaces = field.number() != 0; break;
        case 5: model_.escape_whitespaces = field.number() != 0; break;
        default: break;
      }
    });
  }

  void read_pieces() {
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      const Piece& piece = model_.pieces[id];
      if (replace_invalid(piece.text) != piece.text) fail(fmt::format("token {} is not UTF-8", id));
      TokenKind kind = TokenKind::kNormal;
      switch (piece.type) {
        case 1: break;
        case 2: kind = TokenKind::kUnknown; break;
        case 3: kind = TokenKind::kControl; break;
        case 4: kind = TokenKind::kUserDefined; break;
        case 5: kind = TokenKind::kUnused; break;
        case 6: kind = TokenKind::kByte; break;
        default: fail(fmt::format("token {} is of type {}", id, piece.type));
      }
      spec_.vocabulary.add(piece.text, static_cast<std::int64_t>(id), kind);
      if (kind == TokenKind::kUnknown) unk_id_ = static_cast<std::int32_t>(id);
      if (kind != TokenKind::kControl && kind != TokenKind::kUserDefined) continue;
      AddedToken token;
      token.text = piece.text;
      token.id = static_cast<std::int32_t>(id);
      token.special = kind == TokenKind::kControl;
      // User-defined tokens are part of the text that gets the dummy blank.
      token.normalized = !token.special;
      token.verbatim = true;
      spec_.added_tokens.push_back(std::move(token));
    }
  }

  void make_model() {
    std::vector<double> scores;
    for (const Piece& piece : model_.pieces) {
      if (!std::isfinite(piece.score)) fail("a score is not a number");
      scores.push_back(piece.score);
    }
    if (model_.model_type == 2) {
      BpeSpec bpe;
      bpe.options.byte_level = false;
      bpe.options.byte_fallback = model_.byte_fallback;
      bpe.options.fuse_unk = true;
      bpe.options.unk_id = unk_id_;
      bpe.merges = implied_merges(spec_.vocabulary, scores);
      spec_.model = std::move(bpe);
    } else if (model_.model_type == 1) {
      UnigramSpec unigram;
      unigram.scores = std::move(scores);
      unigram.options.unk_id = unk_id_;
      unigram.options.byte_fallback = model_.byte_fallback;
      unigram.options.sentencepiece = true;
      spec_.model = std::move(unigram);
    } else {
      throw Error(errors::kTokenizerUnsupported,
                  {{"component", "The model type"},
                   {"origin", source_.origin},
                   {"value", model_.model_type == 3 ? "word" : "character"},
                   {"allowed", "Unigram, BPE"}});
    }
  }

  const TokenizerSource& source_;
  TokenizerSpec spec_;
  Model model_;
  std::int32_t unk_id_ = -1;
};

}  // namespace

TokenizerSpec read_sentencepiece(const TokenizerSource& source, std::int64_t rows) {
  return Reader(source, rows).run();
}

}  // namespace quern::text
