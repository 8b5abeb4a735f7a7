//! The server: its life, its models, its documents.

use std::ffi::{c_char, CString};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::callback;
use crate::error::{check, ignore, text, Error, ErrorCode, Result};
use crate::options::Options;
use crate::sys;

/// A server in this process. A clone is another handle of the same one, which ends with the
/// last: after the requests in flight, or the exit timeout.
#[derive(Clone, Debug)]
pub struct Server(Arc<Inner>);

#[derive(Debug)]
struct Inner(Address);

#[derive(Clone, Copy, Debug)]
struct Address(NonNull<sys::TRITONSERVER_Server>);

// SAFETY: the library lets every thread use it.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// Stops and deletes the server.
    ///
    /// # Safety
    ///
    /// Nobody else has it.
    unsafe fn delete(self) {
        // SAFETY: the caller's.
        unsafe { ignore(sys::TRITONSERVER_ServerDelete(self.0.as_ptr())) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let server = self.0;
        // SAFETY: this was the last handle.
        let delete = move || unsafe { server.delete() };
        if callback::inside() {
            // The server waits for this callback, so that we cannot wait for the server. Where
            // there can be no further thread, the server goes on until the process ends.
            let _ = std::thread::Builder::new().spawn(delete);
        } else {
            delete();
        }
    }
}

/// The number of a version, as the library has it.
pub(crate) fn version_of(version: Option<i64>) -> i64 {
    version.unwrap_or(-1)
}

