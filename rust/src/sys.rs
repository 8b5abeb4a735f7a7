//! The C interface as it is: the part of `triton/core/tritonserver.h` that a client program
//! needs, by its own names. The safe layer of the crate is built on it.
//!
//! Objects are opaque, and what a function says of ownership is in the header. Enums are
//! plain numbers: what the library answers need not be one of the constants.

#![allow(non_camel_case_types, missing_docs)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::marker::{PhantomData, PhantomPinned};

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
            _marker: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}

opaque! {
    TRITONSERVER_Error
    TRITONSERVER_InferenceRequest
    TRITONSERVER_InferenceResponse
    TRITONSERVER_InferenceTrace
    TRITONSERVER_Message
    TRITONSERVER_Metrics
    TRITONSERVER_Parameter
    TRITONSERVER_ResponseAllocator
    TRITONSERVER_Server
    TRITONSERVER_ServerOptions
}

pub const TRITONSERVER_API_VERSION_MAJOR: u32 = 1;

pub type TRITONSERVER_DataType = c_uint;
pub const TRITONSERVER_TYPE_INVALID: TRITONSERVER_DataType = 0;
pub const TRITONSERVER_TYPE_BOOL: TRITONSERVER_DataType = 1;
pub const TRITONSERVER_TYPE_UINT8: TRITONSERVER_DataType = 2;
pub const TRITONSERVER_TYPE_UINT16: TRITONSERVER_DataType = 3;
pub const TRITONSERVER_TYPE_UINT32: TRITONSERVER_DataType = 4;
pub const TRITONSERVER_TYPE_UINT64: TRITONSERVER_DataType = 5;
pub const TRITONSERVER_TYPE_INT8: TRITONSERVER_DataType = 6;
pub const TRITONSERVER_TYPE_INT16: TRITONSERVER_DataType = 7;
pub const TRITONSERVER_TYPE_INT32: TRITONSERVER_DataType = 8;
pub const TRITONSERVER_TYPE_INT64: TRITONSERVER_DataType = 9;
pub const TRITONSERVER_TYPE_FP16: TRITONSERVER_DataType = 10;
pub const TRITONSERVER_TYPE_FP32: TRITONSERVER_DataType = 11;
pub const TRITONSERVER_TYPE_FP64: TRITONSERVER_DataType = 12;
pub const TRITONSERVER_TYPE_BYTES: TRITONSERVER_DataType = 13;
pub const TRITONSERVER_TYPE_BF16: TRITONSERVER_DataType = 14;

pub type TRITONSERVER_MemoryType = c_uint;
pub const TRITONSERVER_MEMORY_CPU: TRITONSERVER_MemoryType = 0;

pub type TRITONSERVER_ParameterType = c_uint;
pub const TRITONSERVER_PARAMETER_STRING: TRITONSERVER_ParameterType = 0;
pub const TRITONSERVER_PARAMETER_INT: TRITONSERVER_ParameterType = 1;
pub const TRITONSERVER_PARAMETER_BOOL: TRITONSERVER_ParameterType = 2;
pub const TRITONSERVER_PARAMETER_DOUBLE: TRITONSERVER_ParameterType = 3;

pub type TRITONSERVER_Error_Code = c_uint;
pub const TRITONSERVER_ERROR_UNKNOWN: TRITONSERVER_Error_Code = 0;
pub const TRITONSERVER_ERROR_INTERNAL: TRITONSERVER_Error_Code = 1;
pub const TRITONSERVER_ERROR_NOT_FOUND: TRITONSERVER_Error_Code = 2;
pub const TRITONSERVER_ERROR_INVALID_ARG: TRITONSERVER_Error_Code = 3;
pub const TRITONSERVER_ERROR_UNAVAILABLE: TRITONSERVER_Error_Code = 4;
pub const TRITONSERVER_ERROR_UNSUPPORTED: TRITONSERVER_Error_Code = 5;
pub const TRITONSERVER_ERROR_ALREADY_EXISTS: TRITONSERVER_Error_Code = 6;
pub const TRITONSERVER_ERROR_CANCELLED: TRITONSERVER_Error_Code = 7;

pub type TRITONSERVER_MetricFormat = c_uint;
pub const TRITONSERVER_METRIC_PROMETHEUS: TRITONSERVER_MetricFormat = 0;

