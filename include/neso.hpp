/* The server in a C++17 program: objects that end by themselves and errors that are
 * thrown, over the C interface of triton/core/tritonserver.h. Header only; link
 * libtritonserver. */
#ifndef NESO_HPP
#define NESO_HPP

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "triton/core/tritonserver.h"

namespace neso {

/* What a function of the library has answered. */
class Error : public std::runtime_error {
 public:
  Error(TRITONSERVER_Error_Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  TRITONSERVER_Error_Code code() const noexcept { return code_; }

 private:
  TRITONSERVER_Error_Code code_;
};

/* Throws an error, and deletes it; null is none. */
inline void check(TRITONSERVER_Error* e) {
  if (!e) return;
  Error thrown(TRITONSERVER_ErrorCode(e), TRITONSERVER_ErrorMessage(e));
  TRITONSERVER_ErrorDelete(e);
  throw thrown;
}

/* The datatype of a C++ type. */
template <class T> struct Datatype;
template <> struct Datatype<bool> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_BOOL; };
template <> struct Datatype<std::uint8_t> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_UINT8; };
template <> struct Datatype<std::uint16_t> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_UINT16; };
template <> struct Datatype<std::uint32_t> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_UINT32; };
template <> struct Datatype<std::uint64_t> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_UINT64; };
template <> struct Datatype<std::int8_t> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_INT8; };
template <> struct Datatype<std::int16_t> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_INT16; };
template <> struct Datatype<std::int32_t> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_INT32; };
template <> struct Datatype<std::int64_t> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_INT64; };
template <> struct Datatype<float> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_FP32; };
template <> struct Datatype<double> { static constexpr TRITONSERVER_DataType value = TRITONSERVER_TYPE_FP64; };

/* One output of a response, in memory of the response. */
struct Output {
  std::string name;
  TRITONSERVER_DataType datatype;
  std::vector<std::int64_t> shape;
  const void* data;
  std::size_t size; /* bytes */

  /* The elements; throws where T is not their type. */
  template <class T> std::vector<T> values() const {
    if (datatype != Datatype<T>::value) throw Error(TRITONSERVER_ERROR_INVALID_ARG, "output '" + name + "' has another datatype");
    const T* begin = static_cast<const T*>(data);
    return std::vector<T>(begin, begin + size / sizeof(T));
  }
};

/* A response. It gives its memory back when it ends. */
class Response {
 public:
  explicit Response(TRITONSERVER_InferenceResponse* r) : r_(r) {}

  /* Throws the error of the response, if it is one. */
  void check() const {
    if (TRITONSERVER_Error* e = TRITONSERVER_InferenceResponseError(r_.get()))
      throw Error(TRITONSERVER_ErrorCode(e), TRITONSERVER_ErrorMessage(e)); /* it stays the response's */
  }

  std::vector<Output> outputs() const {
    std::uint32_t n = 0;
    neso::check(TRITONSERVER_InferenceResponseOutputCount(r_.get(), &n));
    std::vector<Output> all(n);
    for (std::uint32_t i = 0; i < n; i++) {
      const char* name;
      const std::int64_t* shape;
      std::uint64_t dims;
      TRITONSERVER_MemoryType type;
      std::int64_t id;
      void* user;
      Output& o = all[i];
      neso::check(TRITONSERVER_InferenceResponseOutput(r_.get(), i, &name, &o.datatype, &shape, &dims, &o.data, &o.size,
                   &type, &id, &user));
      o.name = name;
      o.shape.assign(shape, shape + dims);
    }
    return all;
  }

  /* Throws where there is no output of the name. */
  Output output(const std::string& name) const {
    for (Output& o : outputs())
      if (o.name == name) return o;
    throw Error(TRITONSERVER_ERROR_NOT_FOUND, "the response has no output '" + name + "'");
  }

 private:
  struct Delete {
    void operator()(TRITONSERVER_InferenceResponse* r) const { TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseDelete(r)); }
  };
  std::unique_ptr<TRITONSERVER_InferenceResponse, Delete> r_;
};