impl Server {
    /// Starts a server, and loads its models.
    ///
    /// # Errors
    ///
    /// What keeps it from starting: no repository, a model that does not load. `Unsupported` where
    /// the library has an interface of another major version.
    pub fn new(options: &Options) -> Result<Self> {
        expect_version()?;
        let options = options.make()?;
        let mut at = ptr::null_mut();
        // SAFETY: the options are ours, the place is there.
        unsafe { check(sys::TRITONSERVER_ServerNew(&mut at, options.as_ptr()))? };
        match NonNull::new(at) {
            Some(at) => Ok(Self(Arc::new(Inner(Address(at))))),
            None => Err(Error::new(ErrorCode::Internal, "no server was made")),
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::TRITONSERVER_Server {
        self.0 .0 .0.as_ptr()
    }

    /// Stops the server for all its handles: new requests are refused, those in flight waited
    /// for.
    ///
    /// # Errors
    ///
    /// `Internal` where they have not ended within the exit timeout. They are cancelled then.
    pub fn stop(&self) -> Result<()> {
        // SAFETY: the server lives.
        unsafe { check(sys::TRITONSERVER_ServerStop(self.as_ptr())) }
    }

    /// Whether the server runs.
    ///
    /// # Errors
    ///
    /// `Unavailable` while it stops.
    pub fn is_live(&self) -> Result<bool> {
        let mut is = false;
        // SAFETY: the server lives.
        unsafe { check(sys::TRITONSERVER_ServerIsLive(self.as_ptr(), &mut is))? };
        Ok(is)
    }

    /// Whether the server, with its models, can serve.
    ///
    /// # Errors
    ///
    /// `Unavailable` while it stops.
    pub fn is_ready(&self) -> Result<bool> {
        let mut is = false;
        // SAFETY: the server lives.
        unsafe { check(sys::TRITONSERVER_ServerIsReady(self.as_ptr(), &mut is))? };
        Ok(is)
    }

    /// Whether a version of a model can serve; `None` is the one that requests get which ask for
    /// none. A model that is not known cannot.
    ///
    /// # Errors
    ///
    /// `Unavailable` while the server stops.
    pub fn is_model_ready(&self, model: &str, version: Option<i64>) -> Result<bool> {
        let model = name(model)?;
        let (version, mut is) = (version_of(version), false);
        // SAFETY: the server lives.
        unsafe {
            check(sys::TRITONSERVER_ServerModelIsReady(
                self.as_ptr(),
                model.as_ptr(),
                version,
                &mut is,
            ))?;
        }
        Ok(is)
    }

    /// Loads a model, or loads it anew; returns when it is loaded.
    ///
    /// # Errors
    ///
    /// What keeps it from loading.
    pub fn load(&self, model: &str) -> Result<()> {
        let model = name(model)?;
        // SAFETY: the server lives.
        unsafe {
            check(sys::TRITONSERVER_ServerLoadModel(
                self.as_ptr(),
                model.as_ptr(),
            ))
        }
    }

    /// Loads a model by a configuration in JSON and, if there are any, files in place of those
    /// of the repository: `("1/model.onnx", bytes)`.
    ///
    /// # Errors
    ///
    /// What keeps it from loading.
    pub fn load_with(&self, model: &str, config: &str, files: &[(&str, &[u8])]) -> Result<()> {
        let model = name(model)?;
        let config = text("the configuration", config)?;
        let mut parameters = Parameters(Vec::new());
        // SAFETY: the configuration is copied; files are read until the call returns, and borrowed
        // for longer.
        unsafe {
            parameters.add(sys::TRITONSERVER_ParameterNew(
                c"config".as_ptr(),
                sys::TRITONSERVER_PARAMETER_STRING,
                config.as_ptr().cast(),
            ))?;
            for (path, bytes) in files {
                let path = text("the path of a file", format!("file:{path}"))?;
                let (at, size) = (bytes.as_ptr().cast(), bytes.len() as u64);
                parameters.add(sys::TRITONSERVER_ParameterBytesNew(path.as_ptr(), at, size))?;
            }
            check(sys::TRITONSERVER_ServerLoadModelWithParameters(
                self.as_ptr(),
                model.as_ptr(),
                parameters.0.as_ptr().cast(),
                parameters.0.len() as u64,
            ))
        }
    }

    /// Unloads a model; returns before its requests have ended. One that is not known is no
    /// error.
    ///
    /// # Errors
    ///
    /// Control mode is not explicit.
    pub fn unload(&self, model: &str) -> Result<()> {
        let model = name(model)?;
        // SAFETY: the server lives.
        unsafe {
            check(sys::TRITONSERVER_ServerUnloadModel(
                self.as_ptr(),
                model.as_ptr(),
            ))
        }
    }

    /// [`unload`](Self::unload), with the models that it has brought in: steps of an ensemble.
    ///
    /// # Errors
    ///
    /// Control mode is not explicit.
    pub fn unload_with_dependents(&self, model: &str) -> Result<()> {
        let model = name(model)?;
        // SAFETY: the server lives.
        unsafe {
            check(sys::TRITONSERVER_ServerUnloadModelAndDependents(
                self.as_ptr(),
                model.as_ptr(),
            ))
        }
    }

    /// The server's metadata, as JSON.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn metadata(&self) -> Result<String> {
        // SAFETY: the server lives.
        self.document(|made| unsafe { sys::TRITONSERVER_ServerMetadata(self.as_ptr(), made) })
    }

    /// The metadata of a model, as JSON.
    ///
    /// # Errors
    ///
    /// What the server says: there is no such model.
    pub fn model_metadata(&self, model: &str, version: Option<i64>) -> Result<String> {
        let (model, version) = (name(model)?, version_of(version));
        // SAFETY: the server lives.
        self.document(|made| unsafe {
            sys::TRITONSERVER_ServerModelMetadata(self.as_ptr(), model.as_ptr(), version, made)
        })
    }

    /// The configuration of a model, as JSON.
    ///
    /// # Errors
    ///
    /// What the server says: there is no such model.
    pub fn model_config(&self, model: &str, version: Option<i64>) -> Result<String> {
        let (model, version) = (name(model)?, version_of(version));
        // SAFETY: the server lives.
        self.document(|made| unsafe {
            sys::TRITONSERVER_ServerModelConfig(self.as_ptr(), model.as_ptr(), version, 1, made)
        })
    }

    /// The statistics of a model, as JSON: of all versions for `None`, of all models for "".
    ///
    /// # Errors
    ///
    /// What the server says: there is no such model.
    pub fn statistics(&self, model: &str, version: Option<i64>) -> Result<String> {
        let (model, version) = (name(model)?, version_of(version));
        // SAFETY: the server lives.
        self.document(|made| unsafe {
            sys::TRITONSERVER_ServerModelStatistics(self.as_ptr(), model.as_ptr(), version, made)
        })
    }

    /// The models of the repositories, or those that are ready, as JSON.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn index(&self, ready: bool) -> Result<String> {
        let flags = if ready {
            sys::TRITONSERVER_INDEX_FLAG_READY
        } else {
            0
        };
        // SAFETY: the server lives.
        self.document(|made| unsafe {
            sys::TRITONSERVER_ServerModelIndex(self.as_ptr(), flags, made)
        })
    }

