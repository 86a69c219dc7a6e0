package amnesia

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// noCoreDumps keeps the process out of core files (the limit) and out of the
// programs that core dumps are piped to (the flag, which also keeps other
// processes of the user from reading its memory). Both are rights to give up,
// which nobody is refused.
func noCoreDumps() {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// lockProcess locks all memory, present and future, as it is touched. It does
// so only where no limit counts: under one, a later allocation of the runtime
// would fail and the process with it. Otherwise it leaves the whole limit to the
// store, which has a cap.
func lockProcess() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("read the limit on locked memory: %w", err)
	}
	// Under a limit of 0 only those may lock for whom no limit counts.
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
		return fmt.Errorf("the limit on locked memory is %d KiB, and only an unlimited one covers the whole process: mlockall: %w", limit.Max>>10, err)
	}
	return nil
}

// filesOpenForWriting names the regular files and disks that this process
// opened for writing. What it inherited (its streams; whatever is not closed on
// exec) is its parent's business, and a file in RAM that has no name is none.
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
