//! Errors of the library, and of this crate, with the interface's codes.

use std::ffi::{CStr, CString};
use std::fmt;

use crate::sys;

/// What a call of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// Nothing is known of it.
    Unknown,
    /// A fault of the server or of the model.
    Internal,
    /// There is no such model, version, output.
    NotFound,
    /// What was asked for cannot be.
    InvalidArg,
    /// It cannot be done now.
    Unavailable,
    /// It cannot be done by this server.
    Unsupported,
    /// It is there already.
    AlreadyExists,
    /// The request was cancelled.
    Cancelled,
}

impl ErrorCode {
    fn from_raw(code: sys::TRITONSERVER_Error_Code) -> Self {
        match code {
            sys::TRITONSERVER_ERROR_INTERNAL => Self::Internal,
            sys::TRITONSERVER_ERROR_NOT_FOUND => Self::NotFound,
            sys::TRITONSERVER_ERROR_INVALID_ARG => Self::InvalidArg,
            sys::TRITONSERVER_ERROR_UNAVAILABLE => Self::Unavailable,
            sys::TRITONSERVER_ERROR_UNSUPPORTED => Self::Unsupported,
            sys::TRITONSERVER_ERROR_ALREADY_EXISTS => Self::AlreadyExists,
            sys::TRITONSERVER_ERROR_CANCELLED => Self::Cancelled,
            _ => Self::Unknown,
        }
    }
}

/// What has failed: the server's code and text, or those of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: ErrorCode,
    message: String,
}

impl Error {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidArg, message)
    }

    /// The kind of the error.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The text of the error, as the server says it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Copies an error, which stays the library's.
    ///
    /// # Safety
    ///
    /// `error` is an error of the library, not null.
    pub(crate) unsafe fn read(error: *mut sys::TRITONSERVER_Error) -> Self {
        // SAFETY: the caller's; the text lives as long as the error, and is copied.
        unsafe {
            let code = ErrorCode::from_raw(sys::TRITONSERVER_ErrorCode(error));
            Self::new(code, copied(sys::TRITONSERVER_ErrorMessage(error)))
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Turns what a function of the library returned into a result, and deletes the error.
///
/// # Safety
///
/// `error` is null, or an error that the caller owns.
pub(crate) unsafe fn check(error: *mut sys::TRITONSERVER_Error) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's; the error is not used again.
    unsafe {
        let read = Error::read(error);
        sys::TRITONSERVER_ErrorDelete(error);
        Err(read)
    }
}

/// Deletes the error of a function whose failure nobody can do anything about.
///
/// # Safety
///
/// `error` is null, or an error that the caller owns.
pub(crate) unsafe fn ignore(error: *mut sys::TRITONSERVER_Error) {
    // SAFETY: the caller's; the library takes null.
    unsafe { sys::TRITONSERVER_ErrorDelete(error) }
}

/// The text as C has it; `what` names it in the error for a text with a NUL.
pub(crate) fn text(what: &str, value: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(value).map_err(|_| Error::invalid(format!("{what} has a NUL character")))
}

/// Copies a text of the library's; null is "".
///
/// # Safety
///
/// `text` is null, or ends with a NUL.
pub(crate) unsafe fn copied(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}