    /// The metrics, in the text form of Prometheus; empty where the options say that there are
    /// none.
    ///
    /// # Errors
    ///
    /// The server is stopped.
    pub fn metrics(&self) -> Result<String> {
        let mut made = ptr::null_mut();
        let (mut base, mut size) = (ptr::null(), 0);
        // SAFETY: the server lives; the text is copied before the metrics end.
        unsafe {
            check(sys::TRITONSERVER_ServerMetrics(self.as_ptr(), &mut made))?;
            let done = check(sys::TRITONSERVER_MetricsFormatted(
                made,
                sys::TRITONSERVER_METRIC_PROMETHEUS,
                &mut base,
                &mut size,
            ));
            let text = done.map(|()| sized(base, size));
            ignore(sys::TRITONSERVER_MetricsDelete(made));
            text
        }
    }

    /// The text of a message that the server makes.
    fn document(
        &self,
        ask: impl FnOnce(*mut *mut sys::TRITONSERVER_Message) -> *mut sys::TRITONSERVER_Error,
    ) -> Result<String> {
        let mut made = ptr::null_mut();
        let (mut base, mut size) = (ptr::null(), 0);
        // SAFETY: the message is ours; its text is copied before it ends.
        unsafe {
            check(ask(&mut made))?;
            let done = check(sys::TRITONSERVER_MessageSerializeToJson(
                made, &mut base, &mut size,
            ));
            let text = done.map(|()| sized(base, size));
            ignore(sys::TRITONSERVER_MessageDelete(made));
            text
        }
    }
}

/// Refuses a library whose interface is not the one of `sys`.
fn expect_version() -> Result<()> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the places are there.
    unsafe { check(sys::TRITONSERVER_ApiVersion(&mut major, &mut minor))? };
    if major == sys::TRITONSERVER_API_VERSION_MAJOR {
        return Ok(());
    }
    let message = format!("the library has version {major}.{minor} of the interface");
    Err(Error::new(ErrorCode::Unsupported, message))
}

fn name(model: &str) -> Result<CString> {
    text("the model's name", model)
}

/// Copies a text of a length.
///
/// # Safety
///
/// `base` is null, or has `size` bytes.
unsafe fn sized(base: *const c_char, size: usize) -> String {
    if base.is_null() {
        return String::new();
    }
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(base.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parameters of the library's, deleted when they are dropped.
struct Parameters(Vec<*mut sys::TRITONSERVER_Parameter>);

impl Parameters {
    fn add(&mut self, parameter: *mut sys::TRITONSERVER_Parameter) -> Result<()> {
        if parameter.is_null() {
            return Err(Error::invalid("a parameter of the load cannot be"));
        }
        self.0.push(parameter);
        Ok(())
    }
}

impl Drop for Parameters {
    fn drop(&mut self) {
        for &parameter in &self.0 {
            // SAFETY: it is ours.
            unsafe { sys::TRITONSERVER_ParameterDelete(parameter) }
        }
    }
}
