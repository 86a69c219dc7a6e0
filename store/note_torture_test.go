package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
	"allium/store/storetest"
)

// notesUnderTest is a store with two downloads, two uploads and an object.
type notesUnderTest struct {
	downloads [2][]byte
	uploads   [2][]byte
	ids       [2]string
	object    []byte
}

func (n *notesUnderTest) fill(t *testing.T, s *store.Store) {
	t.Helper()
	n.object = storetest.Bytes(950, 3*group)
	storetest.Put(t, s, n.object)
	for i := range 2 {
		p := storetest.Bytes(uint64(951+i), 6*group-100*i)
		n.downloads[i] = p
		for _, lo := range []int64{4, 0} { // the last group proves the size
			in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
			if err != nil {
				t.Fatal(err)
			}
			if err := writeAll(in, groupsOf(t, p, lo, lo+2)); err != nil {
				t.Fatal(err)
			}
			in.Suspend()
		}
		p = storetest.Bytes(uint64(961+i), 4*group)
		n.uploads[i] = p
		u := storetest.Begin(t, s, meta.UploadOptions{Length: int64(len(p)), Expect: b3.Sum(p)})
		n.ids[i] = u.ID
		storetest.Append(t, s, u, p, 0, group+7)
		storetest.Append(t, s, u, p, group+7, 2*group+7)
	}
}

// bases are the names of the files in part/.
func (n *notesUnderTest) bases(i int) (download, upload string) {
	return "/store/part/" + b3.Sum(n.downloads[i]).Hex(), "/store/part/" + n.ids[i]
}

// check opens what a change of one file left. The victim, one of the four, may
// be lost, but not without a word; everything else is as it was.
func (n *notesUnderTest) check(t *testing.T, disk *vfs.MemFS, victims ...string) error {
	before := names(t, disk)
	s, stop, err := storetest.Try(t, tiny(), store.Deps{FS: disk})
	if err != nil {
		return fmt.Errorf("does not open: %w", err)
	}
	defer func() { _ = stop() }()
	<-s.Adopted()
	after := names(t, disk)
	for name := range before {
		if !after[name] && !after[name+".1"] && !strings.HasSuffix(name, ".gone") {
			return fmt.Errorf("%s vanished", name)
		}
	}
	told := len(s.Damage()) > 0
	storetest.Holds(t, s, n.object)
	for i := range 2 {
		download, name := n.bases(i)
		intact, corrupt, err := readHurt(t, s, n.downloads[i])
		if err != nil {
			return err
		}
		if intact < 4*group-100*i && !contains(victims, download) {
			return fmt.Errorf("download %d has %d bytes left", i, intact)
		}
		if intact < 4*group-100*i && !told && !corrupt {
			return fmt.Errorf("download %d lost bytes without a word: %d are left", i, intact)
		}
		u, err := s.Uploads().Get(t.Context(), n.ids[i])
		lost := err != nil || u.Offset != 2*group+7
		if lost && (!contains(victims, name) || !told) {
			return fmt.Errorf("upload %d is %+v, told %t: %w", i, u, told, err)
		}
		if err != nil {
			continue
		}
		p := n.uploads[i]
		_, err = s.Uploads().Append(t.Context(), resumable.Capability{}, n.ids[i], u.Offset,
			bytes.NewReader(p[u.Offset:]))
		if status.Of(err) == status.BadDigest && contains(victims, name) {
			continue
		}
		if err != nil {
			return fmt.Errorf("upload %d does not go on: %w", i, err)
		}
		storetest.Holds(t, s, p)
	}
	for i, p := range n.downloads {
		if err := complete(t, s, p); err != nil {
			return fmt.Errorf("download %d cannot be completed: %w", i, err)
		}
		if err := s.Verify(t.Context(), b3.Sum(p)); err != nil && status.Of(err) != status.Corrupt {
			return err
		}
	}
	return nil
}

