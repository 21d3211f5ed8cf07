// What a browser may ask of the server of one page, and what everybody else gets.
#include "tools/dxgkit/view/page_server.h"

#include <gtest/gtest.h>

namespace dxgkit::tool {
namespace {

std::string status_of(const std::string& request) {
  const std::string answer = answer_request(request, "/secret", "<page>");
  EXPECT_EQ(answer.find("<page>") != std::string::npos,
            answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html") &&
                request.starts_with("GET"))
      << request;
  return answer.substr(9, 3);
}

TEST(PageServer, GivesThePageToWhoKnowsItsAddress) {
  const std::string answer =
      answer_request("GET /secret HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", "/secret", "<page>");
  EXPECT_TRUE(answer.ends_with("\r\n\r\n<page>")) << answer;
  EXPECT_NE(answer.find("Content-Length: 6\r\n"), std::string::npos);
  EXPECT_NE(answer.find("frame-ancestors 'none'"), std::string::npos);
  EXPECT_NE(answer.find("Cache-Control: no-store\r\n"), std::string::npos);
  // The other end of a tunnel has another port.
  EXPECT_EQ(status_of("GET /secret HTTP/1.1\r\nAccept: a\r\nhOST: localhost:9\r\n\r\n"), "200");
  EXPECT_EQ(status_of("HEAD /secret HTTP/1.1\r\nHost: localhost\r\n\r\n"), "200");
}

TEST(PageServer, GivesNothingToOthers) {
  const std::string host = "\r\nHost: 127.0.0.1\r\n\r\n";
  for (const char* target :
       {"/", "/secret/", "/secret?", "/SECRET", "/secre", "/../secret", "secret", ""})
    EXPECT_EQ(status_of(std::string("GET ") + target + " HTTP/1.1" + host), "404") << target;
  EXPECT_EQ(status_of("POST /secret HTTP/1.1" + host), "405");
  EXPECT_EQ(status_of("get /secret HTTP/1.1" + host), "405");
  for (const char* other : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80",
                            "0.0.0.0", "[::1]", ""})
    EXPECT_EQ(status_of(std::string("GET /secret HTTP/1.1\r\nHost: ") + other + "\r\n\r\n"), "403")
        << other;
  EXPECT_EQ(status_of("GET /secret HTTP/1.1\r\n\r\n"), "400");
  EXPECT_EQ(status_of("GET /secret HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"), "400");
  for (const char* nonsense : {"", "\r\n\r\n", "GET /secret",
                               "GET /secret HTTP/2\r\nHost: localhost\r\n\r\n", "\xFF\x00 \r\n"})
    EXPECT_EQ(status_of(nonsense), "400") << nonsense;
}

}  // namespace
}  // namespace dxgkit::tool
