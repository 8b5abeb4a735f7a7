/* The classes that JavaCPP's glue of Triton's developer tools (libjnitritondevelopertoolsserver.so) was compiled
   against: names, order and types of members are a binary interface, and must stay as they are. */
#pragma once
#include <climits>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace triton::developer_tools::server {

enum class ModelControlMode { NONE, POLL, EXPLICIT };
enum class MemoryType { CPU, CPU_PINNED, GPU };
/* The numbers of TRITONSERVER_DataType. */
enum class DataType { INVALID, BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BYTES, BF16 };
enum class ModelReadyState { UNKNOWN, READY, UNAVAILABLE, LOADING, UNLOADING };

/* What every function throws. */
struct TritonException : std::exception {
  TritonException(const std::string& message) : message_(message) {}
  const char* what() const noexcept override { return message_.c_str(); }
  std::string message_;
};

using ResponseAllocatorAllocFn_t = void (*)(const char* tensor_name, size_t byte_size, MemoryType preferred_memory_type,
    int64_t preferred_memory_type_id, void** buffer, MemoryType* actual_memory_type, int64_t* actual_memory_type_id);
using OutputBufferReleaseFn_t = void (*)(void* buffer, size_t byte_size, MemoryType memory_type, int64_t memory_type_id);
using ResponseAllocatorStartFn_t = void (*)(void* userp);

struct LoggingOptions {
  enum class VerboseLevel : int { OFF = 0, MIN = 1, MAX = INT_MAX };
  enum class LogFormat { DEFAULT, ISO8601 };
  LoggingOptions();
  LoggingOptions(VerboseLevel verbose, bool info, bool warn, bool error, const LogFormat& format, const std::string& log_file);
  VerboseLevel verbose_;
  bool info_;
  bool warn_;
  bool error_;
  LogFormat format_;
  std::string log_file_;
};

struct MetricsOptions {
  MetricsOptions();
  MetricsOptions(bool allow_metrics, bool allow_gpu_metrics, bool allow_cpu_metrics, uint64_t metrics_interval_ms);
  bool allow_metrics_;
  bool allow_gpu_metrics_;
  bool allow_cpu_metrics_;
  uint64_t metrics_interval_ms_;
};

struct RateLimitResource {
  RateLimitResource(const std::string& name, int count);
  RateLimitResource(const std::string& name, int count, int device);
  std::string name_;
  int count_;
  int device_; /* INT_MAX where it is any */
};

struct ModelLoadGPULimit {
  ModelLoadGPULimit(int device_id, const double& fraction);
  int device_id_;
  double fraction_;
};

class Allocator {
 public:
  ResponseAllocatorAllocFn_t alloc() const { return alloc_fn_; }
  OutputBufferReleaseFn_t release() const { return release_fn_; }
  ResponseAllocatorStartFn_t start() const { return start_fn_; }

 private:
  ResponseAllocatorAllocFn_t alloc_fn_;
  OutputBufferReleaseFn_t release_fn_;
  ResponseAllocatorStartFn_t start_fn_;
};

struct BackendConfig {
  BackendConfig(const std::string& name, const std::string& setting, const std::string& value);
  std::string name_;
  std::string setting_;
  std::string value_;
};

struct CUDAMemoryPoolByteSize {
  CUDAMemoryPoolByteSize(int gpu_device, uint64_t size);
  int gpu_device_;
  uint64_t size_;
};

struct HostPolicy {
  enum class Setting { NUMA_NODE, CPU_CORES };
  HostPolicy(const std::string& name, const Setting& setting, const std::string& value);
  std::string name_;
  Setting setting_;
  std::string value_;
};

struct Trace {
  enum class Level { OFF, TIMESTAMPS, TENSORS };
  Trace(const std::string& file, const Level& level);
  Trace(const std::string& file, const Level& level, uint32_t rate, int32_t count, uint32_t log_frequency);
  std::string file_;
  Level level_;
  uint32_t rate_;
  int32_t count_;
  uint32_t log_frequency_;
};

struct ServerOptions {
  ServerOptions(const std::vector<std::string>& model_repository_paths);
  ServerOptions(const std::vector<std::string>& model_repository_paths, const LoggingOptions& logging, const MetricsOptions& metrics,
      const std::vector<BackendConfig>& be_config, const std::string& server_id, const std::string& backend_dir,
      const std::string& repo_agent_dir, bool disable_auto_complete_config, const ModelControlMode& model_control_mode,
      int32_t repository_poll_secs, const std::set<std::string>& startup_models,
      const std::vector<RateLimitResource>& rate_limit_resource, int64_t pinned_memory_pool_byte_size,
      const std::vector<CUDAMemoryPoolByteSize>& cuda_memory_pool_byte_size, uint64_t response_cache_byte_size,
      const double& min_cuda_compute_capability, bool exit_on_error, int32_t exit_timeout_secs, int32_t buffer_manager_thread_count,
      uint32_t model_load_thread_count, const std::vector<ModelLoadGPULimit>& model_load_gpu_limit,
      const std::vector<HostPolicy>& host_policy, std::shared_ptr<Trace> trace);
  std::vector<std::string> model_repository_paths_;
  LoggingOptions logging_;
  MetricsOptions metrics_;
  std::vector<BackendConfig> be_config_;
  std::string server_id_;
  std::string backend_dir_;
  std::string repo_agent_dir_;
  bool disable_auto_complete_config_;
  ModelControlMode model_control_mode_;
  int32_t repository_poll_secs_;
  std::set<std::string> startup_models_;
  std::vector<RateLimitResource> rate_limit_resource_;
  int64_t pinned_memory_pool_byte_size_;
  std::vector<CUDAMemoryPoolByteSize> cuda_memory_pool_byte_size_;
  uint64_t response_cache_byte_size_;
  double min_cuda_compute_capability_;
  bool exit_on_error_;
  int32_t exit_timeout_secs_;
  int32_t buffer_manager_thread_count_;
  uint32_t model_load_thread_count_;
  std::vector<ModelLoadGPULimit> model_load_gpu_limit_;
  std::vector<HostPolicy> host_policy_;
  std::shared_ptr<Trace> trace_;
};

