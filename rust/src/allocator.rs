//! The memory that outputs come in.

use std::alloc::{alloc, dealloc, Layout};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::error::{check, Result};
use crate::sys;

/// The alignment of outputs, in bytes: that of every datatype, and of a cache line.
const ALIGNMENT: usize = 64;

struct Allocator(*mut sys::TRITONSERVER_ResponseAllocator);

// SAFETY: it has no state but two functions, and every thread may use it.
unsafe impl Send for Allocator {}
// SAFETY: as above.
unsafe impl Sync for Allocator {}

/// The allocator of all requests of the process. It is never deleted: responses outlive all else.
pub(crate) fn shared() -> Result<*mut sys::TRITONSERVER_ResponseAllocator> {
    static SHARED: OnceLock<Result<Allocator>> = OnceLock::new();
    let made = SHARED.get_or_init(|| {
        let mut made = ptr::null_mut();
        // SAFETY: the functions have the types and do what the interface asks of them.
        unsafe {
            check(sys::TRITONSERVER_ResponseAllocatorNew(
                &mut made,
                Some(give),
                Some(take_back),
                None,
            ))?;
        }
        Ok(Allocator(made))
    });
    made.as_ref().map(|a| a.0).map_err(Clone::clone)
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.max(1), ALIGNMENT).ok()
}

/// Allocates an output. Its size is noted in `buffer_userp`, for its end.
unsafe extern "C" fn give(
    _allocator: *mut sys::TRITONSERVER_ResponseAllocator,
    _name: *const c_char,
    size: usize,
    _memory_type: sys::TRITONSERVER_MemoryType,
    _memory_type_id: i64,
    _userp: *mut c_void,
    buffer: *mut *mut c_void,
    buffer_userp: *mut *mut c_void,
    memory_type: *mut sys::TRITONSERVER_MemoryType,
    memory_type_id: *mut i64,
) -> *mut sys::TRITONSERVER_Error {
    let at = match layout(size) {
        // SAFETY: the size is above zero.
        Some(layout) => unsafe { alloc(layout) },
        None => ptr::null_mut(),
    };
    // SAFETY: the library passes places for what is returned, and owns the error.
    unsafe {
        if at.is_null() {
            return sys::TRITONSERVER_ErrorNew(
                sys::TRITONSERVER_ERROR_UNAVAILABLE,
                c"out of memory for an output".as_ptr(),
            );
        }
        *buffer = at.cast();
        *buffer_userp = ptr::null_mut::<c_void>().wrapping_byte_add(size);
        *memory_type = sys::TRITONSERVER_MEMORY_CPU;
        *memory_type_id = 0;
    }
    ptr::null_mut()
}

unsafe extern "C" fn take_back(
    _allocator: *mut sys::TRITONSERVER_ResponseAllocator,
    buffer: *mut c_void,
    buffer_userp: *mut c_void,
    _size: usize,
    _memory_type: sys::TRITONSERVER_MemoryType,
    _memory_type_id: i64,
) -> *mut sys::TRITONSERVER_Error {
    if let (Some(layout), false) = (layout(buffer_userp as usize), buffer.is_null()) {
        // SAFETY: `give` allocated it with this layout.
        unsafe { dealloc(buffer.cast(), layout) };
    }
    ptr::null_mut()
}
