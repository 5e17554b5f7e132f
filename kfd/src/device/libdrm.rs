//! A GPU as libdrm sees it: the `amdgpu_device_handle` that C callers hand to libdrm's own calls.
//!
//! In: a render node's descriptor. Out: a [`LibdrmDevice`], which libdrm owns until it is dropped. The library is loaded
//! by the first call, so that a program that never asks for a handle runs without libdrm. It is never unloaded: its code
//! must outlive every handle.
//!
//! A handle works on the same file as the descriptor, and so on the same GPU address space that KFD has acquired. libdrm
//! 2.4.124 and later do that always (`amdgpu_device_initialize2`). Before, libdrm returns the device that some other part
//! of the process has made for this GPU, if one exists, and its address space is another.

use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};

/// The library, by the name that distributions give it.
const LIBRARY: &CStr = c"libdrm_amdgpu.so.1";

/// `amdgpu_device_initialize`
type Initialize = unsafe extern "C" fn(c_int, *mut u32, *mut u32, *mut *mut c_void) -> c_int;
/// `amdgpu_device_initialize2`: the second argument says whether a device that exists may be returned.
type Initialize2 = unsafe extern "C" fn(c_int, bool, *mut u32, *mut u32, *mut *mut c_void) -> c_int;
/// `amdgpu_device_deinitialize`
type Deinitialize = unsafe extern "C" fn(*mut c_void) -> c_int;

/// A device of libdrm; given back when it is dropped.
#[derive(Debug)]
#[doc(alias = "amdgpu_device_handle")]
pub struct LibdrmDevice {
    handle: NonNull<c_void>,
    deinitialize: Deinitialize,
}

// SAFETY: libdrm's calls on a device lock what they share; a handle may be used and given back on any thread.
unsafe impl Send for LibdrmDevice {}

impl Drop for LibdrmDevice {
    fn drop(&mut self) {
        // SAFETY: libdrm has made the device, and this is its end: nothing else gives it back.
        unsafe { (self.deinitialize)(self.handle.as_ptr()) };
    }
}

impl LibdrmDevice {
    /// Loads libdrm and makes a device on a render node. Blocking; it takes memory from the heap.
    ///
    /// # Errors
    /// What is missing, or the error number of libdrm, in a line.
    #[doc(alias("amdgpu_device_initialize", "amdgpu_device_initialize2"))]
    pub fn new(render: BorrowedFd<'_>) -> Result<LibdrmDevice, String> {
        let library = load()?;
        let Some(deinitialize) = symbol(library, c"amdgpu_device_deinitialize") else {
            return Err(missing(c"amdgpu_device_deinitialize"));
        };
        // SAFETY: amdgpu.h declares the function so.
        let deinitialize = unsafe { std::mem::transmute::<NonNull<c_void>, Deinitialize>(deinitialize) };
        let (fd, mut versions, mut handle) = (render.as_raw_fd(), [0u32; 2], null_mut());
        let [major, minor] = &mut versions;
        let error = if let Some(initialize) = symbol(library, c"amdgpu_device_initialize2") {
            // SAFETY: amdgpu.h declares the function so.
            let initialize = unsafe { std::mem::transmute::<NonNull<c_void>, Initialize2>(initialize) };
            // SAFETY: the descriptor is open, libdrm makes a copy of it, and the three places are this call's own.
            unsafe { initialize(fd, false, major, minor, &mut handle) }
        } else {
            let initialize = symbol(library, c"amdgpu_device_initialize");
            let initialize = initialize.ok_or_else(|| missing(c"amdgpu_device_initialize"))?;
            // SAFETY: amdgpu.h declares the function so.
            let initialize = unsafe { std::mem::transmute::<NonNull<c_void>, Initialize>(initialize) };
            // SAFETY: as above.
            unsafe { initialize(fd, major, minor, &mut handle) }
        };
        match NonNull::new(handle).filter(|_| error == 0) {
            Some(handle) => Ok(LibdrmDevice { handle, deinitialize }),
            None => Err(format!("amdgpu_device_initialize: error {error}")),
        }
    }

    /// What libdrm's calls take.
    pub fn handle(&self) -> NonNull<c_void> {
        self.handle
    }
}

/// The library's handle of the dynamic linker.
fn load() -> Result<NonNull<c_void>, String> {
    // SAFETY: loading libdrm runs its initialisers, which do nothing but set libdrm up.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    NonNull::new(library).ok_or_else(|| format!("{} cannot be loaded: install libdrm", LIBRARY.to_string_lossy()))
}

/// A function of the library.
fn symbol(library: NonNull<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the library is loaded and never unloaded; the name ends with 0.
    NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
}

fn missing(name: &CStr) -> String {
    format!("{} has no {}", LIBRARY.to_string_lossy(), name.to_string_lossy())
}
