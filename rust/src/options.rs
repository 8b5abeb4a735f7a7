//! How a server is started.

use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Duration;

use crate::error::{check, ignore, text, Result};
use crate::sys;

/// Who says which models are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlMode {
    /// All of the repository, at the start.
    None,
    /// The repository, as it changes: the program has the server look.
    Poll,
    /// The program: startup models, [`load`](crate::Server::load), [`unload`](crate::Server::unload).
    Explicit,
}

/// How a server is started. Without more than a repository: control mode explicit,
/// configurations are completed, the log says information, warnings and errors, a stop waits 30
/// seconds at most.
#[derive(Clone, Debug)]
pub struct Options {
    id: Option<String>,
    repositories: Vec<PathBuf>,
    models: Vec<String>,
    mode: ControlMode,
    strict_config: bool,
    exit_on_error: bool,
    strict_readiness: bool,
    exit_timeout: Duration,
    cache: Vec<(String, String)>,
    backends: Vec<(String, String, String)>,
    backend_directory: Option<PathBuf>,
    log: (bool, bool, bool),
    log_verbose: u16,
    metrics: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            id: None,
            repositories: Vec::new(),
            models: Vec::new(),
            mode: ControlMode::Explicit,
            strict_config: false,
            exit_on_error: true,
            strict_readiness: true,
            exit_timeout: Duration::from_secs(30),
            cache: Vec::new(),
            backends: Vec::new(),
            backend_directory: None,
            log: (true, true, true),
            log_verbose: 0,
            metrics: true,
        }
    }
}

impl Options {
    /// The defaults, without a repository.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a model repository: a directory, or a place in an object store.
    pub fn repository(mut self, path: impl AsRef<Path>) -> Self {
        self.repositories.push(path.as_ref().to_path_buf());
        self
    }