struct RepositoryIndex {
  RepositoryIndex(const std::string& name, const std::string& version, const ModelReadyState& state);
  std::string name_;
  std::string version_;
  ModelReadyState state_;
};

/* An input, memory for an output, or an output, which frees its memory. */
struct Tensor {
  Tensor(char* buffer, const size_t& byte_size, const DataType& data_type, const std::vector<int64_t>& shape,
      const MemoryType& memory_type, int64_t memory_type_id);
  Tensor(char* buffer, const size_t& byte_size, const MemoryType& memory_type, int64_t memory_type_id);
  ~Tensor();
  char* buffer_;
  size_t byte_size_;
  DataType data_type_;
  std::vector<int64_t> shape_;
  MemoryType memory_type_;
  int64_t memory_type_id_;
  friend class InternalResult;

 private:
  std::shared_ptr<Allocator> custom_allocator_;
  bool is_pre_alloc_;
  bool is_output_;
};

struct NewModelRepo {
  NewModelRepo(const std::string& path);
  NewModelRepo(const std::string& path, const std::string& original_name, const std::string& override_name);
  std::string path_;
  std::string original_name_;
  std::string override_name_;
};

struct InferOptions {
  InferOptions(const std::string& model_name);
  InferOptions(const std::string& model_name, int64_t model_version, const std::string& request_id, uint64_t correlation_id,
      const std::string& correlation_id_str, bool sequence_start, bool sequence_end, uint64_t priority, uint64_t request_timeout,
      std::shared_ptr<Allocator> custom_allocator, std::shared_ptr<Trace> trace);
  std::string model_name_;
  int64_t model_version_;
  std::string request_id_;
  uint64_t correlation_id_;
  std::string correlation_id_str_;
  bool sequence_start_;
  bool sequence_end_;
  uint64_t priority_;
  uint64_t request_timeout_;
  std::shared_ptr<Allocator> custom_allocator_;
  std::shared_ptr<Trace> trace_;
};

class GenericInferResult {
 public:
  virtual ~GenericInferResult();
  virtual std::string ModelName() noexcept = 0;
  virtual std::string ModelVersion() noexcept = 0;
  virtual std::string Id() noexcept = 0;
  virtual std::vector<std::string> OutputNames() = 0;
  virtual std::shared_ptr<Tensor> Output(const std::string& name) = 0;
  virtual std::vector<std::string> StringData(const std::string& output_name) = 0;
  virtual std::string DebugString() = 0;
  virtual bool HasError() = 0;
  virtual std::string ErrorMsg() = 0;
};

class GenericInferRequest {
 public:
  static std::unique_ptr<GenericInferRequest> Create(const InferOptions& infer_options);
  virtual ~GenericInferRequest();
  virtual void AddInput(const std::string& name, const Tensor& input) noexcept = 0;
  virtual void AddRequestedOutput(const std::string& name, Tensor& output) = 0;
  virtual void AddRequestedOutput(const std::string& name) = 0;
  virtual void Reset() = 0;
};

class GenericTritonServer {
 public:
  static std::unique_ptr<GenericTritonServer> Create(const ServerOptions& server_options);
  virtual ~GenericTritonServer();
  virtual void LoadModel(const std::string& model_name) = 0;
  virtual void UnloadModel(const std::string& model_name) = 0;
  virtual std::set<std::string> LoadedModels() = 0;
  virtual std::vector<RepositoryIndex> ModelIndex() = 0;
  virtual std::string ServerMetrics() = 0;
  virtual std::string ModelStatistics(const std::string& model_name, int64_t model_version) = 0;
  virtual bool IsServerLive() = 0;
  virtual bool IsServerReady() = 0;
  virtual void ServerStop() = 0;
  virtual bool IsModelReady(const std::string& model_name, int64_t model_version = -1) = 0;
  virtual std::string ModelConfig(const std::string& model_name, int64_t model_version = -1) = 0;
  virtual std::string ServerMetadata() = 0;
  virtual std::string ModelMetadata(const std::string& model_name, int64_t model_version = -1) = 0;
  virtual void RegisterModelRepo(const NewModelRepo& new_model_repo) = 0;
  virtual void UnregisterModelRepo(const std::string& repo_path) = 0;
  virtual std::unique_ptr<GenericInferResult> Infer(GenericInferRequest& infer_request) = 0;
};

}  // namespace triton::developer_tools::server
