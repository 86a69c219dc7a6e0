package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/bucket/s3"
	"allium/store/storetest"
)

// cloudy is a configuration of the s3 backend where a few objects reach every
// limit.
func cloudy(dir string, s3 s3.Config) store.Config {
	cfg := tiny()
	cfg.Backend, cfg.Dir, cfg.S3 = store.BackendS3, dir, s3
	return cfg
}

func TestS3(t *testing.T) {
	g := storetest.StartS3(t)
	storetest.Suite(t, func(t *testing.T) *store.Store {
		s, _ := storetest.Start(t, cloudy("/store", g.Config()), store.Deps{FS: vfs.NewMem()})
		return s
	})
}

// largeKey is where the bucket has a large object.
func largeKey(kind string, p []byte) string {
	h := b3.Sum(p).Hex()
	return kind + "/" + h[:2] + "/" + h
}

// TestS3LargeObject: the bytes are in the bucket and not here, the outboard is
// in both, and comes back from there.
func TestS3LargeObject(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	dir := t.TempDir()
	cfg := cloudy(dir, g.Config())
	s, stop := storetest.Start(t, cfg, store.Deps{})
	p := storetest.Bytes(1, 70*b3.GroupSize+5)
	root := storetest.Put(t, s, p)
	stored, err := os.ReadFile(g.Path(cfg.S3, largeKey("o", p)))
	if err != nil || !bytes.Equal(stored, p) {
		t.Fatalf("the bucket has %d bytes, %v", len(stored), err)
	}
	h := root.Hex()
	local := filepath.Join(dir, "obj", h[:2], h)
	if _, err := os.Stat(local); !os.IsNotExist(err) {
		t.Fatalf("the bytes are here: %v", err)
	}
	for _, damage := range []func() error{
		func() error { return os.Remove(local + ".ob") },
		func() error { return os.Truncate(local+".ob", 64) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		storetest.Holds(t, s, p)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s, _ = storetest.Start(t, cfg, store.Deps{})
	storetest.Holds(t, s, p)
	if err := s.Verify(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(names) > 0 {
		t.Errorf("left in tmp: %v, %v", names, err)
	}
}

// TestS3Damage: a byte that is wrong in the bucket never leaves, and a put
// brings the right one.
func TestS3Damage(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	for name, damage := range map[string]func(path string) error{
		"flipped": func(path string) error {
			p, err := os.ReadFile(path)
			if err == nil {
				p[len(p)/2] ^= 1
				err = os.WriteFile(path, p, 0o600)
			}
			return err
		},
		"short": func(path string) error { return os.Truncate(path, 100) },
		"gone":  os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cloudy(t.TempDir(), g.Config())
			s, _ := storetest.Start(t, cfg, store.Deps{})
			p := storetest.Bytes(2, 9*b3.GroupSize)
			root := storetest.Put(t, s, p)
			if err := damage(g.Path(cfg.S3, largeKey("o", p))); err != nil {
				t.Fatal(err)
			}
			_, err := storetest.Get(t, s, root)
			storetest.Want(t, err, status.Corrupt)
			if n := s.Stats().Corrupt; n != 1 {
				t.Fatalf("%d objects are marked", n)
			}
			storetest.Put(t, s, p)
			storetest.Holds(t, s, p)
		})
	}
}

// TestS3ServerGone: nothing is acknowledged that the bucket does not have,
// nothing is taken for damaged because the bucket is away, and all goes on when
// it is back.
func TestS3ServerGone(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg := cloudy(t.TempDir(), g.Config())
	s, stop := storetest.Start(t, cfg, store.Deps{})
	p, q := storetest.Bytes(3, 5*b3.GroupSize), storetest.Bytes(4, 6*b3.GroupSize)
	storetest.Put(t, s, p)
	small := storetest.Bytes(5, 5000)
	g.Kill()
	_, err := storetest.Get(t, s, b3.Sum(p))
	storetest.Want(t, err, status.Upstream)
	_, err = s.PutBytes(t.Context(), q, store.PutOptions{})
	storetest.Want(t, err, status.Upstream)
	storetest.Put(t, s, small)
	storetest.Holds(t, s, small)
	if _, err := s.PutBytes(t.Context(), q, store.PutOptions{Deferred: true}); err != nil {
		t.Fatal(err)
	}
	storetest.Want(t, s.Flush(t.Context()), status.Upstream)
	if err := s.Delete(t.Context(), b3.Sum(p)); err != nil { // deleted there later
		t.Fatal(err)
	}
	g.Start(t)
	if err := s.Flush(t.Context()); err != nil { // what was deferred is not lost
		t.Fatal(err)
	}
	storetest.Holds(t, s, q)
	storetest.Put(t, s, p) // wins over the deletion under way
	storetest.Holds(t, s, p)
	if st := s.Stats(); st.Corrupt != 0 {
		t.Errorf("stats say %+v", st)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s, _ = storetest.Start(t, cfg, store.Deps{})
	storetest.Holds(t, s, p)
	storetest.Holds(t, s, q)
}

// gone waits until the bucket has no such object.
func gone(t *testing.T, path string) {
	t.Helper()
	testkit.Eventually(t, "a bucket without "+path, func() bool {
		_, err := os.Stat(path)
		return os.IsNotExist(err)
	})
}

func TestS3Delete(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg := cloudy(t.TempDir(), g.Config())
	s, stop := storetest.Start(t, cfg, store.Deps{})
	p, q := storetest.Bytes(3, 5*b3.GroupSize), storetest.Bytes(4, 6*b3.GroupSize)
	for range 3 { // the deletion and the next put meet, or not
		storetest.Put(t, s, p)
		storetest.Holds(t, s, p)
		if err := s.Delete(t.Context(), b3.Sum(p)); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, g.Path(cfg.S3, largeKey("o", p)))
	gone(t, g.Path(cfg.S3, largeKey("t", p)))
	// What could not be deleted is deleted after a restart.
	storetest.Put(t, s, q)
	g.Kill()
	if err := s.Delete(t.Context(), b3.Sum(q)); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	storetest.Start(t, cfg, store.Deps{})
	g.Start(t)
	gone(t, g.Path(cfg.S3, largeKey("o", q)))
}

// TestS3Shared: two nodes race to put the same objects, and neither takes away
// what the other has.
func TestS3Shared(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	s3 := g.Config()
	s3.Shared = true
	a, _ := storetest.Start(t, cloudy(t.TempDir(), s3), store.Deps{})
	b, _ := storetest.Start(t, cloudy(t.TempDir(), s3), store.Deps{})
	for i := range 6 {
		p := storetest.Bytes(uint64(i), (i+2)*b3.GroupSize)
		ended := make(chan error, 2)
		for _, s := range []*store.Store{a, b} {
			go func() {
				_, err := s.PutBytes(t.Context(), p, store.PutOptions{})
				ended <- err
			}()
		}
		for range 2 {
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		}
		storetest.Holds(t, a, p)
		storetest.Holds(t, b, p)
		if err := a.Delete(t.Context(), b3.Sum(p)); err != nil {
			t.Fatal(err)
		}
		storetest.Holds(t, b, p)
		storetest.Put(t, a, p)
		storetest.Holds(t, a, p)
	}
}

// TestS3Nodes: who may use a bucket.
func TestS3Nodes(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	s3 := g.Config()
	dir := t.TempDir()
	_, stop := storetest.Start(t, cloudy(dir, s3), store.Deps{})
	refused := func(name string, cfg store.Config, want status.Outcome, words string) {
		t.Helper()
		_, _, err := storetest.Try(t, cfg, store.Deps{})
		storetest.Want(t, err, want)
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("another exclusive node", cloudy(t.TempDir(), s3), status.Conflict, "store.s3.shared")
	shared := s3
	shared.Shared = true
	refused("a sharing node beside an exclusive one", cloudy(t.TempDir(), shared), status.Conflict, "store.s3.shared")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	renamed := s3
	renamed.Node = "other"
	refused("another name", cloudy(dir, renamed), status.Conflict, "store.s3.node")
	plain := cloudy(dir, s3)
	plain.Backend = store.BackendEmbedded
	refused("embedded", plain, status.Conflict, "store.backend")
	_, stop = storetest.Start(t, cloudy(dir, shared), store.Deps{})
	storetest.Start(t, cloudy(t.TempDir(), shared), store.Deps{})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	refused("exclusive beside a sharing one", cloudy(dir, s3), status.Conflict, "store.s3.shared")
	keyless := s3
	keyless.CredentialsFile = filepath.Join(t.TempDir(), "none")
	refused("no keys", cloudy(t.TempDir(), keyless), status.Unauthenticated, "store.s3.credentials_file")
}

// TestS3Ship: small objects are in the bucket soon after they are here, whole
// segments once they are sealed.
func TestS3Ship(t *testing.T) {
	t.Parallel()
	g := storetest.StartS3(t)
	cfg := cloudy("/store", g.Config())
	cfg.S3.Node, cfg.S3.ShipAfter = "n1", 100*time.Millisecond
	disk := vfs.NewMem()
	s, stop := storetest.Start(t, cfg, store.Deps{FS: disk})
	shipped := func() (all []byte, whole, parts int) {
		names, _ := os.ReadDir(g.Path(cfg.S3, "s/n1")) // not there yet
		for _, name := range names {
			p, _ := os.ReadFile(g.Path(cfg.S3, "s/n1/"+name.Name())) // deleted meanwhile
			all = append(all, p...)
			if strings.HasSuffix(name.Name(), ".seg") {
				whole++
			} else {
				parts++
			}
		}
		return all, whole, parts
	}
	for i := range 3 {
		p := storetest.Bytes(uint64(i), 3000)
		storetest.Put(t, s, p)
		testkit.Eventually(t, "a small object in the bucket", func() bool {
			all, _, _ := shipped()
			return bytes.Contains(all, p)
		})
	}
	var last []byte
	for i := range 20 { // of 60 KiB, several segments
		last = storetest.Bytes(uint64(100+i), 60<<10)
		storetest.Put(t, s, last)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	all, whole, _ := shipped()
	if whole < 2 || !bytes.Contains(all, last) {
		t.Fatalf("after an orderly stop %d whole segments are in the bucket, with the last object: %t", whole,
			bytes.Contains(all, last))
	}
	// Nothing is sent twice.
	before := modified(t, g.Path(cfg.S3, "s/n1"))
	_, stop = storetest.Start(t, cfg, store.Deps{FS: disk})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for name, at := range modified(t, g.Path(cfg.S3, "s/n1")) {
		if old, ok := before[name]; ok && !old.Equal(at) {
			t.Errorf("%s was sent again", name)
		}
	}
}

// modified returns when each file of a directory was written.
func modified(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]time.Time{}
	for _, name := range names {
		info, err := name.Info()
		if err != nil {
			t.Fatal(err)
		}
		at[name.Name()] = info.ModTime()
	}
	return at
}