pub const TRITONSERVER_REQUEST_FLAG_SEQUENCE_START: u32 = 1;
pub const TRITONSERVER_REQUEST_FLAG_SEQUENCE_END: u32 = 2;
pub const TRITONSERVER_REQUEST_RELEASE_ALL: u32 = 1;
pub const TRITONSERVER_RESPONSE_COMPLETE_FINAL: u32 = 1;
pub const TRITONSERVER_INDEX_FLAG_READY: u32 = 1;

pub type TRITONSERVER_ModelControlMode = c_uint;
pub const TRITONSERVER_MODEL_CONTROL_NONE: TRITONSERVER_ModelControlMode = 0;
pub const TRITONSERVER_MODEL_CONTROL_POLL: TRITONSERVER_ModelControlMode = 1;
pub const TRITONSERVER_MODEL_CONTROL_EXPLICIT: TRITONSERVER_ModelControlMode = 2;

pub type TRITONSERVER_ResponseAllocatorAllocFn_t = Option<
    unsafe extern "C" fn(
        allocator: *mut TRITONSERVER_ResponseAllocator,
        tensor_name: *const c_char,
        byte_size: usize,
        memory_type: TRITONSERVER_MemoryType,
        memory_type_id: i64,
        userp: *mut c_void,
        buffer: *mut *mut c_void,
        buffer_userp: *mut *mut c_void,
        actual_memory_type: *mut TRITONSERVER_MemoryType,
        actual_memory_type_id: *mut i64,
    ) -> *mut TRITONSERVER_Error,
>;
pub type TRITONSERVER_ResponseAllocatorReleaseFn_t = Option<
    unsafe extern "C" fn(
        allocator: *mut TRITONSERVER_ResponseAllocator,
        buffer: *mut c_void,
        buffer_userp: *mut c_void,
        byte_size: usize,
        memory_type: TRITONSERVER_MemoryType,
        memory_type_id: i64,
    ) -> *mut TRITONSERVER_Error,
>;
pub type TRITONSERVER_ResponseAllocatorStartFn_t = Option<
    unsafe extern "C" fn(
        allocator: *mut TRITONSERVER_ResponseAllocator,
        userp: *mut c_void,
    ) -> *mut TRITONSERVER_Error,
>;
pub type TRITONSERVER_InferenceRequestReleaseFn_t = Option<
    unsafe extern "C" fn(
        request: *mut TRITONSERVER_InferenceRequest,
        flags: u32,
        userp: *mut c_void,
    ),
>;
pub type TRITONSERVER_InferenceResponseCompleteFn_t = Option<
    unsafe extern "C" fn(
        response: *mut TRITONSERVER_InferenceResponse,
        flags: u32,
        userp: *mut c_void,
    ),
>;

