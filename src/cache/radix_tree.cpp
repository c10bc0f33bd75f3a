#include "cache/radix_tree.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace quern::cache {
namespace {

bool page_less(const std::int32_t* a, const std::int32_t* b, std::size_t page_size) {
  const auto [x, y] = std::mismatch(a, a + page_size, b);
  return x != a + page_size && *x < *y;
}

bool page_equal(const std::int32_t* a, const std::int32_t* b, std::size_t page_size) {
  return std::memcmp(a, b, page_size * sizeof(std::int32_t)) == 0;
}

}  // namespace

bool RadixTree::FirstPage::operator()(const std::unique_ptr<Node>& a,
                                      const std::unique_ptr<Node>& b) const {
  return page_less(a->tokens.data(), b->tokens.data(), page_size);
}
bool RadixTree::FirstPage::operator()(const std::unique_ptr<Node>& a, TokenSpan b) const {
  return page_less(a->tokens.data(), b.data(), page_size);
}
bool RadixTree::FirstPage::operator()(TokenSpan a, const std::unique_ptr<Node>& b) const {
  return page_less(a.data(), b->tokens.data(), page_size);
}

std::int64_t RadixTree::Lock::pages() const { return node_ == nullptr ? 0 : node_->end; }

std::vector<std::int32_t> RadixTree::Lock::page_numbers() const {
  std::vector<std::int32_t> numbers;
  for (const Node* node = node_; node != nullptr; node = node->parent) {
    for (auto page = node->pages.rbegin(); page != node->pages.rend(); ++page) {
      numbers.push_back(page->page());
    }
  }
  std::reverse(numbers.begin(), numbers.end());
  return numbers;
}

RadixTree::RadixTree(std::int32_t page_size) : page_size_(static_cast<std::size_t>(page_size)) {}

// Leaf by leaf: a chain of nodes that own each other would be freed by recursion.
RadixTree::~RadixTree() { evict(evictable_); }

RadixTree::Node* RadixTree::root_of(std::string_view space) {
  const auto found = roots_.find(space);
  if (found != roots_.end()) return found->second.get();
  auto root = std::make_unique<Node>(page_size_);
  root->space = space;
  return (roots_[root->space] = std::move(root)).get();
}

RadixTree::Walk RadixTree::walk(Node* from, TokenSpan tokens,
                                std::vector<std::int32_t>* page_numbers) const {
  Walk walk{from, std::ssize(from->pages), 0};
  while (tokens.size() >= page_size_) {
    const auto child = walk.node->children.find(tokens.first(page_size_));
    if (child == walk.node->children.end()) break;
    Node& node = **child;
    const std::size_t most = std::min(node.pages.size(), tokens.size() / page_size_);
    std::size_t same = 1;
    while (same < most &&
           page_equal(&node.tokens[same * page_size_], &tokens[same * page_size_], page_size_)) {
      ++same;
    }
    if (page_numbers != nullptr) {
      for (std::size_t i = 0; i < same; ++i) page_numbers->push_back(node.pages[i].page());
    }
    walk = {&node, static_cast<std::int64_t>(same),
            walk.tokens + static_cast<std::int64_t>(same * page_size_)};
    if (same < node.pages.size()) break;
    tokens = tokens.subspan(same * page_size_);
  }
  return walk;
}

RadixTree::Lock RadixTree::match(std::string_view space, TokenSpan tokens,
                                 std::vector<std::int32_t>* page_numbers) {
  const Walk found = walk(root_of(space), tokens, page_numbers);
  if (found.pages == std::ssize(found.node->pages)) return lock(found.node);
  return lock(split(found.node, found.pages));
}

std::int64_t RadixTree::match_length(std::string_view space, TokenSpan tokens) const {
  const auto root = roots_.find(space);
  return root == roots_.end() ? 0 : walk(root->second.get(), tokens, nullptr).tokens;
}

