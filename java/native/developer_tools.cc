// libtritondevelopertoolsserver.so: the classes that JavaCPP's glue asks for, over the C library.
#include "developer_tools.h"

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "triton/core/tritonserver.h"

namespace triton::developer_tools::server {
namespace {

// Throws what a function answers, if it is an error.
void ok(TRITONSERVER_Error* error, const std::string& what) {
  if (!error) return;
  std::string message = what + ": " + TRITONSERVER_ErrorCodeString(error) + " - " + TRITONSERVER_ErrorMessage(error);
  TRITONSERVER_ErrorDelete(error);
  throw TritonException(message);
}

// The text of a message, which ends here.
std::string taken(TRITONSERVER_Message* message) {
  const char* base;
  size_t size;
  TRITONSERVER_Error* error = TRITONSERVER_MessageSerializeToJson(message, &base, &size);
  std::string text = error ? "" : std::string(base, size);
  TRITONSERVER_MessageDelete(message);
  ok(error, "a message cannot be read");
  return text;
}

// The texts of the flat objects of a JSON list, as the index is one: members by their names.
std::vector<std::map<std::string, std::string>> objects(const std::string& json) {
  std::vector<std::map<std::string, std::string>> all;
  std::string name, text;
  bool inside = false, value = false;
  for (size_t i = 0; i < json.size(); i++) {
    char c = json[i];
    if (inside) {
      if (c == '"') {
        inside = false;
        if (value && !all.empty()) all.back()[name] = text;
        if (!value) name = text;
      } else if (c == '\\' && i + 1 < json.size()) {
        text += json[++i];
      } else {
        text += c;
      }
    } else if (c == '"') {
      inside = true;
      text.clear();
    } else if (c == '{') {
      all.emplace_back();
      value = false;
    } else if (c == ':' || c == ',') {
      value = c == ':';
    }
  }
  return all;
}

ModelReadyState state(const std::string& text) {
  if (text == "READY") return ModelReadyState::READY;
  if (text == "UNAVAILABLE") return ModelReadyState::UNAVAILABLE;
  if (text == "LOADING") return ModelReadyState::LOADING;
  return text == "UNLOADING" ? ModelReadyState::UNLOADING : ModelReadyState::UNKNOWN;
}

struct Wanted {
  std::string name;
  Tensor* into;  // memory of the program's, or null
};

}  // namespace

class InternalRequest : public GenericInferRequest {
 public:
  struct Input {
    std::string name;
    TRITONSERVER_DataType datatype;
    std::vector<int64_t> shape;
    const char* base;
    size_t size;
  };

  explicit InternalRequest(const InferOptions& options) : options_(options) {}
  void AddInput(const std::string& name, const Tensor& t) noexcept override {
    inputs_.push_back({name, static_cast<TRITONSERVER_DataType>(t.data_type_), t.shape_, t.buffer_, t.byte_size_});
  }
  void AddRequestedOutput(const std::string& name, Tensor& output) override { outputs_.push_back({name, &output}); }
  void AddRequestedOutput(const std::string& name) override { outputs_.push_back({name, nullptr}); }
  void Reset() override {
    inputs_.clear();
    outputs_.clear();
  }

  InferOptions options_;
  std::vector<Input> inputs_;
  std::vector<Wanted> outputs_;
};

class InternalResult : public GenericInferResult {
 public:
  // Reads a response and ends it. Memory of its outputs belongs to their tensors then.
  InternalResult(TRITONSERVER_InferenceResponse* response, const InternalRequest& request) {
    const char *name, *id;
    int64_t version;
    uint32_t count = 0;
    if (TRITONSERVER_Error* error = TRITONSERVER_InferenceResponseError(response)) {
      error_ = std::string(TRITONSERVER_ErrorCodeString(error)) + " - " + TRITONSERVER_ErrorMessage(error);
    } else {
      ok(TRITONSERVER_InferenceResponseOutputCount(response, &count), "a response cannot be read");
    }
    ok(TRITONSERVER_InferenceResponseModel(response, &name, &version), "a response cannot be read");
    ok(TRITONSERVER_InferenceResponseId(response, &id), "a response cannot be read");
    model_ = name;
    version_ = std::to_string(version);
    id_ = id ? id : "";
    for (uint32_t i = 0; i < count; i++) {
      const int64_t* shape;
      const void* base;
      TRITONSERVER_DataType datatype;
      TRITONSERVER_MemoryType type;
      uint64_t rank;
      size_t size;
      int64_t type_id;
      void* user;
      ok(TRITONSERVER_InferenceResponseOutput(response, i, &name, &datatype, &shape, &rank, &base, &size, &type, &type_id, &user),
         "an output cannot be read");
      auto* bytes = const_cast<char*>(static_cast<const char*>(base));
      auto tensor = std::make_shared<Tensor>(bytes, size, static_cast<DataType>(datatype), std::vector<int64_t>(shape, shape + rank),
                                             static_cast<MemoryType>(type), type_id);
      tensor->is_output_ = true;
      tensor->custom_allocator_ = request.options_.custom_allocator_;
      for (const Wanted& wanted : request.outputs_) tensor->is_pre_alloc_ |= wanted.into && wanted.into->buffer_ == bytes;
      names_.push_back(name);
      outputs_[name] = tensor;
    }
    TRITONSERVER_InferenceResponseDelete(response);
  }

