//! How an environment variable is read. README.md has the table of all that are.

/// The value of an environment variable; `None` if it is not set or empty. Bytes that are no UTF-8 become U+FFFD.
pub fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}