// readHurt reads what is here of p. corrupt says that a group was refused.
func readHurt(t *testing.T, s *store.Store, p []byte) (intact int, corrupt bool, err error) {
	o, err := s.OpenPartial(t.Context(), b3.Sum(p))
	if status.Of(err) == status.NotFound {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer o.Close()
	buf := make([]byte, group)
	for g := range b3.Groups(int64(len(p))) {
		want := p[g*group : min((g+1)*group, int64(len(p)))]
		if !o.Covers(g*group, g*group+int64(len(want))) {
			continue
		}
		n, err := o.Reader().ReadAt(buf[:len(want)], g*group)
		err = o.Failed(err)
		switch {
		case status.Of(err) == status.Corrupt:
			corrupt = true
		case err != nil && !errors.Is(err, io.EOF):
			return intact, corrupt, err
		case !bytes.Equal(buf[:n], want):
			return intact, corrupt, fmt.Errorf("group %d holds other bytes", g)
		default:
			intact += n
		}
	}
	return intact, corrupt, nil
}

func contains(all []string, s string) bool {
	for _, x := range all {
		if x == s {
			return true
		}
	}
	return false
}

// names are the names of the files in part/ and quarantine/.
func names(t *testing.T, disk *vfs.MemFS) map[string]bool {
	all := map[string]bool{}
	for _, dir := range []string{"part", "quarantine"} {
		found, err := disk.List("/store/" + dir)
		if err != nil && dir == "part" {
			t.Fatal(err)
		}
		for _, name := range found {
			all[name] = true
		}
	}
	return all
}

// TestTortureNotes damages one file of a download or an upload at a time, after
// every kind of stop: each other one survives, no wrong byte is served, nothing
// is lost without a word, and no file vanishes. ALLIUM_TORTURE=1 flips every byte
// of the notes.
func TestTortureNotes(t *testing.T) {
	t.Parallel()
	var n notesUnderTest
	disk := vfs.NewCrashableMem()
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: disk})
	n.fill(t, s)
	power := disk.CrashClone(vfs.CrashCloneCfg{})
	killed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]*vfs.MemFS{"orderly": disk, "kill": killed, "power": power} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n.torture(t, from)
		})
	}
}

func (n *notesUnderTest) torture(t *testing.T, from *vfs.MemFS) {
	step := 97 * every(1)
	if tortured() {
		step = 1
	}
	if err := n.check(t, from.CrashClone(vfs.CrashCloneCfg{})); err != nil {
		t.Fatalf("nothing changed: %v", err)
	}
	count := 0
	try := func(what string, victims []string, change func(disk *vfs.MemFS)) {
		count++
		hurt := from.CrashClone(vfs.CrashCloneCfg{})
		change(hurt)
		if err := n.check(t, hurt, victims...); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	download, upload := n.bases(0)
	otherDownload, otherUpload := n.bases(1)
	for _, x := range []struct {
		base, other string
		suffix      string
		every       int
	}{
		{download, otherDownload, ".bits", step},
		{upload, otherUpload, ".up", step},
		{download, otherDownload, "", max(40_000, 400*step)},
		{download, otherDownload, ".ob", 31 * step},
		{upload, otherUpload, "", max(40_000, 400*step)},
		{upload, otherUpload, ".ob", max(200, 2*step)},
	} {
		name, what := x.base+x.suffix, path.Base(x.base)[:4]+x.suffix
		whole := read(t, from, name)
		for at := 0; at < len(whole); at += x.every {
			try(fmt.Sprintf("%s, byte %d flipped", what, at), []string{x.base}, func(disk *vfs.MemFS) {
				p := bytes.Clone(whole)
				p[at] ^= byte(1 + at%255)
				write(t, disk, name, p)
			})
		}
		for _, size := range []int{0, len(whole) / 2, len(whole) - 1} {
			if size < 0 {
				continue
			}
			try(fmt.Sprintf("%s, cut to %d of %d", what, size, len(whole)), []string{x.base}, func(disk *vfs.MemFS) {
				write(t, disk, name, whole[:size])
			})
		}
		try(what+", deleted", []string{x.base}, func(disk *vfs.MemFS) {
			if err := disk.Remove(name); err != nil {
				t.Fatal(err)
			}
		})
		try(what+", swapped", []string{x.base, x.other}, func(disk *vfs.MemFS) {
			write(t, disk, name, read(t, from, x.other+x.suffix))
			write(t, disk, x.other+x.suffix, whole)
		})
	}
	t.Logf("%d changes", count)
}
