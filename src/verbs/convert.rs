//! One converter for each of libibverbs' four ways to report failure.
//!
//! # Safety
//! The only unsafe operation here is access to this thread's errno, which libc keeps for every thread.

use std::{ffi::c_int, io, ptr::NonNull};

/// NULL with errno. errno is set to 0 before the call: some providers return NULL and leave it alone,
/// and a number from an older call would be a false reason.
pub(crate) fn null_with_errno<T>(call: impl FnOnce() -> *mut T) -> io::Result<NonNull<T>> {
    forget_errno();
    NonNull::new(call()).ok_or_else(last_error)
}

/// An errno value, 0 for success. Some providers return it negated, or -1 with errno.
pub(crate) fn errno_value(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        -1 => Err(last_error()),
        number => Err(io::Error::from_raw_os_error(number.saturating_abs())),
    }
}

/// -1 with errno, 0 for success. errno is set to 0 before the call, as for NULL.
pub(crate) fn minus_one_with_errno(call: impl FnOnce() -> c_int) -> io::Result<()> {
    forget_errno();
    if call() == 0 { Ok(()) } else { Err(last_error()) }
}

fn forget_errno() {
    // SAFETY: the location is valid for this thread as long as the thread runs.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; nobody else writes this thread's errno meanwhile.
    unsafe { errno.write(0) };
}

/// A count, or an errno value negated.
pub(crate) fn count_or_negative_errno(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| {
        io::Error::from_raw_os_error(c_int::try_from(result.unsigned_abs()).unwrap_or(libc::EIO))
    })
}

/// errno, or a general error where it is 0.
fn last_error() -> io::Error {
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(0) { io::Error::other("failed without a reason") } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_errno(number: c_int) {
        // SAFETY: the location is valid for this thread.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        unsafe { errno.write(number) };
    }

    #[test]
    fn a_stale_errno_is_no_reason_for_null() {
        set_errno(libc::EBUSY);
        let error = null_with_errno(std::ptr::null_mut::<u8>).unwrap_err();
        assert_eq!(error.raw_os_error(), None);
        let error = null_with_errno(|| {
            set_errno(libc::ENOMEM);
            std::ptr::null_mut::<u8>()
        })
        .unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        let mut value = 5u8;
        assert!(null_with_errno(|| &raw mut value).is_ok());
    }

    #[test]
    fn an_errno_value_has_one_sign_whatever_the_provider_does() {
        assert!(errno_value(0).is_ok());
        assert_eq!(errno_value(libc::EINVAL).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(errno_value(-libc::EINVAL).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        set_errno(libc::EACCES);
        assert_eq!(errno_value(-1).unwrap_err().raw_os_error(), Some(libc::EACCES));
        assert!(errno_value(c_int::MIN).is_err());
    }

    #[test]
    fn minus_one_takes_errno() {
        assert!(minus_one_with_errno(|| 0).is_ok());
        let failing = || {
            set_errno(libc::ENOENT);
            -1
        };
        assert_eq!(minus_one_with_errno(failing).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(minus_one_with_errno(|| -1).unwrap_err().raw_os_error(), None, "of an older call");
    }

    #[test]
    fn counts_and_negative_numbers() {
        assert_eq!(count_or_negative_errno(3).unwrap(), 3);
        assert_eq!(
            count_or_negative_errno(-(libc::ENOSYS as isize)).unwrap_err().raw_os_error(),
            Some(libc::ENOSYS)
        );
        assert!(count_or_negative_errno(isize::MIN).is_err());
    }
}
