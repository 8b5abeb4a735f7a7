//! A request on its way: what the callbacks of the library have, and the responses as they come.

use std::ffi::c_void;
use std::iter::FusedIterator;
use std::ptr::NonNull;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::allocator;
use crate::callback;
use crate::error::{check, ignore, Result};
use crate::response::{RawResponse, Response};
use crate::server::Server;
use crate::sys;
use crate::tensor::Tensor;

/// A request of the library's, deleted when it is dropped. It must not be in flight then.
pub(crate) struct RawRequest(NonNull<sys::TRITONSERVER_InferenceRequest>);

// SAFETY: the library lets every thread use it.
unsafe impl Send for RawRequest {}

impl RawRequest {
    /// # Safety
    ///
    /// The request is the caller's, and not in flight.
    pub(crate) unsafe fn own(at: NonNull<sys::TRITONSERVER_InferenceRequest>) -> Self {
        Self(at)
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::TRITONSERVER_InferenceRequest {
        self.0.as_ptr()
    }
}

impl Drop for RawRequest {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { ignore(sys::TRITONSERVER_InferenceRequestDelete(self.0.as_ptr())) }
    }
}

/// The request in flight, as far as it can still be cancelled.
struct Sent(Mutex<State>);

struct State {
    request: Option<RawRequest>,
    cancelling: u32, // how many threads use the request just now
    released: bool,
}

impl Sent {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has let go of the request.
    fn released(&self) {
        let mut state = self.lock();
        state.released = true;
        let over = state.take();
        drop(state);
        drop(over);
    }

    /// Cancels the request if it is the server's still. The lock is not held meanwhile: the
    /// library may release the request within.
    fn cancel(&self) -> Result<()> {
        let mut state = self.lock();
        let request = match &state.request {
            Some(request) if !state.released => request.as_ptr(),
            _ => return Ok(()),
        };
        state.cancelling += 1;
        drop(state);
        // SAFETY: `take` leaves the request to us.
        let done = unsafe { check(sys::TRITONSERVER_InferenceRequestCancel(request)) };
        let mut state = self.lock();
        state.cancelling -= 1;
        let over = state.take();
        drop(state);
        drop(over);
        done
    }
}

impl State {
    /// The request, once nobody uses it any more.
    fn take(&mut self) -> Option<RawRequest> {
        if self.released && self.cancelling == 0 {
            self.request.take()
        } else {
            None
        }
    }
}

/// What the release callback ends: the inputs are the program's again.
struct Held {
    sent: Arc<Sent>,
    inputs: Vec<Tensor>,
}

struct Message {
    response: Option<RawResponse>,
    last: bool,
}

/// The responses of a request, as they come. A model that is not decoupled has one.
///
/// A response that says an error is an `Err`; others may follow. Dropped before the last one,
/// it cancels the request.
pub struct Responses {
    // Dropped in this order: what the channel still has before the server.
    receiver: Receiver<Message>,
    sent: Arc<Sent>,
    over: bool,
    server: Server,
}

/// Sends a request with all that it needs but its callbacks; `inputs` are what it points at.
pub(crate) fn send(server: &Server, request: RawRequest, inputs: Vec<Tensor>) -> Result<Responses> {
    let allocator = allocator::shared()?;
    let (sender, receiver) = channel::<Message>();
    let at = request.as_ptr();
    let sent = Arc::new(Sent(Mutex::new(State {
        request: Some(request),
        cancelling: 0,
        released: false,
    })));
    let held = Box::into_raw(Box::new(Held {
        sent: sent.clone(),
        inputs,
    }));
    let respond = Box::into_raw(Box::new(sender));
    // SAFETY: the request is ours until it is sent. Then the library calls on_release once, and
    // on_response until it has said that it was the last: each ends what it has been given.
    let done = unsafe {
        check(sys::TRITONSERVER_InferenceRequestSetReleaseCallback(
            at,
            Some(on_release),
            held.cast(),
        ))
        .and_then(|()| {
            check(sys::TRITONSERVER_InferenceRequestSetResponseCallback(
                at,
                allocator,
                std::ptr::null_mut(),
                Some(on_response),
                respond.cast(),
            ))
        })
        .and_then(|()| {
            check(sys::TRITONSERVER_ServerInferAsync(
                server.as_ptr(),
                at,
                std::ptr::null_mut(),
            ))
        })
    };
    if let Err(error) = done {
        // SAFETY: the request has not been sent, so nothing calls back.
        unsafe {
            drop(Box::from_raw(respond));
            let held = Box::from_raw(held);
            held.sent.released();
        }
        return Err(error);
    }
    Ok(Responses {
        receiver,
        sent,
        over: false,
        server: server.clone(),
    })
}

unsafe extern "C" fn on_release(
    _request: *mut sys::TRITONSERVER_InferenceRequest,
    flags: u32,
    userp: *mut c_void,
) {
    if flags & sys::TRITONSERVER_REQUEST_RELEASE_ALL == 0 {
        return; // the server's still
    }
    // SAFETY: `send` made it, and the library calls once.
    let Held { sent, inputs } = *unsafe { Box::from_raw(userp.cast::<Held>()) };
    callback::enter(move || {
        sent.released();
        drop(sent);
    });
    for input in inputs {
        callback::enter(move || drop(input)); // one by one: the end of each may panic
    }
}

unsafe extern "C" fn on_response(
    response: *mut sys::TRITONSERVER_InferenceResponse,
    flags: u32,
    userp: *mut c_void,
) {
    callback::enter(|| {
        let sender = userp.cast::<Sender<Message>>();
        // SAFETY: the response is ours from here on; null is none.
        let response = NonNull::new(response).map(|r| unsafe { RawResponse::own(r) });
        let last = flags & sys::TRITONSERVER_RESPONSE_COMPLETE_FINAL != 0;
        // What nobody receives any more is deleted here.
        // SAFETY: `send` made it; it lives until the last call, and calls come one by one.
        let _ = unsafe { &*sender }.send(Message { response, last });
        if last {
            // SAFETY: as above; this is the last call.
            drop(unsafe { Box::from_raw(sender) });
        }
    });
}

impl Responses {
    /// Cancels the request, as far as the model can be: the responses end early, mostly with an
    /// error of [`ErrorCode::Cancelled`](crate::ErrorCode::Cancelled). One that has ended is no
    /// error.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub fn cancel(&self) -> Result<()> {
        self.sent.cancel()
    }
}

impl Iterator for Responses {
    type Item = Result<Response>;

    /// Waits for the next response.
    fn next(&mut self) -> Option<Self::Item> {
        while !self.over {
            let Ok(message) = self.receiver.recv() else {
                break;
            };
            self.over = message.last;
            if let Some(raw) = message.response {
                return Some(Response::read(raw, &self.server));
            }
        }
        self.over = true;
        None
    }
}

impl FusedIterator for Responses {}

impl Drop for Responses {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.sent.cancel(); // the server may have stopped
        }
    }
}

impl std::fmt::Debug for Responses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responses")
            .field("over", &self.over)
            .finish()
    }
}