RadixTree::Lock RadixTree::insert(Lock prefix, TokenSpan tokens, std::vector<PageRef> pages,
                                  std::vector<std::int32_t>* page_numbers) {
  CHECK(prefix.tree_ == this && tokens.size() == pages.size() * page_size_, tokens.size(),
        pages.size());
  const Walk found = walk(prefix.node_, tokens, page_numbers);
  Node* node = found.node;
  if (found.pages < std::ssize(node->pages)) node = split(node, found.pages);
  const auto known = static_cast<std::size_t>(found.tokens) / page_size_;
  if (known == pages.size()) return node == prefix.node_ ? std::move(prefix) : lock(node);

  const auto added = static_cast<std::int64_t>(pages.size() - known);
  const TokenSpan rest = tokens.subspan(known * page_size_);
  for (std::size_t i = known; i < pages.size(); ++i) page_numbers->push_back(pages[i].page());
  ++version_;
  pages_ += added;
  // A prompt that comes chunk by chunk becomes one node, not a chain of them.
  const bool extends =
      node == prefix.node_ && node->parent != nullptr && node->locks == 1 && node->children.empty();
  if (!extends) {
    auto child = std::make_unique<Node>(page_size_);
    child->parent = node;
    child->end = node->end;
    child->tokens.assign(rest.begin(), rest.end());
    Node* const place = child.get();
    node->children.insert(std::move(child));
    node = place;
  } else {
    node->tokens.insert(node->tokens.end(), rest.begin(), rest.end());
  }
  node->end += added;
  std::move(pages.begin() + static_cast<std::ptrdiff_t>(known), pages.end(),
            std::back_inserter(node->pages));
  if (extends) return prefix;
  // A new node is in no list yet, as if it were in use: locking it takes it from nowhere.
  link_newest(node);
  evictable_ += added;
  return lock(node);
}

// The first `pages` of a node become its parent, which is returned. Locks stay at the node's end.
RadixTree::Node* RadixTree::split(Node* node, std::int64_t pages) {
  const auto cut = static_cast<std::ptrdiff_t>(pages);
  const auto cut_tokens = cut * static_cast<std::ptrdiff_t>(page_size_);
  Children& siblings = node->parent->children;
  auto handle = siblings.extract(siblings.find(TokenSpan(node->tokens).first(page_size_)));
  auto front = std::make_unique<Node>(page_size_);
  front->parent = node->parent;
  front->tokens.assign(node->tokens.begin(), node->tokens.begin() + cut_tokens);
  node->tokens.erase(node->tokens.begin(), node->tokens.begin() + cut_tokens);
  std::move(node->pages.begin(), node->pages.begin() + cut, std::back_inserter(front->pages));
  node->pages.erase(node->pages.begin(), node->pages.begin() + cut);
  front->end = node->end - std::ssize(node->pages);
  front->uses = node->uses > 0 ? 1 : 0;
  if (front->uses == 0) link_newer_than(front.get(), node);
  Node* const place = front.get();
  node->parent = place;
  place->children.insert(std::move(handle.value()));
  siblings.insert(std::move(front));
  return place;
}

RadixTree::Lock RadixTree::lock(Node* node) {
  ++node->locks;
  for (Node* at = node; at != nullptr; at = at->parent) {
    if (at->uses++ > 0) break;  // then its parents are in use already
    if (at->parent == nullptr) break;
    unlink(at);
    evictable_ -= std::ssize(at->pages);
  }
  return Lock(this, node);
}

void RadixTree::unlock(Node* node) {
  --node->locks;
  for (Node* at = node; at != nullptr;) {
    Node* const parent = at->parent;
    if (--at->uses > 0) return;
    if (parent == nullptr) {
      if (at->children.empty()) roots_.erase(roots_.find(at->space));
      return;
    }
    link_newest(at);
    evictable_ += std::ssize(at->pages);
    at = parent;
  }
}

