//! Responses: what a model has answered.

use std::ffi::c_char;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::error::{check, copied, ignore, Error, ErrorCode, Result};
use crate::request::Parameter;
use crate::server::Server;
use crate::sys;
use crate::tensor::{Datatype, Tensor};

/// A response of the library's, deleted when it is dropped.
pub(crate) struct RawResponse(NonNull<sys::TRITONSERVER_InferenceResponse>);

// SAFETY: the library lets every thread use it.
unsafe impl Send for RawResponse {}
// SAFETY: as above.
unsafe impl Sync for RawResponse {}

impl RawResponse {
    /// # Safety
    ///
    /// The response is the caller's.
    pub(crate) unsafe fn own(at: NonNull<sys::TRITONSERVER_InferenceResponse>) -> Self {
        Self(at)
    }
}

impl Drop for RawResponse {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { ignore(sys::TRITONSERVER_InferenceResponseDelete(self.0.as_ptr())) }
    }
}

/// What outputs lie in. The response goes before the server.
struct Memory {
    response: RawResponse,
    _server: Server,
}

/// One response of a model.
#[derive(Clone, Debug)]
pub struct Response {
    model: String,
    version: i64,
    id: String,
    parameters: Vec<(String, Parameter)>,
    outputs: Vec<(String, Tensor)>,
}

impl Response {
    /// Reads a response; one that says an error is that error.
    pub(crate) fn read(raw: RawResponse, server: &Server) -> Result<Self> {
        let memory = Arc::new(Memory {
            response: raw,
            _server: server.clone(),
        });
        let at = memory.response.0.as_ptr();
        let (mut model, mut id) = (ptr::null(), ptr::null());
        let mut version = 0;
        // SAFETY: the response is ours, and its texts live as long; the error stays its own.
        unsafe {
            let failure = sys::TRITONSERVER_InferenceResponseError(at);
            if !failure.is_null() {
                return Err(Error::read(failure));
            }
            check(sys::TRITONSERVER_InferenceResponseModel(
                at,
                &mut model,
                &mut version,
            ))?;
            check(sys::TRITONSERVER_InferenceResponseId(at, &mut id))?;
            Ok(Self {
                model: copied(model),
                version,
                id: copied(id),
                parameters: parameters(at)?,
                outputs: outputs(&memory)?,
            })
        }
    }

    /// The name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The version of the model that has answered.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The request's.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the model says besides its outputs.
    pub fn parameters(&self) -> &[(String, Parameter)] {
        &self.parameters
    }

    /// The outputs with their names. Their memory is the server's, and lives as long as one of
    /// them; an output may be an input of another request as it is.
    pub fn outputs(&self) -> &[(String, Tensor)] {
        &self.outputs
    }

    /// The output of a name.
    ///
    /// # Errors
    ///
    /// `NotFound` where there is none.
    pub fn output(&self, name: &str) -> Result<&Tensor> {
        let found = self.outputs.iter().find(|(n, _)| n == name);
        found.map(|(_, tensor)| tensor).ok_or_else(|| {
            Error::new(
                ErrorCode::NotFound,
                format!("the response has no output '{name}'"),
            )
        })
    }
}

/// # Safety
///
/// `at` is a response.
unsafe fn parameters(
    at: *mut sys::TRITONSERVER_InferenceResponse,
) -> Result<Vec<(String, Parameter)>> {
    let mut count = 0;
    let mut all = Vec::new();
    // SAFETY: the caller's; a value has the type that the library says.
    unsafe {
        check(sys::TRITONSERVER_InferenceResponseParameterCount(
            at, &mut count,
        ))?;
        for i in 0..count {
            let (mut name, mut kind, mut value) = (ptr::null(), 0, ptr::null());
            check(sys::TRITONSERVER_InferenceResponseParameter(
                at, i, &mut name, &mut kind, &mut value,
            ))?;
            if value.is_null() {
                continue;
            }
            let value = match kind {
                sys::TRITONSERVER_PARAMETER_STRING => {
                    Parameter::String(copied(value.cast::<c_char>()))
                }
                sys::TRITONSERVER_PARAMETER_INT => {
                    Parameter::Int(value.cast::<i64>().read_unaligned())
                }
                sys::TRITONSERVER_PARAMETER_BOOL => Parameter::Bool(value.cast::<u8>().read() != 0),
                sys::TRITONSERVER_PARAMETER_DOUBLE => {
                    Parameter::Double(value.cast::<f64>().read_unaligned())
                }
                _ => continue, // of a newer library
            };
            all.push((copied(name), value));
        }
    }
    Ok(all)
}

fn outputs(memory: &Arc<Memory>) -> Result<Vec<(String, Tensor)>> {
    let at = memory.response.0.as_ptr();
    let mut count = 0;
    // SAFETY: the response is ours.
    unsafe {
        check(sys::TRITONSERVER_InferenceResponseOutputCount(
            at, &mut count,
        ))?;
    }
    let mut all = Vec::with_capacity(count as usize);
    for i in 0..count {
        let (mut name, mut shape, mut base) = (ptr::null(), ptr::null(), ptr::null());
        let (mut datatype, mut dims, mut size) = (0, 0u64, 0usize);
        let (mut kind, mut id, mut user) = (0, 0, ptr::null_mut());
        // SAFETY: as above; what is returned lives as long as the response. The memory is of our
        // allocator, so it is the machine's.
        unsafe {
            check(sys::TRITONSERVER_InferenceResponseOutput(
                at,
                i,
                &mut name,
                &mut datatype,
                &mut shape,
                &mut dims,
                &mut base,
                &mut size,
                &mut kind,
                &mut id,
                &mut user,
            ))?;
            let name = copied(name);
            let Some(datatype) = Datatype::from_raw(datatype) else {
                return Err(Error::new(
                    ErrorCode::Unsupported,
                    format!("output '{name}' has datatype {datatype}, which is not known"),
                ));
            };
            let shape: &[i64] = if dims == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(shape, dims as usize)
            };
            let (base, size) = match NonNull::new(base.cast::<u8>().cast_mut()) {
                Some(base) => (base, size),
                None => (NonNull::<u64>::dangling().cast(), 0),
            };
            all.push((
                name,
                Tensor::of(datatype, shape, base, size, memory.clone()),
            ));
        }
    }
    Ok(all)
}
