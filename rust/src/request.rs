//! Requests to models.

use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::error::{check, text, Error, ErrorCode, Result};
use crate::flight::{self, RawRequest, Responses};
use crate::response::Response;
use crate::server::{version_of, Server};
use crate::sys;
use crate::tensor::Tensor;

/// The value of a parameter of a request or a response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Parameter {
    /// A text.
    String(String),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(f64),
}

impl From<&str> for Parameter {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for Parameter {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl From<i64> for Parameter {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Parameter {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Parameter {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

/// The sequence that a request is of.
#[derive(Clone, Debug)]
enum Correlation {
    Number(u64),
    Text(String),
}

/// A request to a model. It may be sent again and again, by several threads at once; what is
/// wrong with it is said when it is sent.
#[derive(Clone, Debug)]
pub struct Request {
    server: Server,
    model: String,
    version: Option<i64>,
    id: String,
    inputs: Vec<(String, Tensor)>,
    outputs: Vec<String>,
    parameters: Vec<(String, Parameter)>,
    correlation: Option<Correlation>,
    flags: u32,
    priority: u64,
    timeout: Duration,
}

impl Request {
    /// A request without inputs, to the version of the model that its policy chooses.
    pub fn new(server: &Server, model: impl Into<String>) -> Self {
        Self {
            server: server.clone(),
            model: model.into(),
            version: None,
            id: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            parameters: Vec::new(),
            correlation: None,
            flags: 0,
            priority: 0,
            timeout: Duration::ZERO,
        }
    }

    /// Asks for this version.
    pub fn version(mut self, version: i64) -> Self {
        self.version = Some(version);
        self
    }

    /// Gives the request an id, which its responses have too.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Adds an input.
    pub fn input(mut self, name: impl Into<String>, tensor: Tensor) -> Self {
        self.inputs.push((name.into(), tensor));
        self
    }

    /// Asks for an output. A request that asks for none has all.
    pub fn output(mut self, name: impl Into<String>) -> Self {
        self.outputs.push(name.into());
        self
    }

    /// Adds a parameter.
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<Parameter>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Makes the request one of the sequence with this correlation id.
    pub fn sequence(mut self, correlation: u64) -> Self {
        self.correlation = Some(Correlation::Number(correlation));
        self
    }

    /// [`sequence`](Self::sequence) with a text of at most 128 characters.
    pub fn sequence_named(mut self, correlation: impl Into<String>) -> Self {
        self.correlation = Some(Correlation::Text(correlation.into()));
        self
    }

    /// Says that the sequence begins with this request.
    pub fn sequence_start(mut self) -> Self {
        self.flags |= sys::TRITONSERVER_REQUEST_FLAG_SEQUENCE_START;
        self
    }

    /// Says that the sequence ends with this request.
    pub fn sequence_end(mut self) -> Self {
        self.flags |= sys::TRITONSERVER_REQUEST_FLAG_SEQUENCE_END;
        self
    }

    /// The priority, 1 being the highest; 0 is the model's default.
    pub fn priority(mut self, priority: u64) -> Self {
        self.priority = priority;
        self
    }

    /// How long the request may wait in the queue of its model, where the model lets requests
    /// say so. Zero is the model's default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends the request, and returns before it is answered.
    ///
    /// # Errors
    ///
    /// What the server says of the request; `InvalidArg` for a text with a NUL.
    pub fn send(&self) -> Result<Responses> {
        let made = self.make()?;
        let inputs = self.inputs.iter().map(|(_, t)| t.clone()).collect();
        flight::send(&self.server, made, inputs)
    }

    /// Sends the request, and waits for the response of a model that has one.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), and the error that is the response; `Internal` where the model
    /// has another number of responses.
    pub fn infer(&self) -> Result<Response> {
        let mut only = None;
        let mut count = 0;
        for response in self.send()? {
            only = Some(response?);
            count += 1;
        }
        match only {
            Some(response) if count == 1 => Ok(response),
            _ => Err(Error::new(
                ErrorCode::Internal,
                format!("expected a single response, got {count}"),
            )),
        }
    }

