package amnesia

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// noCoreDumps prevents core files, with a limit, and core dumps that are piped to a
// program, with a flag. The flag also keeps other processes of the user from reading
// this one's memory. Both only give up rights, so the system refuses neither.
func noCoreDumps() {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// lockProcess locks all memory of the process, present and future, as it is touched.
// It does so only if no limit applies to the process: under a limit, a later
// allocation of the runtime would fail and end the process. Otherwise it leaves the
// whole limit to the store, whose memory is bounded.
func lockProcess() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("read the limit on locked memory: %w", err)
	}
	// With a soft limit of 0, mlockall succeeds only if no limit applies to the process.
	try := unix.Rlimit{Max: limit.Max}
	if limit.Max == unix.RLIM_INFINITY {
		try.Cur = limit.Max
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &try); err != nil {
		return fmt.Errorf("set the limit on locked memory: %w", err)
	}
	const onFault = 4 // MCL_ONFAULT, since Linux 4.4
	err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | onFault)
	if rerr := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); rerr != nil {
		return fmt.Errorf("set the limit on locked memory: %w", errors.Join(err, rerr))
	}
	if err != nil {
		return fmt.Errorf("the limit on locked memory is %d KiB, and only an unlimited one covers the whole process: "+
			"mlockall: %w", limit.Max>>10, err)
	}
	return nil
}

// filesOpenForWriting returns the names of the regular files and block devices that
// this process has opened for writing. It leaves out descriptors that the process
// inherited, such as its standard streams, and unnamed files in RAM (memfd).
func filesOpenForWriting() ([]string, error) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || !writesToDisk(fd) {
			continue
		}
		file, err := os.Readlink("/proc/self/fd/" + name)
		if err != nil || strings.HasPrefix(file, "/memfd:") { // closed since, or in RAM
			continue
		}
		files = append(files, file)
	}
	return files, nil
}

// writesToDisk reports whether the process has opened fd itself, for writing, and fd is
// a regular file or a block device. Inherited descriptors are not closed on exec.
func writesToDisk(fd int) bool {
	ours, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || ours&unix.FD_CLOEXEC == 0 {
		return false
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || mode&unix.O_ACCMODE == unix.O_RDONLY {
		return false
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false
	}
	return st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFBLK
}
