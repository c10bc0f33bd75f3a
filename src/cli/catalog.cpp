// `quern catalog`: the error catalogue for a browser, served or written as static files. No model
// is needed.
#include "catalog/catalog.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/errors/cli.h"
#include "base/log.h"
#include "cli/commands.h"
#include "server/catalog_pages.h"
#include "server/http_server.h"
#include "server/json_body.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;
using catalog::Entry;

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(errors::kExportFailed,
              {{"path", path.string()}, {"reason", reason}, {"param", "DIR"}});
}

void make_folder(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) fail(path, failed.message());
}

void write(const fs::path& path, std::string_view text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) fail(path, std::strerror(errno != 0 ? errno : EIO));
}

}  // namespace

int catalog_serve_command(const Options& options) {
  std::signal(SIGPIPE, SIG_IGN);
  server::ServerOptions asked;
  asked.host = options.host;
  asked.port = static_cast<int>(options.port);
  server::HttpServer server(asked);
  log().info("Listening on {}", server.url());
  std::printf("quern is ready at %s\n%s/errors holds %zu entries\n", server.url().c_str(),
              server.url().c_str(), catalog::entries().size());
  std::fflush(stdout);
  server.serve_catalog(true);
  log().info("Stopped.");
  return 0;
}

int catalog_export_command(const Options& options) {
  const fs::path root = options.export_folder;
  for (const fs::path& folder : {root, root / "errors", root / "api" / "errors"}) {
    make_folder(folder);
  }
  const std::vector<const Entry*> all = catalog::search({});
  write(root / "index.html", server::catalog_index_html({}, server::file_links("")));
  write(root / "style.css", server::catalog_style());
  write(root / "page.js", server::catalog_script());
  write(root / "api" / "errors.json", server::dump(server::catalog_list(all, 1, all.size())));
  for (const Entry* entry : all) {
    write(root / "errors" / (entry->slug + ".html"),
          server::catalog_entry_html(*entry, server::file_links("../")));
    write(root / "api" / "errors" / (entry->id + ".json"), server::dump(catalog::document(*entry)));
  }
  fmt::print("{} entries in {}\n", all.size(), (root / "index.html").string());
  return 0;
}

}  // namespace quern::cli
