/* State of the stand-in driver: contexts, streams, events, memory, images. One lock guards all of it. */
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace standin {

/* The driver's codes that the stand-in returns. */
enum Code {
  ok = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialised = 3,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary = 209,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_failed = 719,
};

struct Context;
struct Stream;

/* A point in a stream's work. */
struct Event {
  Context *context;
  unsigned flags;
  Stream *stream = nullptr; /* where it was recorded; position counts the work before it */
  uint64_t position = 0;
  double milliseconds = 0; /* the stand-in's clock when the event completed */
  bool reached = true;
  int asked = 0; /* number of queries since it was recorded */
};

struct Work {
  std::function<int()> run;
};

struct Stream {
  explicit Stream(Context *c) : context(c) {}
  Context *context;
  std::deque<Work> work;
  uint64_t queued = 0, done = 0;
  bool busy = false; /* its work is running */
  bool lazy = false; /* its work is deferred until somebody waits */
};

/* Device memory is host memory with guard bands on both sides. */
struct Block {
  Context *context;
  char *raw;
  size_t bytes;
  struct Pool *pool = nullptr;
  bool leaving = false; /* released when the stream's work ends */
};

struct Pool {
  Context *context;
};

struct Function {
  struct Module *module;
  std::string name;
  int shared = 48 << 10;
};

struct Module {
  explicit Module(Context *c) : context(c) {}
  Context *context;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

struct Context {
  int device;
  int references = 0;
  uint64_t generation = 0; /* of the primary context; changes after its last release */
  int broken = 0;          /* the error that all calls return */
  size_t used = 0;         /* bytes */
  int streams_made = 0;
};

struct State {
  std::recursive_mutex lock;
  /* Settings. */
  int devices = 1, version = 13000, major = 9, minor = 0, init = 0, pools = 1, lazy = 0, sms = 132;
  int maps = 1, swizzle = -1;
  size_t memory = size_t(1) << 30;
  long fail_at = 0;
  int fail_code = 0;
  /* Observed state. */
  bool initialised = false;
  long calls = 0;
  std::string failed;              /* the call that failed_at made fail */
  std::vector<std::string> faults; /* misuse by the caller */
  double clock = 0;                /* milliseconds */
  std::map<int, Context> contexts;
  std::map<uintptr_t, Block> blocks; /* by address */
  std::map<void *, size_t> pinned;
  std::set<Stream *> streams;
  std::set<Event *> events;
  std::set<Module *> modules;
  std::set<Pool *> pools_made;
};

State &state();

/* fault records misuse by the caller. */
void fault(const std::string &what);

/* Entered counts a call; code is the error it must return at once, or 0. A call that releases something does so in
 * any case, as a real driver does, and returns the code afterwards. */
struct Entered {
  std::unique_lock<std::recursive_mutex> held;
  int code;
  explicit Entered(const char *name);
};

/* current returns the context of the calling thread, or nullptr. */
Context *current();
/* use sets the current context and returns 0, or returns the error if there is none or it is broken. */
int use(Context **context);

/* memory.cpp */
Block *block_around(uintptr_t address);
/* inside checks a range of device memory. */
int inside(const char *what, uintptr_t address, size_t bytes, Context *context);
/* guards_hold checks all guard bands; a damaged one is recorded and returns illegal_address. */
int guards_hold(const char *after);
void release_context(Context *context);

/* stream.cpp */
int queue(Stream *s, std::function<int()> run);
int advance(Stream *s, uint64_t position);
int drain(Context *context);
bool known(Stream *s);
}  // namespace standin

#define STANDIN_API extern "C" __attribute__((visibility("default")))
