//! What it means when the kernel does not let page faults be watched.

use std::fs;
use std::io;

use nix::errno::Errno;

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Above this, some distributions' kernels refuse everybody but root.
const PARANOID_FOR_OWN_PROCESSES: i32 = 2;

/// Why a program's events tell nothing although they could be opened.
pub const OTHER_RIGHTS: &str = "the program has other rights than its user, as by setuid, or its \
     user may not read it; the kernel shows its faults to root only";

/// One sentence: why, and what to do.
pub fn explain(error: &io::Error) -> String {
    let paranoid = fs::read_to_string(PARANOID).ok().and_then(|text| text.trim().parse().ok());
    explain_errno(error, paranoid)
}

fn explain_errno(error: &io::Error, paranoid: Option<i32>) -> String {
    let errno = error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw);
    match (errno, paranoid) {
        (_, None) | (Errno::ENOSYS, _) => "this kernel has no perf_event_open, or a sandbox hides \
             it; where it is a container, its seccomp profile must allow perf_event_open"
            .to_owned(),
        (Errno::EACCES | Errno::EPERM, Some(level)) if level > PARANOID_FOR_OWN_PROCESSES => {
            format!(
                "the kernel keeps performance events from this user \
                 (kernel.perf_event_paranoid is {level}); as root, \
                 'sysctl kernel.perf_event_paranoid=2' allows them"
            )
        }
        (Errno::EACCES | Errno::EPERM, Some(level)) => format!(
            "perf_event_open is refused although kernel.perf_event_paranoid is {level}: a seccomp \
             filter or another user's process; in a container, its seccomp profile must allow \
             perf_event_open, or give it CAP_PERFMON"
        ),
        (Errno::EMFILE | Errno::ENFILE, _) => "there are too many threads and processors for \
             this limit on open files; 'ulimit -n' raises it"
            .to_owned(),
        _ => format!("perf_event_open fails: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(errno: Errno, paranoid: Option<i32>) -> String {
        explain_errno(&io::Error::from_raw_os_error(errno as i32), paranoid)
    }

    #[test]
    fn each_refusal_names_its_cure() {
        let strict = explained(Errno::EACCES, Some(4));
        assert!(strict.contains("kernel.perf_event_paranoid is 4"));
        assert!(strict.contains("sysctl kernel.perf_event_paranoid=2"));
        assert!(explained(Errno::EPERM, Some(2)).contains("seccomp"));
        assert!(explained(Errno::ENOSYS, Some(2)).contains("seccomp"));
        assert!(explained(Errno::ENOENT, None).contains("no perf_event_open"));
        assert!(explained(Errno::EMFILE, Some(1)).contains("ulimit -n"));
        assert!(explained(Errno::EINVAL, Some(1)).contains("os error 22"));
    }
}
