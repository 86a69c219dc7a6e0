package segment

import (
	"strings"
	"sync"

	"allium/store/segment/record"

	"allium/store/fsys"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spares are files of retired segments, kept to become segments again: their
// blocks are written, so that a commit to them has no metadata to sync. Each
// has a new epoch already, durably, before it can be taken.
type spares struct {
	mu   sync.Mutex
	list []spareFile
}

type spareFile struct {
	name string
	size int64
}

// maxSpares is how many are kept; the rest is given back to the file system.
const maxSpares = 2

const spareSuffix = ".spare"

func (r *spares) take() (spareFile, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return spareFile{}, false
	}
	f := r.list[0]
	r.list = r.list[1:]
	return f, true
}

func (r *spares) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.list) >= maxSpares
}

func (r *spares) add(f spareFile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, f)
}

// reuse turns a spare file into segment num; f is nil when there is none. The
// directory is not synced yet.
func (s *Log) reuse(num uint64) (f vfs.File, epoch uint64, size int64) {
	for {
		spare, ok := s.room.take()
		if !ok {
			return nil, 0, 0
		}
		s.use.unspare(spare.size)
		f, err := s.fs.OpenReadWrite(spare.name, vfs.WriteCategoryUnspecified)
		if err == nil {
			if epoch, err = s.writeHeader(f); err == nil {
				err = s.fs.Rename(spare.name, s.path(num))
			}
			if err == nil {
				return f, epoch, spare.size
			}
			_ = f.Close()
		}
		s.logger.Warn("a spare segment cannot be used", "file", spare.name, "err", err)
		_ = s.fs.Remove(spare.name) // the next start tries again
	}
}

// fits reports whether a file of that size makes a segment. In one that is much
// longer than a segment gets the rest would lie idle, and be taken for garbage.
func (s *Log) fits(size int64) bool { return size >= s.size/2 && size <= s.size+s.size/4 }

// retire gives up a segment that the index does not name any more: as a spare,
// or for good; the file of a damaged one is set aside. When it returns, the name is
// durably gone.
func (s *Log) retire(num uint64, keep, damaged bool) error {
	size := s.use.get(num).size
	name := s.path(num)
	keep = keep && !s.room.full() && s.fits(size)
	spare := strings.TrimSuffix(name, record.FileSuffix) + spareSuffix
	var err error
	if damaged {
		keep, err = false, s.putAside(num)
	} else if keep {
		err = s.fs.Rename(name, spare)
	} else {
		err = s.fs.Remove(name)
	}
	if err != nil {
		return meta.WriteError("retire a segment", err)
	}
	if err := fsys.SyncDir(s.fs, s.root); err != nil {
		return err
	}
	s.use.retire(num)
	s.files.drop(num) // a reader that has it finds the new place
	if !keep {
		return nil
	}
	if err := s.renew(spare); err != nil {
		_ = s.fs.Remove(spare) // the next start tries again
		return err
	}
	s.use.spare(size)
	s.room.add(spareFile{spare, size})
	return nil
}

// findSpares takes over the spare files of an orderly close, and removes those
// that a crash left: whether they have their new epoch is not known.
func (s *Log) findSpares(clean bool) error {
	names, err := s.fs.List(s.root)
	if err != nil {
		return meta.ReadError(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, spareSuffix) {
			continue
		}
		name = s.fs.PathJoin(s.root, name)
		if clean && !s.room.full() {
			size, ok, err := s.inspect(name)
			if err != nil {
				return err
			}
			if ok && s.fits(size) {
				s.use.spare(size)
				s.room.add(spareFile{name, size})
				continue
			}
		}
		if err := s.fs.Remove(name); err != nil {
			return meta.WriteError("remove a spare segment", err)
		}
	}
	return nil
}
