#include "cache/radix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cache/page_cache.h"

namespace quern::cache {
namespace {

using Tokens = std::vector<std::int32_t>;

class RadixTreeTest : public testing::Test {
 protected:
  // Computes what is not cached, as a request would; returns the lock on all of it.
  RadixTree::Lock put(const Tokens& tokens, const std::string& space = "") {
    numbers.clear();
    auto prefix = tree.match(space, tokens, &numbers);
    const auto cached = static_cast<size_t>(prefix.pages());
    std::vector<PageRef> pages;
    for (size_t i = cached; i < tokens.size() / 2; ++i) pages.push_back(std::move(*pool.take()));
    auto lock = tree.insert(std::move(prefix), TokenSpan(tokens).subspan(cached * 2),
                            std::move(pages), &numbers);
    tree.check();
    EXPECT_EQ(lock.page_numbers(), numbers);
    return lock;
  }

  PagePool pool{100};
  RadixTree tree{2};
  std::vector<std::int32_t> numbers;
};

TEST_F(RadixTreeTest, FindsTheLongestPrefixInWholePages) {
  put({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tree.match_length("", Tokens{1, 2, 3, 4, 5, 6, 7}), 6);
  EXPECT_EQ(tree.match_length("", Tokens{1, 2, 3, 4, 5}), 4);
  EXPECT_EQ(tree.match_length("", Tokens{1, 2, 3, 9, 5, 6}), 2);
  EXPECT_EQ(tree.match_length("", Tokens{1}), 0);
  EXPECT_EQ(tree.match_length("", Tokens{}), 0);
  EXPECT_EQ(tree.match_length("", Tokens{3, 4}), 0);
}

TEST_F(RadixTreeTest, SplitsANodeAtAPageBoundary) {
  const auto first = put({1, 2, 3, 4, 5, 6});
  const auto whole = numbers;
  {
    const auto second = put({1, 2, 3, 4, 7, 8});
    EXPECT_EQ(std::vector(numbers.begin(), numbers.begin() + 2),
              std::vector(whole.begin(), whole.begin() + 2));
    EXPECT_NE(numbers[2], whole[2]);
    EXPECT_EQ(pool.used(), 4);
  }
  EXPECT_EQ(first.pages(), 3);
  EXPECT_EQ(first.page_numbers(), whole);
  EXPECT_EQ(tree.evictable(), 1);
  EXPECT_EQ(tree.evict(10), 1);
  tree.check();
  EXPECT_EQ(first.page_numbers(), whole);
}

TEST_F(RadixTreeTest, PagesOfEqualTokensAreKeptOnce) {
  auto a = tree.match("", Tokens{1, 2, 3, 4}, &numbers);
  auto b = tree.match("", Tokens{1, 2, 3, 4}, &numbers);
  EXPECT_TRUE(numbers.empty());
  const auto two_pages = [&] {
    std::vector<PageRef> pages;
    for (int i = 0; i < 2; ++i) pages.push_back(std::move(*pool.take()));
    return pages;
  };
  std::vector<std::int32_t> of_a, of_b;
  auto pages_a = two_pages(), pages_b = two_pages();
  a = tree.insert(std::move(a), Tokens{1, 2, 3, 4}, std::move(pages_a), &of_a);
  EXPECT_EQ(pool.used(), 4);
  b = tree.insert(std::move(b), Tokens{1, 2, 3, 4}, std::move(pages_b), &of_b);
  EXPECT_EQ(pool.used(), 2);
  EXPECT_EQ(of_a, of_b);
  tree.check();
}

TEST_F(RadixTreeTest, APromptInChunksIsOneNodeForAllWhoReadIt) {
  Tokens tokens;
  auto lock = tree.match("", tokens, &numbers);
  for (std::int32_t i = 0; i < 20; ++i) {
    std::vector<PageRef> page;
    page.push_back(std::move(*pool.take()));
    lock = tree.insert(std::move(lock), Tokens{i, i}, std::move(page), &numbers);
    tokens.insert(tokens.end(), {i, i});
    if (i == 9) {
      // Somebody who reads the first half keeps his half, whatever is added behind it.
      const auto reader = tree.match("", tokens, &numbers);
      std::vector<PageRef> more;
      more.push_back(std::move(*pool.take()));
      lock = tree.insert(std::move(lock), Tokens{99, 99}, std::move(more), &numbers);
      EXPECT_EQ(reader.pages(), 10);
      lock = tree.match("", tokens, &numbers);
    }
    tree.check();
    EXPECT_EQ(lock.pages(), i + 1);
  }
}

TEST_F(RadixTreeTest, LocksHoldWhatTheyCover) {
  auto lock = put({1, 2, 3, 4});
  put({1, 2, 3, 4, 5, 6});
  put({9, 9});
  EXPECT_EQ(tree.evictable(), 2);
  EXPECT_EQ(tree.evict(100), 2);
  EXPECT_EQ(pool.used(), 2);
  auto moved = std::move(lock);
  EXPECT_EQ(tree.evict(100), 0);
  moved = {};
  EXPECT_EQ(tree.evict(100), 2);
  EXPECT_EQ(pool.used(), 0);
  tree.check();
}

TEST_F(RadixTreeTest, TheLeastRecentlyUsedLeafGoesFirstFromItsEnd) {
  put({1, 1, 2, 2, 3, 3});
  put({1, 1, 2, 2, 4, 4});
  put({5, 5, 6, 6});
  tree.match("", Tokens{1, 1, 2, 2, 3, 3}, &numbers);  // used again
  const auto lengths = [&] {
    std::vector<std::int64_t> found;
    for (const Tokens& tokens : {Tokens{1, 1, 2, 2, 3, 3}, {1, 1, 2, 2, 4, 4}, {5, 5, 6, 6}}) {
      found.push_back(tree.match_length("", tokens) / 2);
    }
    return found;
  };
  using Lengths = std::vector<std::int64_t>;
  EXPECT_EQ(lengths(), (Lengths{3, 3, 2}));
  for (const Lengths& expected : {Lengths{3, 2, 2}, {3, 2, 1}, {3, 2, 0}, {2, 2, 0}, {1, 1, 0}}) {
    EXPECT_EQ(tree.evict(1), 1);
    tree.check();
    EXPECT_EQ(lengths(), expected);
  }
}

TEST_F(RadixTreeTest, SpacesNeverMeetAndLeaveNothingBehind) {
  put({1, 2, 3, 4}, "a");
  EXPECT_EQ(tree.match_length("b", Tokens{1, 2, 3, 4}), 0);
  put({1, 2, 3, 4}, "b");
  EXPECT_EQ(pool.used(), 4);
  EXPECT_EQ(tree.match_length("a", Tokens{1, 2, 3, 4}), 4);
  tree.evict(4);
  tree.check();  // of which a root without children would be a fault
}

// Against a plain map from each cached prefix to its page: what is found, shared and kept.
TEST(RadixTree, AgreesWithAMapOfPrefixes) {
  struct User {
    RadixTree::Lock lock;
    std::string space;
    Tokens tokens;
    std::vector<std::int32_t> numbers;
  };
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const std::int32_t page_size = 1 + static_cast<std::int32_t>(seed % 3);
    PagePool pool(60);
    RadixTree tree(page_size);
    std::map<std::pair<std::string, Tokens>, std::int32_t> model;
    std::vector<User> users;
    const auto forget_evicted = [&] {
      std::vector<bool> held(60);
      tree.for_each_page([&](std::int32_t page) { held[static_cast<size_t>(page)] = true; });
      std::erase_if(model,
                    [&](const auto& entry) { return !held[static_cast<size_t>(entry.second)]; });
    };
    for (int step = 0; step < 300; ++step) {
      if (random() % 3 == 0 && !users.empty()) {
        users.erase(users.begin() + static_cast<std::ptrdiff_t>(random() % users.size()));
      } else if (random() % 5 == 0) {
        tree.evict(static_cast<std::int64_t>(random() % 8));
        forget_evicted();
      } else {
        User user{.lock = {}, .space = random() % 4 ? "" : "x", .tokens = {}, .numbers = {}};
        const auto pages = static_cast<std::int64_t>(random() % 8);
        for (std::int64_t i = 0; i < pages * page_size; ++i) {
          user.tokens.push_back(static_cast<std::int32_t>(random() % 2));
        }
        std::int64_t known = 0;
        while (known < pages &&
               model.contains({user.space, Tokens(user.tokens.begin(),
                                                  user.tokens.begin() + (known + 1) * page_size)}))
          ++known;
        EXPECT_EQ(tree.match_length(user.space, user.tokens), known * page_size);
        user.lock = tree.match(user.space, user.tokens, &user.numbers);
        ASSERT_EQ(user.lock.pages(), known);
        std::vector<PageRef> fresh;
        for (std::int64_t i = known; i < pages; ++i) {
          auto page = pool.take();
          if (!page && tree.evict(1) == 1) page = pool.take();
          if (!page) break;
          fresh.push_back(std::move(*page));
        }
        forget_evicted();
        user.tokens.resize(static_cast<size_t>((known + std::ssize(fresh)) * page_size));
        user.lock =
            tree.insert(std::move(user.lock),
                        TokenSpan(user.tokens).subspan(static_cast<size_t>(known * page_size)),
                        std::move(fresh), &user.numbers);
        for (size_t i = 0; i < user.numbers.size(); ++i) {
          const Tokens prefix(user.tokens.begin(),
                              user.tokens.begin() + static_cast<std::ptrdiff_t>(i + 1) * page_size);
          const auto [entry, added] = model.try_emplace({user.space, prefix}, user.numbers[i]);
          EXPECT_EQ(entry->second, user.numbers[i]);
        }
        users.push_back(std::move(user));
      }
      tree.check();
      EXPECT_EQ(tree.pages(), pool.used());
      EXPECT_EQ(tree.pages(), std::ssize(model));
      for (const User& user : users) EXPECT_EQ(user.lock.page_numbers(), user.numbers);
    }
  }
}

TEST(PageCache, TakesFreePagesFirstThenUnusedPrefixes) {
  PagePool pool(3);
  PageCache cache(pool, 1, true);
  std::vector<std::int32_t> numbers;
  auto lock = cache.tree()->match("", {}, &numbers);
  std::vector<PageRef> pages;
  pages.push_back(std::move(*cache.take()));
  pages.push_back(std::move(*cache.take()));
  lock = cache.tree()->insert(std::move(lock), Tokens{1, 2}, std::move(pages), &numbers);
  EXPECT_EQ(cache.available(), 1);
  lock = cache.tree()->match("", Tokens{1}, &numbers);
  EXPECT_EQ(cache.available(), 2);
  EXPECT_EQ(cache.used(), 1);
  const auto free = cache.take();
  EXPECT_EQ(cache.tree()->match_length("", Tokens{1, 2}), 2);
  const auto evicted = cache.take();
  ASSERT_TRUE(free && evicted);
  EXPECT_EQ(evicted->page(), numbers[1]);
  EXPECT_FALSE(cache.take());
}

}  // namespace
}  // namespace quern::cache
