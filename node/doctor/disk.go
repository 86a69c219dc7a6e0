package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	homedir "allium/node/home"
	"allium/protocols/status"
	"allium/store"
)

// dirs returns the directories whose disks matter: the home directory, and that of the store if it is elsewhere.
func (e *exam) dirs() []string {
	dirs := []string{e.Home}
	if e.Config.Store.Backend == store.BackendMemory {
		return dirs
	}
	if dir := homedir.Path(e.Home, e.Config.Store.Dir); filepath.Dir(dir) != e.Home {
		if _, err := os.Stat(dir); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// onDisks returns what a check finds of the file system of each directory that matters.
func onDisks(e *exam, look func(dir string, fs FileSystem) result) (all result) {
	for _, dir := range e.dirs() {
		fs, err := e.Machine.Statfs(dir)
		switch {
		case errors.Is(err, errUnknown):
			all = all.and(skip("this system does not tell"))
		case err != nil:
			all = all.and(fail(say("the file system of %s does not answer: %s", dir, err.Error()),
				"the node cannot read or write there", "mount the disk, and check its cables and its log (dmesg)"))
		default:
			all = all.and(look(dir, fs))
		}
	}
	return all
}

// lowSpace is the free space in bytes below which a disk will soon be full.
const lowSpace = 1 << 30

func checkSpace(_ context.Context, e *exam) result {
	reserve := int64(e.Config.Store.ReserveBytes)
	return onDisks(e, func(dir string, fs FileSystem) result {
		seen := say("%s has %s free of %s", dir, plain(limits.Bytes(fs.FreeBytes).Human()),
			plain(limits.Bytes(fs.Bytes).Human()))
		const fix = "remove files, run `allium gc run --all`, or lower store.max_bytes"
		switch {
		case fs.FreeBytes <= reserve:
			return fail(seen, "nothing more can be stored (store.reserve_bytes stays free)", fix)
		case fs.FreeBytes < max(lowSpace, 2*reserve):
			return warn(seen, "the disk is almost full; then nothing more can be stored", fix)
		}
		return result{}
	})
}

// The free inodes below which a file system will soon have none.
const (
	lowInodes   = 10_000
	leastInodes = 100
)

func checkInodes(_ context.Context, e *exam) result {
	return onDisks(e, func(dir string, fs FileSystem) result {
		seen := say("%s has %d inodes free of %d", dir, fs.FreeInodes, fs.Inodes)
		const fix = "remove small files there, or make the file system with more inodes"
		switch {
		case fs.Inodes == 0 || fs.FreeInodes >= min(lowInodes, fs.Inodes/10):
			return result{}
		case fs.FreeInodes < leastInodes:
			return fail(seen, "no file can be made, though there may be space", fix)
		}
		return warn(seen, "soon no file can be made, though there may be space", fix)
	})
}

// The times of a durable write from which it is slow.
const (
	slowSync    = 100 * time.Millisecond // as on a busy hard disk or an SD card
	hangingSync = time.Second
)

func checkSync(_ context.Context, e *exam) (all result) {
	if e.amnesia() {
		return skip("with amnesia nothing is written")
	}
	for _, dir := range e.dirs() {
		all = all.and(syncIn(e, dir))
	}
	return all
}

// syncIn times a directory.
func syncIn(e *exam, dir string) result {
	took, err := e.Machine.Sync(dir)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fail(say("a file of 4 KiB does not fit into %s: %s", dir, plain(errno(err))),
			"nothing can be stored", "remove files, or raise the quota of this user")
	case errors.Is(err, syscall.EROFS):
		return fail(say("%s is on a read-only file system", dir), "nothing can be stored",
			"look into the kernel's log (dmesg) for errors of the disk, then mount it for writing")
	case denied(err):
		return fail(say("this user may not write into %s", dir), "nothing can be stored",
			"run the command as the user of the node; if that is you, `chmod u+rwx` the directory")
	case err != nil:
		return fail(say("a file in %s cannot be written: %s", dir, plain(errno(err))), "nothing can be stored",
			"look into the kernel's log (dmesg) for errors of the disk")
	case took >= hangingSync:
		return warn(say("a durable write of 4 KiB into %s takes %s", dir, plain(took.Round(time.Millisecond).String())),
			"every add and put waits so long, and the node may be taken for dead",
			"look for what keeps the disk busy (iostat, iotop), or for a disk that fails (smartctl)")
	case took >= slowSync:
		return note(say("a durable write of 4 KiB into %s takes %s", dir, plain(took.Round(time.Millisecond).String())),
			"adding many small files is slow", "put store.dir on an SSD")
	}
	return result{}
}

// errno returns the words of the operating system for an error.
func errno(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return "it failed"
}

// The kinds of file systems that do not do what a store needs.
var (
	remoteKinds  = []string{"nfs", "smb", "smb2", "cifs", "9p", "fuse", "ceph", "afs"}
	passingKinds = []string{"tmpfs", "ramfs"}
	plainKinds   = []string{"vfat", "exfat"}
)

func checkFileSystem(_ context.Context, e *exam) result {
	return onDisks(e, func(dir string, fs FileSystem) result {
		seen := say("%s is on %s", dir, plain(fs.Kind))
		switch {
		case slices.Contains(remoteKinds, fs.Kind):
			return warn(seen, "locks and durable writes may not work as on a disk: two nodes may use one store, and a "+
				"crash may lose data", "keep the home directory on a disk of this machine; for much data use a bucket "+
				"(store.backend = \"s3\")")
		case slices.Contains(passingKinds, fs.Kind) && !e.amnesia():
			return finding(passing(e), seen, "the identity and the store are gone when the machine restarts",
				"keep the home directory on a disk, or set node.amnesia if that is what you want")
		case slices.Contains(plainKinds, fs.Kind):
			return warn(seen, "it has no owners and modes: everybody on this machine can read the keys",
				"keep the home directory on a file system of Linux, such as ext4")
		case fs.Kind == "overlay":
			return note(seen, "what the node keeps is gone with the container",
				"mount a volume at the home directory")
		}
		return result{}
	})
}

// passing is the severity of data that do not stay: a testnet's are not meant to.
func passing(e *exam) Severity {
	if e.testnet() {
		return Note
	}
	return Warning
}

func checkSample(ctx context.Context, e *exam) result {
	var s api.StoreSample
	switch {
	case e.Node != nil && e.node.health.err != nil:
		return skipErr(e.node.health.err)
	case e.Node != nil && e.node.health.value.Sample == nil:
		return skip("the node did not read one")
	case e.Node != nil:
		s = *e.node.health.value.Sample
	case e.Sample == nil || e.Config.Store.Backend == store.BackendMemory:
		return skip("no node runs, and there is no store on disk")
	case e.inUse:
		return skip("another process uses the home directory")
	default:
		var err error
		s, err = e.Sample(ctx)
		switch {
		case ctx.Err() != nil:
			return skip("the store was not open in time")
		case status.Of(err) == status.Unsupported:
			return skip("there is no store on disk")
		case status.Of(err) == status.Busy:
			return skip("another process uses the home directory")
		case err != nil:
			return fail(say("the store cannot be opened: %s", Reason(err)), "a node does not start with it",
				"see docs/running/alerts.md, or run `allium store rebuild`")
		}
	}
	switch {
	case s.Busy:
		return skip("the node is reading a sample for somebody else")
	case s.Damaged > 0:
		return fail(say("%d of %d objects that were read again do not match their addresses", s.Damaged, s.Objects),
			"they are not served, and more may be damaged: the disk or the memory of this machine is not sound",
			"run `allium verify --all --repair`, and check the disk (smartctl) and the memory (memtest)")
	}
	return result{}
}