  std::string ModelName() noexcept override { return model_; }
  std::string ModelVersion() noexcept override { return version_; }
  std::string Id() noexcept override { return id_; }
  std::vector<std::string> OutputNames() override { return names_; }
  std::shared_ptr<Tensor> Output(const std::string& name) override {
    auto found = outputs_.find(name);
    if (found == outputs_.end()) throw TritonException("the response has no output " + name);
    return found->second;
  }
  std::vector<std::string> StringData(const std::string& name) override {
    std::shared_ptr<Tensor> tensor = Output(name);
    if (tensor->data_type_ != DataType::BYTES) throw TritonException("output " + name + " is not of BYTES");
    std::vector<std::string> all;
    uint32_t size;
    for (size_t at = 0; at + sizeof size <= tensor->byte_size_; at += size) {
      memcpy(&size, tensor->buffer_ + at, sizeof size);
      at += sizeof size;
      if (size > tensor->byte_size_ - at) throw TritonException("output " + name + " has an element that ends behind it");
      all.emplace_back(tensor->buffer_ + at, size);
    }
    return all;
  }
  std::string DebugString() override {
    std::string text = "model " + model_ + ", version " + version_ + ", id " + id_;
    for (const auto& [name, tensor] : outputs_) text += ", " + name + ": " + std::to_string(tensor->byte_size_) + " bytes";
    return HasError() ? text + ", " + error_ : text;
  }
  bool HasError() override { return !error_.empty(); }
  std::string ErrorMsg() override { return error_; }

 private:
  std::string model_, version_, id_, error_;
  std::vector<std::string> names_;
  std::map<std::string, std::shared_ptr<Tensor>> outputs_;
};

namespace {

// A request in flight: what callbacks tell, and the program waits for.
struct Flight {
  const InternalRequest* request;
  std::mutex lock;
  std::condition_variable changed;
  TRITONSERVER_InferenceResponse* first = nullptr;
  int responses = 0;
  bool last = false, released = false;
};

TRITONSERVER_Error* give(TRITONSERVER_ResponseAllocator*, const char* name, size_t size, TRITONSERVER_MemoryType type, int64_t id,
                         void* user, void** buffer, void**, TRITONSERVER_MemoryType* got, int64_t* got_id) {
  const InternalRequest* request = static_cast<Flight*>(user)->request;
  *got = TRITONSERVER_MEMORY_CPU;
  *got_id = 0;
  for (const Wanted& wanted : request->outputs_) {
    if (!wanted.into || wanted.name != name) continue;
    if (wanted.into->byte_size_ != size) {
      std::string text = "output " + wanted.name + " has " + std::to_string(size) + " bytes, its buffer " +
                         std::to_string(wanted.into->byte_size_);
      return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, text.c_str());
    }
    *buffer = wanted.into->buffer_;
    return nullptr;
  }
  if (Allocator* custom = request->options_.custom_allocator_.get(); custom && custom->alloc()) {
    MemoryType made = MemoryType::CPU;
    custom->alloc()(name, size, static_cast<MemoryType>(type), id, buffer, &made, got_id);
    *got = static_cast<TRITONSERVER_MemoryType>(made);
    return nullptr;
  }
  *buffer = malloc(size ? size : 1);
  return *buffer ? nullptr : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no memory for an output");
}

TRITONSERVER_Error* keep(TRITONSERVER_ResponseAllocator*, void*, void*, size_t, TRITONSERVER_MemoryType, int64_t) {
  return nullptr;  // the output's tensor has it
}

void on_response(TRITONSERVER_InferenceResponse* response, uint32_t flags, void* user) {
  auto* flight = static_cast<Flight*>(user);
  std::lock_guard<std::mutex> held(flight->lock);
  if (response && flight->responses++) TRITONSERVER_InferenceResponseDelete(response);
  if (response && flight->responses == 1) flight->first = response;
  flight->last |= flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL;
  flight->changed.notify_all();
}

void on_release(TRITONSERVER_InferenceRequest*, uint32_t, void* user) {
  auto* flight = static_cast<Flight*>(user);
  std::lock_guard<std::mutex> held(flight->lock);
  flight->released = true;
  flight->changed.notify_all();
}

class InternalServer : public GenericTritonServer {
 public:
  explicit InternalServer(const ServerOptions& given) {
    if (given.trace_) throw TritonException("Trace is not supported here: set trace_config by the command, or in C");
    TRITONSERVER_ServerOptions* options;
    ok(TRITONSERVER_ServerOptionsNew(&options), "options cannot be made");
    std::unique_ptr<TRITONSERVER_ServerOptions, TRITONSERVER_Error* (*)(TRITONSERVER_ServerOptions*)> ends(
        options, TRITONSERVER_ServerOptionsDelete);
    set(options, given);
    ok(TRITONSERVER_ResponseAllocatorNew(&allocator_, give, keep, nullptr), "an allocator cannot be made");
    if (TRITONSERVER_Error* error = TRITONSERVER_ServerNew(&server_, options)) {
      TRITONSERVER_ResponseAllocatorDelete(allocator_);
      ok(error, "the server cannot be started");
    }
    if (given.model_control_mode_ == ModelControlMode::POLL)
      poller_ = std::thread([this, seconds = given.repository_poll_secs_] { poll(seconds); });
  }
  ~InternalServer() override {
    end_polling();
    TRITONSERVER_ServerDelete(server_);
    TRITONSERVER_ResponseAllocatorDelete(allocator_);
  }