extern "C" {
    pub fn TRITONSERVER_ApiVersion(major: *mut u32, minor: *mut u32) -> *mut TRITONSERVER_Error;

    pub fn TRITONSERVER_ErrorNew(
        code: TRITONSERVER_Error_Code,
        msg: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ErrorDelete(error: *mut TRITONSERVER_Error);
    pub fn TRITONSERVER_ErrorCode(error: *mut TRITONSERVER_Error) -> TRITONSERVER_Error_Code;
    pub fn TRITONSERVER_ErrorMessage(error: *mut TRITONSERVER_Error) -> *const c_char;

    pub fn TRITONSERVER_ParameterNew(
        name: *const c_char,
        kind: TRITONSERVER_ParameterType,
        value: *const c_void,
    ) -> *mut TRITONSERVER_Parameter;
    pub fn TRITONSERVER_ParameterBytesNew(
        name: *const c_char,
        byte_ptr: *const c_void,
        size: u64,
    ) -> *mut TRITONSERVER_Parameter;
    pub fn TRITONSERVER_ParameterDelete(parameter: *mut TRITONSERVER_Parameter);

    pub fn TRITONSERVER_ResponseAllocatorNew(
        allocator: *mut *mut TRITONSERVER_ResponseAllocator,
        alloc_fn: TRITONSERVER_ResponseAllocatorAllocFn_t,
        release_fn: TRITONSERVER_ResponseAllocatorReleaseFn_t,
        start_fn: TRITONSERVER_ResponseAllocatorStartFn_t,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ResponseAllocatorDelete(
        allocator: *mut TRITONSERVER_ResponseAllocator,
    ) -> *mut TRITONSERVER_Error;

    pub fn TRITONSERVER_MessageSerializeToJson(
        message: *mut TRITONSERVER_Message,
        base: *mut *const c_char,
        byte_size: *mut usize,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_MessageDelete(
        message: *mut TRITONSERVER_Message,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_MetricsFormatted(
        metrics: *mut TRITONSERVER_Metrics,
        format: TRITONSERVER_MetricFormat,
        base: *mut *const c_char,
        byte_size: *mut usize,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_MetricsDelete(
        metrics: *mut TRITONSERVER_Metrics,
    ) -> *mut TRITONSERVER_Error;

    pub fn TRITONSERVER_InferenceRequestNew(
        inference_request: *mut *mut TRITONSERVER_InferenceRequest,
        server: *mut TRITONSERVER_Server,
        model_name: *const c_char,
        model_version: i64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestDelete(
        inference_request: *mut TRITONSERVER_InferenceRequest,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestCancel(
        inference_request: *mut TRITONSERVER_InferenceRequest,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetId(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        id: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetFlags(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        flags: u32,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetCorrelationId(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        correlation_id: u64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetCorrelationIdString(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        correlation_id: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetPriorityUInt64(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        priority: u64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        timeout_us: u64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestAddInput(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        name: *const c_char,
        datatype: TRITONSERVER_DataType,
        shape: *const i64,
        dim_count: u64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestAppendInputData(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        name: *const c_char,
        base: *const c_void,
        byte_size: usize,
        memory_type: TRITONSERVER_MemoryType,
        memory_type_id: i64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestAddRequestedOutput(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        name: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetStringParameter(
        request: *mut TRITONSERVER_InferenceRequest,
        key: *const c_char,
        value: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetIntParameter(
        request: *mut TRITONSERVER_InferenceRequest,
        key: *const c_char,
        value: i64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetBoolParameter(
        request: *mut TRITONSERVER_InferenceRequest,
        key: *const c_char,
        value: bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetDoubleParameter(
        request: *mut TRITONSERVER_InferenceRequest,
        key: *const c_char,
        value: f64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetReleaseCallback(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        request_release_fn: TRITONSERVER_InferenceRequestReleaseFn_t,
        request_release_userp: *mut c_void,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceRequestSetResponseCallback(
        inference_request: *mut TRITONSERVER_InferenceRequest,
        response_allocator: *mut TRITONSERVER_ResponseAllocator,
        response_allocator_userp: *mut c_void,
        response_fn: TRITONSERVER_InferenceResponseCompleteFn_t,
        response_userp: *mut c_void,
    ) -> *mut TRITONSERVER_Error;

    pub fn TRITONSERVER_InferenceResponseDelete(
        inference_response: *mut TRITONSERVER_InferenceResponse,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceResponseError(
        inference_response: *mut TRITONSERVER_InferenceResponse,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceResponseModel(
        inference_response: *mut TRITONSERVER_InferenceResponse,
        model_name: *mut *const c_char,
        model_version: *mut i64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceResponseId(
        inference_response: *mut TRITONSERVER_InferenceResponse,
        request_id: *mut *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceResponseParameterCount(
        inference_response: *mut TRITONSERVER_InferenceResponse,
        count: *mut u32,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceResponseParameter(
        inference_response: *mut TRITONSERVER_InferenceResponse,
        index: u32,
        name: *mut *const c_char,
        kind: *mut TRITONSERVER_ParameterType,
        vvalue: *mut *const c_void,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceResponseOutputCount(
        inference_response: *mut TRITONSERVER_InferenceResponse,
        count: *mut u32,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_InferenceResponseOutput(
        inference_response: *mut TRITONSERVER_InferenceResponse,
        index: u32,
        name: *mut *const c_char,
        datatype: *mut TRITONSERVER_DataType,
        shape: *mut *const i64,
        dim_count: *mut u64,
        base: *mut *const c_void,
        byte_size: *mut usize,
        memory_type: *mut TRITONSERVER_MemoryType,
        memory_type_id: *mut i64,
        userp: *mut *mut c_void,
    ) -> *mut TRITONSERVER_Error;

    pub fn TRITONSERVER_ServerOptionsNew(
        options: *mut *mut TRITONSERVER_ServerOptions,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsDelete(
        options: *mut TRITONSERVER_ServerOptions,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetServerId(
        options: *mut TRITONSERVER_ServerOptions,
        server_id: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetModelRepositoryPath(
        options: *mut TRITONSERVER_ServerOptions,
        model_repository_path: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetModelControlMode(
        options: *mut TRITONSERVER_ServerOptions,
        mode: TRITONSERVER_ModelControlMode,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetStartupModel(
        options: *mut TRITONSERVER_ServerOptions,
        model_name: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetStrictModelConfig(
        options: *mut TRITONSERVER_ServerOptions,
        strict: bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetExitOnError(
        options: *mut TRITONSERVER_ServerOptions,
        exit: bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetStrictReadiness(
        options: *mut TRITONSERVER_ServerOptions,
        strict: bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetExitTimeout(
        options: *mut TRITONSERVER_ServerOptions,
        timeout: c_uint,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetCacheConfig(
        options: *mut TRITONSERVER_ServerOptions,
        cache_name: *const c_char,
        config_json: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetBackendConfig(
        options: *mut TRITONSERVER_ServerOptions,
        backend_name: *const c_char,
        setting: *const c_char,
        value: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetBackendDirectory(
        options: *mut TRITONSERVER_ServerOptions,
        backend_dir: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetLogInfo(
        options: *mut TRITONSERVER_ServerOptions,
        log: bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetLogWarn(
        options: *mut TRITONSERVER_ServerOptions,
        log: bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetLogError(
        options: *mut TRITONSERVER_ServerOptions,
        log: bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetLogVerbose(
        options: *mut TRITONSERVER_ServerOptions,
        level: c_int,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerOptionsSetMetrics(
        options: *mut TRITONSERVER_ServerOptions,
        metrics: bool,
    ) -> *mut TRITONSERVER_Error;

    pub fn TRITONSERVER_ServerNew(
        server: *mut *mut TRITONSERVER_Server,
        options: *mut TRITONSERVER_ServerOptions,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerDelete(server: *mut TRITONSERVER_Server) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerStop(server: *mut TRITONSERVER_Server) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerIsLive(
        server: *mut TRITONSERVER_Server,
        live: *mut bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerIsReady(
        server: *mut TRITONSERVER_Server,
        ready: *mut bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerMetadata(
        server: *mut TRITONSERVER_Server,
        server_metadata: *mut *mut TRITONSERVER_Message,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerMetrics(
        server: *mut TRITONSERVER_Server,
        metrics: *mut *mut TRITONSERVER_Metrics,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerModelIsReady(
        server: *mut TRITONSERVER_Server,
        model_name: *const c_char,
        model_version: i64,
        ready: *mut bool,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerModelMetadata(
        server: *mut TRITONSERVER_Server,
        model_name: *const c_char,
        model_version: i64,
        model_metadata: *mut *mut TRITONSERVER_Message,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerModelConfig(
        server: *mut TRITONSERVER_Server,
        model_name: *const c_char,
        model_version: i64,
        config_version: u32,
        model_config: *mut *mut TRITONSERVER_Message,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerModelStatistics(
        server: *mut TRITONSERVER_Server,
        model_name: *const c_char,
        model_version: i64,
        model_stats: *mut *mut TRITONSERVER_Message,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerModelIndex(
        server: *mut TRITONSERVER_Server,
        flags: u32,
        model_index: *mut *mut TRITONSERVER_Message,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerLoadModel(
        server: *mut TRITONSERVER_Server,
        model_name: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerLoadModelWithParameters(
        server: *mut TRITONSERVER_Server,
        model_name: *const c_char,
        parameters: *const *const TRITONSERVER_Parameter,
        parameter_count: u64,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerUnloadModel(
        server: *mut TRITONSERVER_Server,
        model_name: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerUnloadModelAndDependents(
        server: *mut TRITONSERVER_Server,
        model_name: *const c_char,
    ) -> *mut TRITONSERVER_Error;
    pub fn TRITONSERVER_ServerInferAsync(
        server: *mut TRITONSERVER_Server,
        inference_request: *mut TRITONSERVER_InferenceRequest,
        trace: *mut TRITONSERVER_InferenceTrace,
    ) -> *mut TRITONSERVER_Error;
}
