// Which prefixes of tokens the KV cache holds: a radix tree over whole pages. The tree owns the
// pages of cached prefixes; who uses a prefix holds a Lock, and a locked page is never taken away.
// Pages in the tree are read by many and written by nobody. Least recently used leaves go first.
// Called by the scheduler; one thread (the engine's).
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cache/page_pool.h"

namespace quern::cache {

using TokenSpan = std::span<const std::int32_t>;

class RadixTree {
  struct Node;

 public:
  // A use of a cached prefix: move-only, ends the use when it goes. The tree outlives it.
  class Lock {
   public:
    Lock() = default;
    Lock(Lock&& other) noexcept
        : tree_(std::exchange(other.tree_, nullptr)), node_(std::exchange(other.node_, nullptr)) {}
    Lock& operator=(Lock&& other) noexcept {
      std::swap(tree_, other.tree_);
      std::swap(node_, other.node_);
      return *this;
    }
    ~Lock() {
      if (tree_ != nullptr) tree_->unlock(node_);
    }
    // Of the prefix, from its first token on.
    std::int64_t pages() const;
    // Their numbers, read from the tree: for checks.
    std::vector<std::int32_t> page_numbers() const;

   private:
    friend class RadixTree;
    Lock(RadixTree* tree, Node* node) : tree_(tree), node_(node) {}
    RadixTree* tree_ = nullptr;
    Node* node_ = nullptr;
  };

  explicit RadixTree(std::int32_t page_size);
  // Requires: no Lock is left. The pages return to their pool.
  ~RadixTree();
  RadixTree(const RadixTree&) = delete;
  RadixTree& operator=(const RadixTree&) = delete;

  // Locks the longest cached prefix of `tokens` and appends its page numbers. Prefixes of different
  // spaces (tenants, adapters) never meet. Cost: O(matched tokens + nodes · log children).
  Lock match(std::string_view space, TokenSpan tokens, std::vector<std::int32_t>* page_numbers);

  // Tokens of that prefix, changing nothing.
  std::int64_t match_length(std::string_view space, TokenSpan tokens) const;

  // Hands the pages behind a locked prefix over to the tree and returns the lock on all of them.
  // `tokens` are those from the prefix' end on, page_size for each of `pages`, whose keys and
  // values are computed. Where the tree has a page for the same tokens already, the one handed over
  // goes back to its pool; `page_numbers` receives the tree's number of each page.
  Lock insert(Lock prefix, TokenSpan tokens, std::vector<PageRef> pages,
              std::vector<std::int32_t>* page_numbers);

  // Returns up to `pages` pages to their pool, least recently used leaves first, each from its end.
  // The number that was returned: fewer where the rest is locked. Cost: O(pages).
  std::int64_t evict(std::int64_t pages);

  std::int64_t pages() const { return pages_; }          // that the tree owns
  std::int64_t evictable() const { return evictable_; }  // of these, used by nobody
  std::uint64_t version() const { return version_; }     // changes when a prefix comes or goes
  // Calls visit(page number) for every page of the tree.
  template <typename Visit>
  void for_each_page(Visit&& visit) const {
    for_each_node([&](const Node& node) {
      for (const PageRef& page : node.pages) visit(page.page());
    });
  }

  // CHECKs every link, count and order of the tree. Cost: O(tokens).
  void check() const;

 private:
  // The first page decides: siblings differ in it.
  struct FirstPage {
    using is_transparent = void;
    std::size_t page_size;
    bool operator()(const std::unique_ptr<Node>& a, const std::unique_ptr<Node>& b) const;
    bool operator()(const std::unique_ptr<Node>& a, TokenSpan b) const;
    bool operator()(TokenSpan a, const std::unique_ptr<Node>& b) const;
  };
  using Children = std::set<std::unique_ptr<Node>, FirstPage>;

  struct Node {
    explicit Node(std::size_t page_size) : children(FirstPage{page_size}) {}
    Node* parent = nullptr;            // null: the root of a space
    std::string space;                 // of a root
    Children children;                 // in the order of their tokens
    std::vector<std::int32_t> tokens;  // page_size for each page; a root has none
    std::vector<PageRef> pages;
    std::int64_t end = 0;    // pages from the first token up to the end of this node
    std::int64_t locks = 0;  // that end here
    std::int64_t uses = 0;   // locks and children that are in use; above 0: not evictable
    // Nodes without use stand in one list, ordered by last use. A parent is newer than its
    // children, so that the oldest is always a leaf.
    Node* newer = nullptr;
    Node* older = nullptr;
  };

  // Where a walk along tokens ended: `pages` of `node` match, all of them unless it is partial.
  struct Walk {
    Node* node;
    std::int64_t pages;
    std::int64_t tokens;  // matched in all
  };

  Node* root_of(std::string_view space);
  Walk walk(Node* from, TokenSpan tokens, std::vector<std::int32_t>* page_numbers) const;
  Node* split(Node* node, std::int64_t pages);
  Lock lock(Node* node);
  void unlock(Node* node);
  void remove(Node* leaf);
  void link_newest(Node* node);
  void link_newer_than(Node* node, Node* neighbour);
  void unlink(Node* node);
  std::int64_t check_node(const Node& node) const;

  template <typename Visit>
  void for_each_node(Visit&& visit) const {
    std::vector<const Node*> open;  // the tree may be as deep as a context is long
    for (const auto& [space, root] : roots_) open.push_back(root.get());
    while (!open.empty()) {
      const Node* node = open.back();
      open.pop_back();
      visit(*node);
      for (const auto& child : node->children) open.push_back(child.get());
    }
  }

  const std::size_t page_size_;
  std::unordered_map<std::string_view, std::unique_ptr<Node>> roots_;  // keys are roots' `space`
  Node* newest_ = nullptr;
  Node* oldest_ = nullptr;
  std::int64_t pages_ = 0, evictable_ = 0;
  std::uint64_t version_ = 0;
};

}  // namespace quern::cache