  void LoadModel(const std::string& name) override { ok(TRITONSERVER_ServerLoadModel(server_, name.c_str()), name); }
  void UnloadModel(const std::string& name) override { ok(TRITONSERVER_ServerUnloadModel(server_, name.c_str()), name); }
  std::set<std::string> LoadedModels() override {
    std::set<std::string> names;
    for (auto& model : index(TRITONSERVER_INDEX_FLAG_READY)) names.insert(model["name"]);
    return names;
  }
  std::vector<RepositoryIndex> ModelIndex() override {
    std::vector<RepositoryIndex> all;
    for (auto& model : index(0)) all.emplace_back(model["name"], model["version"], state(model["state"]));
    return all;
  }
  std::string ServerMetrics() override {
    TRITONSERVER_Metrics* metrics;
    const char* base;
    size_t size;
    ok(TRITONSERVER_ServerMetrics(server_, &metrics), "metrics");
    TRITONSERVER_Error* error = TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, &base, &size);
    std::string text = error ? "" : std::string(base, size);
    TRITONSERVER_MetricsDelete(metrics);
    ok(error, "metrics");
    return text;
  }
  std::string ModelStatistics(const std::string& name, int64_t version) override {
    TRITONSERVER_Message* message;
    ok(TRITONSERVER_ServerModelStatistics(server_, name.c_str(), version, &message), name);
    return taken(message);
  }
  bool IsServerLive() override {
    bool is;
    ok(TRITONSERVER_ServerIsLive(server_, &is), "liveness");
    return is;
  }
  bool IsServerReady() override {
    bool is;
    ok(TRITONSERVER_ServerIsReady(server_, &is), "readiness");
    return is;
  }
  void ServerStop() override {
    end_polling();
    ok(TRITONSERVER_ServerStop(server_), "stop");
  }
  bool IsModelReady(const std::string& name, int64_t version) override {
    bool is;
    ok(TRITONSERVER_ServerModelIsReady(server_, name.c_str(), version, &is), name);
    return is;
  }
  std::string ModelConfig(const std::string& name, int64_t version) override {
    TRITONSERVER_Message* message;
    ok(TRITONSERVER_ServerModelConfig(server_, name.c_str(), version, 1, &message), name);
    return taken(message);
  }
  std::string ServerMetadata() override {
    TRITONSERVER_Message* message;
    ok(TRITONSERVER_ServerMetadata(server_, &message), "metadata");
    return taken(message);
  }
  std::string ModelMetadata(const std::string& name, int64_t version) override {
    TRITONSERVER_Message* message;
    ok(TRITONSERVER_ServerModelMetadata(server_, name.c_str(), version, &message), name);
    return taken(message);
  }
  void RegisterModelRepo(const NewModelRepo& repo) override {
    if (repo.original_name_.empty()) {
      ok(TRITONSERVER_ServerRegisterModelRepository(server_, repo.path_.c_str(), nullptr, 0), repo.path_);
      return;
    }
    // The name of the parameter is that of the model in the repository's directory.
    TRITONSERVER_Parameter* mapping =
        TRITONSERVER_ParameterNew(repo.original_name_.c_str(), TRITONSERVER_PARAMETER_STRING, repo.override_name_.c_str());
    const TRITONSERVER_Parameter* all[] = {mapping};
    TRITONSERVER_Error* error = TRITONSERVER_ServerRegisterModelRepository(server_, repo.path_.c_str(), all, 1);
    TRITONSERVER_ParameterDelete(mapping);
    ok(error, repo.path_);
  }
  void UnregisterModelRepo(const std::string& path) override {
    ok(TRITONSERVER_ServerUnregisterModelRepository(server_, path.c_str()), path);
  }

