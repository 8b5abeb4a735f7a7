// The options, tensors and names that a program makes, which hold what they are given.
#include "developer_tools.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace triton::developer_tools::server {

LoggingOptions::LoggingOptions() : LoggingOptions(VerboseLevel::OFF, true, true, true, LogFormat::DEFAULT, "") {}
LoggingOptions::LoggingOptions(VerboseLevel v, bool i, bool w, bool e, const LogFormat& f, const std::string& file)
    : verbose_(v), info_(i), warn_(w), error_(e), format_(f), log_file_(file) {}
MetricsOptions::MetricsOptions() : MetricsOptions(true, true, true, 2000) {}
MetricsOptions::MetricsOptions(bool a, bool g, bool c, uint64_t ms)
    : allow_metrics_(a), allow_gpu_metrics_(g), allow_cpu_metrics_(c), metrics_interval_ms_(ms) {}
RateLimitResource::RateLimitResource(const std::string& n, int c) : RateLimitResource(n, c, INT_MAX) {}
RateLimitResource::RateLimitResource(const std::string& n, int c, int d) : name_(n), count_(c), device_(d) {}
ModelLoadGPULimit::ModelLoadGPULimit(int d, const double& f) : device_id_(d), fraction_(f) {}
BackendConfig::BackendConfig(const std::string& n, const std::string& s, const std::string& v) : name_(n), setting_(s), value_(v) {}
CUDAMemoryPoolByteSize::CUDAMemoryPoolByteSize(int d, uint64_t s) : gpu_device_(d), size_(s) {}
HostPolicy::HostPolicy(const std::string& n, const Setting& s, const std::string& v) : name_(n), setting_(s), value_(v) {}
Trace::Trace(const std::string& f, const Level& l) : Trace(f, l, 1000, -1, 0) {}
Trace::Trace(const std::string& f, const Level& l, uint32_t r, int32_t c, uint32_t n)
    : file_(f), level_(l), rate_(r), count_(c), log_frequency_(n) {}
ServerOptions::ServerOptions(const std::vector<std::string>& paths)
    : ServerOptions(paths, LoggingOptions(), MetricsOptions(), {}, "triton", "/opt/tritonserver/backends",
                    "/opt/tritonserver/repoagents", false, ModelControlMode::NONE, 15, {}, {}, 1 << 28, {}, 0, 0, true, 30, 0,
                    std::max(2U, 2 * std::thread::hardware_concurrency()), {}, {}, nullptr) {}
ServerOptions::ServerOptions(const std::vector<std::string>& paths, const LoggingOptions& logging, const MetricsOptions& metrics,
    const std::vector<BackendConfig>& backends, const std::string& id, const std::string& backend_dir, const std::string& agent_dir,
    bool strict, const ModelControlMode& mode, int32_t poll, const std::set<std::string>& models,
    const std::vector<RateLimitResource>& resources, int64_t pinned, const std::vector<CUDAMemoryPoolByteSize>& cuda, uint64_t cache,
    const double& capability, bool exit_on_error, int32_t exit_timeout, int32_t buffer_threads, uint32_t load_threads,
    const std::vector<ModelLoadGPULimit>& limits, const std::vector<HostPolicy>& policies, std::shared_ptr<Trace> trace)
    : model_repository_paths_(paths), logging_(logging), metrics_(metrics), be_config_(backends), server_id_(id),
      backend_dir_(backend_dir), repo_agent_dir_(agent_dir), disable_auto_complete_config_(strict), model_control_mode_(mode),
      repository_poll_secs_(poll), startup_models_(models), rate_limit_resource_(resources), pinned_memory_pool_byte_size_(pinned),
      cuda_memory_pool_byte_size_(cuda), response_cache_byte_size_(cache), min_cuda_compute_capability_(capability),
      exit_on_error_(exit_on_error), exit_timeout_secs_(exit_timeout), buffer_manager_thread_count_(buffer_threads),
      model_load_thread_count_(load_threads), model_load_gpu_limit_(limits), host_policy_(policies), trace_(trace) {}
RepositoryIndex::RepositoryIndex(const std::string& n, const std::string& v, const ModelReadyState& s)
    : name_(n), version_(v), state_(s) {}
Tensor::Tensor(char* b, const size_t& n, const DataType& d, const std::vector<int64_t>& s, const MemoryType& m, int64_t i)
    : buffer_(b), byte_size_(n), data_type_(d), shape_(s), memory_type_(m), memory_type_id_(i), is_pre_alloc_(false),
      is_output_(false) {}
Tensor::Tensor(char* b, const size_t& n, const MemoryType& m, int64_t i) : Tensor(b, n, DataType::INVALID, {}, m, i) {}
Tensor::~Tensor() {
  if (!is_output_ || is_pre_alloc_) return;
  if (!custom_allocator_ || !custom_allocator_->alloc()) {
    free(buffer_);
  } else if (custom_allocator_->release()) {
    custom_allocator_->release()(buffer_, byte_size_, memory_type_, memory_type_id_);
  }
}
NewModelRepo::NewModelRepo(const std::string& p) : path_(p) {}
NewModelRepo::NewModelRepo(const std::string& p, const std::string& n, const std::string& o)
    : path_(p), original_name_(n), override_name_(o) {}
InferOptions::InferOptions(const std::string& model) : InferOptions(model, -1, "", 0, "", false, false, 0, 0, nullptr, nullptr) {}
InferOptions::InferOptions(const std::string& model, int64_t version, const std::string& id, uint64_t correlation,
    const std::string& correlation_str, bool start, bool end, uint64_t priority, uint64_t timeout, std::shared_ptr<Allocator> custom,
    std::shared_ptr<Trace> trace)
    : model_name_(model), model_version_(version), request_id_(id), correlation_id_(correlation), correlation_id_str_(correlation_str),
      sequence_start_(start), sequence_end_(end), priority_(priority), request_timeout_(timeout), custom_allocator_(custom),
      trace_(trace) {}

}  // namespace triton::developer_tools::server
