//! The memory of a server, which answers for weeks on many threads.

/// Starts the program again with few heaps, if it has as many as threads.
///
/// The allocator of the GNU C library gives each thread a heap of its own, and what one read left there the others cannot use:
/// a server that was read by many at once kept three times the memory. Only the environment of a new program sets their number.
pub fn bound() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use std::os::unix::process::CommandExt;
        use std::process::Command;

        const HEAPS: &str = "MALLOC_ARENA_MAX";
        if std::env::var_os(HEAPS).is_some() {
            return;
        }
        let mut arguments = std::env::args_os();
        if let (Ok(program), Some(name)) = (std::env::current_exe(), arguments.next()) {
            let mut again = Command::new(program);
            // The same process, with its sockets. Returns only if that fails: the server then needs more memory.
            let error = again.arg0(name).args(arguments).env(HEAPS, "2").exec();
            tracing::debug!("cannot start again with fewer heaps: {error}");
        }
    }
}