  std::unique_ptr<GenericInferResult> Infer(GenericInferRequest& generic) override {
    auto& given = static_cast<InternalRequest&>(generic);
    TRITONSERVER_InferenceRequest* request;
    ok(TRITONSERVER_InferenceRequestNew(&request, server_, given.options_.model_name_.c_str(), given.options_.model_version_),
       given.options_.model_name_);
    std::unique_ptr<TRITONSERVER_InferenceRequest, TRITONSERVER_Error* (*)(TRITONSERVER_InferenceRequest*)> ends(
        request, TRITONSERVER_InferenceRequestDelete);
    fill(request, given);
    Flight flight;
    flight.request = &given;
    const std::string& what = given.options_.model_name_;
    ok(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, &flight), what);
    ok(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator_, &flight, on_response, &flight), what);
    ok(TRITONSERVER_ServerInferAsync(server_, request, nullptr), what);
    std::unique_lock<std::mutex> held(flight.lock);
    flight.changed.wait(held, [&] { return flight.last && flight.released; });
    if (!flight.first) throw TritonException(what + " has answered without a response");
    auto result = std::make_unique<InternalResult>(flight.first, given);
    if (flight.responses > 1) throw TritonException(what + " is decoupled: it has answered more than once");
    return result;
  }

 private:
  std::vector<std::map<std::string, std::string>> index(uint32_t flags) {
    TRITONSERVER_Message* message;
    ok(TRITONSERVER_ServerModelIndex(server_, flags, &message), "index");
    return objects(taken(message));
  }

  static void set(TRITONSERVER_ServerOptions* o, const ServerOptions& g) {
    const std::string what = "an option";
    for (const auto& path : g.model_repository_paths_) ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(o, path.c_str()), what);
    ok(TRITONSERVER_ServerOptionsSetLogVerbose(o, static_cast<int>(g.logging_.verbose_)), what);
    ok(TRITONSERVER_ServerOptionsSetLogInfo(o, g.logging_.info_), what);
    ok(TRITONSERVER_ServerOptionsSetLogWarn(o, g.logging_.warn_), what);
    ok(TRITONSERVER_ServerOptionsSetLogError(o, g.logging_.error_), what);
    ok(TRITONSERVER_ServerOptionsSetLogFormat(o, static_cast<TRITONSERVER_LogFormat>(g.logging_.format_)), what);
    if (!g.logging_.log_file_.empty()) ok(TRITONSERVER_ServerOptionsSetLogFile(o, g.logging_.log_file_.c_str()), what);
    ok(TRITONSERVER_ServerOptionsSetMetrics(o, g.metrics_.allow_metrics_), what);
    ok(TRITONSERVER_ServerOptionsSetGpuMetrics(o, g.metrics_.allow_gpu_metrics_), what);
    ok(TRITONSERVER_ServerOptionsSetCpuMetrics(o, g.metrics_.allow_cpu_metrics_), what);
    ok(TRITONSERVER_ServerOptionsSetMetricsInterval(o, g.metrics_.metrics_interval_ms_), what);
    for (const auto& b : g.be_config_)
      ok(TRITONSERVER_ServerOptionsSetBackendConfig(o, b.name_.c_str(), b.setting_.c_str(), b.value_.c_str()), what);
    ok(TRITONSERVER_ServerOptionsSetServerId(o, g.server_id_.c_str()), what);
    ok(TRITONSERVER_ServerOptionsSetBackendDirectory(o, g.backend_dir_.c_str()), what);
    ok(TRITONSERVER_ServerOptionsSetRepoAgentDirectory(o, g.repo_agent_dir_.c_str()), what);
    ok(TRITONSERVER_ServerOptionsSetStrictModelConfig(o, g.disable_auto_complete_config_), what);
    ok(TRITONSERVER_ServerOptionsSetModelControlMode(o, static_cast<TRITONSERVER_ModelControlMode>(g.model_control_mode_)), what);
    for (const auto& model : g.startup_models_) ok(TRITONSERVER_ServerOptionsSetStartupModel(o, model.c_str()), what);
    if (!g.rate_limit_resource_.empty())
      ok(TRITONSERVER_ServerOptionsSetRateLimiterMode(o, TRITONSERVER_RATE_LIMIT_EXEC_COUNT), what);
    for (const auto& r : g.rate_limit_resource_)
      ok(TRITONSERVER_ServerOptionsAddRateLimiterResource(o, r.name_.c_str(), r.count_, r.device_ == INT_MAX ? -1 : r.device_), what);
    if (g.response_cache_byte_size_)
      ok(TRITONSERVER_ServerOptionsSetResponseCacheByteSize(o, g.response_cache_byte_size_), what);
    ok(TRITONSERVER_ServerOptionsSetExitOnError(o, g.exit_on_error_), what);
    ok(TRITONSERVER_ServerOptionsSetExitTimeout(o, g.exit_timeout_secs_), what);
    ok(TRITONSERVER_ServerOptionsSetModelLoadThreadCount(o, g.model_load_thread_count_), what);
    for (const auto& h : g.host_policy_)
      ok(TRITONSERVER_ServerOptionsSetHostPolicy(
             o, h.name_.c_str(), h.setting_ == HostPolicy::Setting::NUMA_NODE ? "numa-node" : "cpu-cores", h.value_.c_str()),
         what);
  }

  static void fill(TRITONSERVER_InferenceRequest* request, const InternalRequest& given) {
    const InferOptions& o = given.options_;
    const std::string& what = o.model_name_;
    ok(TRITONSERVER_InferenceRequestSetId(request, o.request_id_.c_str()), what);
    if (!o.correlation_id_str_.empty()) {
      ok(TRITONSERVER_InferenceRequestSetCorrelationIdString(request, o.correlation_id_str_.c_str()), what);
    } else {
      ok(TRITONSERVER_InferenceRequestSetCorrelationId(request, o.correlation_id_), what);
    }
    uint32_t flags = (o.sequence_start_ ? TRITONSERVER_REQUEST_FLAG_SEQUENCE_START : 0) |
                     (o.sequence_end_ ? TRITONSERVER_REQUEST_FLAG_SEQUENCE_END : 0);
    ok(TRITONSERVER_InferenceRequestSetFlags(request, flags), what);
    ok(TRITONSERVER_InferenceRequestSetPriorityUInt64(request, o.priority_), what);
    ok(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(request, o.request_timeout_), what);
    for (const auto& input : given.inputs_) {
      const char* name = input.name.c_str();
      ok(TRITONSERVER_InferenceRequestAddInput(request, name, input.datatype, input.shape.data(), input.shape.size()), what);
      ok(TRITONSERVER_InferenceRequestAppendInputData(request, name, input.base, input.size, TRITONSERVER_MEMORY_CPU, 0), what);
    }
    for (const Wanted& wanted : given.outputs_)
      ok(TRITONSERVER_InferenceRequestAddRequestedOutput(request, wanted.name.c_str()), what);
  }

  void poll(int seconds) {
    std::unique_lock<std::mutex> held(lock_);
    while (!ended_.wait_for(held, std::chrono::seconds(seconds), [this] { return stop_; })) {
      held.unlock();
      if (TRITONSERVER_Error* error = TRITONSERVER_ServerPollModelRepository(server_)) TRITONSERVER_ErrorDelete(error);  // logged
      held.lock();
    }
  }
  void end_polling() {
    {
      std::lock_guard<std::mutex> held(lock_);
      stop_ = true;
    }
    ended_.notify_all();
    if (poller_.joinable()) poller_.join();
  }

  TRITONSERVER_Server* server_ = nullptr;
  TRITONSERVER_ResponseAllocator* allocator_ = nullptr;
  std::mutex lock_;
  std::condition_variable ended_;
  std::thread poller_;
  bool stop_ = false;
};

}  // namespace

GenericInferResult::~GenericInferResult() = default;
GenericInferRequest::~GenericInferRequest() = default;
GenericTritonServer::~GenericTritonServer() = default;
std::unique_ptr<GenericInferRequest> GenericInferRequest::Create(const InferOptions& o) { return std::make_unique<InternalRequest>(o); }
std::unique_ptr<GenericTritonServer> GenericTritonServer::Create(const ServerOptions& o) { return std::make_unique<InternalServer>(o); }

}  // namespace triton::developer_tools::server