    /// Loads a model at the start, in control mode explicit; `*` is all.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.models.push(name.into());
        self
    }

    /// Who says which models are loaded.
    pub fn control_mode(mut self, mode: ControlMode) -> Self {
        self.mode = mode;
        self
    }

    /// The server's name in its metadata.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Refuses configurations that are not complete.
    pub fn strict_model_config(mut self, strict: bool) -> Self {
        self.strict_config = strict;
        self
    }

    /// Whether a model that does not load keeps the server from starting; it does by default.
    pub fn exit_on_error(mut self, exit: bool) -> Self {
        self.exit_on_error = exit;
        self
    }

    /// Whether the server is ready only when all models are; it is by default.
    pub fn strict_readiness(mut self, strict: bool) -> Self {
        self.strict_readiness = strict;
        self
    }

    /// How long a stop waits for requests in flight, in whole seconds.
    pub fn exit_timeout(mut self, timeout: Duration) -> Self {
        self.exit_timeout = timeout;
        self
    }

    /// A response cache and its settings as JSON: `local`, `{"size": 1048576}`.
    pub fn cache(mut self, name: impl Into<String>, settings: impl Into<String>) -> Self {
        self.cache.push((name.into(), settings.into()));
        self
    }

    /// A setting of a backend; of all, where the name is empty.
    pub fn backend_setting(
        mut self,
        backend: impl Into<String>,
        setting: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.backends
            .push((backend.into(), setting.into(), value.into()));
        self
    }

    /// Where backend libraries lie.
    pub fn backend_directory(mut self, path: impl AsRef<Path>) -> Self {
        self.backend_directory = Some(path.as_ref().to_path_buf());
        self
    }

    /// Whether the log, which is the process's, says information, warnings and errors.
    pub fn log(mut self, info: bool, warnings: bool, errors: bool) -> Self {
        self.log = (info, warnings, errors);
        self
    }

    /// How much more the log says; 0 is nothing more.
    pub fn log_verbose(mut self, level: u16) -> Self {
        self.log_verbose = level;
        self
    }

    /// Whether [`metrics`](crate::Server::metrics) has any; it does by default.
    pub fn metrics(mut self, on: bool) -> Self {
        self.metrics = on;
        self
    }

    /// The options as the library has them.
    pub(crate) fn make(&self) -> Result<RawOptions> {
        let mut at = ptr::null_mut();
        // SAFETY: the options are ours; the library copies texts.
        unsafe {
            check(sys::TRITONSERVER_ServerOptionsNew(&mut at))?;
            let made = RawOptions(at);
            self.set_models(at)?;
            self.set_rest(at)?;
            Ok(made)
        }
    }

    /// # Safety
    ///
    /// `at` are options of the caller's.
    unsafe fn set_models(&self, at: *mut sys::TRITONSERVER_ServerOptions) -> Result<()> {
        let mode = match self.mode {
            ControlMode::None => sys::TRITONSERVER_MODEL_CONTROL_NONE,
            ControlMode::Poll => sys::TRITONSERVER_MODEL_CONTROL_POLL,
            ControlMode::Explicit => sys::TRITONSERVER_MODEL_CONTROL_EXPLICIT,
        };
        // SAFETY: the caller's.
        unsafe {
            for path in &self.repositories {
                let path = path_text("the path of a repository", path)?;
                check(sys::TRITONSERVER_ServerOptionsSetModelRepositoryPath(
                    at,
                    path.as_ptr(),
                ))?;
            }
            check(sys::TRITONSERVER_ServerOptionsSetModelControlMode(at, mode))?;
            for name in &self.models {
                let name = text("the name of a model", name.as_str())?;
                check(sys::TRITONSERVER_ServerOptionsSetStartupModel(
                    at,
                    name.as_ptr(),
                ))?;
            }
            check(sys::TRITONSERVER_ServerOptionsSetStrictModelConfig(
                at,
                self.strict_config,
            ))?;
            check(sys::TRITONSERVER_ServerOptionsSetExitOnError(
                at,
                self.exit_on_error,
            ))?;
            check(sys::TRITONSERVER_ServerOptionsSetStrictReadiness(
                at,
                self.strict_readiness,
            ))
        }
    }

    /// # Safety
    ///
    /// `at` are options of the caller's.
    unsafe fn set_rest(&self, at: *mut sys::TRITONSERVER_ServerOptions) -> Result<()> {
        // SAFETY: the caller's.
        unsafe {
            if let Some(id) = &self.id {
                let id = text("the server's id", id.as_str())?;
                check(sys::TRITONSERVER_ServerOptionsSetServerId(at, id.as_ptr()))?;
            }
            let seconds = u32::try_from(self.exit_timeout.as_secs()).unwrap_or(u32::MAX);
            check(sys::TRITONSERVER_ServerOptionsSetExitTimeout(at, seconds))?;
            for (name, settings) in &self.cache {
                let name = text("the name of a cache", name.as_str())?;
                let settings = text("the settings of a cache", settings.as_str())?;
                check(sys::TRITONSERVER_ServerOptionsSetCacheConfig(
                    at,
                    name.as_ptr(),
                    settings.as_ptr(),
                ))?;
            }
            for (name, setting, value) in &self.backends {
                let name = text("the name of a backend", name.as_str())?;
                let setting = text("the setting of a backend", setting.as_str())?;
                let value = text("the setting of a backend", value.as_str())?;
                check(sys::TRITONSERVER_ServerOptionsSetBackendConfig(
                    at,
                    name.as_ptr(),
                    setting.as_ptr(),
                    value.as_ptr(),
                ))?;
            }
            if let Some(path) = &self.backend_directory {
                let path = path_text("the backend directory", path)?;
                check(sys::TRITONSERVER_ServerOptionsSetBackendDirectory(
                    at,
                    path.as_ptr(),
                ))?;
            }
            let (info, warnings, errors) = self.log;
            check(sys::TRITONSERVER_ServerOptionsSetLogInfo(at, info))?;
            check(sys::TRITONSERVER_ServerOptionsSetLogWarn(at, warnings))?;
            check(sys::TRITONSERVER_ServerOptionsSetLogError(at, errors))?;
            let level = self.log_verbose.into();
            check(sys::TRITONSERVER_ServerOptionsSetLogVerbose(at, level))?;
            check(sys::TRITONSERVER_ServerOptionsSetMetrics(at, self.metrics))
        }
    }
}

fn path_text(what: &str, path: &Path) -> Result<std::ffi::CString> {
    text(what, path.as_os_str().as_encoded_bytes())
}

/// Options of the library's, deleted when they are dropped.
pub(crate) struct RawOptions(*mut sys::TRITONSERVER_ServerOptions);

impl RawOptions {
    pub(crate) fn as_ptr(&self) -> *mut sys::TRITONSERVER_ServerOptions {
        self.0
    }
}

impl Drop for RawOptions {
    fn drop(&mut self) {
        // SAFETY: they are ours.
        unsafe { ignore(sys::TRITONSERVER_ServerOptionsDelete(self.0)) }
    }
}