/* How a server is started; every function returns the options again. */
class Options {
 public:
  Options() {
    TRITONSERVER_ServerOptions* o = nullptr;
    check(TRITONSERVER_ServerOptionsNew(&o));
    o_.reset(o);
    check(TRITONSERVER_ServerOptionsSetModelControlMode(o, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
    check(TRITONSERVER_ServerOptionsSetStrictModelConfig(o, false));
  }
  Options& repository(const std::string& path) {
    check(TRITONSERVER_ServerOptionsSetModelRepositoryPath(get(), path.c_str()));
    return *this;
  }
  Options& model(const std::string& name) { check(TRITONSERVER_ServerOptionsSetStartupModel(get(), name.c_str())); return *this; }
  Options& exit_timeout(unsigned seconds) { check(TRITONSERVER_ServerOptionsSetExitTimeout(get(), seconds)); return *this; }
  Options& log_info(bool on) { check(TRITONSERVER_ServerOptionsSetLogInfo(get(), on)); return *this; }
  /* For all other functions of the C interface. */
  TRITONSERVER_ServerOptions* get() const { return o_.get(); }

 private:
  struct Delete { void operator()(TRITONSERVER_ServerOptions* o) const { TRITONSERVER_ErrorDelete(TRITONSERVER_ServerOptionsDelete(o)); } };
  std::unique_ptr<TRITONSERVER_ServerOptions, Delete> o_;
};

/* A server. It stops when it ends, after the requests that are in flight; it must
 * outlive its requests. */
class Server {
 public:
  explicit Server(const Options& o) {
    TRITONSERVER_Server* s = nullptr;
    check(TRITONSERVER_ServerNew(&s, o.get()));
    s_.reset(s);
  }
  bool ready(const std::string& model, std::int64_t version = -1) const {
    bool is = false;
    check(TRITONSERVER_ServerModelIsReady(get(), model.c_str(), version, &is));
    return is;
  }
  void load(const std::string& model) { check(TRITONSERVER_ServerLoadModel(get(), model.c_str())); }
  void unload(const std::string& model) { check(TRITONSERVER_ServerUnloadModel(get(), model.c_str())); }
  TRITONSERVER_Server* get() const { return s_.get(); }

 private:
  struct Delete { void operator()(TRITONSERVER_Server* s) const { TRITONSERVER_ErrorDelete(TRITONSERVER_ServerDelete(s)); } };
  std::unique_ptr<TRITONSERVER_Server, Delete> s_;
};

/* A request, which may be sent again and again, by one thread at a time. */
class Request {
 public:
  Request(const Server& s, const std::string& model, std::int64_t version = -1) : server_(s.get()) {
    TRITONSERVER_InferenceRequest* r = nullptr;
    check(TRITONSERVER_InferenceRequestNew(&r, server_, model.c_str(), version));
    r_.reset(r);
    TRITONSERVER_ResponseAllocator* a = nullptr;
    check(TRITONSERVER_ResponseAllocatorNew(&a, give, take_back, nullptr));
    allocator_.reset(a);
    check(TRITONSERVER_InferenceRequestSetReleaseCallback(r, released, this));
    check(TRITONSERVER_InferenceRequestSetResponseCallback(r, a, nullptr, responded, this));
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  /* Adds an input; the values must stay where they are until the request has been answered. */
  template <class T> Request& input(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<T>& values) {
    check(TRITONSERVER_InferenceRequestAddInput(get(), name.c_str(), Datatype<T>::value, shape.data(), shape.size()));
    check(TRITONSERVER_InferenceRequestAppendInputData(get(), name.c_str(), values.data(), values.size() * sizeof(T),
          TRITONSERVER_MEMORY_CPU, 0));
    return *this;
  }
  Request& clear() { check(TRITONSERVER_InferenceRequestRemoveAllInputs(get())); return *this; }
  void cancel() { check(TRITONSERVER_InferenceRequestCancel(get())); }

  /* Sends the request and waits for all its responses. An error response is thrown. */
  std::vector<Response> infer_all() {
    std::unique_lock<std::mutex> lock(mutex_);
    responses_.clear();
    final_ = released_ = false;
    lock.unlock(); /* a model may answer before the call returns */
    check(TRITONSERVER_ServerInferAsync(server_, get(), nullptr));
    lock.lock();
    changed_.wait(lock, [this] { return final_ && released_; });
    std::vector<Response> all = std::move(responses_);
    responses_.clear();
    lock.unlock();
    for (const Response& r : all) r.check();
    return all;
  }

  /* infer_all for a model that answers once. */
  Response infer() {
    std::vector<Response> all = infer_all();
    if (all.size() != 1) throw Error(TRITONSERVER_ERROR_INTERNAL, "expected a single response, got " + std::to_string(all.size()));
    return std::move(all.front());
  }
  TRITONSERVER_InferenceRequest* get() const { return r_.get(); }

 private:
  static TRITONSERVER_Error* give(TRITONSERVER_ResponseAllocator*, const char*, std::size_t size, TRITONSERVER_MemoryType,
                                  std::int64_t, void*, void** buffer, void** user, TRITONSERVER_MemoryType* type, std::int64_t* id) {
    *buffer = std::malloc(size ? size : 1);
    *user = nullptr;
    *type = TRITONSERVER_MEMORY_CPU;
    *id = 0;
    return *buffer ? nullptr : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "out of memory");
  }
  static TRITONSERVER_Error* take_back(TRITONSERVER_ResponseAllocator*, void* buffer, void*, std::size_t,
                                       TRITONSERVER_MemoryType, std::int64_t) {
    std::free(buffer);
    return nullptr;
  }
  static void released(TRITONSERVER_InferenceRequest*, std::uint32_t, void* self) {
    Request* q = static_cast<Request*>(self);
    std::lock_guard<std::mutex> lock(q->mutex_);
    q->released_ = true;
    q->changed_.notify_all();
  }
  static void responded(TRITONSERVER_InferenceResponse* r, std::uint32_t flags, void* self) {
    Request* q = static_cast<Request*>(self);
    std::lock_guard<std::mutex> lock(q->mutex_);
    if (r) q->responses_.emplace_back(r);
    q->final_ = q->final_ || (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL);
    q->changed_.notify_all();
  }

  struct DeleteRequest {
    void operator()(TRITONSERVER_InferenceRequest* r) const { TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceRequestDelete(r)); }
  };
  struct DeleteAllocator {
    void operator()(TRITONSERVER_ResponseAllocator* a) const { TRITONSERVER_ErrorDelete(TRITONSERVER_ResponseAllocatorDelete(a)); }
  };
  TRITONSERVER_Server* server_;
  std::unique_ptr<TRITONSERVER_ResponseAllocator, DeleteAllocator> allocator_;
  std::unique_ptr<TRITONSERVER_InferenceRequest, DeleteRequest> r_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Response> responses_;
  bool final_ = false, released_ = false;
};

}  // namespace neso

#endif
