#include "server/catalog_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/test_server.h"
#include "server/text_forms.h"

namespace quern::server {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kId = "0ae807a1c0d1702a";
constexpr const char* kSlug = "trtllm-mha-backend-can-only-be-used-with-non-mla-m";

// A server of the catalogue alone.
class CatalogServer {
 public:
  CatalogServer() : server_(test_options()), thread_([this] { server_.serve_catalog(false); }) {
    while (get("/health").status == 503) std::this_thread::yield();
  }
  ~CatalogServer() {
    server_.stop();
    thread_.join();
  }
  TestReply get(const std::string& path, const std::string& method = "GET") const {
    TestClient client(server_.port());
    client.get(path, method);
    return client.reply(method != "HEAD");
  }

 private:
  HttpServer server_;
  std::thread thread_;
};

TEST(CatalogPages, AnswerOneEntryByEveryName) {
  TestServer server;
  const TestReply reply = server.get(std::string("/api/errors/") + kId);
  ASSERT_EQ(reply.status, 200);
  const auto json = reply.json();
  EXPECT_EQ(json["record"]["slug"], kSlug);
  EXPECT_EQ(json["record"].size(), 31u);
  for (const char* key : {"related", "raisedAt", "datasetVersion"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* name : {kSlug, "TrtllmMhaMlaModel", "%30ae807a1c0d1702A"}) {
    EXPECT_EQ(server.get(std::string("/api/errors/") + name).body, reply.body) << name;
  }
}

TEST(CatalogPages, ListIsSearchedAndPaged) {
  TestServer server;
  const auto all = server.get("/api/errors?per_page=200").json();
  EXPECT_EQ(all["total"], catalog::entries().size());
  EXPECT_EQ(all["errors"].size(), std::min<size_t>(200, catalog::entries().size()));
  const auto second = server.get("/api/errors?page=2&per_page=7").json();
  EXPECT_EQ(second["page"], 2);
  EXPECT_EQ(second["per_page"], 7);
  ASSERT_EQ(second["errors"].size(), 7u);
  EXPECT_EQ(second["errors"][0], all["errors"][7]);
  EXPECT_EQ(server.get("/api/errors?page=9999").json()["errors"].size(), 0u);
  const auto found = server.get("/api/errors?q=hpc_ops+cross%20attention").json();
  ASSERT_GT(found["total"], 0);
  EXPECT_EQ(found["errors"][0]["errorCode"], "hpc_ops_cross_attention");
  EXPECT_EQ(server.get("/api/errors?tag=nosuchtag").json()["total"], 0);
  for (const char* bad : {"page=0", "page=-1", "page=x", "page=1.5", "per_page=201",
                          "page=99999999999999999999", "per_page=1%00"}) {
    const TestReply reply = server.get(std::string("/api/errors?") + bad);
    EXPECT_EQ(reply.status, 400) << bad;
    EXPECT_EQ(reply.json()["error"]["code"], "field_out_of_range") << bad;
  }
}

TEST(CatalogPages, UnknownEntriesAreRefusedHarmlessly) {
  TestServer server;
  for (const std::string key : {"0ae807a1c0d1702", "../../etc/passwd", "..%2f..%2fetc%2fpasswd",
                                "%00", "a/b", "%ff%fe", "style.css", "<script>", "%3Cscript%3E"}) {
    const TestReply json = server.get("/api/errors/" + key);
    EXPECT_EQ(json.status, 404) << key;
    EXPECT_EQ(json.json()["error"]["code"], "catalog_entry_unknown") << key;
    EXPECT_EQ(json.json()["error"]["param"], "id") << key;
  }
  const TestReply near = server.get("/api/errors/0ae807a1c0d1702b");
  EXPECT_THAT(near.json()["error"]["hint"].get<std::string>(), HasSubstr(kId));
  const TestReply page = server.get("/errors/%3Cscript%3Ealert(1)%3C/script%3E");
  EXPECT_EQ(page.status, 404);
  EXPECT_EQ(page.headers.at("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("&lt;script&gt;alert(1)"));
  EXPECT_THAT(page.body, Not(HasSubstr("<script>alert")));
}

TEST(CatalogPages, PagesAreWholeAndGuarded) {
  TestServer server;
  const TestReply page = server.get(std::string("/errors/") + kSlug);
  ASSERT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.headers.at("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(page.headers.at("X-Content-Type-Options"), "nosniff");
  EXPECT_THAT(page.body, HasSubstr("trtllm_mha backend can only be used with non-MLA models."));
  EXPECT_THAT(page.body, HasSubstr(std::string("/api/errors/") + kId));
  EXPECT_EQ(server.get(std::string("/errors/") + kId).body, page.body);
  EXPECT_EQ(server.get("/errors/style.css").headers.at("Content-Type"), "text/css; charset=utf-8");
  EXPECT_EQ(server.get("/errors/page.js").status, 200);
  const TestReply index = server.get("/errors");
  for (const catalog::Entry& entry : catalog::entries()) {
    EXPECT_THAT(index.body, HasSubstr("href=\"/errors/" + entry.slug + "\""));
  }
  EXPECT_EQ(server.get("/errors/").body, index.body);
  EXPECT_EQ(server.get("/errors", "POST").status, 405);
  EXPECT_EQ(server.get("/errors", "HEAD").status, 200);
}

TEST(CatalogPages, SearchShowsTheWordsAsText) {
  TestServer server;
  const std::string body = server.get("/errors?q=%22%3E%3Cimg+src=x%3E&tag=%3Cb%3E").body;
  EXPECT_THAT(body, HasSubstr("&quot;&gt;&lt;img src=x&gt;"));
  EXPECT_THAT(body, Not(HasSubstr("<img")));
  EXPECT_THAT(body, Not(HasSubstr("<b>")));
  EXPECT_THAT(server.get("/errors?q=hpc_ops").body, HasSubstr("with “hpc_ops”"));
}

TEST(CatalogPages, StandBehindTheApiKey) {
  ServerOptions options = test_options();
  options.api_key = "secret";
  HttpServer server(options);
  FakeEngine engine;
  std::thread thread([&] { server.serve(engine, false); });
  for (const char* path : {"/errors", "/errors/style.css", "/api/errors"}) {
    TestClient client(server.port());
    client.get(path);
    EXPECT_EQ(client.reply().status, 401) << path;
    client.get(path, "GET", "Authorization: Bearer secret\r\n");
    EXPECT_EQ(client.reply().status, 200) << path;
  }
  server.stop();
  thread.join();
}

TEST(CatalogPages, AnswerWhileTheModelIsLoaded) {
  HttpServer server(test_options());
  TestClient client(server.port());
  client.get("/errors");
  EXPECT_EQ(client.reply().status, 200);
  client.get("/v1/models");
  EXPECT_EQ(client.reply().status, 503);
  server.stop();
  FakeEngine engine;
  server.serve(engine, false);
}

TEST(CatalogPages, AreServedWithoutAnyEngine) {
  CatalogServer server;
  EXPECT_EQ(server.get("/").status, 302);
  EXPECT_EQ(server.get("/").headers.at("Location"), "/errors");
  EXPECT_EQ(server.get("/errors").status, 200);
  EXPECT_EQ(server.get(std::string("/api/errors/") + kId).status, 200);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/v1/models").status, 404);
  EXPECT_EQ(server.get("/server_info").status, 404);
}

TEST(CatalogPages, ErrorsOfTheApiLinkToTheirPage) {
  TestServer server;
  const TestReply reply = server.get("/nowhere");
  const std::string url = reply.json()["error"]["url"];
  EXPECT_EQ(url, "/errors/" + catalog::find("RouteNotFound")->slug);
  EXPECT_EQ(server.get(url).status, 200);
}

TEST(TextForms, QueriesAreReadByName) {
  EXPECT_EQ(query_value("a=1&b=2", "b"), "2");
  EXPECT_EQ(query_value("a=1&b=2&b=3", "b"), "2");
  EXPECT_EQ(query_value("q=a+b%2Bc", "q"), "a b+c");
  EXPECT_EQ(query_value("q", "q"), "");
  EXPECT_EQ(query_value("&&=&%71=x", "q"), "x");
  EXPECT_EQ(query_value("", "q"), "");
  EXPECT_EQ(percent_decoded("%4a%4A%zz%4"), "JJ%zz%4");
  EXPECT_EQ(percent_encoded("a b/\xC3\xA9~"), "a%20b%2F%C3%A9~");
  EXPECT_EQ(html_escaped("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
}

}  // namespace
}  // namespace quern::server
