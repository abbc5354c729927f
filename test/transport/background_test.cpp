// SPDX-License-Identifier: BSL-1.0
#include "allfold/transport/background.hpp"

#include <optional>
#include <string>

#include "test/support/catch.hpp"

namespace {

/// Writes its name down whenever it is pushed on or dropped, and leaves after so many pushes.
class scribe : public allfold::background::work {
  public:
    scribe(char name, std::string& log, int pushes = 100) : name_(name), log_(log), left_(pushes) {}
    void progress() noexcept override {
        log_ += name_;
        if (--left_ == 0) leave();
    }
    void drop() noexcept override { log_ += static_cast<char>(name_ - 'a' + 'A'); }

  private:
    char name_;
    std::string& log_;
    int left_;
};

}  // namespace

TEST_CASE("background work is pushed on in the order in which it came") {
    std::string log;
    allfold::background all;
    CHECK(all.empty());
    scribe a('a', log), b('b', log), c('c', log);
    all.add(a);
    all.add(b);
    all.add(c);
    CHECK_FALSE(all.empty());
    all.progress();
    all.drop();
    CHECK(log == "abcABC");
}

TEST_CASE("background work may leave while it is pushed on") {
    std::string log;
    allfold::background all;
    scribe a('a', log, 1), b('b', log, 2), c('c', log, 1);
    all.add(a);
    all.add(b);
    all.add(c);
    all.progress();
    all.progress();
    all.progress();
    CHECK(log == "abcb");
    CHECK(all.empty());
    all.add(c);
    all.progress();
    CHECK(log == "abcbc");
}

TEST_CASE("background work leaves when it is destroyed") {
    std::string log;
    allfold::background all;
    scribe a('a', log), c('c', log);
    std::optional<scribe> b(std::in_place, 'b', log);
    all.add(a);
    all.add(*b);
    all.add(c);
    b.reset();
    all.progress();
    CHECK(log == "ac");
}