    /// The request as the library has it, but for its callbacks.
    fn make(&self) -> Result<RawRequest> {
        let model = text("the model's name", self.model.as_str())?;
        let mut at = ptr::null_mut();
        // SAFETY: the server lives; the request is ours alone. Texts and shapes are copied by the
        // library, the data of inputs is not: `send` keeps it.
        unsafe {
            check(sys::TRITONSERVER_InferenceRequestNew(
                &mut at,
                self.server.as_ptr(),
                model.as_ptr(),
                version_of(self.version),
            ))?;
            let Some(at) = NonNull::new(at) else {
                return Err(Error::new(ErrorCode::Internal, "no request was made"));
            };
            let made = RawRequest::own(at);
            let at = made.as_ptr();
            for (name, tensor) in &self.inputs {
                let name = text("the name of an input", name.as_str())?;
                let (shape, data) = (tensor.shape(), tensor.bytes());
                check(sys::TRITONSERVER_InferenceRequestAddInput(
                    at,
                    name.as_ptr(),
                    tensor.datatype().raw(),
                    shape.as_ptr(),
                    shape.len() as u64,
                ))?;
                check(sys::TRITONSERVER_InferenceRequestAppendInputData(
                    at,
                    name.as_ptr(),
                    data.as_ptr().cast(),
                    data.len(),
                    sys::TRITONSERVER_MEMORY_CPU,
                    0,
                ))?;
            }
            for name in &self.outputs {
                let name = text("the name of an output", name.as_str())?;
                check(sys::TRITONSERVER_InferenceRequestAddRequestedOutput(
                    at,
                    name.as_ptr(),
                ))?;
            }
            for (name, value) in &self.parameters {
                set_parameter(at, name, value)?;
            }
            self.describe(at)?;
            Ok(made)
        }
    }

    /// Sets what is not the default.
    ///
    /// # Safety
    ///
    /// `at` is a request of the caller's, not in flight.
    unsafe fn describe(&self, at: *mut sys::TRITONSERVER_InferenceRequest) -> Result<()> {
        // SAFETY: the caller's.
        unsafe {
            if !self.id.is_empty() {
                let id = text("the request's id", self.id.as_str())?;
                check(sys::TRITONSERVER_InferenceRequestSetId(at, id.as_ptr()))?;
            }
            match &self.correlation {
                None => {}
                Some(Correlation::Number(n)) => {
                    check(sys::TRITONSERVER_InferenceRequestSetCorrelationId(at, *n))?;
                }
                Some(Correlation::Text(t)) => {
                    let t = text("the correlation id", t.as_str())?;
                    check(sys::TRITONSERVER_InferenceRequestSetCorrelationIdString(
                        at,
                        t.as_ptr(),
                    ))?;
                }
            }
            if self.flags != 0 {
                check(sys::TRITONSERVER_InferenceRequestSetFlags(at, self.flags))?;
            }
            if self.priority != 0 {
                check(sys::TRITONSERVER_InferenceRequestSetPriorityUInt64(
                    at,
                    self.priority,
                ))?;
            }
            if !self.timeout.is_zero() {
                let us = u64::try_from(self.timeout.as_micros()).unwrap_or(u64::MAX);
                check(sys::TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(
                    at, us,
                ))?;
            }
        }
        Ok(())
    }
}

/// # Safety
///
/// `at` is a request of the caller's, not in flight.
unsafe fn set_parameter(
    at: *mut sys::TRITONSERVER_InferenceRequest,
    name: &str,
    value: &Parameter,
) -> Result<()> {
    let name = text("the name of a parameter", name)?;
    // SAFETY: the caller's; the library copies texts.
    unsafe {
        check(match value {
            Parameter::String(s) => {
                let s = text("a parameter", s.as_str())?;
                sys::TRITONSERVER_InferenceRequestSetStringParameter(at, name.as_ptr(), s.as_ptr())
            }
            Parameter::Int(n) => {
                sys::TRITONSERVER_InferenceRequestSetIntParameter(at, name.as_ptr(), *n)
            }
            Parameter::Bool(b) => {
                sys::TRITONSERVER_InferenceRequestSetBoolParameter(at, name.as_ptr(), *b)
            }
            Parameter::Double(d) => {
                sys::TRITONSERVER_InferenceRequestSetDoubleParameter(at, name.as_ptr(), *d)
            }
        })
    }
}
