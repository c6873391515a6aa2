//! The library's options, each with its type: a constant for each line of `docs/options.md`.
//!
//! ```
//! use primalloc::options;
//! use std::time::Duration;
//!
//! assert_eq!(options::PURGE_DELAY.get(), Duration::from_millis(500));
//! options::HARD_LIMIT.set(1 << 40)?; // while threads run
//! assert_eq!(options::HARD_LIMIT.text(), "1 TiB");
//! options::HARD_LIMIT.set_text("0")?;
//! # Ok::<(), primalloc::options::OptionError>(())
//! ```
//!
//! Those that are read at the start only cannot be set:
//!
//! ```compile_fail,E0599
//! primalloc::options::PURGE_DELAY.set(std::time::Duration::ZERO);
//! ```

use alloc::string::String;
use core::ffi::CStr;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use crate::ffi;

/// An option whose value is a `T`; `When` says whether it changes: [`AtStart`] or [`AnyTime`].
pub struct Setting<T, When> {
    name: &'static CStr,
    types: PhantomData<fn() -> (T, When)>,
}

/// The environment sets it before the program starts.
pub enum AtStart {}

/// It can be set while threads run: the calling one sees it at once, others at their next slow call.
pub enum AnyTime {}

/// Why an option is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// The library in use has no such option.
    Unknown,
    /// Out of its range, or not a value of its type.
    BadValue,
    /// It is read at the start only, or stays as it is from now on, as `confined` does.
    ReadAtStart,
}

impl fmt::Display for OptionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            OptionError::Unknown => "no such option",
            OptionError::BadValue => "no such value of the option",
            OptionError::ReadAtStart => "the option cannot be changed now",
        })
    }
}

impl core::error::Error for OptionError {}

/// Types that options have, but for text.
pub trait Value: Sized {
    /// The value that the library's number stands for.
    fn from_number(number: u64) -> Self;
    /// The number that stands for it.
    fn to_number(self) -> u64;
}

/// One of several words.
trait Choice: Copy + PartialEq + Sized + 'static {
    const ALL: &'static [Self];
}

impl<T: Choice> Value for T {
    fn from_number(number: u64) -> Self {
        Self::ALL[(number as usize).min(Self::ALL.len() - 1)]
    }
    fn to_number(self) -> u64 {
        Self::ALL.iter().position(|&one| one == self).unwrap_or(0) as u64
    }
}

impl Value for u64 {
    fn from_number(number: u64) -> Self {
        number
    }
    fn to_number(self) -> u64 {
        self
    }
}

impl Value for bool {
    fn from_number(number: u64) -> Self {
        number != 0
    }
    fn to_number(self) -> u64 {
        self.into()
    }
}

impl Value for Duration {
    fn from_number(number: u64) -> Self {
        Duration::from_millis(number)
    }
    fn to_number(self) -> u64 {
        self.as_millis().try_into().unwrap_or(u64::MAX)
    }
}

/// `None` is `auto`.
impl Value for Option<u64> {
    fn from_number(number: u64) -> Self {
        (number != u64::MAX).then_some(number)
    }
    fn to_number(self) -> u64 {
        self.unwrap_or(u64::MAX)
    }
}

fn outcome(result: i32) -> Result<(), OptionError> {
    if result == 0 {
        return Ok(());
    }
    Err(match ffi::errno() {
        ffi::ENOENT => OptionError::Unknown,
        ffi::EPERM => OptionError::ReadAtStart,
        _ => OptionError::BadValue,
    })
}

impl<T, When> Setting<T, When> {
    const fn new(name: &'static CStr) -> Self {
        Setting { name, types: PhantomData }
    }

    /// As in the environment, where it is `PRIMALLOC_` and this in capitals.
    pub fn name(&self) -> &'static str {
        self.name.to_str().unwrap_or("")
    }

    /// The value as a person writes it: `64 MiB`, `auto`, `not set`.
    pub fn text(&self) -> String {
        let mut buffer = [0u8; 4096];
        let place = buffer.as_mut_ptr().cast();
        if unsafe { ffi::prim_option_get_text(self.name.as_ptr(), place, buffer.len()) } != 0 {
            return String::new();
        }
        CStr::from_bytes_until_nul(&buffer)
            .map(|text| text.to_string_lossy().into_owned())
            .unwrap_or_default()
    }
}

impl<T: Value, When> Setting<T, When> {
    /// The value now.
    pub fn get(&self) -> T {
        let mut number = 0;
        unsafe { ffi::prim_option_get(self.name.as_ptr(), &mut number) };
        T::from_number(number)
    }
}

impl<T: Value> Setting<T, AnyTime> {
    /// Changes it.
    pub fn set(&self, value: T) -> Result<(), OptionError> {
        outcome(unsafe { ffi::prim_option_set(self.name.as_ptr(), value.to_number()) })
    }
}

impl<T> Setting<T, AnyTime> {
    /// Changes it to what the environment would take: `64M`, `on`.
    pub fn set_text(&self, text: &str) -> Result<(), OptionError> {
        let text = alloc::ffi::CString::new(text).map_err(|_| OptionError::BadValue)?;
        outcome(unsafe { ffi::prim_option_set_text(self.name.as_ptr(), text.as_ptr()) })
    }
}

include!(concat!(env!("OUT_DIR"), "/options.rs"));