std::int64_t RadixTree::evict(std::int64_t pages) {
  std::int64_t left = pages;
  while (left > 0 && oldest_ != nullptr) {
    Node* const leaf = oldest_;
    const std::int64_t taken = std::min(left, std::ssize(leaf->pages));
    const std::size_t kept = leaf->pages.size() - static_cast<std::size_t>(taken);
    leaf->pages.erase(leaf->pages.begin() + static_cast<std::ptrdiff_t>(kept), leaf->pages.end());
    leaf->end -= taken;
    left -= taken;
    pages_ -= taken;
    evictable_ -= taken;
    ++version_;
    if (kept == 0) {
      remove(leaf);
    } else {
      leaf->tokens.resize(kept * page_size_);
    }
  }
  return pages - left;
}

void RadixTree::remove(Node* leaf) {
  unlink(leaf);
  Node* const parent = leaf->parent;
  parent->children.erase(parent->children.find(TokenSpan(leaf->tokens).first(page_size_)));
  if (parent->parent == nullptr && parent->children.empty() && parent->uses == 0) {
    roots_.erase(roots_.find(parent->space));
  }
}

void RadixTree::link_newest(Node* node) {
  node->older = newest_;
  node->newer = nullptr;
  (newest_ != nullptr ? newest_->newer : oldest_) = node;
  newest_ = node;
}

void RadixTree::link_newer_than(Node* node, Node* neighbour) {
  node->older = neighbour;
  node->newer = neighbour->newer;
  (neighbour->newer != nullptr ? neighbour->newer->older : newest_) = node;
  neighbour->newer = node;
}

void RadixTree::unlink(Node* node) {
  (node->newer != nullptr ? node->newer->older : newest_) = node->older;
  (node->older != nullptr ? node->older->newer : oldest_) = node->newer;
  node->newer = node->older = nullptr;
}

// What a node says of itself and its children; returns its pages.
std::int64_t RadixTree::check_node(const Node& node) const {
  const bool root = node.parent == nullptr;
  const std::int64_t pages = std::ssize(node.pages);
  CHECK(root == node.pages.empty(), pages);
  CHECK(node.tokens.size() == node.pages.size() * page_size_, node.tokens.size(), pages);
  CHECK(node.end == (root ? 0 : node.parent->end) + pages, node.end, pages);
  std::int64_t used_children = 0;
  const Node* before = nullptr;
  for (const auto& child : node.children) {
    CHECK(child->parent == &node);
    CHECK(before == nullptr || page_less(before->tokens.data(), child->tokens.data(), page_size_));
    before = child.get();
    used_children += child->uses > 0 ? 1 : 0;
  }
  CHECK(node.uses == node.locks + used_children, node.uses, node.locks, used_children);
  if (root) CHECK(node.uses > 0 || !node.children.empty(), node.space);
  return pages;
}

void RadixTree::check() const {
  std::int64_t pages = 0, unused = 0, unused_nodes = 0;
  for_each_node([&](const Node& node) {
    const std::int64_t own = check_node(node);
    pages += own;
    if (node.parent == nullptr || node.uses > 0) {
      CHECK(node.newer == nullptr && node.older == nullptr && newest_ != &node);
      return;
    }
    unused += own;
    ++unused_nodes;
  });
  CHECK(pages == pages_ && unused == evictable_, pages, pages_, unused, evictable_);
  // From the oldest on: whoever has a parent in the list must meet it later.
  std::set<const Node*> older;
  const Node* last = nullptr;
  for (const Node* node = oldest_; node != nullptr; node = node->newer) {
    CHECK(node->uses == 0 && node->older == last);
    for (const auto& child : node->children) CHECK(older.contains(child.get()));
    older.insert(node);
    last = node;
  }
  CHECK(last == newest_ && std::ssize(older) == unused_nodes, older.size(), unused_nodes);
}

}  // namespace quern::cache
